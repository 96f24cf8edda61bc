"""Tables of two models that are compared: one that cannot be decoded counts as none and does not end it."""

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
    """Return the value of `read`, None with a note where it fails."""
    try:
        return read(model)
    except TableFormatError as error:
        message = f"{model.source.name}: the {what} cannot be decoded and are ignored: {error}"
        notes.append(Finding("MALFORMED_TABLE", "info", "", message))
        return None


def between(path: str | tuple[str, str], old: Any, new: Any) -> Difference:
    """Return the difference of two values, or None; `path` is one for both models, or two."""
    kind: Kind = "added" if old is None else "removed" if new is None else "changed"
    return Difference(kind, *((path, path) if isinstance(path, str) else path), old, new)


def freshness_of(check: Callable[[Model, T], Freshness], model: Model, tables: T) -> str:
    """Return the state that `check` finds; `unknown` where a stamp or the names of operators cannot be decoded."""
    try:
        return check(model, tables).state
    except InvalidInputError:
        return "unknown"
