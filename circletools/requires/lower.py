"""Write the lowest operator versions that the forms of the operators need, so that older runtimes load the model."""

from __future__ import annotations

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.requires.forms import lowest_version
from circletools.requires.table import NEVER, RuntimeTable, runtime_table, title


def lower_versions(edit: ModelEdit) -> RewriteResult:
    """Give each operator code the lowest version that all its operators' forms have, where that helps.

    A version helps where an older runtime resolves it. Only forms that were measured are lowered: the first runtime
    that resolves the version runs them, and the newest one computes the same bits with either version. A code stays,
    with a note, where the form of one of its operators is not such a form. Raises UsageError for a Circle model.
    """
    graph = model_graph(edit.model)
    if graph.format != "tflite":
        raise UsageError("operator versions are lowered in TFLite models, and this is a Circle model")
    table, changes, notes = runtime_table(), [], []
    for code in graph.operator_codes:
        first = table.first_for_operator(code.name, code.version)
        if first == 0 or code.name.startswith("CUSTOM:"):
            continue
        version = _lowest(graph, code.index)
        if version is None:
            notes.append(_unknown(code.index, code.name, code.version))
        elif version < code.version and table.first_for_operator(code.name, version) < first:
            edit.set_operator_version(code.index, version)
            change = f"{code.name} version {code.version} -> {version}"
            changes.append(f"operator_codes[{code.index}]: {change}, {_runs(table, code.name, version)}")
    return RewriteResult(tuple(changes), tuple(notes))


def _runs(table: RuntimeTable, code: str, version: int) -> str:
    first = table.first_for_operator(code, version)
    return "" if first == NEVER else f"from {title(table.runtimes[first])} on"


def _unknown(index: int, code: str, version: int) -> Finding:
    return Finding(
        "VERSION_KEPT",
        "info",
        f"operator_codes[{index}]",
        f"{code} stays at version {version}: the lowest version of the form of one of its operators is not known",
    )


def _lowest(model: ModelGraph, code: int) -> int | None:
    """Return the lowest version that suits all operators of a code, None where it has none or one is not known."""
    versions = [
        lowest_version(graph, operator)
        for graph in model.graphs
        for operator in np.flatnonzero(graph.operators.code_indices == code).tolist()
    ]
    known = [version for version in versions if version is not None]
    return max(known) if known and len(known) == len(versions) else None
