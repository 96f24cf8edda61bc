"""The prefix itself: its length by the size of the old file, the room below 2 GiB, and when there is none."""

from __future__ import annotations

from itertools import product
from struct import pack

import numpy as np
import pytest

from circletools.errors import EditError, UsageError
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Wire
from circletools.flatbuf.overlay import MARKER, Overlay, find_base, write_prefix
from circletools.flatbuf.tables import FileOffsets, NewTable
from circletools.flatbuf.verify import walk
from circletools.model.external import FILE_OFFSETS
from tests.kit.build import Raw, Table
from tests.kit.every_field import difference
from tests.kit.objects import file_of, objects, wire_of
from tests.kit.support import field_at, u32

PLAIN = file_of(
    Table("Model", version=3, description="text", buffers=[Table("Buffer"), Table("Buffer", data=b"abc")])
)


def overlay_of(data: bytes, offsets: FileOffsets = FILE_OFFSETS) -> Overlay:
    wire, schema, root = wire_of(data)
    base = find_base(wire, schema)
    return Overlay(wire, schema, root, base, offsets, lambda: walk(wire, schema))


def written(overlay: Overlay, end: int | None = None) -> bytes:
    """Return the prefix, none where nothing is to be written."""
    root = overlay.settle()
    return b"" if root is None else write_prefix(overlay, root, overlay.wire.size if end is None else end)


def edited(data: bytes, **fields: str | int | None) -> bytes:
    """Return the file with fields of its root set."""
    overlay = overlay_of(data)
    for name, value in fields.items():
        overlay.root.set(name, value)
    return written(overlay) + data[overlay.base :]


def test_an_edit_and_the_next() -> None:
    first = edited(PLAIN, description="other")
    assert difference(PLAIN, first) == {"description": (b"text", b"other")}
    assert first.endswith(PLAIN)
    assert find_base(*wire_of(first)[:2]) == len(first) - len(PLAIN)
    assert edited(first) == first
    assert edited(first, version=5) == edited(PLAIN, description="other", version=5)
    assert edited(first, description="text") == PLAIN
    assert edited(edited(first, metadata_buffer=None, description=None), description="text") == PLAIN
    assert edited(PLAIN, description="text") == PLAIN
    assert edited(PLAIN) == PLAIN


def test_new_objects_that_equal_old_ones_are_dropped() -> None:
    """New bytes that equal the original's own object let go of it; others are written."""
    overlay = overlay_of(PLAIN)
    buffers = overlay.references(overlay.root, "buffers")
    overlay.element(buffers, "Buffer", 1).set("data", b"abc")
    assert written(overlay) == b""
    overlay.element(buffers, "Buffer", 1).set("data", b"abd")
    assert difference(PLAIN, written(overlay) + PLAIN) == {"buffers[1].data": ([97, 98, 99], [97, 98, 100])}
    buffers.append(NewTable(overlay.schema.tables["Buffer"]))
    assert difference(PLAIN, written(overlay) + PLAIN)["buffers"] == (2, 3)


def test_options_that_are_set_back_are_the_old_ones() -> None:
    def with_options(data: bytes, name: str, field: str, value: float) -> bytes:
        overlay = overlay_of(data)
        graph = overlay.element(overlay.references(overlay.root, "subgraphs"), "SubGraph", 0)
        operator = overlay.element(overlay.references(graph, "operators"), "Operator", 0)
        options = NewTable(overlay.schema.tables[name])
        options.set(field, value)
        codes = {member: code for code, member in overlay.schema.unions["BuiltinOptions"].items()}
        operator.set("builtin_options", options)
        operator.set("builtin_options_type", codes[name])
        return written(overlay) + data[overlay.base :]

    made = Table("Operator", builtin_options=Table("SoftmaxOptions", beta=2.0))
    data = file_of(Table("Model", subgraphs=[Table("SubGraph", operators=[made])]))
    place = "subgraphs[0].operators[0].builtin_options"
    first = with_options(data, "SoftmaxOptions", "beta", 3.0)
    assert difference(data, first) == {f"{place}.beta": (2.0, 3.0)}
    assert (
        with_options(data, "SoftmaxOptions", "beta", 2.0)
        == with_options(first, "SoftmaxOptions", "beta", 2.0)
        == data
    )
    other = with_options(data, "LeakyReluOptions", "alpha", 2.0)  # the same bytes with another meaning
    assert difference(data, other)[f"{place}.alpha"] == (None, 2.0)
    assert with_options(other, "SoftmaxOptions", "beta", 2.0) == data


