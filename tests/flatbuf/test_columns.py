"""The columnar reader: values at any position, to the last byte, and nothing outside of the file."""

from __future__ import annotations

from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from circletools.errors import ModelFormatError
from circletools.flatbuf import columns
from circletools.flatbuf.columns import (
    REPEATED_BYTES,
    Tables,
    Vectors,
    Wire,
    row_numbers,
    too_large,
    unknown_slots,
    vectors_at,
)
from circletools.flatbuf.schema import TableType
from circletools.flatbuf.verify import walk
from tests.kit.build import Raw, Shared, Table
from tests.kit.objects import file_of, objects, wire_of

U1, U2, U4 = np.dtype("u1"), np.dtype("<u2"), np.dtype("<u4")
DATA = bytes(range(1, 12))


def places(*values: int) -> Any:
    return np.array(values, np.int64)


def test_values_are_read_at_every_position() -> None:
    dtypes: list[np.dtype[Any]] = [U1, U2, U4]
    for dtype, shift in product(dtypes, (0, 1)):
        wire = Wire(memoryview(bytes(shift) + DATA)[shift:])
        width = dtype.itemsize
        last = len(DATA) - width
        expected = [int.from_bytes(DATA[at : at + width], "little") for at in range(last + 1)]
        assert wire.gather(places(*range(last + 1)), dtype).tolist() == expected
        for at in range(last + 1):
            assert wire.one(at, dtype) == expected[at]
        assert wire.gather(places(0, 4, 0), dtype).tolist() == [expected[at] for at in (0, 4, 0)]  # all aligned
        for bad in (-1, last + 1, 1 << 40):
            with pytest.raises(ModelFormatError, match=f"a {width}-byte value lies outside the flatbuffer") as caught:
                wire.gather(places(0, bad, -5), dtype)
            assert caught.value.offset == bad
        with pytest.raises(ModelFormatError) as caught:
            wire.gather(places(last, last + 2), dtype)
        assert caught.value.offset == last + 2
        assert wire.gather(places(), dtype).tolist() == []


def test_values_end_at_the_limit_of_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    assert columns.MAX_FLATBUFFER_BYTES == 2**31 - 1
    monkeypatch.setattr(columns, "MAX_FLATBUFFER_BYTES", 9)
    wire = Wire(DATA)
    assert (wire.size, wire.limit) == (11, 9)
    assert (wire.one(5, U4), wire.one(8, U1)) == (0x09080706, 9)
    for at, dtype in ((6, U4), (8, U2), (9, U1)):
        with pytest.raises(ModelFormatError):
            wire.one(at, dtype)
    assert "2 GiB" in str(too_large())


def test_vectors_of_several_rows() -> None:
    data = b"\2\0\0\0" + b"\1\0\2\0" + b"\0\0\0\0" + b"\3\0\0\0" + b"\7\0\x08\0\x09\0"
    vectors = vectors_at(Wire(bytes(4) + data), places(16, 0, 12, 4, 16), U2)
    assert vectors.count.tolist() == [3, 0, 0, 2, 3]
    assert vectors.start.tolist() == [20, 0, 16, 8, 20]
    assert [vectors.row(row).tolist() for row in range(5)] == [[7, 8, 9], [], [], [1, 2], [7, 8, 9]]
    assert vectors.flat().tolist() == [7, 8, 9, 1, 2, 7, 8, 9]
    assert [vectors.rows_where(vectors.flat() == number).tolist() for number in (7, 9, 2, 3)] == [
        [0, 4],
        [0, 4],
        [3],
        [],
    ]
    assert vectors.splits().tolist() == [0, 3, 3, 3, 5, 8]
    assert vectors.element_positions().tolist() == [20, 22, 24, 8, 10, 20, 22, 24]


def test_a_vector_that_ends_outside_is_refused() -> None:
    for count, good in ((2, True), (3, False), (2**31, False), (2**32 - 1, False)):
        data = bytes(4) + bytes(4) + count.to_bytes(4, "little") + bytes(4)
        if good:
            assert vectors_at(Wire(data), places(4, 8), U2).count.tolist() == [0, 2]
        else:
            with pytest.raises(ModelFormatError, match="a vector ends outside the file") as caught:
                vectors_at(Wire(data), places(4, 8), U2)
            assert caught.value.offset == 8


