"""Newer schemas, as flatc writes them: what they add, and what they must not say."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.newer import STRING, may_hold_indices, newer_schema
from circletools.flatbuf.schema import OFFSET, Field, Kind, load_schema, table_type
from circletools.flatbuf.verify import walk
from tests.kit.newer_reader import SCHEMA
from tests.kit.support import field_at, put

TFLITE = load_schema("tflite")
NEW = {
    ("Model", "new_leaf"): (10, "table", "NewLeaf", False),
    ("Model", "new_number"): (11, "scalar", None, True),
    ("Buffer", "new_scale"): (3, "scalar", None, False),
    ("Operator", "new_wide"): (14, "scalar", None, False),
    ("Operator", "new_note"): (15, "table", "NewNote", False),
    ("OperatorCode", "new_text"): (4, "string", None, False),
    ("SubGraph", "new_eithers"): (7, "vector", "NewEither", False),
    ("SubGraph", "new_pairs"): (8, "vector", None, False),
    ("Tensor", "new_level"): (11, "scalar", None, False),
    ("Tensor", "new_texts"): (12, "vector", STRING, False),
    ("Tensor", "new_either"): (14, "union", "NewEither", False),
}


@pytest.fixture(autouse=True)
def read_anew() -> None:
    """Let each test read the schema itself."""
    newer_schema.cache_clear()


@pytest.mark.parametrize("name", NEW, ids=".".join)
def test_what_it_adds(name: tuple[str, str]) -> None:
    table, label = name
    newer = newer_schema(TFLITE, SCHEMA).whole
    slot, kind, target, numbers = NEW[name]
    item = newer.tables[table].by_name[label]
    assert (item.slot, item.kind, item.target, item.newer) == (slot, kind, target, True)
    assert newer.tables[table].by_slot[slot] is item
    assert newer.tables[table].slots > slot
    assert may_hold_indices(newer, item) == numbers


def test_what_is_known_stays() -> None:
    newer = newer_schema(TFLITE, SCHEMA).whole
    for name, table in TFLITE.tables.items():
        for item in table.fields:
            assert newer.tables[name].by_slot[item.slot] is item
    assert newer.unions["BuiltinOptions"][200] == "NewOptions"
    assert newer.unions["BuiltinOptions"].items() > TFLITE.unions["BuiltinOptions"].items()
    assert newer.unions["NewEither"] == {1: "NewNote", 2: "NewLeaf"}
    assert newer.newer is None
    assert TFLITE.newer is None
    assert TFLITE.whole is TFLITE
    either = newer.tables["Tensor"].by_name["new_either"]
    assert either.type_slot == 13
    wide, pairs = newer.tables["Operator"].by_name["new_wide"], newer.tables["SubGraph"].by_name["new_pairs"]
    assert (wide.width, wide.alignment, pairs.element.itemsize, pairs.align) == (16, 16, 16, 8)
    assert newer.tables["NewLeaf"].by_name["any"].type_slot == 3


def field(name: str, kind: Kind, target: str | None = None, type_slot: int = -1, number: bool = False) -> Field:
    return Field(name, 1, kind, OFFSET, target=target, type_slot=type_slot, newer=True, number=number)


def test_integers_are_found_below_a_field() -> None:
    newer = newer_schema(TFLITE, SCHEMA).whole
    assert may_hold_indices(newer, newer.tables["Tensor"].by_name["shape"])
    assert not may_hold_indices(newer, newer.tables["NewNote"].by_name["more"])  # a table that leads to itself
    tables = {
        "Plain": [field("f", "scalar"), field("me", "table", "Plain"), field("texts", "vector", STRING)],
        "Number": [field("f", "scalar"), field("n", "scalar", number=True)],
        "Deep": [field("plain", "table", "Plain"), field("number", "vector", "Number")],
    }
    unions = {"Soft": {1: "Plain", 2: STRING}, "Hard": {1: "Plain", 2: "Number"}}
    schema = replace(newer, tables={name: table_type(name, 9, of) for name, of in tables.items()}, unions=unions)
    for found, expected in (
        (field("x", "table", "Plain"), False),
        (field("x", "table", "Number"), True),
        (field("x", "vector", "Deep"), True),
        (field("x", "union", "Soft", 0), False),
        (field("x", "union", "Hard", 0), True),
        (field("x", "vector", "Hard", 0), True),
        (field("x", "vector", "Soft", 0), False),
        (field("x", "vector", STRING), False),
        (field("x", "scalar"), False),
        (field("x", "scalar", number=True), True),
    ):
        assert may_hold_indices(schema, found) == expected, found


def test_structs_of_all_alignments_and_enums_of_any_place() -> None:
    objects = parts("Object")
    row = objects.strings("name").index(b"tflite.NewPair")
    at = int(objects.at[row])
    for size, alignment in ((1, 1), (2, 2), (4, 4), (8, 8), (65_520, 16)):
        data = put(SCHEMA, field_at(SCHEMA, at, 3), alignment.to_bytes(4, "little"))
        data = put(data, field_at(data, at, 4), size.to_bytes(4, "little"))
        item = newer_schema(TFLITE, data).whole.tables["SubGraph"].by_name["new_pairs"]
        assert (item.align, item.element.itemsize) == (alignment, size)
    level = field_at(SCHEMA, type_of("new_level", "Tensor"), 2)
    data = put(SCHEMA, level, bytes(4))
    assert not newer_schema(TFLITE, data).whole.tables["Tensor"].by_name["new_level"].number
    data = put(SCHEMA, level, b"\xff" * 4)
    assert newer_schema(TFLITE, data).whole.tables["Tensor"].by_name["new_level"].number


def parts(name: str) -> Tables:
    wire = Wire(SCHEMA)
    return walk(wire, load_schema("reflection")).tables[name]


def type_of(name: str, inside: str) -> int:
    """Return where the type of a field of a table stands."""
    objects = parts("Object")
    row = objects.strings("name").index(f"tflite.{inside}".encode())
    fields, _ = objects.take(slice(row, row + 1)).children("fields", load_schema("reflection"))
    row = fields.strings("name").index(name.encode())
    return int(fields.child("type", load_schema("reflection"))[0].at[row])


def refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        newer_schema(TFLITE, data)


def test_a_schema_that_says_otherwise_is_refused() -> None:
    kind = field_at(SCHEMA, type_of("version", "Model"), 0)
    refused(put(SCHEMA, kind, b"\4"), r"Model\.version is not version of the tflite schema")
    element = field_at(SCHEMA, type_of("inputs", "SubGraph"), 1)
    refused(put(SCHEMA, element, b"\4"), r"SubGraph\.inputs is not inputs")
    index = field_at(SCHEMA, type_of("buffers", "Model"), 2)
    refused(put(SCHEMA, index, b"\0"), r"Model\.buffers is not buffers")
    refused(put(SCHEMA, index, b"\x7f"), "there is no type 127")
    late = field_at(SCHEMA, type_of("new_text", "OperatorCode"), 0)
    refused(put(SCHEMA, late, bytes([18])), "of a kind that is not known")
    for code in (0, 17, 18, 100):
        refused(put(SCHEMA, kind, bytes([code])), "of a kind that is not known")


def test_a_schema_of_another_format_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="it is not of circle models"):
        newer_schema(load_schema("circle"), SCHEMA)
    refused(SCHEMA[:100], "outside")
    refused(b"", "shorter than a flatbuffer's header")


def test_other_members_of_a_union_are_refused() -> None:
    values = parts("EnumVal")
    at = next(int(one) for one, code in zip(values.at, values.scalars("value"), strict=True) if code == 11)
    refused(put(SCHEMA, field_at(SCHEMA, at, 1), b"\1"), "1 is AddOptions in BuiltinOptions, not Conv2DOptions")


def test_structs_of_odd_sizes_are_refused() -> None:
    objects = parts("Object")
    for at in objects.at[objects.scalars("is_struct") != 0].tolist():
        for slot, number in ((3, 3), (3, 32), (3, 0), (4, 0), (4, 15), (4, 1 << 16)):
            refused(put(SCHEMA, field_at(SCHEMA, at, slot), number.to_bytes(4, "little")), "bytes, aligned to")


def test_any_other_bytes_are_a_schema_or_refused() -> None:
    random = Random(18)  # noqa: S311
    for _ in range(300):
        data = bytearray(SCHEMA)
        for _ in range(random.randint(1, 3)):
            data[random.randrange(8, len(data))] = random.choice((0, 1, 2, 0x7F, 0xFF, random.randrange(256)))
        try:
            newer_schema(TFLITE, bytes(data))
        except CircleToolsError as error:
            assert error.exit_code == 3  # noqa: PT017
