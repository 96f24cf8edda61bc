"""Names of sources from the locations that TFLite's converter leaves in the debug metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from circletools.errors import EditError
from circletools.flatbuf.schema import load_schema
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.locations import operator_locations
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import Origins
from circletools.origin.source import NOTHING, AnySource, Source, SourceDetails
from tests.kit.build import Build, Packer, Table
from tests.kit.origin_support import entries

Location = Table | None


def table(kind: str, **fields: Any) -> Table:
    """Return a table of the schema of debug metadata."""
    made = Table(kind)
    made.fields.update(fields)
    return made


def named(name: str) -> Table:
    return table("NameLoc", name=name)


def line(file: str, row: int, column: int) -> Table:
    return table("FileLineColLoc", filename=file, line=row, column=column)


def fused(*indices: int) -> Table:
    return table("FusedLoc", location_indexes=list(indices))


def call(callee: int, caller: int = 9999) -> Table:
    return table("CallSiteLoc", callee_index=callee, caller_index=caller)


def opaque(fallback: int) -> Table:
    return table("OpaqueLoc", identifier="o", fallback_location_index=fallback)


def debug_metadata(
    locations: Sequence[Location], operators: Sequence[Sequence[int]], kinds: Sequence[int] | None = None
) -> bytes:
    """Return debug metadata: locations, and by described operator which it has; subgraph 1 of 2 describes them."""
    attributes = [
        one if one is not None and one.table_type == "Location" else table("Location", location=one)
        for one in locations
    ]
    described = [table("OperatorDebugMetadata", attribute_metadata_indexes=list(one)) for one in operators]
    conversion = table(
        "ConversionDebugMetadata",
        subgraphs_debug_metadata=[
            table("SubgraphDebugMetadata", operators_debug_metadata=[]),
            table("SubgraphDebugMetadata", operators_debug_metadata=described),
        ],
        attributes_type=list(kinds or [1] * len(locations)),
        attributes=attributes,
    )
    packer = Packer(load_schema("debug_metadata"))
    return packer.finish(
        packer.write(table("DebugMetadata", debug_metadata_type=[1], debug_metadata=[conversion])), b"DBGM"
    )


def model(metadata: bytes | None, indices: Sequence[int], subgraph: int = 1) -> bytes:
    """Return a model whose operators have these indices into the debug metadata of their subgraph."""
    build = Build()
    graph = build.graph()
    graph.table.debug_metadata_index = subgraph
    value = graph.tensor("x")
    for index in indices:
        made = graph.tensor("")
        graph.operator("TANH", [value], [made]).debug_metadata_index = index
        value = made
    other = build.graph()
    other.operator("TANH", [other.tensor("")], [other.tensor("")])
    if metadata is not None:
        build.metadata("debug_metadata", metadata)
    return build.to_bytes()


def name_of(source: AnySource) -> str:
    return source if isinstance(source, str) else source.name


def names(
    locations: Sequence[Location], *operators: Sequence[int], kinds: Sequence[int] | None = None
) -> list[list[str]]:
    """Return the names of operators that have these locations."""
    data = model(debug_metadata(locations, operators, kinds), range(len(operators)))
    with open_model(data) as found:
        return [list(map(name_of, sources)) for sources in operator_locations(model_graph(found))]


def sources(locations: Sequence[Location], *operators: Sequence[int]) -> list[list[AnySource]]:
    """Return the sources of operators that have these locations."""
    with open_model(model(debug_metadata(locations, operators), range(len(operators)))) as found:
        return operator_locations(model_graph(found))


def test_every_kind_of_location() -> None:
    locations = [
        named("a"), line("f.py", 12, 7), fused(0, 1), call(1), opaque(0), table("UnknownLoc"), None,
        fused(4, 3, 5, 6),
    ]  # fmt: skip
    every = [[index] for index in range(len(locations))]
    assert names(locations, *every) == [
        ["a"], ["f.py:12:7"], ["a", "f.py:12:7"], ["f.py:12:7"], ["a"], [], [], ["a", "f.py:12:7"],
    ]  # fmt: skip


def test_locations_come_in_their_order_and_once() -> None:
    locations = [named("a"), named("b"), named("c"), fused(2, 0), fused(3, 1, 4, 0)]
    assert names(locations, [1, 0, 1], [3, 1], [4], [0, 4], []) == [
        ["b", "a"], ["c", "a", "b"], ["c", "a", "b"], ["a", "c", "b"], [],
    ]  # fmt: skip


def test_locations_that_go_in_circles_end() -> None:
    assert names([fused(1, 2), call(0), named("a")], [0], [1]) == [["a"], ["a"]]
    assert names([opaque(0)], [0]) == [[]]


def test_missing_locations_are_ignored() -> None:
    assert names([named("a"), fused(0, 2, 3)], [0, 1, 2, 99], [2]) == [["a"], []]
    assert names([named("a"), named("b"), named("c")], [0, 1, 2], kinds=[1, 2, 0]) == [["a"]]
    assert names([], [0]) == [[]]


def test_locations_of_unknown_kinds_are_ignored() -> None:
    """A kind without a location, a location of another kind, and both as they should be."""
    locations = [
        table("Location", location_type=4),
        table("Location", location_type=9, location=named("b")),
        table("Location", location_type=4, location=named("a")),
    ]
    assert names(locations, [0], [1], [2]) == [[], [], ["a"]]


def test_the_type_before_a_name_is_left_out() -> None:
    """The importer puts the operator's type before its name; alone, it is better than nothing."""
    locations = [named("MatMul:"), named("dense/MatMul@main"), named(""), fused(0, 1, 2), fused(0, 2)]
    assert names(locations, [3], [4], [2], [0]) == [["dense/MatMul"], ["MatMul:"], [], ["MatMul:"]]


