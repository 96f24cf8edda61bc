"""Edits of a whole model: those that keep its tables true, and those that remove them."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.affinity import store
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import UsageError
from circletools.model.model import Model
from circletools.origin import remap
from circletools.origin.embed import strip


def edit(model: Model) -> ModelEdit:
    """Start an edit of a model; its origins and its affinity follow the operators that the edit adds.

    A copy has the origin of the operator whose result it copies, and its device. Raises ModelFormatError when the
    file's structure is broken, and EditError when an index in it is out of range: new tensors could make it valid.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     edit.set_metadata("note", b"checked")
    ...     edit.save("out.circle")
    """
    started = ModelEdit(model)
    remap.follow(started)
    store.follow(started)
    return started


def strip_metadata(
    edit: ModelEdit, names: Iterable[str] = (), *, origins: bool = False, affinity: bool = False
) -> RewriteResult:
    """Remove the metadata entries of these names; with `origins` and `affinity`, their tables and stamps.

    All entries of a name go, and the data that only they use. Raises UsageError for a name that the model does not
    have, so that a typing mistake is not taken for success.
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
