"""The walk at its limits: the last byte that may be used, the last table that may be visited, the way to a fault."""

from __future__ import annotations

import struct

import pytest

from circletools.errors import ModelFormatError
from circletools.flatbuf import verify
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.verify import check_header, walk
from tests.kit.build import Raw, Table
from tests.kit.objects import file_of, objects, wire_of
from tests.kit.support import put, put_u32, u32

SCHEMA = load_schema("tflite")
HEADER = b"\x10\0\0\0TFL3"  # the root table at 16


def refusal(data: bytes) -> tuple[str, str | None, int | None]:
    """Return message, location and offset of the error."""
    with pytest.raises(ModelFormatError) as caught:
        walk(Wire(data), SCHEMA)
    return caught.value.message.split(" at byte")[0], caught.value.location, caught.value.offset


def end_of(data: bytes) -> int:
    return walk(Wire(data), SCHEMA).end


# --- the header ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 64])
def test_the_header(start: int) -> None:
    def check(*head: int, cut: int = 20) -> int:
        return check_header(
            Wire(bytes(start) + (struct.pack("<I", *head) + b"TFL3" + bytes(20))[:cut]), SCHEMA, start
        )

    def offset(*head: int, cut: int = 20) -> tuple[int, str]:
        with pytest.raises(ModelFormatError) as caught:
            check(*head, cut=cut)
        assert caught.value.offset is not None
        return caught.value.offset - start, caught.value.message.split(" at byte")[0]

    assert [check(at) - start for at in (1, 8, 19)] == [1, 8, 19]
    assert check(7, cut=8) == start + 7
    for at in (0, 20, 1 << 31, (1 << 32) - 1):
        assert offset(at) == (0, "the root offset points outside the file")
    assert offset(1, cut=7) == (0, "the file is shorter than a flatbuffer's header")
    with pytest.raises(ModelFormatError, match="the file identifier is not TFL3") as caught:
        check_header(Wire(bytes(start) + HEADER[:7] + b"4" + bytes(20)), SCHEMA, start)
    assert caught.value.offset == start + 4


# --- tables and vtables -------------------------------------------------------------------------------------


def test_a_table_at_the_very_end() -> None:
    data = HEADER + b"\4\0\4\0" + bytes(4) + struct.pack("<i", 8)
    assert end_of(data) == 20
    for cut in (17, 18, 19):
        assert refusal(data[:cut]) == ("a table is misaligned or outside the file", None, 16)
    assert refusal(b"\x12" + data[1:] + bytes(4)) == ("a table is misaligned or outside the file", None, 18)


def test_a_vtable_at_the_very_end() -> None:
    def data(vtable: bytes, at: int = 20) -> bytes:
        return HEADER + bytes(8) + struct.pack("<i", 16 - at) + bytes(at - 20) + vtable

    for size in (0, 2):
        assert end_of(data(bytes([size, 0]))) == 22
    assert end_of(data(b"\4\0\4\0")) == 24
    assert refusal(data(b"\4\0")) == ("a vtable's size is odd or too large", None, 20)
    assert refusal(data(b"\3\0\4\0")) == ("a vtable's size is odd or too large", None, 20)
    assert refusal(data(b"\4\0\4\0", 21)) == ("a vtable is misaligned or outside the file", None, 21)
    assert refusal(data(b"\4")) == ("a vtable is misaligned or outside the file", None, 20)
    before = HEADER + bytes(8) + struct.pack("<i", 18)
    assert refusal(before) == ("a vtable is misaligned or outside the file", None, -2)


def with_field(slot: int, offset: int, *words: int) -> bytes:
    """A root table with one field, and words behind it."""
    vtable = struct.pack("<HH", 6 + 2 * slot, 8) + bytes(2 * slot) + struct.pack("<H", offset)
    vtable += bytes(-len(vtable) % 4)
    root = 8 + len(vtable)
    return struct.pack("<I", root) + b"TFL3" + vtable + struct.pack(f"<i{len(words)}I", len(vtable), *words)


def test_a_field_at_the_very_end() -> None:
    data = with_field(0, 4, 3)
    assert end_of(data) == len(data)
    shown = "a field is misaligned or outside the file", "version", len(data) - 4
    assert [refusal(data[:-cut]) for cut in (1, 2, 3)] == [shown] * 3
    assert refusal(with_field(0, 5, 3, 3))[0] == "a field is misaligned or outside the file"
    assert refusal(with_field(0, 8, 3))[::2] == ("a field is misaligned or outside the file", len(data))
    assert walk(Wire(with_field(0, 8, 3, 3)), SCHEMA).end == len(data) + 4


def test_references_and_vectors_at_the_very_end() -> None:
    data = with_field(5, 4, 4, 0)  # an empty metadata_buffer
    at = len(data) - 4
    assert end_of(data) == len(data)
    assert refusal(data[:-1]) == ("a vector is misaligned or outside the file", "metadata_buffer", at)
    assert refusal(data[:-4]) == ("a reference points outside the file", "metadata_buffer", at - 4)
    assert refusal(with_field(5, 4, 0, 0))[0] == "a reference points outside the file"
    assert refusal(with_field(5, 4, 6, 0, 0, 0)) == (
        "a vector is misaligned or outside the file", "metadata_buffer", at + 2
    )  # fmt: skip
    assert refusal(with_field(5, 4, 1 << 31, 0))[0] == "a reference points outside the file"
    full = with_field(5, 4, 4, 2, 1, 1)
    assert end_of(full) == len(full)
    assert refusal(full[:-1]) == ("a vector ends outside the file", "metadata_buffer", at)


