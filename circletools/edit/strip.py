"""Removing metadata entries by name."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import UsageError

__all__ = ["strip_metadata"]


def strip_metadata(edit: ModelEdit, names: Iterable[str]) -> RewriteResult:
    """Remove the metadata entries with these names; return a line for each name.

    All entries of a name go, and the data that only they use. Raises UsageError for a name that the model does not
    have, so that a typing mistake is not taken for success.
    """
    changes = []
    for name in dict.fromkeys(names):
        if not edit.remove_metadata(name):
            known = ", ".join(sorted({entry.name for entry in edit.model.metadata})) or "none"
            raise UsageError(f"the model has no metadata entry {name!r}", hint=f"it has: {known}")
        changes.append(f"metadata {name}: removed")
    return RewriteResult(tuple(changes))
