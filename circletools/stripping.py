"""Removing metadata entries."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.affinity import store
from circletools.edit.edit import ModelEdit
from circletools.edit.result import RewriteResult
from circletools.errors import UsageError
from circletools.origin.embed import strip


def strip_metadata(
    edit: ModelEdit, names: Iterable[str] = (), *, origins: bool = False, affinity: bool = False
) -> RewriteResult:
    """Remove the metadata entries of these names; with `origins` and `affinity`, their tables and stamps.

    The data goes with the entry, unless another entry or a tensor shares it. Raises UsageError for a name that the
    model does not have.
    """
    changes = []
    for name in dict.fromkeys(names):
        if not edit.remove_metadata(name):
            known = ", ".join(sorted({entry.name for entry in edit.model.metadata})) or "none"
            raise UsageError(f"the model has no metadata entry {name!r}", hint=f"it has: {known}")
        changes.append(f"metadata {name}: removed")
    changes += strip(edit).changes if origins else ()
    changes += store.strip(edit).changes if affinity else ()
    return RewriteResult(tuple(changes))
