"""Findings in the second of two subgraphs, in rows and blocks of constants, and how they are worded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from circletools.errors import ModelFormatError
from circletools.findings import Finding
from circletools.graph.build import graph_of
from circletools.model.indices import model_indices
from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.build import Build, Graph, Table, floats, quantization
from tests.kit.soundness_support import chain, of


def in_second(fill: Callable[[Graph], object], kind: str = "tflite") -> list[Finding]:
    """Return the findings about a model whose second subgraph is filled; the first has operators and tensors, too."""
    build = Build()
    first = build.graph()
    first.ends([first.tensor("a")], [first.compute("TANH", [0], "b")])
    fill(build.graph())
    return of(build.to_bytes(kind))


@pytest.mark.parametrize(("copies", "words"), [(10, "tensors 1-10 have the"), (11, "tensors 1-10, … have the")])
def test_ten_numbers_are_listed(copies: int, words: str) -> None:
    def change(graph: Graph) -> None:
        tensors = [graph.tensor("same") for _ in range(copies + 1)]
        graph.ends(tensors, [graph.compute("ADD_N", tensors, "sum")])

    found = [one for one in in_second(change) if one.code == "DUPLICATE_NAME"]
    assert [one.location for one in found] == ["subgraphs[1].tensors[1]"]
    assert words in found[0].message


def test_what_is_not_used_in_the_second_subgraph() -> None:
    def change(graph: Graph) -> None:
        left, x = graph.tensor("left"), graph.tensor("x")
        graph.ends([x], [graph.compute("TANH", [x], "y")])
        assert left == 0

    (found,) = in_second(change)
    assert (found.code, found.location) == ("NOT_USED", "subgraphs[1].tensors[0]")
    assert "nothing uses tensor 0;" in found.message


def test_types_in_the_second_subgraph() -> None:
    def change(graph: Graph) -> None:
        x, number = graph.tensor("x"), graph.tensor("number", type="INT32")
        graph.operator("TANH", [x], [graph.tensor("t")])
        graph.ends([x, number], [1, 2, graph.compute("ADD", [x, number], "y")])

    found = [one for one in in_second(change) if one.code == "OPERATOR_TYPES"]
    assert [one.location for one in found] == ["subgraphs[1].operators[1]"]
    assert "does not support FLOAT32, INT32 -> FLOAT32" in found[0].message


def test_code_names_of_a_subgraph_beside_a_broken_one() -> None:
    build = Build()
    for _ in range(2):
        graph = build.graph()
        graph.ends([graph.tensor("x")], [graph.compute("TANH", [0], "y")])
    graph.table.operators[0].opcode_index = 7
    with open_model(build.to_bytes()) as model:
        assert model.code_names(0) == ["TANH"]
        with pytest.raises(ModelFormatError, match="code 7 does not exist"):
            model.code_names(1)


def test_a_row_of_a_sparse_constant_may_be_empty_and_a_broken_one_is_reported_once() -> None:
    def sparse(segments: list[int]) -> list[Finding]:
        vectors = (Table("Int32Vector", values=values) for values in (segments, [1]))
        inner = dict(zip(("array_segments", "array_indices"), vectors, strict=True))
        levels = [Table("DimensionMetadata", format=0, dense_size=2), Table("DimensionMetadata", format=1, **inner)]

        def change(graph: Graph) -> None:
            graph.tensor("variable", is_variable=True)
            graph.table.tensors[2].sparsity = Table("SparsityParameters", traversal_order=[0, 1], dim_metadata=levels)
            graph.build.model.buffers[1].data = bytes(4)

        return [one for one in chain(change) if one.code != "NOT_USED"]

    assert sparse([0, 0, 1]) == []
    assert [one.code for one in sparse([0, 1])] == ["INVALID_SPARSITY"]


@pytest.mark.parametrize(("count", "codes"), [(3, []), (2, ["INVALID_QUANTIZATION"])])
def test_scales_of_a_vector(count: int, codes: list[str]) -> None:
    def change(graph: Graph) -> None:
        x = graph.tensor("x", (3,), "INT8", quantization=quantization([0.5] * count, [0] * count, 0))
        graph.ends([x], [x])

    assert [one.code for one in in_second(change) if one.code.startswith("INVALID")] == codes


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_onert_runs_a_model_with_a_buffer_that_is_not_there(kind: str) -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x", buffer=9)], [graph.compute("TANH", [0], "y")])
    with open_model(build.to_bytes(kind)) as model:
        found = [one for one in check_model(model) if one.code == "INDEX_OUT_OF_RANGE"]
    assert [(one.severity, one.location) for one in found] == [("warning", "subgraphs[0].tensors[0].buffer")]


@pytest.mark.parametrize(("length", "shown"), [(200, True), (201, False)])
def test_a_name_is_reported_whole_up_to_200_characters(length: int, shown: bool) -> None:
    def change(graph: Graph) -> None:
        graph.table.tensors[0].name = "x" * length
        graph.ends([], [3])

    found = [one for one in chain(change) if one.code == "UNPRODUCED_TENSOR"]
    assert [("x" * length in one.message) for one in found] == [shown]


def constants(change: Callable[[Graph, int], object]) -> tuple[int, ...]:
    """Return the operators that depend on constants only, of c -> NEG -> y, ADD(x, y) -> z, changed by the model."""
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.constant("c", floats(2, 2))
    y = graph.compute("NEG", [c], "y")
    graph.ends([x], [graph.compute("ADD", [x, y], "z")])
    change(graph, c)
    with open_model(build.to_bytes()) as model:
        return graph_of(model, 0).folded


def test_what_depends_on_constants_only() -> None:
    assert constants(lambda graph, c: None) == (0,)
    assert constants(lambda graph, c: graph.ends([0, c], [3])) == ()  # a constant that the caller may set
    assert constants(lambda graph, c: graph.ends([0, 4], [3])) == (0,)  # there is no tensor 4
    assert constants(lambda graph, c: graph.ends([0, -1], [3])) == (0,)
    assert constants(lambda graph, c: graph.ends([0], [2, 3])) == ()  # the caller reads it


def test_what_reads_an_input_is_no_constant_though_others_read_it() -> None:
    assert constants(lambda graph, c: graph.ends([0], [graph.compute("NEG", [3], "last")])) == (0,)


def test_what_reads_an_operator_on_constants_and_an_input() -> None:
    def another(graph: Graph, c: int) -> None:
        """Let an operator read the result of operator 0 only, and feed another one."""
        twice = graph.compute("ABS", [2], "twice")
        graph.operator("NEG", [twice], [graph.tensor("last")])

    assert constants(another) == (0, 2)


def test_the_way_to_an_index_names_every_field() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x")], [graph.compute("TANH", [0], "y")])
    with open_model(build.to_bytes()) as model:
        ways = {
            tuple(field for field, _, _ in indices.level.way(0)) for indices in model_indices(model, "operator_code")
        }
    assert ways == {("", "subgraphs", "operators")}


def test_each_subgraph_counts_by_itself() -> None:
    """Tensor and operator indices are those of the subgraph, and a tensor of another one is another tensor."""
    build = Build()
    for name in ("main", "other"):
        graph = build.graph(name)
        x = graph.tensor("x")
        graph.ends([x], [graph.compute("NEG", [x], "y")])
    graph.operator("ABS", [graph.tensor("lost")], [graph.tensor("w", (1 << 30,))])
    found = of(build.to_bytes())
    assert [(one.code, one.location) for one in found if one.severity == "warning"] == [
        ("UNPRODUCED_TENSOR", "subgraphs[1].operators[1]"),
        ("TENSOR_TOO_LARGE", "subgraphs[1].tensors[3]"),
    ]
    assert "tensor 2 (lost)" in found[0].message


def test_blocks_have_a_scale_each() -> None:
    def change(graph: Graph, size: int, scales: int) -> None:
        at = graph.constant("scales", floats(scales))
        details = Table("BlockwiseQuantization", scales=at, zero_points=-1, block_size=size)
        graph.table.tensors[2].quantization = Table("QuantizationParameters", details=details)

    assert chain(partial(change, size=2, scales=2)) == []
    assert chain(partial(change, size=1, scales=4)) == []
    for size, scales in ((2, 1), (0, 2), (-2, 2), (3, 1)):
        (found,) = chain(partial(change, size=size, scales=scales))
        assert (found.code, found.location) == ("INVALID_QUANTIZATION", "subgraphs[0].tensors[2]")
        assert f"4 elements in blocks of {size} have {scales} scales; fix" in found.message