def test_vectors_may_overlap_so_much() -> None:
    wire = Wire(bytes(1000))
    most = (3 * 1000 + REPEATED_BYTES) // 4

    def vectors(total: int) -> Vectors:
        return Vectors(wire, U4, np.zeros(2, np.int64), np.array([total - 1, 1]))

    vectors(most).check_total()
    with pytest.raises(ModelFormatError, match=f"vectors total {4 * most + 4} bytes"):
        vectors(most + 1).check_total()


def root_of(data: bytes, name: str = "Model") -> Tables:
    wire, schema, _ = wire_of(data)
    found = [one.start for one in objects(data) if one.kind == name]
    return Tables(wire, schema.tables[name], np.array(found, np.int64))


def test_fields_of_tables() -> None:
    schema = wire_of(file_of(Table("Model")))[1]
    tensors = [
        Table("Tensor", name="one", shape=[1, 2], buffer=5),
        Table("Tensor", quantization=Table("QuantizationParameters", quantized_dimension=3)),
        Table("Tensor", name="", has_rank=True),
    ]
    data = file_of(Table("Model", subgraphs=[Table("SubGraph"), Table("SubGraph", tensors=tensors)]))
    graphs = root_of(data).children("subgraphs", schema)[0]
    found, vectors = graphs.children("tensors", schema)
    assert (len(graphs), len(found), vectors.count.tolist()) == (2, 3, [0, 3])
    assert found.strings("name") == [b"one", b"", b""]
    assert found.scalars("buffer").tolist() == [5, 0, 0]
    assert graphs.scalars("debug_metadata_index").tolist() == [-1, -1]
    assert found.has("name").tolist() == [True, False, True]
    assert (found.targets("name") != 0).tolist() == [True, False, True]
    assert [found.vectors("shape").row(row).tolist() for row in range(3)] == [[1, 2], [], []]
    parameters, rows = found.child("quantization", schema)
    assert (parameters.scalars("quantized_dimension").tolist(), rows.tolist()) == ([3], [1])
    assert found.take(places(2, 0)).strings("name") == [b"", b"one"]
    assert found.take(slice(0, 1)).scalars("buffer").tolist() == [5]
    assert found.slot_positions(1000).tolist() == [0, 0, 0]
    described = walk(graphs.wire, schema).described
    assert (described["Tensor.shape"], described["Tensor.name"]) == (2 * 4, len("one"))


def test_members_of_a_union_are_those_with_a_table() -> None:
    operators = [
        Table("Operator", builtin_options_type=11),  # AddOptions, without a table
        Table("Operator", builtin_options=Table("AddOptions", fused_activation_function=1)),
        Table("Operator", builtin_options_type=21),  # MulOptions, which no operator has
        Table("Operator", builtin_options=Table("SubOptions", fused_activation_function=3)),
        Table("Operator", builtin_options=Table("AddOptions", fused_activation_function=2)),
    ]
    data = file_of(Table("Model", subgraphs=[Table("SubGraph", operators=operators)]))
    schema = wire_of(data)[1]
    assert [schema.unions["BuiltinOptions"][code] for code in (11, 21)] == ["AddOptions", "MulOptions"]
    found = root_of(data).children("subgraphs", schema)[0].children("operators", schema)[0]
    assert [
        (rows.tolist(), tables.type.name, tables.scalars("fused_activation_function").tolist())
        for rows, tables in found.members("builtin_options", schema)
    ] == [([1, 4], "AddOptions", [1, 2]), ([3], "SubOptions", [3])]


@given(st.lists(st.lists(st.integers(-1, 1), max_size=3)))
@example([[], []])
def test_rows_have_one_number_where_they_are_equal(rows: list[list[int]]) -> None:
    flat = np.array([*chain.from_iterable(rows)], np.int64)
    found = row_numbers(flat, places(*map(len, rows))).tolist()
    assert [found.index(number) for number in found] == [rows.index(row) for row in rows]
    assert sorted(set(found)) == list(range(len({*map(tuple, rows)})))


