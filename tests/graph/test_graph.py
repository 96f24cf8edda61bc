"""The columns of graphs, against what the published object API reads."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from circletools.errors import ModelFormatError
from circletools.graph.build import graph_of, joined_graph, model_graph
from circletools.graph.graph import Graph
from circletools.graph.reach import Reach
from circletools.model.model import open_model
from tests.kit import build as kit
from tests.kit.build import Build
from tests.kit.callers import CALLERS, calling
from tests.kit.graph_cases import Read, models, read
from tests.kit.support import bytes_of

_BITS = {"FLOAT32": 32, "INT8": 8, "RESOURCE": 0}
_RANDOM = "RANDOM_UNIFORM"


@given(models(ordered=False))
def test_columns_are_those_of_the_file(file: bytes) -> None:
    peer = read(file)
    count, values = len(peer.codes), range(len(peer.types))
    with open_model(file) as model:
        graph = graph_of(model, 0)
        assert (len(graph), len(graph.operators), len(graph.values)) == (count, count, len(peer.types))
        assert (graph.name, graph.index, graph.share) == ("main", 0, 1.0 if count else 0.0)
        assert (graph.operators.code_names, graph.values.types) == (peer.codes, peer.types)
        assert [
            graph.operators.model.operator_codes[at].name for at in graph.operators.code_indices.tolist()
        ] == peer.codes
        assert (graph.operands.lists(), graph.results.lists()) == (peer.operands, peer.results)
        assert [graph.operands.of(at) for at in range(count)] == peer.operands
        assert graph.results.counts.tolist() == [len(row) for row in peer.results]
        assert (graph.inputs.tolist(), graph.outputs.tolist()) == (peer.inputs, peer.outputs)
        for uses, rows in ((graph.uses, peer.operands), (graph.definitions, peer.results)):
            pairs = [(at, value) for at, row in enumerate(rows) for value in row if value >= 0]
            assert list(zip(*(each.tolist() for each in uses), strict=True)) == pairs
        assert graph.producer.tolist() == [peer.maker(value) for value in values]
        assert graph.readers == [peer.readers(value) for value in values]
        pairs = [(at, value) for value in values for at in peer.readers(value)]
        assert list(zip(*(each.tolist() for each in graph.reads), strict=True)) == pairs
        assert graph.first_results.tolist() == [(row or [-1])[0] for row in peer.results]
        names = [[peer.names[value] if value >= 0 else b"" for value in row] for row in peer.results]
        assert [list(row) for row in graph.operators.result_names] == names
        assert graph.operators.first_result_names == [(row or [b""])[0].decode() for row in names]
        assert graph.values.names == peer.names
        assert graph.values.is_constant.nonzero()[0].tolist() == sorted(peer.constants)
        sizes = [prod(shape) * _BITS[kind] // 8 for shape, kind in zip(peer.shapes, peer.types, strict=True)]
        assert graph.values.bytes.tolist() == sizes
        assert [graph.values.size_bytes(value) or 0 for value in values] == sizes
        assert graph.operand_bytes.tolist() == [
            sum(sizes[value] for value in (*taken, *made) if value >= 0)
            for taken, made in zip(peer.operands, peer.results, strict=True)
        ]
        assert graph.values.is_type("INT8", "RESOURCE").tolist() == [kind != "FLOAT32" for kind in peer.types]


def effects(peer: Read) -> list[int]:
    """Return the operators that touch a resource or call a subgraph."""
    touched = [
        [peer.types[value] for value in (*peer.operands[at], *peer.results[at]) if value >= 0]
        for at in range(len(peer.codes))
    ]
    return [at for at, code in enumerate(peer.codes) if code == "CALL_ONCE" or "RESOURCE" in touched[at]]


def folded(peer: Read) -> list[int]:
    """Return the operators with readers that depend on constants only, and are not work by themselves."""
    found: list[int] = []
    fixed = {value for value in peer.constants if peer.maker(value) < 0} - {*peer.inputs}
    for at, code in enumerate(peer.codes):
        taken = [value for value in peer.operands[at] if value >= 0]
        ready = taken and all(value in fixed or peer.maker(value) in found for value in taken)
        read_later = any(peer.readers(value) for value in peer.results[at])
        if ready and read_later and at not in effects(peer) and not {*peer.results[at]} & {*peer.outputs}:
            found += [at] if not code.startswith(_RANDOM) else []
    return found


def constant_input() -> bytes:
    """Return a model whose first value is a constant and an input: a caller may give another value."""
    build = Build()
    graph = build.graph()
    value = graph.constant("", np.zeros(2, np.float32))
    graph.ends([value], [graph.compute("NEG", [graph.compute("NEG", [value], "y")], "z")])
    return build.to_bytes()


@given(models())
@example(constant_input())
def test_operators_with_side_effects_and_operators_on_constants_only(file: bytes) -> None:
    peer = read(file)
    with open_model(file) as model:
        graph = graph_of(model, 0)
        assert graph.effects.tolist() == effects(peer)
        assert list(graph.folded) == list(graph.dag.constants) == folded(peer)


@given(models())
def test_handles_are_resources_and_what_operators_take_for_them(file: bytes) -> None:
    peer = read(file)
    named = {value for at, code in enumerate(peer.codes) if code == "VAR_HANDLE" for value in peer.results[at]}
    named |= {
        peer.operands[at][0] for at, code in enumerate(peer.codes) if code == "READ_VARIABLE" and peer.operands[at]
    }
    with open_model(file) as model:
        expected = [kind == "RESOURCE" or value in named for value, kind in enumerate(peer.types)]
        assert graph_of(model, 0).is_handle.tolist() == expected


def behind(peer: Read, values: set[int], stop: set[int], only: set[int]) -> set[int]:
    """Return the operators of `only` that values depend on: the least set that contains what its members read."""
    found = set[int]()
    while True:
        taken = values.union(*(peer.operands[at] for at in found)) - stop
        more = {peer.maker(value) for value in taken} & only
        if more <= found:
            return found
        found |= more


@given(models() | models(ordered=False), st.data())
def test_walks_from_value_to_value(file: bytes, data: st.DataObject) -> None:
    peer = read(file)
    numbers, every = set(range(len(peer.codes))), st.sets(st.integers(0, len(peer.types) - 1))
    values, stop, only = (
        data.draw(every),
        data.draw(every),
        data.draw(st.sets(st.sampled_from([0, *numbers]))) & numbers,
    )
    with open_model(file) as model:
        graph = graph_of(model, 0)
        reach = Reach(graph)
        assert reach.behind(values) == behind(peer, values, set(), numbers)
        assert reach.behind(values, stop, only) == behind(peer, values, stop, only)
        ahead, own = set[int](), values
        while own:
            more = {at for value in own for at in peer.readers(value)} - ahead
            ahead, own = ahead | more, {value for at in more for value in peer.results[at]}
        assert reach.ahead(values) == ahead
        for chosen in (only, *(numbers - {at} for at in numbers)):
            order = sorted(chosen, reverse=True)
            taken = [value for at in order for value in peer.operands[at] if value >= 0]
            made = [value for at in sorted(chosen) for value in peer.results[at] if value >= 0]
            assert (reach.read_by(order), reach.made_by(sorted(chosen))) == (taken, made)
            assert reach.given(order) == [
                value
                for value in dict.fromkeys(taken)
                if value not in made and (peer.maker(value) >= 0 or value in peer.inputs)
                if not graph.values.is_variable[value]
            ]
            assert reach.seen_outside(order) == [
                value
                for value in dict.fromkeys(made)
                if value in peer.outputs or not peer.readers(value) or not {*peer.readers(value)} <= chosen
            ]


@pytest.mark.parametrize("caller", CALLERS)
def test_calls_are_those_of_the_options(caller: str) -> None:
    with open_model(calling(caller, idle=1)) as model:
        graphs = model_graph(model)
        called = list(range(2, 2 + CALLERS[caller][0]))
        assert graphs.graphs[0].callees == {2: called}
        assert graphs.graphs[0].called([0, 2]) == set(called)
        assert graphs.callees == {0: set(called)}
        assert graphs.reached(called[:1]) == {called[0]}
        assert graphs.reached([0, 1]) == {0, 1, *called}
        assert graphs.reaching([called[-1]]) == {0, called[-1]}
        assert graphs.source.patterns == (
            set(called) if caller.startswith("STABLEHLO") and caller not in EXECUTED else set()
        )


EXECUTED = ("STABLEHLO_CASE", "STABLEHLO_WHILE")


def test_calls_in_called_subgraphs_and_signatures() -> None:
    with open_model(calling("IF", nested="CALL_ONCE")) as model:
        graphs = model_graph(model)
        assert (graphs.callees, graphs.entries) == ({0: {1, 2}, 2: {3}}, [0])
        assert (graphs.reached([2]), graphs.reaching([3])) == ({2, 3}, {0, 2, 3})
    with open_model(bytes_of("tflite/two_signatures")) as model:
        graphs = model_graph(model)
        assert (graphs.callees, graphs.entries) == ({}, [0, 1])
        assert len(graphs) == len(graphs.graphs) == 2


@given(models(ordered=False))
def test_the_joined_graph_of_one_subgraph_is_that_one(file: bytes) -> None:
    with open_model(file) as model:
        graph, own = joined_graph(model), graph_of(model, 0)
        assert (graph.operands.lists(), graph.results.lists()) == (own.operands.lists(), own.results.lists())


def test_the_joined_graph_shifts_what_it_names() -> None:
    with open_model(built().to_bytes()) as model:
        graph = joined_graph(model)
        assert graph.operands.lists() == [[0], [1], [3, -1, 3], [], [5, 4]]
        assert graph.results.lists() == [[1], [2], [5, 4], [], [6]]
        assert (graph.inputs.tolist(), graph.outputs.tolist()) == ([0, 3], [1, 2, 6])
        assert graph.operators.code_names == ["TANH", "TANH", "ADD", "NEG", "MUL"]
        codes = [graph.operators.model.operator_codes[at].name for at in graph.operators.code_indices.tolist()]
        assert (len(graph), codes) == (5, graph.operators.code_names)
        assert graph.operators.first_result_names == ["y", "z", "c", "", "d"]
        assert graph.values.names == [b"x", b"y", b"z", b"a", b"b", b"c", b"d"]


def test_the_second_of_two_subgraphs() -> None:
    with open_model(built().to_bytes()) as model:
        graph = graph_of(model, 1)
        assert (graph.name, graph.place(), graph.place(0)) == ("second", "subgraphs[1]", "subgraphs[1].operators[0]")
        assert (graph.operators.code_names, graph.values.names) == (["ADD", "NEG", "MUL"], [b"a", b"b", b"c", b"d"])
        assert (graph.operands.lists(), graph.share) == ([[0, -1, 0], [], [2, 1]], 0.6)
        assert graph.dag.successors == [[2], [], []]
        assert model_graph(model).graphs[0].operators.code_names == ["TANH", "TANH"]


def second(build: Build) -> kit.Graph:
    """Return a subgraph behind another one that has operators and tensors too."""
    first = build.graph("first")
    first.ends([first.tensor("x")], [first.compute("TANH", [0], "y"), first.compute("TANH", [1], "z")])
    return build.graph("second")


def built() -> Build:
    """Return a model whose operators 0..2 of subgraph 1 read (0, gap, 0), nothing, and (2, 1)."""
    build = Build()
    graph = second(build)
    for name in ("a", "b", "c", "d"):
        graph.tensor(name)
    graph.operator("ADD", [0, -1, 0], [2, 1])
    graph.operator("NEG", [], [])
    graph.operator("MUL", [2, 1], [3])
    graph.ends([0], [3])
    return build


READS: list[Callable[[Graph], object]] = [
    lambda graph: graph.check_values(),
    lambda graph: graph.producer,
    lambda graph: graph.reads,
    lambda graph: graph.dag,
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("inputs", "outputs"), [([4], []), ([], [4])])
def test_a_tensor_that_does_not_exist_is_reported(
    read: Callable[[Graph], object], inputs: list[int], outputs: list[int]
) -> None:
    build = built()
    operator = build.model.subgraphs[1].operators[1]
    operator.inputs, operator.outputs = inputs, outputs
    with open_model(build.to_bytes()) as model:
        graph = graph_of(model, 1)
        assert (graph.operands.of(1), graph.results.of(1)) == (inputs, outputs)
        assert graph.operand_bytes.tolist() == [64.0, 0.0, 48.0]
        with pytest.raises(ModelFormatError) as caught:
            read(graph)
    assert str(caught.value) == "subgraphs[1].operators[1]: tensor 4 does not exist; the count is 4"


@pytest.mark.parametrize(
    ("fields", "constant"),
    [
        ({}, False),
        ({"data": b"1"}, True),
        ({"offset": 1, "size": 1}, False),
        ({"offset": 2, "size": 0}, False),
        ({"offset": 2, "size": 1}, True),
    ],
)
def test_a_tensor_with_data_is_a_constant_unless_it_is_variable(
    fields: dict[str, int | bytes], *, constant: bool
) -> None:
    build = Build()
    graph = second(build)
    buffer = build.buffer(**fields)  # type: ignore[arg-type]
    graph.tensor("held", buffer=buffer)
    graph.tensor("kept", buffer=buffer, is_variable=True)
    graph.tensor("none")
    graph.ends([], [])
    with open_model(build.to_bytes("circle")) as model:
        assert graph_of(model, 1).values.is_constant.tolist() == [constant, False, False]


@pytest.mark.parametrize(("buffers", "named"), [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)])
def test_buffers_that_do_not_exist_are_reported_but_for_buffer_0(buffers: int, named: int) -> None:
    build = Build()
    graph = second(build)
    graph.tensor("t", buffer=named)
    graph.ends([], [])
    build.model.buffers = [*(build.model.buffers * 2)[:buffers]]
    with open_model(build.to_bytes()) as model:
        values = graph_of(model, 1).values
        if named < max(buffers, 1):
            assert values.is_constant.tolist() == [False]
        else:
            with pytest.raises(ModelFormatError, match=rf"^subgraphs\[1\]: buffer {named} does not exist"):
                _ = values.is_constant


def test_a_call_of_the_first_subgraph_and_one_of_none() -> None:
    build = Build()
    main, other = build.graph("main"), build.graph("other")
    other.operator("CALL_ONCE", [], [], init_subgraph_index=0)
    other.operator("CALL_ONCE", [], [], init_subgraph_index=-1)
    for graph in (main, other):
        graph.ends([], [])
    with open_model(build.to_bytes()) as model:
        graphs = model_graph(model)
        assert graphs.graphs[1].callees == {0: [0], 1: [-1]}
        assert (graphs.graphs[1].called([0]), graphs.graphs[1].called([1])) == ({0}, set())
        assert (graphs.callees, graphs.graphs[0].callees) == ({1: {0}}, {})
        assert graphs.reaching([0]) == {0, 1}
