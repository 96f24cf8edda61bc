"""Running the source and the parts with the same inputs, in a runtime, and comparing every bit of the outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.findings import Finding
from circletools.model.model import Model, open_model
from circletools.runtimes.comparison import same
from circletools.runtimes.protocol import Answer, Array
from circletools.runtimes.worker import Worker
from circletools.split.verify import SplitFiles
from circletools.split.write import MANIFEST
from circletools.storage.files import Part, write


def compare_runs(files: SplitFiles, worker: Worker, *, seed: int = 0) -> list[Finding]:
    """Run the source, then the parts one after the other, and in onert the package too.

    `verify_split` must have found no error in `files`. Raises UsageError where the runtime does not start.
    """
    whole = worker.run(files.source, seed=seed)
    if whole.failure:
        message = f"{worker.runtime} cannot run the whole model, so values were not compared: {whole.failure}"
        return [Finding("SOURCE_NOT_RUN", "warning", str(files.source), message)]
    known = dict(zip(files.connections.source.inputs, whole.inputs, strict=True))
    findings = list(_by_parts(files, worker, known, whole.outputs))
    if worker.runtime == "onert" and (files.directory / MANIFEST).exists():
        findings += _as_package(files, worker, whole.inputs, whole.outputs)
    if any(finding.code == "VALUES_DIFFER" for finding in findings):
        change = _other_layouts(files, worker, whole)
        if change is not None:
            kept = [finding for finding in findings if finding.code != "VALUES_DIFFER"]
            return [*kept, Finding("LAYOUT_CHANGES_VALUES", "info", str(files.source), change)]
    return findings


def _other_layouts(files: SplitFiles, worker: Worker, whole: Answer) -> str | None:
    """Run the source written anew, with nothing changed but where things lie; say whether that changes its values."""
    with TemporaryDirectory() as directory, open_model(files.source) as model:
        written = Path(directory) / files.source.name
        for how, rewrite in (("compact", compact_parts), ("with metadata added", _with_metadata)):
            write(written, rewrite(model))
            answer = worker.run(written, whole.inputs)
            difference = None if answer.failure else same(whole.outputs, answer.outputs)
            if difference is not None:
                return (
                    f"the values of the parts differ, but so do those of the unchanged model written {how} "
                    f"({difference}): the result of {worker.runtime} depends on the file's layout, not on the split"
                )
    return None


def _with_metadata(model: Model) -> list[Part]:
    with ModelEdit(model) as edit:
        edit.set_metadata("CIRCLETOOLS_control", bytes(20))
        return edit.parts()


def _by_parts(files: SplitFiles, worker: Worker, known: dict[str, Array], expected: list[Array]) -> Iterator[Finding]:
    for index, part in enumerate(files.connections.parts):
        answer = worker.run(files.part(index), [known[name] for name in part.inputs])
        if answer.failure:
            message = f"{worker.runtime} runs the whole model, but not this part: {answer.failure}"
            yield Finding("PART_NOT_RUN", "error", part.file, message)
            return
        known.update(zip(part.outputs, answer.outputs, strict=True))
    difference = same(expected, [known[name] for name in files.connections.source.outputs])
    if difference is not None:
        yield Finding("VALUES_DIFFER", "error", "parts", f"run one by one in {worker.runtime}: {difference}")


def _as_package(files: SplitFiles, worker: Worker, inputs: list[Array], expected: list[Array]) -> Iterator[Finding]:
    sources = dict(zip(files.connections.source.inputs, inputs, strict=True))
    given = []
    for end in json.loads((files.directory / MANIFEST).read_bytes())["pkg-inputs"]:
        model, _, slot = map(int, end.split(":"))
        given.append(sources[files.connections.parts[model].inputs[slot]])
    answer = worker.run(Path(files.directory), given)
    if answer.failure:
        message = f"onert runs the parts one by one, but not the package: {answer.failure}"
        yield Finding("PACKAGE_NOT_RUN", "warning", MANIFEST, message)
    elif (difference := same(expected, answer.outputs)) is not None:
        yield Finding("VALUES_DIFFER", "error", MANIFEST, f"run as a package in onert: {difference}")
