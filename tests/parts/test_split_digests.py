"""Digests of operators that call subgraphs, and what of a file they do not depend on."""

from __future__ import annotations

from circletools.model.model import open_model
from circletools.parts.digests import Computed, ModelDigests
from tests.kit.build import Build, Code, Graph, floats
from tests.kit.outside import START, program


def flow_of(build: Build, subgraph: int = 0) -> Computed:
    with open_model(build.to_bytes()) as model:
        contents = ModelDigests(model)
        return contents.computed(subgraph, contents.inputs(subgraph))


def called(build: Build, *codes: str) -> int:
    """Append a subgraph of operators one behind the other; return its index."""
    graph = build.graph(f"called{len(codes)}")
    value = start = graph.tensor("x")
    for code in codes:
        value = graph.compute(code, [value], "")
    graph.ends([start], [value])
    return graph.index


def calling(*bodies: str, idle: int = 0, own: int = 0) -> Computed:
    """Return the digests of operators that call subgraphs of these codes, and `own` that call themselves."""
    build = Build()
    main: Graph = build.graph()
    for number in range(idle):
        called(build, *["ABS"] * (number + 1))
    x = main.tensor("x")
    results = []
    for body in bodies:
        result = main.tensor("")
        main.operator("CALL", [x], [result], subgraph=called(build, *body.split()))
        results.append(result)
    for _ in range(own):
        graph = build.graph("own")
        y, z = graph.tensor("y"), graph.tensor("z")
        graph.operator("NEG", [y], [graph.tensor("w")])
        graph.operator("CALL", [2], [z], subgraph=graph.index)
        graph.ends([y], [z])
        result = main.tensor("")
        main.operator("CALL", [x], [result], subgraph=graph.index)
        results.append(result)
    main.ends([x], results)
    return flow_of(build)


def test_a_call_is_what_the_called_subgraph_does() -> None:
    found = calling("NEG", "NEG EXP", "NEG", "EXP NEG", "EXP").operators
    names = [found[index] for index in range(5)]
    assert names[0] == names[2]
    assert len(set(names)) == 4
    assert calling("NEG", "NEG EXP", "NEG", "EXP NEG", "EXP", idle=3).operators == found


def test_a_subgraph_that_calls_itself_has_a_digest() -> None:
    found = calling("NEG", own=2).operators
    assert found[1] == found[2] != found[0]
    assert calling("NEG", own=1, idle=2).operators[1] == found[1]


def test_many_calls_beside_each_other_are_not_deep() -> None:
    found = calling(*["NEG " * (number + 1) for number in range(70)]).operators
    assert len(set(found.values())) == 70


def test_digests_do_not_depend_on_where_the_model_starts() -> None:
    def simple(signature: bool) -> tuple[Computed, int]:
        build = Build()
        graph = build.graph()
        x = graph.tensor("x")
        y = graph.compute("ADD", [x, graph.constant("c", floats(2, 2))], "y")
        graph.ends([x], [y])
        if signature:
            build.signature("s", [("x", x)], [("y", y)])
        return flow_of(build), build.to_bytes()[0]

    plain, signed = simple(False), simple(True)
    assert plain[1] != signed[1]
    assert plain[0] == signed[0]


def outside(options: tuple[int, int], called_program: tuple[int, int], tail: bytes) -> list[bytes]:
    """Return the digests of two operators of the second subgraph: one with options, one with a program behind."""
    build = Build()
    build.graph("first").operator("ABS", [], [])
    graph = build.graph("second")
    large = graph.operator(Code("CUSTOM", 1, "large"), [], [])
    large.large_custom_options_offset, large.large_custom_options_size = options
    graph.operator(Code("CUSTOM", 1, "plain"), [], []).custom_options = b"plain"
    graph.operator(Code("CUSTOM", 1, "npu"), [], []).custom_options = program(*called_program)
    data = build.to_bytes()
    assert len(data) < START
    with open_model(data.ljust(START, b"\0") + tail) as model:
        contents = ModelDigests(model)
        operators = contents.computed(1, contents.inputs(1)).operators
    return [operators[0], operators[2]]


def test_options_and_programs_count_by_their_bytes_and_not_by_their_places() -> None:
    one, two = outside((START, 4), (START + 4, 3), b"fourtwo")
    assert outside((START + 5, 4), (START + 1, 3), b"-two-four") == [one, two]
    for tail, count in ((b"Fourtwo", 0), (b"fouRtwo", 0), (b"fourTwo", 1), (b"fourtwO", 1)):
        found = outside((START, 4), (START + 4, 3), tail)
        assert [found[0] == one, found[1] == two] == [count == 1, count == 0]
    shorter = outside((START, 3), (START + 4, 2), b"fourtwo")
    assert one != shorter[0]
    assert two != shorter[1]


def test_subgraphs_are_identified_by_what_they_do_even_the_first() -> None:
    def digest(code: str, *indices: int) -> bytes:
        build = Build()
        called(build, code)
        graph = build.graph()
        x, y = graph.tensor("x"), graph.tensor("y")
        graph.operator("STABLEHLO_CASE", [x], [y], branch_subgraph_indices=indices)
        graph.ends([x], [y])
        called(build, code)
        return flow_of(build, 1).operators[0]

    assert digest("NEG", 0) == digest("NEG", 2) != digest("ABS", 0)
    assert digest("NEG", 0, 2) == digest("NEG", 2, 2) != digest("NEG", 0)
    assert digest("NEG", -1) == digest("ABS", -1) != digest("NEG", 0)  # none


def test_several_subgraphs_in_one_operator_count_in_their_order() -> None:
    def digest(first: str, second: str) -> bytes:
        build = Build()
        graph = build.graph()
        ends = [graph.tensor(name) for name in "cxy"]
        graph.operator("IF", ends[:2], ends[2:], then_subgraph_index=1, else_subgraph_index=2)
        graph.ends(ends[:2], ends[2:])
        called(build, first)
        called(build, second)
        return flow_of(build).operators[0]

    assert len({digest(*codes) for codes in (("NEG", "ABS"), ("ABS", "NEG"), ("ABS", "ABS"))}) == 3


def test_a_call_of_the_first_subgraph_counts_though_its_number_is_not_written() -> None:
    def build(code: str) -> Build:
        made = Build()
        called(made, code)
        caller = made.graph("caller")
        start, result = caller.tensor("x"), caller.tensor("y")
        caller.operator("CALL", [start], [result], subgraph=0)
        caller.ends([start], [result])
        return made

    negated, again, other = (flow_of(build(code), 1) for code in ("NEG", "NEG", "ABS"))
    assert negated.operators == again.operators != other.operators
