"""Digests of operators that call subgraphs, and what of a file they do not depend on."""

from __future__ import annotations

from circletools.model.model import open_model
from circletools.split.contents import Contents, Flow
from tests.kit.build import Build, Graph, floats


def flow_of(build: Build, subgraph: int = 0) -> Flow:
    with open_model(build.to_bytes()) as model:
        contents = Contents(model)
        return contents.flow(subgraph, contents.inputs(subgraph))


def called(build: Build, *codes: str) -> int:
    """Append a subgraph of operators one behind the other; return its index."""
    graph = build.graph(f"called{len(codes)}")
    value = start = graph.tensor("x")
    for code in codes:
        value = graph.compute(code, [value], "")
    graph.ends([start], [value])
    return graph.index


def calling(*bodies: str, idle: int = 0, own: int = 0) -> Flow:
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
    def simple(signature: bool) -> tuple[Flow, int]:
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
