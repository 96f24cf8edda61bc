"""Fields that no schema knows: what can be no reference, and where its bytes go."""

from __future__ import annotations

from struct import pack_into

import pytest

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.tables import Carried, OldTables
from circletools.flatbuf.verify import walk
from tests.kit.build import Raw
from tests.kit.objects import objects, wire_of
from tests.kit.support import field_at, u32

SLOT = 30


def with_field(value: tuple[str, int], gap: bytes = b"") -> tuple[bytes, int, int]:
    """Return a file whose root has a field that no schema knows, where the root is, and the field."""
    raw = Raw()
    text = raw.string(bytes(9))  # from within, this looks like empty vectors
    unused = raw.data(gap) if gap else 0
    assert unused >= 0
    data = raw.finish(
        raw.table({3: text, 5: raw.ints([0] * 6), 4: raw.refs([raw.table()]), 0: ("u32", 3), SLOT: value})
    )
    root = u32(data, 0)
    return data, root, field_at(data, root, SLOT)


def inert(data: bytes, base: int = 0) -> Carried:
    wire, schema, root = wire_of(data)
    found = OldTables(wire, schema, lambda: walk(wire, schema), base).copy("Model", root).carried
    assert found is not None
    return found


def put(data: bytes, at: int, number: int) -> bytes:
    changed = bytearray(data)
    pack_into("<I", changed, at, number)
    return bytes(changed)


def carried(data: bytes, base: int = 0) -> bool:
    try:
        return bool(inert(data, base).data)
    except EditError as error:
        assert "could be a reference" in str(error)  # noqa: PT017
        return False


def test_a_number_is_copied_unchanged() -> None:
    data, root, at = with_field(("i32", 0x1234567))
    found = inert(data)
    assert found.slots[0][0] == SLOT
    start = at - found.slots[0][1]
    assert data[start : start + len(found.data)][found.slots[0][1] :][:4] == data[at : at + 4]
    assert start % found.alignment == found.phase
    assert root < start


def test_long_fields_keep_their_place_past_a_multiple_of_eight() -> None:
    for more in (0, 1):
        raw = Raw()
        fields: dict[int, int | tuple[str, int]] = {0: ("u32", 3)} if more else {}
        data = raw.finish(raw.table({3: raw.string("x"), **fields, SLOT: ("u64", 2**63 + 1)})) + bytes(8)
        at = field_at(data, u32(data, 0), SLOT)
        found = inert(data)
        assert found.alignment in (8, 16)
        assert (at - found.slots[0][1]) % found.alignment == found.phase


def test_bytes_may_begin_anywhere() -> None:
    for known in range(4):
        raw = Raw()
        raw.builder.StartObject(SLOT + 4)
        for slot in range(SLOT, SLOT + known + 1):
            raw.builder.PrependUint8Slot(slot, 1, 0)
        data = bytearray(raw.finish(int(raw.builder.EndObject()))) + bytes(32)
        root = u32(bytes(data), 0)
        vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
        data[vtable + 2] += 20  # what is behind the last field belongs to it
        found = inert(bytes(data))
        first = min(field_at(bytes(data), root, slot) for slot, _ in found.slots)
        assert (first % found.alignment, found.alignment) == (found.phase, 16)


@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_data_too_short_for_a_reference_is_not_one(kind: str) -> None:
    raw = Raw()
    fields: dict[int, int | tuple[str, int]] = {
        3: raw.string("x"),
        SLOT: (kind, 4),
        SLOT + 1: (kind, 1),
        SLOT + 2: (kind, 1),
        SLOT + 3: (kind, 1),
    }
    assert len(inert(raw.finish(raw.table(fields))).slots) == 4


def test_a_short_field_is_none_whatever_follows_it() -> None:
    raw = Raw()
    text = raw.string("x")
    fields: dict[int, int | tuple[str, int]] = {SLOT + number: ("u8", 0) for number in range(4)}
    data = raw.finish(raw.table({3: text, **fields}))
    places = [field_at(data, u32(data, 0), SLOT + number) for number in range(4)]
    first = next(place for place in places if place % 4 == 0)
    distance = next(one.start for one in objects(data) if one.kind == "string") - first
    assert carried(put(data, first, distance))


def test_every_distance_is_recognized_by_its_target() -> None:
    data, _, at = with_field(("i32", 1), bytes(4))
    data += bytes(8)
    starts = {one.start: one for one in objects(data)}
    known = {place for one in starts.values() for place in range(one.start, one.end)}
    for number in range(len(data) - at + 8):
        target = at + number
        changed = put(data, at, number)
        if not number or target % 4 or target + 4 > len(data):
            expected = True
        elif target in starts:
            expected = starts[target].kind == "vtable"
        else:
            expected = target in known
        assert carried(changed) == expected, (number, starts.get(target))


def test_nothing_leads_into_what_an_earlier_edit_wrote() -> None:
    data, root, at = with_field(("i32", 1))
    text = next(one.start for one in objects(data) if one.kind == "string")
    changed = put(data, at, text - at)
    assert not carried(changed)
    assert not carried(changed, text)
    assert carried(changed, text + 1)
    assert root


def test_bytes_of_known_fields_among_them_become_what_is_no_reference() -> None:
    raw = Raw()
    raw.builder.StartObject(SLOT + 2)
    for slot, value in ((SLOT, 3), (0, 3), (SLOT + 1, 5)):
        raw.builder.PrependUint32Slot(slot, value, 0)
    data = raw.finish(int(raw.builder.EndObject()))
    found = inert(data)
    assert found.data == b"\5\0\0\0" + b"\xff" * 4 + b"\3\0\0\0"
    assert found.slots == ((SLOT + 1, 0), (SLOT, 8))
    assert found.alignment == 4


def test_fields_that_lie_over_each_other_are_refused() -> None:
    data, root, at = with_field(("i32", 1))
    vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    entry = vtable + 4 + 2 * SLOT
    version = field_at(data, root, 0) - root
    for offset in (version, version + 2, 2, 4096):
        changed = bytearray(data)
        changed[entry : entry + 2] = offset.to_bytes(2, "little")
        with pytest.raises(EditError, match="overlap"):
            inert(bytes(changed))
    assert at


def test_a_table_that_ends_behind_the_file_is_refused() -> None:
    data, root, _ = with_field(("i32", 1))
    vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    for size, expected in ((len(data) - root, True), (len(data) - root + 1, False)):
        changed = bytearray(data)
        changed[vtable + 2 : vtable + 4] = size.to_bytes(2, "little")
        assert carried(bytes(changed)) == expected


def test_examined_data_is_charged() -> None:
    raw = Raw()
    fields = dict.fromkeys(range(SLOT, SLOT + 20000), ("i8", 1))
    data = raw.finish(raw.table({3: raw.string("x"), **fields}))
    wire, schema, root = wire_of(data)
    found = OldTables(wire, schema, lambda: walk(wire, schema))

    def look() -> None:
        for _ in range(1000):
            found.copy("Model", root)

    with pytest.raises(ModelFormatError, match="fields of newer schemas"):
        look()
    charged: list[int] = []
    found._charge = charged.append
    found.copy("Model", root)
    assert charged[0] > 4 * 20000
