"""Checking that the parts of a split together equal the original: their files, then their values in a runtime."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from circletools.findings import Finding
from circletools.runtimes.worker import Worker
from circletools.split.execute import compare_runs
from circletools.split.verify import check_files, open_split

Runtime = Literal["litert", "onert", "none"]

# XNNPACK fuses operators, and what it fuses depends on where the cuts are.
_ONE_BY_ONE = {"litert": "litert:builtin", "onert": "onert"}


@dataclass(frozen=True, slots=True)
class SplitVerification:
    """The findings about a split, and the runtime that was chosen to run it in. No findings: it equals the source."""

    runtime: Runtime
    findings: tuple[Finding, ...]


def verify_split(
    directory: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    runtime: Runtime | None = None,
    subgraph: int = 0,
    seed: int = 0,
    timeout_s: float = 600.0,
) -> SplitVerification:
    """Check that the parts in a directory together equal the model that was split.

    First the files are compared, operator by operator; where that finds no error, the source and the parts are run
    with the same random inputs, made from `seed`, and every bit of their outputs is compared. `source` is the model
    that was split; without it, the file of its name in the directory or beside it. `runtime` is litert for .tflite
    and onert for .circle unless given; `none` compares the files alone. No model may run longer than `timeout_s`
    seconds.

    Raises InvalidInputError where there is no split or a file of it is broken, UsageError where the source is not
    found, the subgraph does not exist or the runtime does not start.
    """
    files = open_split(Path(directory), None if source is None else Path(source))
    chosen: Runtime = runtime or ("onert" if files.source.suffix == ".circle" else "litert")
    findings = check_files(files, subgraph)
    failed = any(finding.severity == "error" for finding in findings)
    if failed or chosen == "none":
        pass
    elif subgraph:
        message = f"{chosen} takes subgraph 0 for the model, so values of subgraph {subgraph} were not compared"
        findings.append(Finding("SUBGRAPH_NOT_RUN", "info", str(files.source), message))
    else:
        with Worker(_ONE_BY_ONE[chosen], timeout_s) as worker:
            findings += compare_runs(files, worker, seed=seed)
    return SplitVerification(chosen, tuple(findings))
