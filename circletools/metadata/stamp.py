"""The stamp: a fingerprint of the operators at the time when tables are written, which reveals stale tables.

Tables become stale when other tools move operators without updating the tables. `CIRCLETOOLS_stamp` is for origins
and `CIRCLETOOLS_affinity_stamp` for affinity, since both may be written at different times (little-endian u32 unless
noted otherwise):

    [version = 1][subgraph count] ([operator count n][fingerprint: u64][check: u8 * n])*

An operator's record is its code name and the names of its output tensors, each followed by a NUL. The fingerprint is
BLAKE2b (8 bytes) of all records of the subgraph in order; the check of an operator is the low byte of its record's
CRC-32, which locates the first operator that differs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Literal

import numpy as np

from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import TableReader
from circletools.wording import Attributes

STAMP = "CIRCLETOOLS_stamp"
_VERSION = 1
_HEADER = Struct("<II")
_SUBGRAPH = Struct("<I8s")


@dataclass(frozen=True, slots=True)
class SubgraphStamp:
    """The stamp of one subgraph: the fingerprint of its operators, and a check byte for each operator."""

    fingerprint: bytes
    checks: bytes


Stamp = tuple[SubgraphStamp, ...]
"""The stamp of a model, with one entry for each subgraph."""


@dataclass(frozen=True, slots=True)
class Freshness(Attributes):
    """Whether tables still describe the operators of the model.

    If they are `stale`, `subgraph` and `operator` locate the first difference (`operator` is None if only the
    fingerprint differs), and `reason` describes it.
    """

    state: Literal["fresh", "stale", "unstamped"]
    subgraph: int | None = None
    operator: int | None = None
    reason: str = ""

    @property
    def place(self) -> str:
        """The location of the first difference, as a path."""
        operator = "" if self.operator is None else f".operators[{self.operator}]"
        return f"subgraphs[{self.subgraph}]{operator}"


def operator_record(code_name: str, output_names: Iterable[bytes]) -> bytes:
    """Return the record of one operator."""
    return b"\0".join((code_name.encode("utf-8", "surrogateescape"), *output_names, b""))


def make_stamp(records: Iterable[Sequence[bytes]]) -> Stamp:
    """Return the stamp of a model, given the operator records of each subgraph."""
    subgraphs = []
    for subgraph in records:
        checks = np.fromiter(map(zlib.crc32, subgraph), np.uint32, len(subgraph)).astype(np.uint8)
        subgraphs.append(SubgraphStamp(blake2b(b"".join(subgraph), digest_size=8).digest(), checks.tobytes()))
    return tuple(subgraphs)


def stamp_model(model: ModelGraph) -> Stamp:
    """Return the stamp of a model's current operators."""
    return make_stamp(graph.operators.records for graph in model.graphs)


def encode_stamp(stamp: Stamp) -> bytes:
    """Encode a stamp."""
    parts = [_HEADER.pack(_VERSION, len(stamp))]
    for subgraph in stamp:
        parts += (_SUBGRAPH.pack(len(subgraph.checks), subgraph.fingerprint), subgraph.checks)
    return b"".join(parts)


def decode_stamp(data: bytes | memoryview, entry: str = STAMP) -> Stamp:
    """Decode a stamp. Raises TableFormatError, which names the metadata entry."""
    reader, subgraphs = TableReader(data, entry), []
    for _ in range(reader.header(_VERSION)):
        operators, fingerprint = _SUBGRAPH.unpack(reader.take(_SUBGRAPH.size, "a subgraph's entry is truncated"))
        checks = reader.take(operators, f"the checks of operators are truncated: {operators} needed")
        subgraphs.append(SubgraphStamp(fingerprint, bytes(checks)))
    reader.finish()
    return tuple(subgraphs)


def compare(then: Stamp, now: Stamp) -> Freshness:
    """Compare a stamp with that of the current operators."""
    if len(then) != len(now):
        reason = f"the number of subgraphs was {len(then)} and is now {len(now)}"
        return Freshness("stale", min(len(then), len(now)), 0, reason)
    for index, (old, new) in enumerate(zip(then, now, strict=True)):
        if old != new:
            differing = (row for row, (a, b) in enumerate(zip(old.checks, new.checks, strict=False)) if a != b)
            before, after = len(old.checks), len(new.checks)
            row = next(differing, None if before == after else min(before, after))
            counts = f"the number of operators was {before} and is now {after}"
            return Freshness("stale", index, row, "the operators differ" if before == after else counts)
    return Freshness("fresh")


def check_stamp(model: ModelGraph) -> Freshness:
    """Compare a model's stamp with its operators; `unstamped` if it has none. Raises TableFormatError."""
    return compare_stamp(model, model.metadata_value(STAMP))


def compare_stamp(model: ModelGraph, value: bytes | memoryview | None, entry: str = STAMP) -> Freshness:
    """Compare an encoded stamp, or None for no stamp, with a model's operators. Raises TableFormatError."""
    return Freshness("unstamped") if value is None else compare(decode_stamp(value, entry), stamp_model(model))
