"""Read tables for a comparison: a table that cannot be decoded counts as missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from circletools.errors import InvalidInputError, TableFormatError
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference, Kind
from circletools.metadata.stamp import Freshness
from circletools.model.model import Model

T = TypeVar("T")


def read_or_note(read: Callable[[Model], T | None], model: Model, what: str, notes: list[Finding]) -> T | None:
    """Return the value of `read`, or None with a note if it fails."""
    try:
        return read(model)
    except TableFormatError as error:
        message = f"{model.source.name}: the {what} cannot be decoded and are ignored: {error}"
        notes.append(Finding("MALFORMED_TABLE", "info", "", message))
        return None


def between(path: str | tuple[str, str], old: Any, new: Any) -> Difference:
    """Return the difference of two values, or None; `path` is one path for both models, or a pair."""
    kind: Kind = "added" if old is None else "removed" if new is None else "changed"
    return Difference(kind, *((path, path) if isinstance(path, str) else path), old, new)


def freshness_of(check: Callable[[Model, T], Freshness], model: Model, tables: T) -> str:
    """Return the state found by `check`; `unknown` if a stamp or names of operators cannot be decoded."""
    try:
        return check(model, tables).state
    except InvalidInputError:
        return "unknown"
