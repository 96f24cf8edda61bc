"""Lower operator versions and correct min_runtime_version in a model.

with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ct.rewrite_requirements(edit, lower=True, write=True)
    edit.save("out.tflite")
"""

from __future__ import annotations

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.requires.features import features
from circletools.requires.forms import lowest_version
from circletools.requires.minimum import write_minimum
from circletools.requires.table import runtime_table, title


def rewrite_requirements(edit: ModelEdit, *, lower: bool = False, write: bool = False) -> RewriteResult:
    """With `lower`, write the lowest operator versions; with `write`, the correct min_runtime_version of the result.

    Raises UsageError for a Circle model, and EditError if no TensorFlow release has all operators.
    """
    lowered = lower_versions(edit) if lower else RewriteResult(())
    written = write_minimum(edit) if write else RewriteResult(())
    return RewriteResult((*lowered.changes, *written.changes), lowered.notes)


def lower_versions(edit: ModelEdit) -> RewriteResult:
    """Give each operator code the lowest version that covers its operators' forms, if older runtimes resolve it.

    Only forms that were measured are lowered: the first runtime that resolves the version runs them, and the newest
    runtime computes the same bits with either version. A code keeps its version, with a note, if one of its operators
    has another form. Raises UsageError for a Circle model.
    """
    graph = model_graph(edit.model)
    if graph.format != "tflite":
        raise UsageError("operator versions can be lowered only in TFLite models; this is a Circle model")
    table, changes, notes = runtime_table(), [], []
    for code in graph.operator_codes:
        first = table.first_for_operator(code.name, code.version)
        if first == 0 or code.name.startswith("CUSTOM:"):
            continue
        is_lowest, place = code.version == table.lowest(code.name), f"operator_codes[{code.index}]"
        version = None if is_lowest else _lowest(graph, code.index)
        if version is None:
            reason = "the lowest version for one of its operators is not known"
            reason = "there is no lower version" if is_lowest else reason
            message = f"{code.name} stays at version {code.version}: {reason}"
            notes.append(Finding("VERSION_KEPT", "info", place, message))
        elif version < code.version and (then := table.first_for_operator(code.name, version)) < first:
            edit.set_operator_version(code.index, version)
            change = f"{code.name} version {code.version} -> {version}"
            changes.append(f"{place}: {change}, from {title(table.runtimes[then])} onwards")
    for one in features(graph, table):
        if one.first > 0:
            notes.append(Finding("VERSION_KEPT", "info", "model", f"{one.what}: lower operator versions do not help"))
    return RewriteResult(tuple(changes), tuple(notes))


def _lowest(model: ModelGraph, code: int) -> int | None:
    """Return the lowest version that suits all operators of a code; None without operators or if one is unknown."""
    versions = [
        lowest_version(graph, operator)
        for graph in model.graphs
        for operator in np.flatnonzero(graph.operators.code_indices == code).tolist()
    ]
    known = [version for version in versions if version is not None]
    return max(known) if known and len(known) == len(versions) else None