def test_the_last_field_of_a_vtable_is_read_and_none_behind_it() -> None:
    raw = Raw()
    data = raw.finish(raw.table({0: ("u32", 3)}))
    root = root_of(data)
    assert root.vtable_bytes.tolist() == [6]
    assert root.slot_positions(0).tolist() == [root.at[0] + 4]
    assert root.slot_positions(1).tolist() == [0]
    odd = bytearray(data)
    odd[int(root.vtable[0])] = 5  # half an entry is none
    assert Tables(Wire(odd), root.type, root.at).slot_positions(0).tolist() == [0]


def test_a_vtable_that_ends_outside_is_refused() -> None:
    wire, schema, root = wire_of(file_of(Table("Model")))
    vtable = root - int.from_bytes(bytes(wire.memory[root : root + 4]), "little", signed=True)
    for size, good in ((wire.size - vtable, True), (wire.size - vtable + 1, False)):
        data = bytearray(wire.memory)
        data[vtable : vtable + 2] = size.to_bytes(2, "little")
        if good:
            assert Tables(Wire(data), schema.tables["Model"], places(root)).vtable_bytes.tolist() == [size]
        else:
            with pytest.raises(ModelFormatError, match="the vtable of Model ends outside the file") as caught:
                Tables(Wire(data), schema.tables["Model"], places(root))
            assert caught.value.offset == root


def test_a_field_beyond_the_schema_is_seen() -> None:
    for slot in (0, 1, 2, 5):
        known = TableType("Two", 2, (), {}, {})
        raw = Raw()
        raw.table()
        data = raw.finish(raw.table({slot: ("u32", 3)}))
        root = int.from_bytes(data[:4], "little")
        assert unknown_slots(Tables(Wire(data), known, places(root, root))).tolist() == [slot >= 2] * 2
        raw = Raw()
        data = raw.finish(raw.table())
        assert unknown_slots(Tables(Wire(data), known, places(int.from_bytes(data[:4], "little")))).tolist() == [
            False
        ]
        assert unknown_slots(Tables(Wire(data), known, places())).tolist() == []


def test_a_field_beyond_the_schema_that_is_absent_is_none() -> None:
    known = TableType("Two", 2, (), {}, {})
    data = b"\x10\0\0\0" + b"\x0c\0\x04\0" + bytes(8) + b"\x0c\0\0\0"
    assert unknown_slots(Tables(Wire(data), known, places(16))).tolist() == [False]


def test_one_element_of_each_row() -> None:
    wire = Wire(np.arange(12, dtype="<u2").tobytes())
    vectors = Vectors(wire, np.dtype("<u2"), np.array([4, 0, 8, 22]), np.array([3, 0, 2, 1]))
    for at, expected in ((0, [2, None, 4, 11]), (1, [3, None, 5, None]), (2, [4, None, None, None]), (3, [None] * 4)):
        assert [None if np.isnan(one) else int(one) for one in vectors.element(at)] == expected
    for at, expected in ((-1, [4, None, 5, 11]), (-2, [3, None, 4, None]), (-3, [2, None, None, None])):
        assert [None if np.isnan(one) else int(one) for one in vectors.element(at)] == expected


def test_a_text_that_many_share_is_one_object() -> None:
    """Whether they come one after the other or not: a hundred thousand names of a megabyte need one."""
    shared = Shared("a text of some length")
    for order in ([shared] * 3, [shared, "other", shared]):
        data = file_of(Table("Model", buffers=[], metadata=[Table("Metadata", name=name) for name in order]))
        wire, schema, _ = wire_of(data)
        found = walk(wire, schema).tables["Metadata"].strings("name")
        at = [index for index, text in enumerate(found) if text == b"a text of some length"]
        assert len(at) == order.count(shared)
        assert all(found[index] is found[at[0]] for index in at)
