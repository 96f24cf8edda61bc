"""Check that the parts of a split together equal the original: compare files, then values in a runtime.

The source and the parts run with the same inputs, and every bit of the outputs is compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from circletools.asking import file_inputs
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.resources import Resources
from circletools.model.model import open_model
from circletools.parts.compare import SplitFiles, check_files, open_split
from circletools.parts.split import MANIFEST
from circletools.runtimes.inputs import RANDOM_INPUTS, make_input
from circletools.runtimes.protocol import Array, same
from circletools.runtimes.worker import Worker
from circletools.storage.files import write
from circletools.wording import Attributes

_STATEFUL_RUNS = 5
_MOST_TRIES = 5
Runs = list[list[Array]]
"""Arrays by run and position."""

Runtime = Literal["litert", "onert", "none"]

# XNNPACK fuses operators, and the cuts between parts determine which ones it can fuse.
_ONE_BY_ONE = {"litert": "litert:builtin", "onert": "onert"}


@dataclass(frozen=True, slots=True)
class SplitVerification(Attributes):
    """The findings about a split, and the runtime that ran it. Without findings, the split equals the source."""

    runtime: Runtime
    findings: tuple[Finding, ...]


def verify_split(
    directory: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    runtime: Runtime | None = None,
    subgraph: int = 0,
    seed: int = 0,
    inputs: Sequence[str] = (),
    timeout_s: float = 600.0,
) -> SplitVerification:
    """Check that the parts in a directory together equal the model that was split.

    First the files are compared, operator by operator; if that finds no error, the source and the parts are run with
    the same inputs, and every bit of their outputs is compared. `inputs` are files as in `CompareRequest`; without
    them, inputs are generated from `seed`. `source` is the model that was split; by default, the file with the
    recorded name in or next to `directory`. The default `runtime` is litert for .tflite and onert for .circle; `none`
    compares only files. A run may take at most `timeout_s` seconds.

    Raises InvalidInputError if there is no split or one of its files is broken, and UsageError if the source is not
    found, the subgraph does not exist or the runtime does not start.
    """
    files = open_split(Path(directory), None if source is None else Path(source))
    chosen: Runtime = runtime or ("onert" if files.source.suffix == ".circle" else "litert")
    findings = check_files(files, subgraph)
    failed = any(finding.severity == "error" for finding in findings)
    if failed or chosen == "none":
        pass
    elif subgraph:
        message = f"{chosen} runs only subgraph 0, so values of subgraph {subgraph} were not compared"
        findings.append(Finding("SUBGRAPH_NOT_RUN", "info", str(files.source), message))
    else:
        with Worker(_ONE_BY_ONE[chosen], timeout_s) as worker:
            findings += compare_runs(files, worker, seed=seed, given=inputs) or _as_called(files, worker)
    return SplitVerification(chosen, tuple(findings))


def compare_runs(files: SplitFiles, worker: Worker, *, seed: int = 0, given: Sequence[str] = ()) -> list[Finding]:
    """Run the source, then the parts one after another; in onert, run the package too.

    A model with state is loaded once and run several times, with different inputs each time. `given` are files of
    inputs, one for each run. Without them, other inputs are tried if a part does not run, or if a tensor between
    parts is empty (computed shapes can cause this): an empty tensor proves nothing, and not every runtime accepts it.
    `check_files` must have found no error in `files`. Raises UsageError if the runtime does not start.
    """
    with open_model(files.source) as model:
        count = len(given) or (_STATEFUL_RUNS if Resources(model_graph(model)).state(0).users else 1)
        read = file_inputs(given, model_graph(model).graphs[0])
    findings: list[Finding] = []
    is_compared = False
    for first in range(seed, seed + (1 if given else _MOST_TRIES)):
        answer = worker.run_each(files.source, read) if given else worker.run(files.source, seed=first)
        inputs = read or [answer.inputs]
        for run in range(len(inputs), count):
            named = ((f"{position} of run {run}", array) for position, array in enumerate(answer.inputs))
            inputs.append([make_input(first, name, array.dtype, array.shape) for name, array in named])
        if count > 1 and not given and not answer.failure:
            answer = worker.run_each(files.source, inputs)
        if answer.failure and first > seed:
            break
        if answer.failure:
            message = f"{worker.runtime} cannot run the whole model, so values were not compared: {answer.failure}"
            note = "" if given else worker.excuse(files.source)
            return [Finding("SOURCE_NOT_RUN", "warning", str(files.source), f"{message}{note}")]
        expected = _by_run(answer.outputs, count)
        known = [dict(zip(files.connections.source.inputs, given, strict=True)) for given in inputs]
        found = [*_by_parts(files, worker, known, expected), *_as_package(files, worker, inputs, expected)]
        if any(finding.code == "VALUES_DIFFER" for finding in found):
            excuse = _nondeterminism(files, worker, inputs, expected)
            kept = [finding for finding in found if finding.code != "VALUES_DIFFER"]
            return found if excuse is None else [*kept, excuse]
        runs = all(finding.code != "PART_NOT_RUN" for finding in found)
        if runs or not findings:
            findings = found
        is_compared |= all(array.size for outputs in expected for array in outputs)
        if runs and all(array.size for values in known for array in values.values()):
            break
    if not is_compared:
        message = "an output is empty for all inputs tried, so its values were not compared"
        message += "" if given else f"; {RANDOM_INPUTS}"
        findings = [*findings, Finding("SOURCE_NOT_RUN", "warning", str(files.source), message)]
    return findings


def _by_run(arrays: list[Array], count: int) -> Runs:
    each = len(arrays) // count
    return [arrays[run * each : (run + 1) * each] for run in range(count)]


def _difference(first: Runs, second: Runs) -> str | None:
    """Return the first difference, with the number of the run if there are several runs."""
    for run, (one, two) in enumerate(zip(first, second, strict=True), 1):
        difference = same(one, two)
        if difference is not None:
            return difference if len(first) == 1 else f"run {run} of {len(first)}: {difference}"
    return None


def _nondeterminism(files: SplitFiles, worker: Worker, inputs: Runs, expected: Runs) -> Finding | None:
    """Run the source again, then copies with different file offsets; report whether the values change."""

    def changed(path: Path) -> str | None:
        answer = worker.run_each(path, inputs)
        return None if answer.failure else _difference(expected, _by_run(answer.outputs, len(inputs)))

    if (difference := changed(files.source)) is not None:
        message = (
            f"the values of the parts differ, but the model itself gives different values each time "
            f"({difference}), so the values prove nothing about the split"
        )
        return Finding("VALUES_NOT_REPEATED", "info", str(files.source), message)
    with TemporaryDirectory() as directory, open_model(files.source) as model, ModelEdit(model) as edit:
        copy = Path(directory) / files.source.name
        edit.set_metadata("CIRCLETOOLS_control", bytes(20))
        for how, parts in (("as a compact file", compact_parts(model)), ("with metadata added", edit.parts())):
            write(copy, parts)
            if (difference := changed(copy)) is not None:
                message = (
                    f"the values of the parts differ, but so do those of the unchanged model written {how} "
                    f"({difference}): the results of {worker.runtime} depend on the file's layout, not on the split"
                )
                return Finding("LAYOUT_CHANGES_VALUES", "info", str(files.source), message)
    return None


def _by_parts(files: SplitFiles, worker: Worker, known: list[dict[str, Array]], expected: Runs) -> Iterator[Finding]:
    """Run the parts; add their results to `known`, the values of tensors in each run, by name."""
    for index, part in enumerate(files.connections.parts):
        answer = worker.run_each(files.part(index), [[values[name] for name in part.inputs] for values in known])
        if answer.failure:
            message = f"{worker.runtime} runs the whole model, but not this part: {answer.failure}"
            yield Finding("PART_NOT_RUN", "error", part.file, message)
            return
        for values, outputs in zip(known, _by_run(answer.outputs, len(known)), strict=True):
            values.update(zip(part.outputs, outputs, strict=True))
    ends = files.connections.source.outputs
    difference = _difference(expected, [[values[name] for name in ends] for values in known])
    if difference is not None:
        message = f"{difference} when the parts run one by one in {worker.runtime}"
        yield Finding("VALUES_DIFFER", "error", "parts", message)


def _as_called(files: SplitFiles, worker: Worker) -> Iterator[Finding]:
    """Yield a finding if onert's Python API, in which the runtime allocates the outputs, does not run the package."""
    if worker.runtime != "onert" or not (files.directory / MANIFEST).exists():
        return
    verdict = worker.called(files.directory)
    if verdict.status != "ok":
        message = f"onert runs the package with outputs bound by the caller, but not through `infer`: {verdict.words}"
        yield Finding("PACKAGE_NOT_CALLED", "info", MANIFEST, message)


def _as_package(files: SplitFiles, worker: Worker, inputs: Runs, expected: Runs) -> Iterator[Finding]:
    """Run the package, if there is one and the runtime is onert."""
    if worker.runtime != "onert" or not (files.directory / MANIFEST).exists():
        return
    names, parts = files.connections.source.inputs, files.connections.parts
    ends = json.loads((files.directory / MANIFEST).read_bytes())["pkg-inputs"]
    read = [parts[model].inputs[slot] for model, _, slot in (map(int, end.split(":")) for end in ends)]
    given = [dict(zip(names, arrays, strict=True)) for arrays in inputs]
    answer = worker.run_each(Path(files.directory), [[arrays[name] for name in read] for arrays in given])
    if answer.failure:
        message = f"onert runs the parts one by one, but not the package: {answer.failure}"
        yield Finding("PACKAGE_NOT_RUN", "warning", MANIFEST, message)
    elif (difference := _difference(expected, _by_run(answer.outputs, len(inputs)))) is not None:
        yield Finding("VALUES_DIFFER", "error", MANIFEST, f"{difference} when the package runs in onert")
