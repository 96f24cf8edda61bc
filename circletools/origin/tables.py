"""The ONE compiler's metadata tables as bytes: little-endian u32 numbers, without header or padding.

    ONE_source_table            [n] ([id][length][data: length bytes])*    length counts the final NUL
    ONE_op_table                [n] ([id][count][source id: u32 * count])*
    ONE_execution_plan_table    [n] ([position][size][u32 * size])*

Entries, and the source ids of an entry, are written in ascending order. Like the ONE compiler
(compiler/luci/import/src/CircleImportMetadata.cpp), this module reads any order; input that the ONE compiler refuses
is refused here too, with the byte offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from circletools.metadata.codec import TableReader, check_ids, decode_names, encode_names

SOURCE_TABLE = "ONE_source_table"
OP_TABLE = "ONE_op_table"
EXECUTION_PLAN_TABLE = "ONE_execution_plan_table"


def encode_source_table(sources: Mapping[int, str]) -> bytes:
    """Encode id -> name. Raises UsageError for an id that is not a u32 or a name with a NUL."""
    return encode_names(sources)


def operator_keys(operators: Mapping[int, Collection[int]]) -> NDArray[np.uint64]:
    """Return operator-source pairs, each as one number: `operator << 32 | source`.

    Raises UsageError for a number that is not a u32.
    """
    sources = list(chain.from_iterable(operators.values()))
    check_ids(operators)
    check_ids(sources)
    counts = np.fromiter(map(len, operators.values()), np.int64, len(operators))
    rows = np.repeat(np.fromiter(operators, np.uint64, len(operators)), counts)
    return rows << np.uint64(32) | np.array(sources, np.uint64)


def encode_op_table(operators: Mapping[int, Collection[int]]) -> bytes:
    """Encode the source ids of each operator index. Raises UsageError for a number that is not a u32."""
    return encode_operator_keys(operator_keys(operators))


def encode_operator_keys(keys: NDArray[np.uint64]) -> bytes:
    """Encode an op table from operator-source pairs in any order (see `operator_keys`)."""
    keys = np.sort(keys)
    first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    keys = keys[first]
    operators = (keys >> np.uint64(32)).astype(np.int64)
    begins = np.flatnonzero(np.diff(operators, prepend=-1))
    counts = np.diff(begins, append=len(keys))
    table = np.zeros(1 + 2 * len(begins) + len(keys), "<u4")
    table[0] = len(begins)
    heads = 1 + begins + 2 * np.arange(len(begins))
    table[heads], table[heads + 1] = operators[begins], counts
    table[np.arange(3, 3 + len(keys)) + 2 * np.repeat(np.arange(len(begins)), counts)] = keys.astype(np.uint32)
    return table.tobytes()


def decode_source_table(data: bytes | memoryview) -> dict[int, str]:
    """Decode id -> name (UTF-8; other bytes become surrogate escapes). Raises TableFormatError."""
    return decode_names(data, SOURCE_TABLE)


def decode_op_table(data: bytes | memoryview, sources: Iterable[int] | None = None) -> dict[int, frozenset[int]]:
    """Decode the source ids of each operator index. Raises TableFormatError.

    With `sources`, the ids of the source table, any other id is an error. Equal numbers and sets are shared, because
    a file may repeat them for every operator.
    """
    known = None if sources is None else frozenset(sources)
    operators: dict[int, frozenset[int]] = {}
    numbers, sets = dict[int, int](), dict[frozenset[int], frozenset[int]]()
    reader = TableReader(data, OP_TABLE)
    for operator, count, at in reader.entries():
        if count == 0:
            raise reader.error(f"the entry for operator {operator} is empty", at + 4)
        found = reader.numbers(count)
        ids = frozenset(map(numbers.setdefault, found, found))
        if operator in operators:
            raise reader.error(f"duplicate entry for operator {operator}", at)
        if known is not None and not ids <= known:
            raise reader.error(f"operator {operator} refers to the missing source {min(ids - known)}", at + 8)
        operators[operator] = sets.setdefault(ids, ids)
    return operators


def decode_execution_plan(data: bytes | memoryview) -> dict[int, tuple[int, ...]]:
    """Decode position -> plan. Raises TableFormatError."""
    plan: dict[int, tuple[int, ...]] = {}
    reader = TableReader(data, EXECUTION_PLAN_TABLE)
    for position, count, at in reader.entries():
        if count == 0:
            raise reader.error("an empty entry", at + 4)
        if position in plan:
            raise reader.error(f"duplicate entry for position {position}", at)
        plan[position] = reader.numbers(count)
    return plan