def test_a_call_gives_the_line_of_the_called_function() -> None:
    """The caller has the lines, the outermost first; what is below a name is where its function was traced."""
    locations = [
        named("MatMul:"), named("dense/MatMul@main"), line("net.py", 8, 1), fused(0, 4), call(1, 2),
        line("/usr/lib/python3.11/site-packages/keras/layer.py", 3, 1), call(2, 5), line("net.py", 9, 2), call(7, 6),
        call(1, 8), call(1, 5), call(3, 10), opaque(3), call(1, 11), call(12, 7),
    ]  # fmt: skip
    matmul = Source("dense/MatMul", SourceDetails(file="net.py", line=8))
    assert sources(locations, [4], [3], [9], [10], [11], [12], [13]) == [
        [matmul],
        [replaced(matmul, call="MatMul")],
        [matmul],  # the innermost line is a library's
        [replaced(matmul, file="", line=0)],
        [replaced(matmul, call="MatMul")],  # its own caller, not that of the whole function
        [replaced(matmul, call="MatMul")],
        [replaced(matmul, file="", line=0)],
    ]
    assert sources(locations, [14], [2]) == [
        [replaced(matmul, call="MatMul")],
        [Source("net.py:8:1", SourceDetails(file="net.py", line=8))],
    ]


def replaced(source: Source, **details: Any) -> AnySource:
    """Return a source with other details, its name where none are left."""
    other = source.details._replace(**details)
    return source._replace(details=other) if other != NOTHING else source.name


def test_calls_without_end() -> None:
    assert sources([named("a"), call(0, 2), call(3, 2), line("f.py", 1, 1)], [1]) == [
        [Source("a", SourceDetails(file="f.py", line=1))]
    ]


OPERATORS: list[tuple[list[int], list[list[str]]]] = [
    ([0, 1], [["a"], ["b"]]),
    ([1, -1, 2, 0], [["b"], [], [], ["a"]]),
    ([-1], [[]]),
    ([], []),
]


def test_operators_are_described_by_their_index() -> None:
    for indices, expected in OPERATORS:
        data = debug_metadata([named("a"), named("b")], [[0], [1]])
        with open_model(model(data, indices)) as found:
            assert [list(map(name_of, sources)) for sources in operator_locations(model_graph(found))] == expected


SUBGRAPHS: list[tuple[int, bool]] = [(0, False), (1, True), (2, False), (-1, False), (-2, False), (9, False)]


def test_subgraphs_are_described_by_their_index() -> None:
    for subgraph, described in SUBGRAPHS:
        data = debug_metadata([named("a")], [[0]])
        with open_model(model(data, [0, 0], subgraph)) as found:
            assert operator_locations(model_graph(found)) == [["a"] if described else []] * 2


@pytest.mark.parametrize("metadata", [None, b""])
def test_a_model_without_debug_metadata(metadata: bytes | None) -> None:
    with open_model(model(metadata, [0, 0, 0])) as found:
        assert operator_locations(model_graph(found)) == [[], [], []]
        with pytest.raises(EditError, match="the model has no debug_metadata locations to name sources after"):
            collect_sources(found, NameSource.DEBUG_METADATA)


def test_sources_are_numbered_as_they_appear() -> None:
    data = debug_metadata([named("a"), named("b"), named("c")], [[1], [0, 1], [], [2, 0]])
    with open_model(model(data, range(4))) as found:
        assert collect_sources(found, NameSource.DEBUG_METADATA) == Origins(
            {0: "b", 1: "a", 2: "c"}, entries({0: {0}, 1: {0, 1}, 3: {1, 2}}, {})
        )


def test_a_name_with_a_nul_is_no_source() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("")
    graph.compute("TANH", [x], "fine")
    graph.compute("TANH", [x], b"a\0b")  # type: ignore[arg-type]
    with open_model(build.to_bytes()) as found, pytest.raises(EditError, match="contains a NUL character") as caught:
        collect_sources(found)
    assert caught.value.location == "subgraphs[0].operators[1].outputs[0]"
