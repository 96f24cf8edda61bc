"""Compare metadata entries of two models by name and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, DEVICE_TABLE, decode_affinity
from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between
from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference
from circletools.metadata.codec import decode_names
from circletools.metadata.stamp import STAMP, decode_stamp
from circletools.model.digests import metadata_labels
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
    """Yield the entries that only one model has, and entries with different values.

    Entries with the same name are matched in order; see `metadata_labels`.
    """
    models = comparison.before, comparison.after
    before, after = map(_entries, models)
    for label in dict.fromkeys((*before, *after)):
        old, new = before.get(label), after.get(label)
        if old is None or new is None or old.digest != new.digest:
            shown = (None if value is None else _described(label, value) for value in (old, new))
            yield between(f"metadata[{label}]", *shown)


class _Value(NamedTuple):
    """The value of an entry and its digest, or the index of a buffer that does not exist."""

    data: memoryview | int
    digest: str = ""


def _entries(model: Model) -> dict[str, _Value]:
    """Return the value of each entry; shared data is read once."""
    entries: dict[str, _Value] = {}
    values: dict[tuple[int, int], _Value] = {}
    for label, entry in metadata_labels(model):
        if entry.buffer >= len(model.buffers):
            entries[label] = _Value(entry.buffer)
            continue
        place, data = model.buffers.place(entry.buffer), model.buffers[entry.buffer].data
        if place not in values:
            values[place] = _Value(data, blake2b(data, digest_size=16).hexdigest())
        entries[label] = values[place]
    return entries


def _described(label: str, found: _Value) -> dict[str, Any]:
    """Return a summary of a value: its length, a digest, and its contents if known and short."""
    value = found.data
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
    return shown | {"blake2b": found.digest}


def _stamped(data: memoryview, entry: str) -> dict[str, Any]:
    return {"operators": sum(len(one.checks) for one in decode_stamp(data, entry))}
