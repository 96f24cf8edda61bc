"""The minimal flatbuffer: what it says, where everything lies in it, and what it refuses."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from circletools.errors import EditError
from circletools.flatbuf import compact as module
from circletools.flatbuf.compact import Chunk, compact, is_known
from circletools.flatbuf.layout import align
from circletools.flatbuf.overlay import FileOffsets
from circletools.flatbuf.verify import walk
from circletools.model.external import FILE_OFFSETS
from tests.kit.build import Build, Raw, Table
from tests.kit.every_field import SOME, difference, every_field
from tests.kit.objects import Object, file_of, objects, wire_of
from tests.kit.support import bytes_of

every_field = cache(every_field)
FORMATS = ("circle", "tflite")
EMPTY = ("shape", "shape_signature", "shape")  # vectors of a tensor that may be empty


def chunks_of(data: bytes, offsets: FileOffsets = FILE_OFFSETS, moved: int = 0) -> list[Chunk]:
    wire, schema, _ = wire_of(data)
    return list(compact(wire, schema, walk(wire, schema), offsets, moved))


def compacted(data: bytes, offsets: FileOffsets | None = None, moved: int = 0) -> bytes:
    parts = chunks_of(data, offsets or {}, moved)
    return b"".join(part if isinstance(part, bytes) else data[slice(*part)] for part in parts)


# --- all of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_every_table_is_there(name: str) -> None:
    data = every_field(name)
    small = compacted(data)
    assert len(small) < len(data)
    assert {path for path in difference(data, small) if not path.endswith("offset")} == set()
    assert compacted(small) == small


def aligned(found: list[Object]) -> None:
    for one in found:
        place = one.start + 4 if one.kind in ("vector", "bytes") else one.start
        assert place % one.alignment == 0, one
        assert one.start % (2 if one.kind == "vtable" else 4) == 0, one


@pytest.mark.parametrize("name", SOME)
def test_all_is_aligned_stands_once_and_leaves_small_gaps_of_zeros(name: str) -> None:
    small = compacted(bytes_of(name))
    found = objects(small)
    aligned(found)
    assert found[0].start == 8
    for before, after in pairwise(found):
        assert 0 <= after.start - before.end < 16
        assert small[before.end : after.start] == bytes(after.start - before.end)
    assert found[-1].end == len(small)
    for kind in ("vtable", "string", "bytes"):
        contents = [small[one.start : one.end] for one in found if one.kind == kind]
        assert len(set(contents)) == len(contents)


@pytest.mark.parametrize("name", SOME)
def test_the_order_does_not_depend_on_the_old_file(name: str) -> None:
    small = compacted(bytes_of(name))
    assert compacted(small) == small
    prefixed = small[:4] + small[4:8]
    moved = (int.from_bytes(small[:4], "little") + 64).to_bytes(4, "little") + small[4:8] + bytes(56) + prefixed
    assert compacted(moved + small[8:]) == small


# --- exactly ------------------------------------------------------------------------------------------------


def layout(*tensors: Table, data: tuple[int, ...]) -> list[str]:
    """Return kind, start and size of each object of a model with byte vectors of these sizes."""
    buffers = [Table("Buffer"), *(Table("Buffer", data=bytes([size]) * size) for size in data)]
    root = Table(
        "Model", version=3, subgraphs=[Table("SubGraph", tensors=list(tensors), inputs=[0])], buffers=buffers
    )
    small = compacted(file_of(root))
    aligned(objects(small))
    return [f"{one.kind} {one.start} {one.end - one.start}" for one in objects(small)]


# --- what is equal stands once ------------------------------------------------------------------------------


def with_data(*values: bytes) -> bytes:
    return file_of(Table("Model", buffers=[Table("Buffer"), *(Table("Buffer", data=value) for value in values)]))


def test_equal_data_stands_once_and_other_data_for_itself() -> None:
    for size in (1, 63, 64, 65, 66, 1000):
        one, other = bytes(size), bytes(size - 1) + b"\1"
        data = with_data(one, other, one, other)
        small = compacted(data)
        assert difference(data, small) == {}
        assert [small[each.start + 4 : each.end] for each in objects(small) if each.kind == "bytes"] == [one, other]


def test_a_vector_and_a_string_of_the_same_bytes_both_stand() -> None:
    data = file_of(Table("Model", description="abcd", buffers=[Table("Buffer", data=b"abcd")]))
    assert [one.kind for one in objects(compacted(data))][-2:] == ["string", "bytes"]


# --- pieces and limits --------------------------------------------------------------------------------------


def test_long_data_is_a_range_of_the_old_file() -> None:
    for size, streamed in ((1 << 16, False), ((1 << 16) + 1, True)):
        value = bytes(range(1, 251)) * (size // 250) + b"\xff" * (size % 250)
        data = with_data(b"before", value, b"behind" * 9)
        ranges = [part for part in chunks_of(data) if isinstance(part, tuple)]
        assert ranges == ([(data.index(value), data.index(value) + size)] if streamed else [])
        assert difference(data, compacted(data)) == {}
        aligned(objects(compacted(data)))


def test_more_than_2_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes_of("circle/mlp")
    monkeypatch.setattr(module, "MAX_FLATBUFFER_BYTES", len(compacted(data)))
    compacted(data)
    monkeypatch.setattr(module, "MAX_FLATBUFFER_BYTES", len(compacted(data)) - 1)
    with pytest.raises(EditError, match="exceed 2 GiB"):
        compacted(data)


@pytest.mark.parametrize("texts", [("a" * 20, "b" * 30), ("a" * 30, "b" * 20), ("a" * 20, "b"), ("a", "b" * 30)])
def test_the_limit_is_where_the_last_one_ends(texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_of(Table("Model", description=texts[0], subgraphs=[Table("SubGraph", name=texts[1])]))
    size = len(compacted(data))
    assert size == objects(compacted(data))[-1].end
    for most, good in ((size, True), (size + 40, True), (size - 1, False), (size - 40, False)):
        monkeypatch.setattr(module, "MAX_FLATBUFFER_BYTES", most)
        if good:
            assert len(compacted(data)) == size
        else:
            with pytest.raises(EditError, match="exceed 2 GiB"):
                compacted(data)


@pytest.mark.parametrize("sizes", [(0, 0, 0), (3, 3, 3), (7, 7, 7), (0, 3, 7), (0, 0, 3, 3), (11, 7, 0)])
def test_no_gap_is_left_that_something_short_behind_it_would_fill(sizes: tuple[int, ...]) -> None:
    """An empty vector takes 4 bytes, a string of 3 letters 8, one of 7 letters 12."""
    for lengths in ((16, 17, 18), (16, 20, 24), (28, 16, 20), (19, 23, 27)):
        tensors = [
            Table("Tensor", name=f"{number}" * size) if size else Table("Tensor", **{EMPTY[number]: []})
            for number, size in enumerate(sizes)
        ]
        buffers = [Table("Buffer", data=bytes([size]) * size) for size in lengths]
        data = file_of(Table("Model", subgraphs=[Table("SubGraph", tensors=tensors)], buffers=buffers))
        small = compacted(data)
        found = objects(small)
        aligned(found)
        assert difference(data, small) == {}
        last = max(one.start for one in found if one.alignment == 16)
        behind = [align(one.end - one.start, 4) for one in found if one.start > last]
        for before, after in pairwise(found):
            room = after.start - align(before.end, 4)
            assert not [size for size in behind if size <= room], (lengths, before, after)


# --- refused ------------------------------------------------------------------------------------------------


def test_a_field_or_a_member_of_a_union_beyond_the_schema_is_not_known() -> None:
    def known(data: bytes) -> bool:
        wire, schema, _ = wire_of(data)
        return is_known(schema, walk(wire, schema))

    model = Table("Model", version=3, buffers=[Table("Buffer")])
    assert known(file_of(model))
    assert not known(file_of(model, unknown={"Buffer": (30, b"new")}))
    for code in (0, 1, 255):
        raw = Raw()
        operator = raw.table({3: ("u8", code), **({4: raw.table()} if code else {})})
        subgraph = raw.table({3: raw.refs([operator])})
        assert known(raw.finish(raw.table({2: raw.refs([subgraph])}))) == (code < 255)


def test_an_unknown_member_of_a_union_is_refused() -> None:
    raw = Raw()
    operator = raw.table({3: ("u8", 255), 4: raw.table()})
    data = raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([operator])})])}))
    with pytest.raises(EditError, match=r"Operator.builtin_options has the unknown union code 255"):
        compacted(data)


# --- positions in the file ----------------------------------------------------------------------------------


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


def test_short_ones_fill_the_gaps_in_front_of_aligned_ones() -> None:
    names = ("", "ab", "abcd", "abcdef", "abcdefghij", "b", "bcdef", "bcdefghijk")
    found = layout(*(Table("Tensor", name=name) for name in names), data=(16, 17, 20, 24, 28, 32, 8, 12, 7, 4, 5))
    assert found[-20:] == [
        *("bytes 332 20", "string 352 10", "bytes 364 21", "string 388 6", "bytes 396 24"),
        *("string 420 7", "bytes 428 28", "bytes 460 32", "bytes 492 36", "bytes 532 12"),
        *("bytes 548 16", "string 564 15", "string 580 15", "vector 596 8", "bytes 604 8"),
        *("string 612 5", "bytes 620 11", "bytes 632 9", "string 644 9", "string 656 11"),
    ]  # fmt: skip


def test_where_everything_goes() -> None:
    """Users before used, tables with the same fields together, then aligned vectors with short ones between."""
    found = layout(
        Table("Tensor", name="abc", shape=[1], buffer=1),
        Table("Tensor", name="abcdefgh"),
        Table("Tensor", name="x", shape=[1], buffer=2),
        Table("Tensor", name="abc", shape=[2, 3], buffer=3),
        data=(16, 9, 3, 20),
    )
    assert found == [
        *("vtable 8 14", "vtable 22 8", "vtable 30 4", "vtable 34 6", "vtable 40 12", "vtable 52 12"),
        *("Model 64 16", "vector 80 8", "vector 88 24", "SubGraph 112 12", "vector 124 20"),
        *("Buffer 144 4", "Buffer 148 8", "Buffer 156 8", "Buffer 164 8", "Buffer 172 8"),
        *("Tensor 180 8", "Tensor 188 16", "Tensor 204 16", "Tensor 220 16"),
        *("bytes 236 20", "vector 256 12", "bytes 268 24", "bytes 292 13", "string 308 13"),
        *("vector 324 8", "bytes 332 7", "vector 340 8", "string 348 8", "string 356 6"),
    ]  # fmt: skip
