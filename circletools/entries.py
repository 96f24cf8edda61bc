"""Metadata entries of a model: `ct.metadata`.

with ct.open("in.tflite") as model, ct.edit(model) as edit:
ct.metadata.set(edit, "note", b"checked")
edit.save("out.tflite")

with ct.open("out.tflite") as model:
assert ct.metadata.get(model, "note") == b"checked"
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from circletools.affinity import store
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import UsageError
from circletools.inspection import MetadataSummary, metadata_summaries
from circletools.metadata.entries import write_entries
from circletools.model.model import Model
from circletools.origin.embed import strip
from circletools.surgery.rename import rename_metadata
from circletools.wording import Tabular, suggestion

__all__ = ["Entries", "get", "list", "remove", "rename", "set"]


@dataclass(frozen=True, slots=True, repr=False)
class Entries(Tabular):
    """The metadata entries of a model, in their order."""

    entries: tuple[MetadataSummary, ...]

    def to_rows(self) -> builtins.list[dict[str, Any]]:
        """Return name, buffer index and size of each entry; its `bytes` are None where the buffer does not exist."""
        return [asdict(entry) for entry in self.entries]


def list(model: Model) -> Entries:  # noqa: A001 - ct.metadata.list, as the command has it
    """Return the metadata entries of a model."""
    return Entries(metadata_summaries(model))


def get(model: Model, name: str) -> bytes:
    """Return the value of a metadata entry; of the last, where several have this name.

    Raises UsageError for a name that the model does not have.
    """
    value = model.metadata_value(name)
    if value is None:
        raise _unknown(model, name)
    return bytes(value)


def set(edit: ModelEdit, name: str, value: bytes) -> RewriteResult:  # noqa: A001 - as above
    """Give a metadata entry a value; the entry is added where the model has none of this name."""
    return write_entries(edit, {name: value})


def remove(
    edit: ModelEdit, names: Iterable[str] = (), *, origins: bool = False, affinity: bool = False
) -> RewriteResult:
    """Remove all metadata entries of these names; with `origins` and `affinity`, their tables and stamps.

    The data goes with the entry, unless another entry or a tensor shares it. Raises UsageError for a name that the
    model does not have, so that a typing mistake is not taken for success.
    """
    changes = []
    for name in dict.fromkeys(names):
        if not edit.remove_metadata(name):
            raise _unknown(edit.model, name)
        changes.append(f"metadata {name}: removed")
    changes += strip(edit).changes if origins else ()
    changes += store.strip(edit).changes if affinity else ()
    return RewriteResult(tuple(changes))


def rename(edit: ModelEdit, names: Mapping[str, str] | Iterable[str]) -> RewriteResult:
    """Give metadata entries other names, all at once: a mapping of old to new names, or texts `OLD=NEW`.

    Raises UsageError for a name that the model does not have, EditError for a new one that it has already.
    """
    pairs = names.items() if isinstance(names, Mapping) else names
    return RewriteResult(tuple(rename_metadata(edit, pairs)))


def _unknown(model: Model, name: str) -> UsageError:
    known = {entry.name for entry in model.metadata}
    hint = suggestion(name, known) if known else "it has none"
    return UsageError(f"the model has no metadata entry {name!r}", hint=hint)
