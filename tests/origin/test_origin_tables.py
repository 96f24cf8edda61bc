"""The bytes of the metadata tables: written canonically, read exactly as the ONE compiler reads them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import TableFormatError, UsageError
from circletools.metadata.stamp import Stamp, SubgraphStamp, decode_stamp, encode_stamp
from circletools.origin.read import decode_exact, encode_exact
from circletools.origin.tables import (
    decode_execution_plan,
    decode_op_table,
    decode_source_table,
    encode_op_table,
    encode_source_table,
)
from tests.kit.origin_support import u32s

MAX = 2**32 - 1
NODE1 = bytes.fromhex("01000000 01000000 06000000 6e6f646531 00")  # {1: "node1"}
OP5 = bytes.fromhex("01000000 05000000 02000000 01000000 02000000")  # {5: {1, 2}}

IDS = st.one_of(st.integers(0, 9), st.integers(0, MAX))
NAMES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.binary().map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape")),
)
SOURCES = st.dictionaries(IDS, NAMES, max_size=8)
OPERATORS = st.dictionaries(IDS, st.frozensets(IDS, min_size=1, max_size=5), max_size=8)
STAMPS = st.lists(st.builds(SubgraphStamp, st.binary(min_size=8, max_size=8), st.binary())).map(
    lambda subgraphs: Stamp(tuple(subgraphs))
)
# Bytes that get past the first check: small numbers, and one that is not a multiple of four.
SMALL = st.lists(st.sampled_from([0, 1, 2, 3, 8, 12, MAX]), max_size=9).map(lambda numbers: u32s(*numbers))
HOSTILE = st.one_of(st.binary(), SMALL, st.tuples(SMALL, st.binary(max_size=5)).map(b"".join))

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "source": decode_source_table,
    "op": decode_op_table,
    "op, sources known": lambda data: decode_op_table(data, {0, 1, 2, 5}),
    "exact": lambda data: decode_exact(data, {0, 1, 2, 5}),
    "stamp": decode_stamp,
    "plan": decode_execution_plan,
}


# --- the ONE compiler's rules, restated ---------------------------------------------------------------------


class RefusedError(Exception):
    """ONE would abort here."""


def one_entries(table: bytes, width: int) -> list[tuple[int, bytes]]:
    """Cut a table into (id, payload): entries of `width` bytes a piece, as many as declared, to the last byte."""

    def number() -> int:
        if len(rest) < 4:
            raise RefusedError("truncated")
        value = int.from_bytes(rest[:4], "little")
        del rest[:4]
        return value

    rest = bytearray(table)
    declared, entries = number(), []
    while rest:
        identity, size = number(), number() * width
        if len(rest) < size:
            raise RefusedError("truncated")
        entries.append((identity, bytes(rest[:size])))
        del rest[:size]
    if len({identity for identity, _ in entries}) != len(entries):
        raise RefusedError("an id twice")
    if len(entries) != declared:
        raise RefusedError("another count")
    return entries


def one_sources(table: bytes) -> dict[int, bytes]:
    entries = one_entries(table, 1)
    if not all(name.endswith(b"\0") for _, name in entries):
        raise RefusedError("no final NUL")
    return {identity: name[:-1] for identity, name in entries}


def one_operators(table: bytes, known: set[int]) -> dict[int, set[int]]:
    operators = {}
    for identity, raw in one_entries(table, 4):
        operators[identity] = {int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)}
        if not raw or not operators[identity] <= known:
            raise RefusedError("an unknown source")
    return operators


# --- written ------------------------------------------------------------------------------------------------


def test_reference_vectors() -> None:
    assert encode_source_table({1: "node1"}) == NODE1
    assert encode_op_table({5: {1, 2}}) == OP5
    assert decode_source_table(NODE1) == {1: "node1"} == {1: one_sources(NODE1)[1].decode()}
    assert decode_op_table(OP5) == {5: {1, 2}} == one_operators(OP5, {1, 2})
    first, second = decode_op_table(encode_op_table({0: {1, 9}, 5: {9, 1}})).values()
    assert first is second


def test_empty_tables_are_their_count() -> None:
    assert encode_source_table({}) == encode_op_table({}) == bytes(4)
    assert decode_source_table(bytes(4)) == {}
    assert decode_op_table(bytes(4)) == {}


@given(SOURCES)
def test_source_table_round_trip(sources: dict[int, str]) -> None:
    table = encode_source_table(sources)
    assert decode_source_table(table) == sources
    assert one_sources(table) == {key: name.encode("utf-8", "surrogateescape") for key, name in sources.items()}


@given(OPERATORS)
def test_op_table_round_trip(operators: dict[int, frozenset[int]]) -> None:
    table, known = encode_op_table(operators), set(itertools.chain(*operators.values()))
    assert decode_op_table(table) == decode_op_table(table, known) == operators == one_operators(table, known)


@given(st.lists(OPERATORS, max_size=4))
def test_exact_round_trip(subgraphs: list[dict[int, frozenset[int]]]) -> None:
    known = {source for operators in subgraphs for origin in operators.values() for source in origin}
    described = {index: operators for index, operators in enumerate(subgraphs) if operators}
    assert decode_exact(encode_exact(subgraphs), known) == described


@given(STAMPS)
def test_stamp_round_trip(stamp: Stamp) -> None:
    assert decode_stamp(encode_stamp(stamp)) == stamp


def test_execution_plan_is_read() -> None:
    table = u32s(2, 7, 1, 40, 0, 3, 1, MAX, 0)
    assert decode_execution_plan(table) == {7: (40,), 0: (1, MAX, 0)}


def test_names_are_bytes() -> None:
    assert encode_source_table({0: "é\udcff,\n"}) == u32s(1, 0, 6) + b"\xc3\xa9\xff,\n\0"
    assert decode_source_table(u32s(1, 0, 1) + b"\0") == {0: ""}
    assert decode_source_table(u32s(1, 0, 3) + b"\0a\0") == {0: "\0a"}  # ONE takes it, so it must be readable


@given(SOURCES, OPERATORS)
def test_order_is_canonical(sources: dict[int, str], operators: dict[int, frozenset[int]]) -> None:
    entries = one_entries(encode_source_table(dict(reversed(sources.items()))), 1)
    assert [identity for identity, _ in entries] == sorted(sources)
    # The largest ids first, and each twice: they come out ascending and unique.
    jumbled = {key: sorted(ids, reverse=True) * 2 for key, ids in reversed(operators.items())}
    entries = one_entries(encode_op_table(jumbled), 4)
    assert entries == [(key, u32s(*sorted(ids))) for key, ids in sorted(operators.items())]


@pytest.mark.parametrize("number", [-1, 2**32])
def test_no_id(number: int) -> None:
    with pytest.raises(UsageError, match="not an id"):
        encode_source_table({number: "a"})
    with pytest.raises(UsageError, match="not an id"):
        encode_op_table({number: {1}})
    with pytest.raises(UsageError, match="not an id"):
        encode_op_table({1: {0, number}})


def test_name_with_nul() -> None:
    with pytest.raises(UsageError, match="contains a NUL"):
        encode_source_table({7: "a\0b"})


def test_name_with_lone_surrogate() -> None:
    with pytest.raises(UsageError):
        encode_source_table({7: "\ud800"})


# --- refused ------------------------------------------------------------------------------------------------

SOURCE_CASES = {
    **{f"{size} bytes": (NODE1[:size], 0) for size in range(4)},
    **{f"cut at {size}": (NODE1[:size], 4 if size < 12 else 12) for size in range(4, len(NODE1))},
    "length 0": (u32s(1, 7, 0), 8),
    "length 0, then an entry": (u32s(2, 7, 0, 8, 1) + b"\0", 8),
    "no NUL": (u32s(1, 7, 2) + b"ab", 13),
    "NUL inside only": (u32s(1, 7, 3) + b"a\0b", 14),
    "length past the end": (u32s(1, 7, MAX) + b"ab\0", 12),
    "id twice": (u32s(2, 7, 1) + b"\0" + u32s(7, 2) + b"a\0", 13),
    "count too large": (u32s(2) + NODE1[4:], len(NODE1)),
    "count too large by far": (u32s(MAX) + NODE1[4:], len(NODE1)),
    "count too small": (u32s(0) + NODE1[4:], 4),
    "count too small by one of two": (u32s(1) + NODE1[4:] + u32s(2, 1) + b"\0", len(NODE1)),
    "bytes left over": (NODE1 + b"\0", len(NODE1)),
    "eight bytes left over": (NODE1 + bytes(8), len(NODE1)),
}
OP_CASES = {
    **{f"{size} bytes": (OP5[:size], 0) for size in range(4)},
    **{f"cut at {size}": (OP5[:size], 4 if size < 12 else 12) for size in range(4, len(OP5))},
    "count past the end": (u32s(1, 5, 3, 1, 2), 12),
    "count that overflows": (u32s(1, 5, MAX, 1, 2), 12),
    "id twice": (u32s(2, 5, 1, 1, 5, 1, 2), 16),
    "id twice, same sources": (u32s(2, 5, 1, 0, 5, 1, 0), 16),
    "empty entry": (u32s(1, 5, 0), 8),
    "declared too many": (u32s(2) + OP5[4:], len(OP5)),
    "declared too few": (u32s(0) + OP5[4:], 4),
    "bytes left over": (OP5 + b"\0", len(OP5)),
    "unknown source": (u32s(1, 5, 2, 1, 3), 12),
    "unknown source of the second": (u32s(2, 5, 1, 1, 6, 1, 9), 24),
}
INNER = u32s(1, 0, 1, 1)  # {0: {1}}
EXACT_CASES = {
    "empty": (b"", 0),
    "no header": (u32s(1) + bytes(3), 0),
    "version 0": (u32s(0, 0), 0),
    "version 2": (u32s(2, 0), 0),
    "no entry": (u32s(1, 1), 8),
    "entry cut off": (u32s(1, 1, 0) + bytes(3), 8),
    "table cut off": (u32s(1, 1, 0, 16) + INNER[:-1], 16),
    "second entry cut off": (u32s(1, 2, 0, 16) + INNER + u32s(1), 32),
    "subgraph twice": (u32s(1, 2, 3, 16) + INNER + u32s(3, 16) + INNER, 32),
    "table without its count": (u32s(1, 1, 0, 0), 16),
    "table cut short by its length": (u32s(1, 1, 0, 12) + INNER, 28),
    "unknown source in the second table": (u32s(1, 2, 0, 16) + INNER + u32s(1, 16, 1, 0, 1, 4), 52),
    "bytes left over": (u32s(1, 1, 0, 16) + INNER + b"\0", 32),
}
STAMPED = encode_stamp(Stamp((SubgraphStamp(b"12345678", b"abc"), SubgraphStamp(b"87654321", b""))))
STAMP_CASES = {
    **{f"{size} bytes": (STAMPED[:size], 0) for size in range(8)},
    **{f"cut at {size}": (STAMPED[:size], 8 if size < 20 else 20 if size < 23 else 23) for size in range(8, 35)},
    "version 0": (u32s(0) + STAMPED[4:], 0),
    "version 2": (u32s(2) + STAMPED[4:], 0),
    "declared too many": (u32s(1, 3) + STAMPED[8:], 35),
    "declared too few": (u32s(1, 1) + STAMPED[8:], 23),
    "bytes left over": (STAMPED + b"\0", 35),
}
PLAN_CASES = {
    "empty": (b"", 0),
    "empty entry": (u32s(1, 7, 0), 8),
    "cut off": (u32s(1, 7, 2, 1), 12),
    "position twice": (u32s(2, 7, 1, 0, 7, 1, 0), 16),
    "declared too many": (u32s(2, 7, 1, 0), 16),
    "bytes left over": (u32s(1, 7, 1, 0) + b"\0", 16),
}
CASES = {
    "source": SOURCE_CASES,
    "op, sources known": OP_CASES,
    "exact": EXACT_CASES,
    "stamp": STAMP_CASES,
    "plan": PLAN_CASES,
}


def test_malformed() -> None:
    for decoder, cases in CASES.items():
        for title, (data, offset) in cases.items():
            with pytest.raises(TableFormatError) as caught:
                DECODERS[decoder](data)
            assert caught.value.offset == offset, (decoder, title)
            assert f"at byte {offset}" in str(caught.value)
            assert str(caught.value).count(" at byte ") == 1


def test_errors_name_their_table() -> None:
    names = ("ONE_source_table", "ONE_op_table", "ONE_op_table", "CIRCLETOOLS_origins", "CIRCLETOOLS_stamp")
    for decode, name in zip(DECODERS.values(), (*names, "ONE_execution_plan_table"), strict=True):
        with pytest.raises(TableFormatError) as caught:
            decode(b"")
        assert caught.value.location == name


def test_one_refuses_the_malformed() -> None:
    for data, _ in SOURCE_CASES.values():
        with pytest.raises(RefusedError):
            one_sources(data)
    for data, _ in OP_CASES.values():
        with pytest.raises(RefusedError):
            one_operators(data, {1, 2})


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=HOSTILE)
def test_any_bytes_give_a_value_or_an_offset(decoder: str, data: bytes) -> None:
    offset = 0
    try:
        DECODERS[decoder](data)
    except TableFormatError as error:
        offset = error.offset
    assert 0 <= offset <= len(data)


@pytest.mark.parametrize("decoder", ["source", "op, sources known"])
@given(data=HOSTILE)
def test_read_as_one_reads(decoder: str, data: bytes) -> None:
    """Any bytes: taken by both with the same meaning, or refused by both."""
    ours: dict[int, Any] | None
    theirs: dict[int, Any] | None
    try:
        ours = DECODERS[decoder](data)
    except TableFormatError:
        ours = None
    try:
        if decoder == "source":
            theirs = {key: name.decode("utf-8", "surrogateescape") for key, name in one_sources(data).items()}
        else:
            theirs = dict(one_operators(data, {0, 1, 2, 5}))
    except RefusedError:
        theirs = None
    assert ours == theirs


@given(SOURCES, st.data())
def test_a_flipped_byte_is_read_as_one_reads_it(sources: dict[int, str], draw: st.DataObject) -> None:
    table = bytearray(encode_source_table(sources))
    table[draw.draw(st.integers(0, len(table) - 1))] ^= draw.draw(st.integers(1, 255))
    try:
        theirs = one_sources(bytes(table))
    except RefusedError:
        with pytest.raises(TableFormatError):
            decode_source_table(bytes(table))
    else:
        ours = decode_source_table(memoryview(table))
        assert {key: name.encode("utf-8", "surrogateescape") for key, name in ours.items()} == theirs
