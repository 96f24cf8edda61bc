"""Positions in the file: which there are, and that they move."""

from __future__ import annotations

import pytest
from flatbuffers import flexbuffers

from circletools.errors import EditError
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.model import open_model
from tests.kit.build import Build, Graph
from tests.kit.outside import program


def ranges(build: Build) -> dict[str, list[tuple[int, int, int]]]:
    """Return row, offset and size of each range, by kind."""
    with open_model(build.to_bytes("circle")) as model:
        found = list(external_data(model))
        assert all(len(data.rows) == len(data.offsets) == len(data.sizes) > 0 for data in found)
        return {
            data.kind: list(zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True))
            for data in found
        }


def test_a_model_without_any() -> None:
    build = Build()
    Graph(build, "main").ends([], [])
    build.buffer(offset=1, size=9)
    assert ranges(build) == {}


def test_ranges_of_all_kinds_by_row() -> None:
    build = Build()
    first, second = Graph(build, "first"), Graph(build, "second")
    for graph in (first, second):
        graph.ends([], [])
    build.buffer(offset=2, size=9)
    build.buffer(b"inside")
    build.buffer(offset=2**64 - 1, size=2**64 - 1)
    operators = [graph.operator("TANH", [], []) for graph in (first, first, second, second, second)]
    operators[1].large_custom_options_offset, operators[1].large_custom_options_size = 1, 5
    operators[2].large_custom_options_offset, operators[2].large_custom_options_size = 4096, 5
    operators[3].custom_options = program(4096, 100)
    operators[4].custom_options = program(2, 0, name="npu")
    assert ranges(build) == {
        "Buffer": [(1, 2, 9), (3, 2**64 - 1, 2**64 - 1)],
        "large_custom_options": [(2, 4096, 5)],
        "bytecode": [(3, 4096, 100), (4, 2, 0)],
    }


@pytest.mark.parametrize(
    "options",
    [
        program(None, 100),
        program(4096, None),
        program(1, 100),
        program(4096, -1),
        program(2**62, 2**62),
        program(4096, 100)[:-2],
        b"bytecode_offset bytecode_size",
        b"bytecode_offset\0bytecode_size\0\1\1\2\x24\x24\x25\1",
        flexbuffers.Dumps("bytecode_offset bytecode_size"),
    ],
)
def test_options_that_name_no_program(options: bytes) -> None:
    build = Build()
    graph = Graph(build, "main")
    graph.operator("TANH", [], []).custom_options = options
    graph.ends([], [])
    assert ranges(build) == {}
    assert FILE_OFFSETS["Operator", "custom_options"](options, 64) is None


def test_the_largest_program() -> None:
    build = Build()
    graph = Graph(build, "main")
    graph.operator("TANH", [], []).custom_options = program(2**62, 2**62 - 1)
    graph.ends([], [])
    assert ranges(build) == {"bytecode": [(0, 2**62, 2**62 - 1)]}


def test_a_program_moves_and_other_options_stay_the_same() -> None:
    options = program(4096, 100, name="npu")
    moved = FILE_OFFSETS["Operator", "custom_options"](options, 1 << 40)
    assert moved is not None
    assert flexbuffers.Loads(moved) == {"bytecode_offset": 4096 + (1 << 40), "bytecode_size": 100, "name": "npu"}
    assert len(moved) == len(options)
    assert FILE_OFFSETS["Operator", "custom_options"](moved, -(1 << 40)) == options


def test_a_position_without_room_for_another_is_refused() -> None:
    options = flexbuffers.Dumps({"bytecode_offset": 100, "bytecode_size": 1})
    with pytest.raises(EditError, match="have too little room"):
        FILE_OFFSETS["Operator", "custom_options"](options, 64)
    assert flexbuffers.Loads(FILE_OFFSETS["Operator", "custom_options"](options, 1))["bytecode_offset"] == 101


@pytest.mark.parametrize("field", [("Buffer", "offset"), ("Operator", "large_custom_options_offset")])
@pytest.mark.parametrize(
    ("before", "distance", "after"),
    [(0, 64, 0), (1, 64, 1), (2, 64, 66), (100, -36, 64), (2**64 - 1, 2, 1), (2**40, 2**40, 2**41)],
)
def test_a_position_moves_unless_it_means_none(
    field: tuple[str, str], before: int, distance: int, after: int
) -> None:
    assert FILE_OFFSETS[field](before.to_bytes(8, "little"), distance) == after.to_bytes(8, "little")
