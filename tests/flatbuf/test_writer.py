"""Objects of one flatbuffer written into another: all that is named, once, aligned, with what is replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf import writer as module
from circletools.flatbuf.columns import Tables
from circletools.flatbuf.tables import FileOffsets, NewTable, OldTables, Value
from circletools.flatbuf.verify import walk
from circletools.flatbuf.writer import Chunk, Writer
from circletools.model.external import FILE_OFFSETS
from circletools.model.model import open_model
from tests.kit.build import Build, Raw, Shared, Table
from tests.kit.every_field import SOME, difference, every_field
from tests.kit.objects import file_of, objects, wire_of
from tests.kit.support import bytes_of, entry_at, put, put_u32, u32

every_field = cache(every_field)


@pytest.fixture(params=[1, module._MANY], autouse=True)
def _many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", request.param)


def chunks_of(
    data: bytes, fields: Mapping[str, Value | None] | None = None, offsets: FileOffsets | None = None, moved: int = 0
) -> list[Chunk]:
    """Return the pieces of the file with fields of the root replaced; with `offsets`, equal data is stored once."""
    wire, schema, root = wire_of(data)
    old = OldTables(wire, schema)
    table = old.copy("Model", root)
    table.update(fields or {})
    return Writer(old, offsets, moved, minimal=offsets is not None).write(table)


def joined(data: bytes, parts: list[Chunk]) -> bytes:
    return b"".join(part if isinstance(part, bytes) else data[slice(*part)] for part in parts)


def copied(data: bytes, fields: Mapping[str, Value | None] | None = None) -> bytes:
    return joined(data, chunks_of(data, fields))


def compacted(data: bytes, offsets: FileOffsets | None = None, moved: int = 0) -> bytes:
    return joined(data, chunks_of(data, None, offsets or {}, moved))


def tables_of(data: bytes, name: str) -> Tables:
    wire, schema, _ = wire_of(data)
    return walk(wire, schema).tables[name]


def altered(data: bytes, name: str, row: int = 0, /, **fields: Value | None) -> NewTable:
    """Return a table of the file with fields replaced; row -1 is none of the file."""
    wire, schema, _ = wire_of(data)
    at = int(tables_of(data, name).at[row]) if row >= 0 else 0
    table = OldTables(wire, schema).copy(name, at) if at else NewTable(schema.tables[name])
    table.update(fields)
    return table


def sound(data: bytes, alignment: int = 16) -> Iterator[tuple[str, bytes]]:
    """Check where the objects of a file lie and that its length is aligned; yield kind and bytes of each."""
    found = objects(data)
    for one in found:
        assert (one.start + 4 if one.kind in ("vector", "bytes") else one.start) % one.alignment == 0, one
        assert one.start % (2 if one.kind == "vtable" else 4) == 0, one
        yield one.kind, data[one.start : one.end]
    for before, after in pairwise(found):
        if before[:2] == after[:2]:
            continue  # empty vectors of two kinds
        assert before.end <= after.start
        assert not any(data[before.end : after.start])
        assert after.start - before.end < 16
    assert 8 <= found[0].start < 8 + 16
    assert len(data) - found[-1].end < alignment
    assert len(data) % alignment == 0


@pytest.mark.parametrize("name", ["circle", "tflite"])
def test_every_field_of_every_table_is_copied(name: str) -> None:
    data = every_field(name)
    after = copied(data)
    assert {path for path in difference(data, after) if not path.endswith("offset")} == set()
    assert list(sound(after))


@pytest.mark.parametrize("name", SOME)
def test_a_copy_is_sound_and_equal_and_copied_to_itself(name: str) -> None:
    data = bytes_of(name)
    after = copied(data)
    contents = list(sound(after))
    small = [one for one in contents if one[0] == "vtable" or (one[0] in ("string", "bytes") and len(one[1]) < 60)]
    assert len(set(small)) == len(small)
    assert {path for path in difference(data, after) if not path.endswith("offset")} == set()
    assert copied(after) == after
    least = compacted(data)
    once = [one for one in sound(least, 4) if one[0] in ("vtable", "string", "bytes")]
    assert len(set(once)) == len(once)
    assert compacted(least) == compacted(after) == least


def model() -> bytes:
    tensors = [
        Table("Tensor", name="abc", shape=[1, 2, 3], buffer=1, is_variable=True),
        Table("Tensor", name="abcdefgh", buffer=2),
        Table("Tensor", name="abc", quantization=Table("QuantizationParameters", zero_point=[5], scale=[0.5])),
    ]
    operators = [Table("Operator", inputs=[0, 1], outputs=[2], builtin_options=Table("SoftmaxOptions", beta=2.0))]
    buffers = [Table("Buffer"), *(Table("Buffer", data=bytes([size]) * size) for size in (16, 9, 3, 20))]
    graph = Table("SubGraph", tensors=tensors, operators=operators, inputs=[0])
    return file_of(Table("Model", version=3, subgraphs=[graph], buffers=buffers, description="a text"))


# --- what is replaced ---------------------------------------------------------------------------------------


def test_fields_that_a_table_has_are_replaced_in_its_form() -> None:
    data = model()
    tensor = altered(data, "Tensor", 0, name=b"new", buffer=b"\x07\0\0\0")
    graph = altered(data, "SubGraph", 0, tensors=[tensor, tensor])
    after = copied(data, {"description": b"other", "subgraphs": [graph]})
    assert list(sound(after))
    row = int(tables_of(data, "Tensor").at[0])
    found = difference(data, after)
    assert found["description"] == (b"a text", b"other")
    assert found["subgraphs[0].tensors"] == (3, 2)
    assert ("subgraphs[0].inputs" in found, "version" in found, row > 0) == (False, False, True)
    tensors = tables_of(after, "Tensor")
    assert tensors.strings("name").count(b"new") == len(tensors) - 0
    assert set(tensors.scalars("buffer").tolist()) == {7}


def test_fields_that_a_table_lacks_are_added_and_others_left_out() -> None:
    data = model()
    after = copied(data, {"description": None, "metadata_buffer": b"\1\0\0\0\2\0\0\0"})
    assert list(sound(after))
    assert difference(data, after) == {"description": (b"a text", None), "metadata_buffer": (None, [1, 2])}


@pytest.mark.parametrize(
    ("value", "written"), [(None, False), (b"\0\0\0\0", False), (b"\1\0\0\0", True)], ids=["none", "default", "other"]
)
def test_a_default_is_not_written_where_there_was_none(value: bytes | None, written: bool) -> None:
    data = file_of(Table("Model", description="text"))
    after = copied(data, {"version": value})
    assert difference(data, after) == ({"version": (None, 1)} if written else {})
    assert (after == copied(data)) != written


def test_a_default_replaces_what_is_written() -> None:
    assert difference(model(), copied(model(), {"version": b"\0\0\0\0"})) == {"version": (3, 0)}


def test_an_operator_in_a_new_form_keeps_its_options() -> None:
    data = model()
    operator = altered(data, "Operator", 0, custom_options=b"options")
    after = copied(data, {"subgraphs": [altered(data, "SubGraph", 0, operators=[operator])]})
    place = "subgraphs[0].operators[0].custom_options"
    assert difference(data, after) == {place: (None, list(b"options"))}
    replaced = altered(data, "SoftmaxOptions", 0, beta=b"\0\0\0\x3f")
    operator = altered(data, "Operator", 0, builtin_options=replaced, custom_options=b"options")
    after = copied(data, {"subgraphs": [altered(data, "SubGraph", 0, operators=[operator])]})
    assert difference(data, after)["subgraphs[0].operators[0].builtin_options.beta"] == (2.0, 0.5)


def test_what_is_named_twice_is_copied_once() -> None:
    shared = Shared([1] * 40)
    tensor = Table("Tensor", name="n" * 99, shape=shared, shape_signature=shared)
    graph = Table("SubGraph", tensors=[tensor, tensor, Table("Tensor", shape=shared)], inputs=[0])
    data = file_of(Table("Model", subgraphs=[graph, graph]))
    for file in (data, copied(data)):
        kinds = [one.kind for one in objects(file)]
        assert {kind: kinds.count(kind) for kind in ("SubGraph", "Tensor", "string")} == {
            "SubGraph": 1, "Tensor": 2, "string": 1
        }  # fmt: skip
        assert [one.end - one.start for one in objects(file)].count(164) == 1


def test_equal_data_is_stored_once_while_it_is_small() -> None:
    for size, times in ((64, 1), (65, 2)):
        values = [Table("Buffer", data=b"x" * size), Table("Buffer", data=b"x" * size)]
        data = file_of(Table("Model", buffers=[Table("Buffer"), *values]))
        assert [one.kind for one in objects(copied(data))].count("bytes") == times
        new: list[int | NewTable] = [altered(data, "Buffer", -1, data=b"y" * size) for _ in range(2)]
        assert [one.kind for one in objects(copied(data, {"buffers": new}))].count("bytes") == times
        long = [Table("Tensor", name="n" * (size - 1)) for _ in range(2)]
        data = file_of(Table("Model", subgraphs=[Table("SubGraph", tensors=long)]))
        assert [one.kind for one in objects(copied(data))].count("string") == times


# --- pieces and limits --------------------------------------------------------------------------------------


def test_long_data_is_a_range_of_the_old_file() -> None:
    for kind, streamed in product(("bytes", "string", "vector"), (False, True)):
        size = (1 << 16) + (4 if kind == "vector" else 1) * streamed
        value = b"0123456789abcde" * (size // 15) + b"X" * (size % 15)
        if kind == "bytes":
            buffers = [Table("Buffer", data=value), Table("Buffer", data=b"end")]
            root = Table("Model", description="text", buffers=buffers)
        elif kind == "string":
            root = Table("Model", description=value.decode(), metadata_buffer=[1, 2, 3])
        else:
            value = b"\1\0\0\0" * (size // 4)
            root = Table("Model", metadata_buffer=[1] * (size // 4), description="te")
        data = file_of(root)
        parts = chunks_of(data)
        start = data.index(value)
        assert [part for part in parts if isinstance(part, tuple)] == [(start, start + size)] * streamed
        assert difference(data, copied(data)) == {}
        assert list(sound(copied(data)))
        assert all(isinstance(one, bytes) != isinstance(other, bytes) for one, other in pairwise(parts))


def overlapping(count: int) -> bytes:
    """Buffers whose vectors start one word after the other and share all that follows."""
    raw = Raw()
    raw.ints([4 * count] * (2 * count))
    area = raw.builder.Offset()
    tables = []
    for index in range(count):
        raw.builder.StartObject(1)
        raw.builder.PrependUOffsetTRelativeSlot(0, area - 4 * index, 0)
        tables.append(int(raw.builder.EndObject()))
    return raw.finish(raw.table({4: raw.refs(tables)}))


def test_data_of_buffers_that_overlaps_counts_with_all_that_a_file_describes() -> None:
    data = overlapping(300)
    assert len(copied(data)) > 300 * 1200
    assert len(open_model(data).root) == 1
    with pytest.raises(ModelFormatError, match="all uses of the file's objects"):
        _ = open_model(overlapping(3000)).root


# --- refused ------------------------------------------------------------------------------------------------


def test_a_field_beyond_the_schema_is_refused() -> None:
    data = file_of(Table("Model", version=3, buffers=[Table("Buffer")]), unknown={"Buffer": (30, b"new")})
    with pytest.raises(EditError, match=r"Buffer at byte .* has a field that the tflite schema does not know"):
        copied(data)
    assert difference(data, copied(data, {"buffers": []})) == {
        "buffers": (1, 0), "buffers[0]": ("Buffer", None), "buffers[0].slot 30": (b"new", None)
    }  # fmt: skip


@pytest.mark.parametrize("code", [0, 255])
def test_an_unknown_member_of_a_union_is_refused(code: int) -> None:
    raw = Raw()
    operator = raw.table({3: ("u8", code), 4: raw.table()})
    data = raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([operator])})])}))
    with pytest.raises(EditError, match=f"builtin_options has the unknown union code {code}"):
        copied(data)


def test_a_union_without_its_code_is_refused() -> None:
    raw = Raw()
    operator = raw.table({4: raw.table()})
    data = raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([operator])})])}))
    with pytest.raises(EditError, match="builtin_options has the unknown union code 0"):
        copied(data)


# --- deprecated fields, which the walk does not look at -----------------------------------------------------


def tagged() -> bytes:
    """A signature with a tag."""
    raw = Raw()
    return raw.finish(raw.table({7: raw.refs([raw.table({3: raw.string(b"tag")})])}))


def test_a_deprecated_text_is_carried() -> None:
    assert difference(tagged(), copied(tagged())) == {}


def test_a_deprecated_text_outside_the_file_is_refused() -> None:
    data = tagged() + bytes(8)
    at = next(one.start for one in objects(data) if one.kind == "SignatureDef") + 4
    for reference in (len(data) - at - 3, len(data) - at, 1 << 30):
        with pytest.raises(ModelFormatError, match="outside the file"):
            copied(put_u32(data, at, reference))
    assert copied(put_u32(data, at, len(data) - at - 4))
    text = at + u32(data, at)
    room = len(data) - text - 4
    assert copied(put_u32(data, text, room))
    with pytest.raises(ModelFormatError, match="outside the file"):
        copied(put_u32(data, text, room + 1))
    last = put_u32(data, at, len(data) - at - 4)
    with pytest.raises(ModelFormatError, match="outside the file"):
        copied(put_u32(last, len(data) - 4, 1))


def test_a_deprecated_field_outside_the_file_is_refused() -> None:
    data = tagged()
    table = next(one.start for one in objects(data) if one.kind == "SignatureDef")
    entry = entry_at(data, table, 3)
    for offset in (len(data) - table - 3, 60_000):
        with pytest.raises(ModelFormatError, match=r"SignatureDef\.deprecated_tag lies outside the file"):
            copied(put(data, entry, offset.to_bytes(2, "little")))


def test_more_than_2_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes_of("circle/mlp")
    monkeypatch.setattr(module, "MAX_FLATBUFFER_BYTES", len(compacted(data)))
    compacted(data)
    monkeypatch.setattr(module, "MAX_FLATBUFFER_BYTES", len(compacted(data)) - 1)
    with pytest.raises(EditError, match="exceed 2 GiB"):
        compacted(data)


# --- equal data and positions in the file -------------------------------------------------------------------


def with_data(*values: bytes) -> bytes:
    return file_of(Table("Model", buffers=[Table("Buffer"), *(Table("Buffer", data=value) for value in values)]))


def test_equal_data_is_stored_once_and_other_data_for_itself() -> None:
    for size in (1, 63, 64, 65, 66, 1000):
        one, other = bytes(size), bytes(size - 1) + b"\1"
        data = with_data(one, other, one, other)
        small = compacted(data)
        assert difference(data, small) == {}
        assert [small[each.start + 4 : each.end] for each in objects(small) if each.kind == "bytes"] == [one, other]


def test_positions_in_the_file_are_moved() -> None:
    for moved in (0, 8, -16):
        build = Build()
        build.graph()
        for offset in (0, 1, 1000, 2000):
            build.buffer(offset=offset, size=5)
        data = build.to_bytes("circle")
        wire, schema, _ = wire_of(compacted(data, FILE_OFFSETS, moved))
        buffers = walk(wire, schema).tables["Buffer"]
        assert sorted(buffers.scalars("offset").tolist()) == [0, 0, 1, 1000 + moved, 2000 + moved]
        assert np.count_nonzero(buffers.scalars("size")) == 4


def test_positions_in_options_are_moved() -> None:
    """The functions get the bytes of the field, and what they return is written."""
    seen: list[tuple[bytes, int]] = []

    def move(raw: bytes, by: int) -> bytes | None:
        seen.append((raw, by))
        return raw.upper() if raw.startswith(b"p") else None

    operators = [Table("Operator", custom_options=value) for value in (b"plain", b"place", b"other", b"place")]
    data = file_of(Table("Model", subgraphs=[Table("SubGraph", operators=operators)]))
    wire, schema, _ = wire_of(compacted(data, {("Operator", "custom_options"): move}, 7))
    found = walk(wire, schema).tables["Operator"].strings("custom_options")
    assert sorted(found) == [b"PLACE", b"PLACE", b"PLAIN", b"other"]
    assert sorted(seen) == [(b"other", 7), (b"place", 7), (b"place", 7), (b"plain", 7)]
