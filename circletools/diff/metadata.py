"""Compare metadata entries of two models by name and value."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference
from circletools.model.digests import metadata_labels
from circletools.model.model import Model

_SHOWN_BYTES = 64


def metadata_differences(comparison: ModelComparison, _: list[Finding]) -> Iterator[Difference]:
    """Yield the entries that only one model has, and entries with different values.

    Entries with the same name are matched in order; see `metadata_labels`.
    """
    before, after = _entries(comparison.before), _entries(comparison.after)
    for label in dict.fromkeys((*before, *after)):
        old, new = before.get(label), after.get(label)
        if old is None or new is None or old.digest != new.digest:
            shown = (None if value is None else _described(value) for value in (old, new))
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


def _described(found: _Value) -> dict[str, Any]:
    """Return a summary of a value: its length, a digest, and its text if short."""
    value = found.data
    if isinstance(value, int):
        return {"missing_buffer": value}
    shown: dict[str, Any] = {"bytes": len(value)}
    if len(value) <= _SHOWN_BYTES and bytes(value).rstrip(b"\0").decode("utf-8", "replace").isprintable():
        shown["text"] = bytes(value).rstrip(b"\0").decode("utf-8", "surrogateescape")
    return shown | {"blake2b": found.digest}
