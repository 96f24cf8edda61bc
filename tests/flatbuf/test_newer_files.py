"""Files made by hand, with fields of a newer schema, that small mistakes would misread."""

from __future__ import annotations

from struct import pack

import pytest

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.newer import newer_schema
from circletools.flatbuf.overlay import Overlay
from circletools.flatbuf.schema import Schema, load_schema
from circletools.flatbuf.transplant import Altered, Keep, end_of, transplant
from circletools.flatbuf.verify import walk
from tests.kit.build import Table
from tests.kit.newer_reader import SCHEMA
from tests.kit.objects import file_of, objects

TFLITE = load_schema("tflite")
NEWER = newer_schema(TFLITE, SCHEMA).whole
LEAF = NEWER.tables["Model"].by_name["new_leaf"].slot


def leading(distance: int) -> bytes:
    """Return a file of 48 bytes whose root, at 36, has a reference at 40 to an empty leaf, whose vtable is at 36."""
    vtable = pack("<HH", 4 + 2 * (LEAF + 1), 8) + bytes(2 * LEAF) + pack("<H", 4)
    head = pack("<I4s", 36, b"TFL3") + vtable.ljust(28, b"\0")
    return head + pack("<iIi", 28, distance, 4) if distance != 4 else head + pack("<iIi", 28, 4, 44 - 8)


def kept(wire: Wire, schema: Schema) -> Keep:
    return Keep(Inert(wire, schema, lambda: walk(wire, schema), 0), {}, 0)


@pytest.mark.parametrize("distance", [0, 5, 8, 12, 1000])
def test_a_reference_of_a_newer_field_leads_into_the_file(distance: int) -> None:
    wire = Wire(leading(distance))
    with pytest.raises(ModelFormatError, match="a reference leads outside the file at byte 40"):
        transplant(wire, NEWER, Altered(NEWER.tables["Model"], 36, {}), kept(wire, NEWER))


def test_the_last_place_for_a_table_is_four_bytes_before_the_end() -> None:
    wire = Wire(leading(4))
    with pytest.raises(ModelFormatError, match=r"a NewLeaf (or its vtable )?ends outside"):
        transplant(wire, NEWER, Altered(NEWER.tables["Model"], 36, {}), kept(wire, NEWER))


@pytest.mark.parametrize(("distance", "outside"), [(8, True), (100, True), (4, False)])
def test_a_copy_of_a_table_leads_into_the_original(distance: int, outside: bool) -> None:
    wire = Wire(leading(distance))
    inert = Inert(wire, NEWER, lambda: walk(wire, NEWER), 0)
    if outside:
        with pytest.raises(EditError, match=r"byte 40: Model\.new_leaf leads outside the original file"):
            Overlay(wire, NEWER, 36, 0, {}, inert)
    else:
        assert Overlay(wire, NEWER, 36, 0, {}, inert).copy("Model", 36).fields[LEAF] == 44


BEFORE_ITS_VTABLE = pack("<I4siIHHHxx", 8, b"TFL3", 8 - 16, 3, 6, 8, 4)
BEHIND_ITS_VTABLE = pack("<I4sHHHxxiI", 16, b"TFL3", 6, 8, 4, 8, 3)


@pytest.mark.parametrize("data", [BEFORE_ITS_VTABLE, BEHIND_ITS_VTABLE, file_of(Table("Model", description="text"))])
def test_where_the_last_object_ends(data: bytes) -> None:
    wire, root = Wire(data), int.from_bytes(data[:4], "little")
    end = end_of(wire, TFLITE, Altered(TFLITE.tables["Model"], root, {}), kept(wire, TFLITE))
    assert end == max(one.end for one in objects(data))


def test_numbers_that_are_positions_in_the_file_are_moved() -> None:
    data = file_of(Table("Model", buffers=[Table("Buffer", offset=64, size=8), Table("Buffer", offset=1, size=0)]))
    wire, root = Wire(data), int.from_bytes(data[:4], "little")
    inert = Inert(wire, TFLITE, lambda: walk(wire, TFLITE), 0)

    def mover(raw: bytes, moved: int) -> bytes | None:
        number = int.from_bytes(raw, "little")
        return (number + moved).to_bytes(len(raw), "little") if number > 1 else None

    keep = Keep(inert, {("Buffer", "offset"): mover}, 16)
    chunks = transplant(wire, TFLITE, Altered(TFLITE.tables["Model"], root, {}), keep)
    after = Wire(b"".join(one if isinstance(one, bytes) else data[slice(*one)] for one in chunks))
    buffers = walk(after, TFLITE).tables["Buffer"]
    assert sorted(buffers.scalars("offset").tolist()) == [1, 80]
    assert sorted(buffers.scalars("size").tolist()) == [0, 8]
