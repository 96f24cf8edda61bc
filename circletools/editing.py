"""Edit a model so that its origin and affinity tables stay valid."""

from __future__ import annotations

from weakref import ref

from circletools.affinity import store
from circletools.edit.edit import ModelEdit
from circletools.model.model import Model
from circletools.origin.embed import follow


def edit(model: Model) -> ModelEdit:
    """Start an edit of a model; its origin and affinity tables will include the operators that the edit adds.

    The model stays as it was opened. A copy operator gets the origin and device of the operator that it copies.
    Raises ModelFormatError for a broken structure, and EditError for indices that new tensors could bring into range.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     edit.set_metadata("note", b"checked")
    ...     edit.save("out.circle")
    """
    started = ModelEdit(model)
    model.editing = ref(started)
    follow(started)
    store.follow(started)
    return started
