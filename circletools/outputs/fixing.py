"""Fix outputs, and ask programs whether they still take the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools import runtimes
from circletools.asking import as_file
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.outputs.copyops import CopyChoice, CopyRuntime
from circletools.outputs.rewrite import FixOptions, copy_outputs

_RUNS = ("litert", "onert")  # other programs only load the model


def fix_outputs(
    edit: ModelEdit,
    subgraphs: str | Iterable[int] = "entry",
    *,
    copy_operator: CopyChoice = "auto",
    runtime: CopyRuntime = "auto",
    keep_constants: bool = False,
    detach_taps: bool = False,
    with_: Sequence[str] = (),
) -> RewriteResult:
    """Give each output of these subgraphs its own tensor.

    `subgraphs` are indices, `entry` (the main subgraph and those that a signature names) or `all` (except those that
    runtimes recognize by their operators). Copies are exact in `runtime`. With `keep_constants`, a constant is copied
    only for its second and later slots; with `detach_taps`, outputs that an operator reads are copied too. `with_`
    names programs (docs/runtimes.md): a program that loaded and ran the model must do the same with the result, with
    the same outputs, or the next copy operator is tried. Programs do not see other changes of the edit.

    Raises EditError, before any change, if no operator copies an output exactly, or none keeps the model running in a
    program; UsageError if a subgraph does not exist or a program is not installed. The notes list unchanged outputs
    (unproduced, or in subgraphs that `all` skips), copies that onert does not run, and refusals.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     result = ct.outputs.fix(edit)
    ...     edit.save("out.circle")
    """
    chosen = subgraphs if isinstance(subgraphs, str) else tuple(subgraphs)
    options = FixOptions(chosen, copy_operator, runtime, keep_constants, detach_taps)
    options, notes = _witnessed(edit.model, options, with_) if with_ else (options, [])
    result = copy_outputs(edit, options)
    return replace(result, notes=(*result.notes, *notes))


def _witnessed(model: Model, options: FixOptions, names: Sequence[str]) -> tuple[FixOptions, list[Finding]]:
    """Return the options with a copy operator that these programs take, and notes on their refusals."""
    with ExitStack() as stack:
        path = stack.enter_context(as_file(model))
        workers = [stack.enter_context(runtimes.Worker(name)) for name in names]
        before = [behaviour(worker, path) for worker in workers]
        notes = [
            _note(f"{name} did not accept the model before either: {words}")
            for name, (words, _) in zip(names, before, strict=True)
            if words
        ]
        tried = Path(stack.enter_context(TemporaryDirectory())) / path.name
        refusals: dict[tuple[str, str], list[str]] = {}  # a program and its words -> copy operators
        for trial in _choices(options):
            try:
                with ModelEdit(model) as edit:
                    if not copy_outputs(edit, trial).changes:
                        return trial, notes
                    edit.save(tried)
            except EditError:
                if not refusals:  # of the requested choice
                    raise
                continue
            refused = [
                (name, reason)
                for name, worker, was in zip(names, workers, before, strict=True)
                if not was[0] and (reason := difference(was, behaviour(worker, tried)))
            ]
            if not refused:
                return trial, [*notes, *map(_note, _listed(refusals))]
            for one in refused:
                refusals.setdefault(one, []).append(trial.copy_operator)
    raise EditError(
        f"no copy operator keeps the model running: {'; '.join(_listed(refusals))}",
        hint="leave out `with_=` to fix it anyway",
    )


def _listed(refusals: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    return [f"{name}, with copies by {', '.join(ways)}: {reason}" for (name, reason), ways in refusals.items()]


def _choices(options: FixOptions) -> Iterator[FixOptions]:
    yield options
    if options.copy_operator == "auto":
        others: tuple[CopyChoice, ...] = ("reshape", "transpose", "concatenation")
        yield from (replace(options, copy_operator=other) for other in others)


Behaviour = tuple[str, list[bytes]]
"""The reason why a program does not accept a model (or empty), and the bytes of its outputs if it runs."""


def behaviour(worker: runtimes.Worker, path: Path) -> Behaviour:
    """Run a model in a program, or only load it."""
    if worker.runtime not in _RUNS:
        verdict = worker.loads(path)
        return ("" if verdict.status == "ok" else verdict.words or verdict.status), []
    answer = worker.run(path)
    return answer.failure, [output.tobytes() for output in answer.outputs]


def difference(was: Behaviour, now: Behaviour) -> str:
    """Return why a program that took one model refuses the other, or how outputs differ; empty if neither."""
    return now[0] or ("the outputs differ" if was[1] != now[1] else "")


def _note(message: str) -> Finding:
    return Finding("NOT_LOADED", "warning", "model", message)