def test_the_length_is_a_multiple_that_suits_the_size() -> None:
    sizes = {
        1000: 64,
        (16 << 20) - 1: 64,
        16 << 20: 4096,
        (512 << 20) - 1: 4096,
        512 << 20: 1 << 20,
        1 << 40: 1 << 20,
    }
    for (size, alignment), again in product(sizes.items(), (False, True)):
        overlay = overlay_of(edited(PLAIN, description="b" * 500) if again else PLAIN)
        overlay.root.set("description", "a" * 100)
        end = overlay.wire.size
        overlay.wire.size = size + overlay.base  # the rest of the file is not looked at
        prefix = written(overlay, end)
        assert len(prefix) == max(alignment, 192)
        assert (prefix[8:16], int.from_bytes(prefix[16:24], "little")) == (MARKER, len(prefix))


def test_near_2_gib_the_prefix_is_as_long_as_there_is_room() -> None:
    for again in (False, True):
        overlay = overlay_of(edited(PLAIN, description="b" * 500) if again else PLAIN)
        overlay.root.set("description", "a" * 100)
        overlay.wire.size = 4 << 30
        most = MAX_FLATBUFFER_BYTES + overlay.base
        for room in (1 << 20, 4096, 192):
            assert len(written(overlay, most - room)) == room
        for room, length in (((1 << 20) - 1, 4096), (4095, 192)):
            assert len(written(overlay, most - room)) == length
        with pytest.raises(EditError, match="exceed 2 GiB"):
            written(overlay, most - 191)


def test_positions_in_the_file_are_moved_once_its_length_is_known() -> None:
    data = file_of(Table("Model", buffers=[Table("Buffer"), Table("Buffer", offset=1000, size=5)]))
    for name, moved in (("size", True), ("data", True)):
        overlay = overlay_of(data)
        assert not overlay.moves
        buffers = overlay.references(overlay.root, "buffers")
        overlay.element(buffers, "Buffer", 1).set(name, b"\7" * 8)
        assert overlay.moves
        prefix = written(overlay)
        found = walk(*wire_of(prefix + data)[:2]).tables["Buffer"].scalars("offset").tolist()
        assert sorted(found) == [0, 1000 + len(prefix) * moved]


