"""Metadata entries of two models, compared by name and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, DEVICE_TABLE, decode_affinity
from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between
from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.flatbuf.budget import OBJECT_BYTES
from circletools.flatbuf.comparison import Difference
from circletools.flatbuf.leaves import same_bytes
from circletools.metadata.codec import decode_names
from circletools.metadata.stamp import STAMP, decode_stamp
from circletools.model.model import Model
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    decode_execution_plan,
    decode_op_table,
)

_SHOWN_BYTES = 64
_DECODED: Mapping[str, Callable[[memoryview], dict[str, Any]]] = {
    SOURCE_TABLE: lambda data: {"sources": len(decode_names(data, SOURCE_TABLE))},
    OP_TABLE: lambda data: {"operators": len(decode_op_table(data))},
    EXECUTION_PLAN_TABLE: lambda data: {"positions": len(decode_execution_plan(data))},
    DEVICE_TABLE: lambda data: {"devices": list(decode_names(data, DEVICE_TABLE).values())},
    AFFINITY_TABLE: lambda data: {"operators": sum(len(one.devices) for one in decode_affinity(data).values())},
    STAMP: lambda data: _stamped(data, STAMP),
    AFFINITY_STAMP: lambda data: _stamped(data, AFFINITY_STAMP),
}


def metadata_differences(comparison: ModelComparison, _: list[Finding]) -> Iterator[Difference]:
    """Yield the entries that only one model has, and those whose values differ.

    Of several entries of one name the first belongs to the first; further ones are called `metadata[name#2]`.
    """
    models = comparison.before, comparison.after
    before, after = map(_entries, models)
    charges = [model.wire.budget.tally("the values of metadata") for model in models]
    for label in dict.fromkeys((*before, *after)):
        old, new = values = before.get(label), after.get(label)
        if old is None or new is None or not _same(old, new):
            for value, charge in zip(values, charges, strict=True):
                if value is not None:
                    charge(OBJECT_BYTES + (len(value) if isinstance(value, memoryview) else 0))
            shown = (None if value is None else _described(label, value) for value in values)
            yield between(f"metadata[{label}]", *shown)


def _entries(model: Model) -> dict[str, memoryview | int]:
    """Return the value of each entry, or the index of a buffer that does not exist."""
    entries: dict[str, memoryview | int] = {}
    met: Counter[str] = Counter()
    for entry in model.metadata:
        met[entry.name] += 1
        label = entry.name if met[entry.name] == 1 else f"{entry.name}#{met[entry.name]}"
        exists = entry.buffer < len(model.buffers)
        entries[label] = model.buffers[entry.buffer].data if exists else entry.buffer
    return entries


def _same(old: memoryview | int, new: memoryview | int) -> bool:
    if isinstance(old, int) or isinstance(new, int):
        return isinstance(old, int) and isinstance(new, int)  # both are out of range
    return same_bytes(old, new)


def _described(label: str, value: memoryview | int) -> dict[str, Any]:
    """Return a summary of a value: its length, a digest, what it holds as far as that is known and short."""
    if isinstance(value, int):
        return {"missing_buffer": value}
    shown: dict[str, Any] = {"bytes": len(value)}
    decode = _DECODED.get(label)
    if decode is not None:
        try:
            shown |= decode(value)
        except TableFormatError as error:
            shown["malformed"] = error.message
    elif len(value) <= _SHOWN_BYTES and bytes(value).rstrip(b"\0").decode("utf-8", "replace").isprintable():
        shown["text"] = bytes(value).rstrip(b"\0").decode("utf-8", "surrogateescape")
    return shown | {"blake2b": blake2b(value, digest_size=8).hexdigest()}


def _stamped(data: memoryview, entry: str) -> dict[str, Any]:
    return {"operators": sum(len(one.checks) for one in decode_stamp(data, entry))}
