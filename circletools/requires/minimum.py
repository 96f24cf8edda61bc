"""The metadata entry `min_runtime_version`: the TensorFlow release whose runtime has all operators of a model.

    with ct.open("in.tflite") as model, ct.edit(model) as edit:
        ct.rewrite_requirements(edit, lower=True, write=True)
        edit.save("out.tflite")

The entry is sixteen bytes of text, padded with NULs, as TensorFlow's converter writes it. It contains a TensorFlow
release, so it cannot account for an operator that only LiteRT has: LiteRT's numbering restarts from 1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.entries import write_entries
from circletools.model.views import OperatorCode
from circletools.requires.forms import lowest_version
from circletools.requires.table import RuntimeTable, features, runtime_table, title
from circletools.storage.documents import packaged

NAME = "min_runtime_version"
_BYTES = 16
State = Literal["correct", "missing", "too low", "too high", "unknown"]
Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Minimum:
    """The entry in the file and the correct value.

    `declared` is the entry's text, or None if there is none. `needed` is the required TensorFlow release, or None if
    no release is known to have all operators. `is_bound` means that a release older than `needed` may suffice, since
    no older one was measured. `state` compares the two.
    """

    declared: str | None
    needed: str | None
    is_bound: bool
    state: State


def minimum_of(model: ModelGraph, table: RuntimeTable, codes: Sequence[OperatorCode] | None = None) -> Minimum:
    """Return `min_runtime_version` of a TFLite model, and the value that it should have.

    `codes` are the operator codes in their edited state; by default, those of the model.
    """
    raw = model.metadata_value(NAME)
    declared = None if raw is None else bytes(raw).rstrip(b"\0").decode("utf-8", "replace")
    builtin = [code for code in codes or model.source.operator_codes if not code.name.startswith("CUSTOM:")]
    needed = [_release(table, code) for code in builtin]
    needed += [_release_of(table, one.first) for one in features(model, table)]
    oldest = _number(table.runtimes[0].removeprefix("tflite-")) or ()
    known = [release for release in needed if release is not None]
    highest = max([oldest, *known])
    if len(known) < len(needed):
        # A release that is too old for some operator is too old for the model.
        low = declared is not None and (_number(declared) or (0,)) < highest
        return Minimum(declared, None, False, "too low" if low else "unknown")
    is_bound = highest == oldest
    return Minimum(declared, ".".join(map(str, highest)), is_bound, _state(declared, highest, is_bound))


def _state(declared: str | None, needed: Release, is_bound: bool) -> State:
    if not declared:
        return "missing"
    written = _number(declared)
    if written is None or written > needed:
        return "too high" if written else "unknown"
    return "correct" if is_bound or written == needed else "too low"


def write_minimum(edit: ModelEdit) -> RewriteResult:
    """Set `min_runtime_version` to the correct value; nothing changes if it already has that value.

    Raises EditError if no TensorFlow release is known to have all operators, and UsageError for a Circle model.
    """
    if edit.model.format != "tflite":
        raise UsageError(f"{NAME} exists only in TFLite models; this is a Circle model")
    found = minimum_of(model_graph(edit.model), runtime_table(), edit.operator_codes)
    if found.needed is None:
        raise EditError(
            f"{NAME} must name a TensorFlow release, but no known release has all operators of this model",
            hint="`circletool requires IN` shows which LiteRT release loads it; --lower may lower operator versions",
        )
    if found.state == "correct":
        return RewriteResult(())
    return write_entries(edit, {NAME: found.needed.encode().ljust(_BYTES, b"\0")})


def _release(table: RuntimeTable, code: OperatorCode) -> Release | None:
    """Return the TensorFlow release that an operator version needs; the oldest measured one stands for older ones."""
    known = packaged(__package__, "releases.json")["releases"].get(code.name, {}).get(str(code.version))
    return _release_of(table, table.first_for_operator(code.name, code.version)) if known is None else _number(known)


def _release_of(table: RuntimeTable, first: int) -> Release | None:
    """Return the TensorFlow release of the runtime with this index, or None if it is a LiteRT release."""
    name, _, version = (table.name_of(first) or "").partition("-")
    return _number(version) if name == "tflite" else None


def _number(version: str) -> Release | None:
    """Return a version as three numbers, so that 2.8 equals 2.8.0; None for any other text."""
    words = version.split(".")
    if not 1 <= len(words) <= 3 or not all(word.isascii() and word.isdigit() and len(word) < 6 for word in words):
        return None
    return tuple([*map(int, words), 0, 0][:3])


def minimum_findings(model: ModelGraph) -> Iterator[Finding]:
    """Yield a finding if `min_runtime_version` of a TFLite model is not correct.

    A missing entry is reported only if the oldest measured runtime does not load the model.
    """
    if model.source.format != "tflite":
        return
    try:
        found = minimum_of(model, runtime_table())
    except ModelFormatError:  # the entry refers to a buffer that does not exist, which is reported elsewhere
        return
    if found.state in ("correct", "unknown") or (found.state == "missing" and found.is_bound):
        return
    severity: Literal["warning", "info"] = "warning" if found.state == "too low" else "info"
    problem = "it is missing" if found.state == "missing" else f"it is {found.declared}, which is {found.state}"
    needed = "no TensorFlow release has all operators" if found.needed is None else f"{found.needed} is correct"
    yield Finding("MIN_RUNTIME_VERSION", severity, f"metadata {NAME}", f"{problem}; {needed}")


def rewrite_requirements(edit: ModelEdit, *, lower: bool = False, write: bool = False) -> RewriteResult:
    """With `lower`, write the lowest operator versions; with `write`, the correct min_runtime_version of the result.

    Raises UsageError for a Circle model, and EditError if no TensorFlow release has all operators.
    """
    lowered = lower_versions(edit) if lower else RewriteResult(())
    written = write_minimum(edit) if write else RewriteResult(())
    return RewriteResult((*lowered.changes, *written.changes), lowered.notes)


def lower_versions(edit: ModelEdit) -> RewriteResult:
    """Give each operator code the lowest version for its operators' forms, if older runtimes resolve that version.

    Only forms that were measured are lowered: the first runtime that resolves the version runs them, and the newest
    runtime computes the same bits with either version. A code keeps its version, with a note, if one of its operators
    has another form. Raises UsageError for a Circle model.
    """
    graph = model_graph(edit.model)
    if graph.source.format != "tflite":
        raise UsageError("operator versions can be lowered only in TFLite models; this is a Circle model")
    table, changes, notes = runtime_table(), [], []
    for code in graph.source.operator_codes:
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
            changes.append(f"{place}: {change}, from {title(table.runtimes[then])} on")
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
