"""Tables of u32: written in one way, and read with the place of whatever is wrong."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import TableFormatError, UsageError
from circletools.metadata.codec import TableReader, check_ids, decode_names, encode_name, encode_names

LARGEST = 2**32 - 1
NAMES = st.binary(max_size=9).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))


def u32s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_the_bytes_of_names() -> None:
    table = u32s(3, 1, 2) + b"b\0" + u32s(7, 1) + b"\0" + u32s(LARGEST, 2) + b"\xff\0"
    names = {7: "", LARGEST: "\udcff", 1: "b"}
    assert encode_names(names) == table
    assert list(decode_names(table, "T").items()) == [(1, "b"), (7, ""), (LARGEST, "\udcff")]


@given(st.dictionaries(st.integers(0, LARGEST), NAMES, max_size=5))
def test_names_are_read_as_they_were_written(names: dict[int, str]) -> None:
    assert decode_names(memoryview(encode_names(names)), "T") == names


@pytest.mark.parametrize("number", [-1, LARGEST + 1])
def test_a_number_that_is_no_id(number: int) -> None:
    check_ids([])
    check_ids({0, 5, LARGEST})
    for ids in ([number], [5, number, 6]):
        with pytest.raises(UsageError, match=f"^{number} is not an id: ids are integers below 2\\^32$"):
            check_ids(ids)
    with pytest.raises(UsageError, match="is not an id"):
        encode_names({number: "a"})


@pytest.mark.parametrize(
    ("name", "answer"), [("a\0" + "b" * 50, "contains a NUL"), ("a\ud800" + "b" * 50, "is not valid text")]
)
def test_a_name_that_cannot_be_written(name: str, answer: str) -> None:
    with pytest.raises(UsageError, match=f"^the name {answer}") as caught:
        encode_name(name)
    assert caught.value.message.endswith(repr(name[:40]))
    with pytest.raises(UsageError, match=f"^the name of source 4 {answer}"):
        encode_names({2: "fine", 4: name})


def test_a_name_that_can_be_written() -> None:
    assert encode_name("é\udcff") == b"\xc3\xa9\xff"


@pytest.mark.parametrize(
    ("table", "offset", "answer"),
    [
        (b"", 0, "entry count"),
        (bytes(3), 0, "entry count"),
        (u32s(0, 0), 4, "left over after 0 entries"),
        (u32s(1, 5, 1) + b"\0" + u32s(6, 1) + b"\0", 13, "left over after 1 entries"),
        (u32s(2, 5, 1) + b"\0", 13, "2 entries declared, 1 found"),
        (u32s(1), 4, "1 entries declared, 0 found"),
        (u32s(1, 5), 4, "truncated: 8 bytes needed"),
        (u32s(1, 5, 3) + b"a\0", 12, "truncated: 3 bytes needed"),
        (u32s(1, 5, 0), 8, "length 0"),
        (u32s(1, 5, 2) + b"ab", 13, "without its final NUL"),
        (u32s(2, 5, 1) + b"\0" + u32s(5, 1) + b"\0", 13, "duplicate entry for id 5"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(table: bytes, offset: int, answer: str) -> None:
    with pytest.raises(TableFormatError, match=answer) as caught:
        decode_names(table, "T")
    assert (caught.value.offset, caught.value.location) == (offset, "T")


def test_numbers_are_taken_one_after_the_other() -> None:
    reader = TableReader(u32s(1, 4, 2, 8, LARGEST), "T")
    ((number, count, at),) = [(*entry, reader.numbers(entry[1]))[:3] for entry in reader.entries()]
    assert (number, count, at, reader.position) == (4, 2, 4, 20)
    again = TableReader(u32s(8, LARGEST, 3), "T")
    assert (again.numbers(2), again.numbers(0), again.position) == ((8, LARGEST), (), 8)
    with pytest.raises(TableFormatError, match="truncated: 8 bytes needed at byte 8"):
        again.numbers(2)
    assert again.numbers(1) == (3,)
