"""Ask the programs for their own answers, and compare those with the capability tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circletools import runtimes
from circletools.asking import as_file, operators_of
from circletools.errors import UsageError
from circletools.fit.naming import composites
from circletools.fit.refused import decompositions
from circletools.fit.verdicts import Asked, Disagreement, TargetFit, Verdict
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.runtimes.programs import PROGRAMS, named


@dataclass(frozen=True, slots=True)
class Judge:
    """The program that judges models for a target; the names of its variants begin with `variant`.

    `device` is its name for the target. `places_each`: the program reports where each operator runs, even if it
    refuses the model as a whole. `runs`: the table was measured by running operators, so a model must run too.
    `explains`: it gives one reason for a whole operator code, and may list operators that it would accept.
    """

    program: str
    variant: str
    device: str
    places_each: bool = False
    runs: bool = False
    explains: bool = False


JUDGES: Mapping[str, Judge] = {
    "xnnpack": Judge("litert", "xnnpack", "xnnpack", places_each=True),
    "litert-cpu": Judge("litert", "builtin", "cpu", runs=True),
    "litert-gpu": Judge("litert-gpu", "gpu", "gpu", places_each=True, explains=True),
    "onert-cpu": Judge("onert", "cpu", "cpu", runs=True),
    "onert-ruy": Judge("onert", "ruy", "ruy", runs=True),
    "openvino-cpu": Judge("openvino", "CPU", "cpu"),
    "ethos-u55": Judge("vela", "ethos-u55", "npu", places_each=True),
    "ethos-u65": Judge("vela", "ethos-u65", "npu", places_each=True),
    "ethos-u85": Judge("vela", "ethos-u85", "npu", places_each=True),
    "tflm": Judge("tflm", "default", "cpu"),
}
"""The program that judges models for each target; the targets of custom tables have none."""


def reads_signatures(target: str) -> bool:
    """Return whether a target needs signatures that name the inputs and outputs of their subgraphs."""
    return target in ("intel-npu", "litert-gpu")


def judge_of(target: str) -> str:
    """Return the program that judges models for a target; empty if there is none."""
    return JUDGES[target].program if target in JUDGES else ""


def program_of(target: str) -> str:
    """Return the program that loads a model for a target; empty if there is none."""
    return "litert" if (program := judge_of(target)) == "litert-gpu" else program


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """A program's verdict on a model, with operators identified; None if it gave none, for the reason in `words`."""

    program: str
    version: str
    verdict: runtimes.Verdict | None
    words: str = "it does not read models of this format"


def ask(
    model: Model, names: Sequence[str], targets: Iterable[str], timeout_s: float
) -> dict[str, list[ProgramAnswer]]:
    """Return, by target, the answers of the programs that judge models for it.

    Raises UsageError if a program is unknown, or judges none of the targets.
    """
    wanted = [(target, program) for name in names for target, program in _decides(name, targets)]
    found: dict[str, list[ProgramAnswer]] = {}
    if wanted:
        whole = model_graph(model)
        with as_file(model) as path:
            for target, program in wanted:
                try:
                    with runtimes.Worker(program, timeout_s) as worker:
                        reads = model.format in PROGRAMS[worker.runtime].formats
                        verdict = _asked(worker, path, JUDGES[target]) if reads else None
                        located = verdict and runtimes.located(verdict, operators_of(whole))
                        runs = _that_run(whole, located) if located and "litert" in worker.runtime else located
                        one = ProgramAnswer(program, worker.version, runs)
                except UsageError as error:  # the program, or its device, is missing here
                    one = ProgramAnswer(program, "", None, str(error))
                found.setdefault(target, []).append(one)
    return found


def _asked(worker: runtimes.Worker, path: Path, judge: Judge) -> runtimes.Verdict:
    verdict = worker.placement(path)
    failure = worker.run(path).failure if judge.runs and verdict.status == "ok" else ""
    return runtimes.Verdict("refused", failure) if failure else verdict


def _that_run(model: ModelGraph, verdict: runtimes.Verdict) -> runtimes.Verdict:
    """Return LiteRT's verdict without what it does not run: decompositions of delegated composites, other composites.

    LiteRT's own kernel for composites only calls the decomposition (tflite/kernels/stablehlo_composite.cc).
    """
    callers = composites(model.graphs).keys()
    delegated = {(one.subgraph or 0, one.operator or 0) for one in verdict.operators if one.device not in ("", "cpu")}
    omitted = decompositions(model, callers & delegated)
    placed = (one for one in verdict.operators if one.device != "cpu" or (one.subgraph, one.operator) not in callers)
    return replace(verdict, operators=tuple(one for one in placed if one.subgraph not in omitted))


def _decides(name: str, targets: Iterable[str]) -> list[tuple[str, str]]:
    """Return the targets that a program judges, each with the `PROGRAM:VARIANT` to ask."""
    program, variant = named(name)
    found = []
    for target, judge in JUDGES.items():
        if target in targets and judge.program == program:
            variants = [variant] if ":" in name else PROGRAMS[program].variants
            fitting = [one for one in variants if one.startswith(judge.variant)]
            found += [(target, f"{program}:{one}") for one in fitting[:1]]  # the first was measured
    if not found:
        about = [target for target, judge in JUDGES.items() if judge.program == program]
        raise UsageError(f"{name} cannot test any of the targets in `on=`", hint=f"it tests {', '.join(about)}")
    return found


def compare(target: TargetFit, answer: ProgramAnswer) -> Asked:
    """Return a program's verdict, and where it disagrees with the table."""
    judge, verdict = JUDGES[target.name], answer.verdict
    if verdict is None:
        return Asked(answer.program, answer.version, "not_known", answer.words, ())
    taken = {one: one.device == judge.device for one in verdict.operators if one.operator is not None}
    if verdict.status != "ok" and not judge.places_each:
        taken = {one: False for one, is_taken in taken.items() if not is_taken}
    elsewhere = [one for one in verdict.operators if one.operator is None and one.device not in ("", judge.device)]
    unplaced = {one.code for one in elsewhere if one.code}
    left = sum(not is_taken for is_taken in taken.values())
    takes_all = verdict.status == "ok" and not left and not unplaced
    outcome: Verdict = "resident" if takes_all else "not_resident"
    if verdict.status in ("timeout", "memory"):
        outcome = "not_known"
    table = {(one.subgraph, one.operator): one for one in target.misfits}
    misfits = {one: table.get((one.subgraph or 0, one.operator or 0)) for one in taken}
    if judge.explains:
        known = {one.words for one, is_taken in taken.items() if misfits[one] and not is_taken}
        taken = {
            one: is_taken
            for one, is_taken in taken.items()
            if is_taken or (one.words and (misfits[one] or one.words not in known))
        }
    found = []
    for one, is_taken in taken.items():
        misfit = misfits[one]
        is_known = misfit is None or (misfit.measured and not misfit.wrong and misfit.code not in unplaced)
        if is_known and (misfit is None) != is_taken:
            found.append(Disagreement(one.subgraph, one.operator, misfit is None, " ".join(one.words.split())))
    differs = {outcome, target.verdict} == {"resident", "not_resident"}
    if differs and not found and not any(one.wrong for one in target.misfits):  # no program judges its own results
        found.append(Disagreement(None, None, target.verdict == "resident", ""))
    return Asked(answer.program, answer.version, outcome, " ".join(verdict.words.split()), tuple(found), left)
