"""Operator versions and min_runtime_version of a model, brought to what is true and lowest.

with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ct.rewrite_requirements(edit, lower=True, write=True)
    edit.save("out.tflite")
"""

from __future__ import annotations

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.requires.lower import lower_versions
from circletools.requires.minimum import write_minimum


def rewrite_requirements(edit: ModelEdit, *, lower: bool = False, write: bool = False) -> RewriteResult:
    """With `lower`, write the lowest operator versions; with `write`, the true min_runtime_version of the result.

    Raises UsageError for a Circle model, EditError where no TensorFlow release has all operators.
    """
    lowered = lower_versions(edit) if lower else RewriteResult(())
    written = write_minimum(edit) if write else RewriteResult(())
    return RewriteResult((*lowered.changes, *written.changes), lowered.notes)
