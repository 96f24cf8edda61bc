"""The metadata entry `min_runtime_version`: the TensorFlow release whose runtime has all operators of a model.

The entry is sixteen bytes of text, padded with NULs, as TensorFlow's converter writes it. It contains a TensorFlow
release, so it cannot account for an operator that only LiteRT has: LiteRT's numbering restarts from 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.entries import write_entries
from circletools.model.views import OperatorCode
from circletools.requires.features import features
from circletools.requires.table import RuntimeTable, runtime_table

NAME = "min_runtime_version"
_BYTES = 16
State = Literal["true", "missing", "too low", "too high", "unknown"]
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
    builtin = [code for code in codes or model.operator_codes if not code.name.startswith("CUSTOM:")]
    needed = [_release(table, code) for code in builtin]
    needed += [_release_of(table, one.first) for one in features(model, table)]
    oldest = _number(table.runtimes[0].removeprefix("tflite-")) or ()
    known = [release for release in needed if release is not None]
    highest = max([oldest, *known])
    if len(known) < len(needed):
        # A release that is too old for some operator is too old for the model.
        low = declared is not None and (_number(declared) or (0,)) < highest
        return Minimum(declared, None, False, "too low" if low else "unknown")
    return Minimum(
        declared, ".".join(map(str, highest)), highest == oldest, _state(declared, highest, highest == oldest)
    )


def _state(declared: str | None, needed: Release, is_bound: bool) -> State:
    if not declared:
        return "missing"
    written = _number(declared)
    if written is None:
        return "unknown"
    if written > needed:
        return "too high"
    return "true" if is_bound or written == needed else "too low"


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
    if found.state == "true":
        return RewriteResult(())
    return write_entries(edit, {NAME: found.needed.encode().ljust(_BYTES, b"\0")})


def _release(table: RuntimeTable, code: OperatorCode) -> Release | None:
    """Return the TensorFlow release that an operator version needs; the oldest measured one stands for older ones."""
    known = _releases().get(code.name, {}).get(str(code.version))
    return _release_of(table, table.first_for_operator(code.name, code.version)) if known is None else _number(known)


def _release_of(table: RuntimeTable, first: int) -> Release | None:
    """Return the TensorFlow release of the runtime with this index, or None if it is a LiteRT release."""
    name, _, version = (table.name_of(first) or "").partition("-")
    return _number(version) if name == "tflite" else None


@cache
def _releases() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = json.loads(
        (resources.files(__package__) / "releases.json").read_text("utf-8")
    )["releases"]
    return found


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
    if model.format != "tflite":
        return
    try:
        found = minimum_of(model, runtime_table())
    except ModelFormatError:  # the entry refers to a buffer that does not exist, which is reported elsewhere
        return
    if found.state in ("true", "unknown") or (found.state == "missing" and found.is_bound):
        return
    severity: Literal["warning", "info"] = "warning" if found.state == "too low" else "info"
    problem = "it is missing" if found.state == "missing" else f"it is {found.declared}, which is {found.state}"
    needed = "no TensorFlow release has all operators" if found.needed is None else f"{found.needed} is correct"
    yield Finding("MIN_RUNTIME_VERSION", severity, f"metadata {NAME}", f"{problem}; {needed}")
