"""Metadata entries that belong together: written and taken out, with what that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult


def write_entries(edit: ModelEdit, entries: Mapping[str, bytes | None]) -> RewriteResult:
    """Give metadata entries these values, and remove those with None; tell which differ from the model's."""
    changes = []
    for name, value in entries.items():
        old = edit.model.metadata_value(name)
        if value is None:
            edit.remove_metadata(name)
        else:
            edit.set_metadata(name, value)
        if value != (None if old is None else bytes(old)):
            changes.append(f"metadata {name}: {'removed' if value is None else f'{len(value)} bytes'}")
    return RewriteResult(tuple(changes))


def remove_entries(edit: ModelEdit, names: Iterable[str]) -> RewriteResult:
    """Remove the metadata entries of these names; tell which there were."""
    removed = [name for name in names if edit.remove_metadata(name)]
    return RewriteResult(tuple(f"metadata {name}: removed" for name in removed))