def test_a_text_at_the_very_end() -> None:
    data = with_field(3, 4, 4, 3) + b"abc\0"
    at = len(data) - 8
    assert end_of(data) == len(data)
    assert refusal(data[:-1]) == ("a string ends outside the file", "description", at + 7)
    assert refusal(data[:-2]) == ("a vector ends outside the file", "description", at)
    assert refusal(data[:-1] + b"d") == ("a string has no NUL after it", "description", at + 7)


# --- how many tables ----------------------------------------------------------------------------------------


def shared() -> bytes:
    """A root, 3 times one subgraph with 4 times one tensor and 2 operators: 1 + 3 + 12 + 6."""
    raw = Raw()
    tensor = raw.table({2: ("u32", 0)})
    operators = [raw.table({0: ("u32", index)}) for index in range(2)]
    graph = raw.table({0: raw.refs([tensor] * 4), 3: raw.refs(operators)})
    return raw.finish(raw.table({2: raw.refs([graph] * 3)}))


def test_tables_count_once_for_each_reference() -> None:
    found = walk(Wire(shared()), SCHEMA)
    assert {name: len(tables) for name, tables in found.tables.items()} == {
        "Model": 1, "SubGraph": 1, "Tensor": 1, "Operator": 2
    }  # fmt: skip
    assert found.visits == 22


def test_vectors_that_share_their_elements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Raw()
    tensor = raw.table({2: ("u32", 0)})
    raw.refs([tensor] * 60)
    area, graphs = raw.builder.Offset(), []
    for index in range(40):  # each starts one word later, and uses the number there as its count
        raw.builder.StartObject(1)
        raw.builder.PrependUOffsetTRelativeSlot(0, area - 4 * index, 0)
        graphs.append(int(raw.builder.EndObject()))
    data = raw.finish(raw.table({2: raw.refs(graphs)}))
    total = sum(u32(data, len(data) - area + 4 * index) for index in range(40))
    data += bytes(2000)
    assert 4 * total > len(data)
    monkeypatch.setattr(verify, "MAX_TABLES", total - 1)
    assert refusal(data)[:2] == (f"vectors overlap: {total} elements do not fit in the file", "tensors")
    monkeypatch.setattr(verify, "MAX_TABLES", total)
    assert "overlap" not in refusal(data)[0]
    monkeypatch.setattr(verify, "MAX_TABLES", 1)
    assert "overlap" not in refusal(data + bytes(4 * total - len(data)))[0]
    assert "overlap" in refusal(data + bytes(4 * total - len(data) - 1))[0]


def test_an_element_count_as_large_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = shared()
    monkeypatch.setattr(verify, "MAX_TABLES", 1)
    assert walk(Wire(data), SCHEMA).visits == 22


# --- the way to a fault -------------------------------------------------------------------------------------


def test_a_path_leads_through_the_vector_that_contains_it() -> None:
    def maps(*names: str) -> list[Table]:
        return [Table("TensorMap", name=name) for name in names]

    signatures = [
        Table("SignatureDef", inputs=maps("a", "b"), outputs=maps("c")),
        Table("SignatureDef", inputs=maps("d"), outputs=maps("e", "f", "g")),
    ]
    data = file_of(Table("Model", signature_defs=signatures))
    for name, place in (
        ("a", "[0].inputs[0]"), ("b", "[0].inputs[1]"), ("c", "[0].outputs[0]"), ("d", "[1].inputs[0]"),
        ("e", "[1].outputs[0]"), ("g", "[1].outputs[2]"),
    ):  # fmt: skip
        at = data.index(b"\1\0\0\0" + name.encode()) + 5
        shown = refusal(put(data, at, b"x"))
        assert shown == ("a string has no NUL after it", f"signature_defs{place}.name", at)


def test_a_path_leads_through_tables_and_unions() -> None:
    details = [Table("BlockwiseQuantization", scales=number) for number in (1, 2)]
    tensors = [Table("Tensor", quantization=Table("QuantizationParameters", details=one)) for one in (None, *details)]
    data = file_of(Table("Model", subgraphs=[Table("SubGraph"), Table("SubGraph", tensors=tensors)]))
    blocks = [one.start for one in objects(data) if one.kind == "BlockwiseQuantization"]
    assert len(blocks) == 2
    found = {refusal(put_u32(data, at, 1))[1] for at in blocks}
    assert found == {f"subgraphs[1].tensors[{index}].quantization.details" for index in (1, 2)}


def test_the_first_of_several_faults_is_reported() -> None:
    data = file_of(Table("Model", subgraphs=[Table("SubGraph", name=name) for name in ("one", "two", "six")]))
    broken = data.replace(b"two\0", b"twox").replace(b"six\0", b"sixx")
    assert refusal(broken)[1] in ("subgraphs[1].name", "subgraphs[2].name")
    assert refusal(data.replace(b"two\0", b"twox"))[1] == "subgraphs[1].name"


def test_tables_come_in_ascending_order_whatever_the_order_of_references() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2, 1, 1), (0, 0, 1, 2), (2, 1, 1, 0), (0, 1, 2, 2)):
        raw = Raw()
        made = [raw.table({0: ("u32", index + 5)}) for index in range(3)]
        graphs = raw.refs([raw.table({3: raw.refs([made[index] for index in order])})])
        data = raw.finish(raw.table({2: graphs}))
        found = walk(*wire_of(data)[:2])
        assert found.tables["Operator"].scalars("opcode_index").tolist() == [7, 6, 5]
        assert found.visits == 2 + len(order)
