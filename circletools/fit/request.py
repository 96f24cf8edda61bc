"""A request to `fit`, and the contents of its files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from circletools.affinity.capability.file import load_capability, shipped_devices
from circletools.affinity.capability.table import Capability
from circletools.errors import UsageError
from circletools.findings import Finding, finding_of
from circletools.storage.documents import naming_files, of_model, read_baseline
from circletools.wording import Attributes

Key = tuple[str, str, tuple[str, ...]]
"""The identity of a finding across runs: the operator code, the reason (without indices) and the origin."""


@dataclass(frozen=True, slots=True)
class Known:
    """The findings about a target in an earlier run: the number of misfits of each kind, and the obstacles."""

    misfits: Mapping[Key, int] = field(default_factory=dict)
    obstacles: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest(Attributes):
    """The targets for which to check a model, and the results of an earlier run.

    `on`: names of built-in capability tables, or of files that end in `.json`. `baseline`: the JSON of an earlier
    run, whose findings are not new; `renamed`: as for `CheckRequest`. `with_`: programs to ask, as `PROGRAM` or
    `PROGRAM:VARIANT` (docs/runtimes.md); each may take `timeout_s` seconds.
    """

    on: tuple[str, ...]
    baseline: str | os.PathLike[str] | None = None
    with_: tuple[str, ...] = ()
    timeout_s: float = 600.0
    renamed: bool = False

    def read(self) -> FitInputs:
        """Read the files of the request, so that several models can use them.

        Raises UsageError if a target has no table, and InvalidInputError if a file cannot be read.
        """
        with naming_files():
            baseline = None if self.baseline is None else read_baseline(self.baseline, "fit", _targets)
            return FitInputs(self, _tables(self.on), baseline)


@dataclass(frozen=True, slots=True)
class FitInputs:
    """A request, and the contents of its files: tables by target, and the baseline (`read_baseline`), if any."""

    request: FitRequest
    tables: Mapping[str, Capability]
    baseline: Mapping[str, Mapping[str, Known]] | None

    def known(self, file: str) -> Mapping[str, Known]:
        """Return the baseline's findings about a model, by target."""
        return of_model(self.baseline or {}, file, self.request.renamed) or {}


def _tables(names: Sequence[str]) -> dict[str, Capability]:
    shipped = shipped_devices()
    if not names or not all(names):
        example = ",".join([*dict.fromkeys(filter(None, (*names, *shipped)))][:2])
        message = "the list of targets has an empty entry" if any(names) else "no target is named"
        raise UsageError(message, hint=f"write `on={example}`{', without spaces' * any(names)}")
    tables: dict[str, Capability] = {}
    for name in dict.fromkeys(names):
        table = _shipped(name) if name in shipped else load_capability(name)
        if table.device in tables:
            raise UsageError(f"duplicate capability table for {table.device!r}", location=f"`on={name}`")
        tables[table.device] = table
    return tables


_shipped = cache(load_capability)


def _targets(document: Mapping[str, Any]) -> dict[str, Known]:
    """Return the findings in a baseline document by target; a document about an unreadable model has none."""
    targets = () if "exit_status" in document else document["targets"]
    return {target["target"]: _known(target) for target in targets}


def key_of(code: str, reason: str, origin: Sequence[str]) -> Key:
    """Return the key of a finding."""
    return code, re.sub(r"operator \d+", "operator", reason), tuple(origin)


def _known(target: Mapping[str, Any]) -> Known:
    """Return a baseline's findings about a target."""
    misfits = Counter(
        key_of(str(one["code"]), str(one["reason"]), [str(name) for name in one["origin"]])
        for one in target["findings"]
    )
    return Known(misfits, tuple(map(finding_of, target.get("obstacles", ()))))