def test_a_prefix_has_the_size_in_its_marker() -> None:
    first = edited(PLAIN, description="other")
    base = len(first) - len(PLAIN)
    wire, schema, _ = wire_of(first)
    assert find_base(wire, schema) == base
    assert find_base(wire_of(PLAIN)[0], schema) == 0
    assert find_base(Wire(first[:8] + b"X" + first[9:]), schema) == 0
    for wrong in (0, base - 64, base + 1, base + 64, len(first) // 64 * 64, 1 << 63):
        assert find_base(Wire(first[:16] + wrong.to_bytes(8, "little") + first[24:]), schema) == 0
    assert find_base(Wire(first[: base + 7]), schema) == 0
    assert first[24:32] == bytes(8)  # padding, which does not belong to the length
    assert find_base(Wire(first[:24] + b"\xff" * 8 + first[32:]), schema) == base
    other = first[: base + 4] + b"TFL4" + first[base + 8 :]
    assert find_base(Wire(other), schema) == 0


def test_all_of_a_prefix_is_aligned() -> None:
    overlay = overlay_of(PLAIN)
    buffers = overlay.references(overlay.root, "buffers")
    for size in range(1, 40):
        table = NewTable(overlay.schema.tables["Buffer"])
        table.set("data", bytes([size]) * size)
        buffers.append(table)
    prefix = written(overlay)
    found = [one for one in objects(prefix + PLAIN) if one.start < len(prefix)]
    assert len([one for one in found if one.kind == "bytes"]) == 39
    for one in found:
        if one.kind == "bytes":
            assert (one.start + 4) % one.alignment == 0
    assert len(prefix) % 64 == 0


@pytest.mark.parametrize("length", [16, 20, 24, 28, 3000])
def test_unknown_fields_keep_their_alignment(length: int) -> None:
    """A field of any length, at any place past a multiple of 16, in a table that is rewritten."""
    for at, offset in product((76, 80, 84, 88), (4, 5, 6, 7)):
        vtable = pack("<HH", 4 + 2 * 31, offset + length) + bytes(2 * 30) + pack("<H", offset)
        head = pack("<I4s", at, b"TFL3") + vtable
        field = b"\xff" * 8 + bytes(at % 7 + 1 for at in range(length - 8))
        data = head.ljust(at, b"\0") + pack("<i", at - 8) + bytes(offset - 4) + field
        text = "d" * (at // 4 % 4 + 1)
        after = edited(data, description=text)
        root = u32(after, 0)
        assert root < len(after) - len(data)
        place = field_at(after, root, 30)
        assert place % 16 == (at + offset) % 16
        assert after[place : place + length] == field
        assert overlay_of(after).text(overlay_of(after).root, "description") == text.encode()


def test_several_fields_that_no_schema_knows_keep_their_places() -> None:
    raw = Raw()
    raw.builder.StartObject(40)
    for slot, value in ((33, 7), (0, 3), (31, 8), (38, 9)):
        raw.builder.PrependUint32Slot(slot, value, 0)
    data = raw.finish(int(raw.builder.EndObject()))
    after = edited(data, description="new")
    for slot, value in ((33, 7), (0, 3), (31, 8), (38, 9)):
        assert u32(after, field_at(after, u32(after, 0), slot)) == value


def test_values_out_of_a_field_s_range_are_refused() -> None:
    overlay = overlay_of(PLAIN)
    for name, value in (
        *(("version", number) for number in (1 << 32, -1, 1.5, 1 << 70)),
        *(("metadata_buffer", [number]) for number in (1 << 31, 1.5, 1 << 70)),
        ("metadata_buffer", np.array([1, 1 << 40])),
        ("description", "\ud800"),
    ):
        with pytest.raises(UsageError, match=f"Model.{name} cannot hold this"):
            overlay.root.set(name, value)
    overlay.root.set("version", (1 << 32) - 1)
    assert overlay.root["version"] == b"\xff" * 4
    overlay.root.set("metadata_buffer", [])
    assert overlay.root["metadata_buffer"] == b""
    overlay.root.set("metadata_buffer", [1, 2])
    assert overlay.root["metadata_buffer"] == b"\1\0\0\0\2\0\0\0"
    overlay.root.set("description", "caf\udce9")
    assert overlay.text(overlay.root, "description") == b"caf\xe9"


def test_fields_are_shared_between_tables() -> None:
    overlay = overlay_of(PLAIN)
    other = NewTable(overlay.schema.tables["Model"])
    other.set("metadata_buffer", [1])
    other.share("description", overlay.root)
    assert other["description"] == overlay.root["description"]
    assert overlay.text(other, "description") == b"text"
    other.share("metadata_buffer", overlay.root)
    assert other["metadata_buffer"] is None
    assert overlay.text(NewTable(overlay.schema.tables["Model"]), "description") == b""


def test_the_same_table_opens_as_one() -> None:
    overlay = overlay_of(PLAIN)
    (first, _) = overlay.references(overlay.root, "buffers")
    assert isinstance(first, int)
    assert overlay.open("Buffer", first) is overlay.open("Buffer", first)
    assert overlay.copy("Buffer", first) is not overlay.open("Buffer", first)
    absent = overlay.references(overlay.root, "buffers")
    assert overlay.references(overlay.root, "buffers") is absent


def test_an_unknown_member_of_a_union_in_an_old_prefix_is_refused() -> None:
    raw = Raw()
    operator = raw.table({3: ("u8", 250), 4: raw.table()})
    data = raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([operator])})])}))
    first = edited(data, description="new")
    overlay = overlay_of(first)
    graph = overlay.element(overlay.references(overlay.root, "subgraphs"), "SubGraph", 0)
    made = overlay.element(overlay.references(graph, "operators"), "Operator", 0)
    made.fields[4] = NewTable(overlay.schema.tables["AddOptions"])
    with pytest.raises(EditError, match=r"Operator.builtin_options has the unknown union code 250"):
        overlay.settle()


def test_positions_in_vectors_are_moved_by_their_bytes() -> None:
    graph = Table("SubGraph", operators=[Table("Operator", custom_options=b"place")])
    data = file_of(Table("Model", subgraphs=[graph]))
    overlay = overlay_of(data, {("Operator", "custom_options"): lambda raw, _by: raw.upper()})
    opened = overlay.element(overlay.references(overlay.root, "subgraphs"), "SubGraph", 0)
    operator = overlay.element(overlay.references(opened, "operators"), "Operator", 0)
    assert operator["custom_options"] == b"PLACE"
