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
from circletools.flatbuf.transplant import Altered, Keep, transplant
from circletools.flatbuf.verify import walk
from tests.kit.newer_reader import SCHEMA

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


@pytest.mark.parametrize(("distance", "outside"), [(8, True), (100, True), (4, False)])
def test_a_copy_of_a_table_leads_into_the_original(distance: int, outside: bool) -> None:
    wire = Wire(leading(distance))
    inert = Inert(wire, NEWER, lambda: walk(wire, NEWER), 0)
    if outside:
        with pytest.raises(EditError, match=r"byte 40: Model\.new_leaf leads outside the original file"):
            Overlay(wire, NEWER, 36, 0, {}, inert)
    else:
        assert Overlay(wire, NEWER, 36, 0, {}, inert).copy("Model", 36).fields[LEAF] == 44
