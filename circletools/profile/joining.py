"""The runs of a trace joined with the operators of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from circletools.errors import InvalidInputError
from circletools.model.model import Model
from circletools.trace.operators.names import agrees, is_builtin
from circletools.trace.operators.profile import UNKNOWN_SUBGRAPH, OperatorRun, OperatorTrace, self_times

AddedKind = Literal["inserted", "delegate", "inside"]
Kind = AddedKind | Literal["operator"] | None
Place = tuple[int, int]
"""Subgraph and operator index."""


@dataclass(frozen=True, slots=True)
class Time:
    """What was measured. `median_ns` is that of the time in each execution; None where only averages are known."""

    runs: int
    total_ns: int
    median_ns: int | None


@dataclass(slots=True)
class Measured:
    """The runs of one operator, or of one thing that was added."""

    runs: int = 0
    total_ns: int = 0
    backends: set[str] = field(default_factory=set)
    executions: Counter[int] = field(default_factory=Counter)

    def add(self, run: OperatorRun, self_ns: int) -> None:
        """Count a run, with the time that is its own."""
        self.runs += run.calls
        self.total_ns += self_ns
        self.executions[run.execution] += self_ns
        if run.backend:
            self.backends.add(run.backend)


class Join:
    """Tells the runs of a trace apart: `operators` of the model, what was `added`, and names that are neither.

    `unchecked` are operators whose names say nothing of the code. Raises InvalidInputError for the trace of another
    model.
    """

    def __init__(self, model: Model, trace: OperatorTrace) -> None:
        """Look at every run."""
        self.operators: dict[Place, Measured] = {}
        self.added: dict[tuple[AddedKind, int, int, str], Measured] = {}
        self.unchecked: set[Place] = set()
        self.ignored: set[str] = set()
        self._codes = [model.code_names(subgraph.index) for subgraph in model.subgraphs]
        self._builtin = frozenset(model.schema.enums["BuiltinOperator"].values())
        self._runtime = trace.runtime
        kinds: dict[tuple[int, int, str, bool], Kind] = {}
        runs: list[tuple[Kind, OperatorRun]] = []
        for told in trace.runs:
            run = self._placed(told) if told.subgraph == UNKNOWN_SUBGRAPH else told
            key = (run.subgraph, run.operator, run.name, run.of_delegate)
            if key not in kinds:
                kinds[key] = self._kind(run)
            if kinds[key] is not None:
                runs.append((kinds[key], run))
        first = min((run.subgraph for _, run in runs), default=0)
        own = (run.duration_ns for _, run in runs) if trace.averaged else self_times([run for _, run in runs])
        for (kind, run), self_ns in zip(runs, own, strict=True):
            # A called subgraph's time is its caller's too, and averages do not tell how much of it.
            self._add("inside" if trace.averaged and run.subgraph != first else kind, run, self_ns)
        for run in trace.inside:
            self._add("inside", run, run.duration_ns)

    def _add(self, kind: Kind, run: OperatorRun, self_ns: int) -> None:
        if kind == "operator":
            self.operators.setdefault((run.subgraph, run.operator), Measured()).add(run, self_ns)
        elif kind is not None:
            self.added.setdefault((kind, run.subgraph, run.operator, run.name), Measured()).add(run, self_ns)

    def _placed(self, run: OperatorRun) -> OperatorRun:
        """Return a run with the only subgraph that it can be of. Raises InvalidInputError where there are several."""
        found = [
            subgraph
            for subgraph, codes in enumerate(self._codes)
            if run.operator < len(codes) and agrees(self._runtime, run.name, codes[run.operator], self._builtin)
        ]
        if len(found) > 1:
            names = " and ".join(f"subgraphs[{subgraph}]" for subgraph in found)
            message = f"operator {run.operator} ({run.name}) may be of {names}: the trace names no subgraphs"
            raise InvalidInputError(message, hint="record atrace marks, or use benchmark_model")
        return run._replace(subgraph=found[0] if found else 0)

    def _kind(self, run: OperatorRun) -> Kind:
        """Say what a run is; None for none of these. Raises InvalidInputError for an operator of another model."""
        if run.of_delegate:
            return "delegate"
        if run.subgraph >= len(self._codes):
            raise _other_model(f"subgraph {run.subgraph} runs {run.name}", f"subgraphs: {len(self._codes)}")
        if self._runtime == "onert" and run.name == "Permute":
            return "inserted"
        codes = self._codes[run.subgraph]
        place = f"subgraphs[{run.subgraph}].operators[{run.operator}] is {run.name}"
        if run.operator >= len(codes):
            builtin = is_builtin(self._runtime, run.name, self._builtin)
            # LiteRT appends the operators of what a composite stands for to the subgraph that has it.
            if builtin and (self._runtime == "onert" or "STABLEHLO_COMPOSITE" not in codes):
                raise _other_model(place, f"operators there: {len(codes)}")
            return "inserted" if builtin or self._runtime == "onert" else "delegate"
        agreed = agrees(self._runtime, run.name, codes[run.operator], self._builtin)
        if agreed:
            return "operator"
        if agreed is False or self._runtime == "benchmark_model":
            raise _other_model(place, codes[run.operator])
        if self._runtime == "litert":
            self.ignored.add(run.name)
            return None
        self.unchecked.add((run.subgraph, run.operator))
        return "operator"


def _other_model(traced: str, model: str) -> InvalidInputError:
    hint = "give the model that was run: rewrites that add, remove or move operators change their indices"
    message = f"the trace is not of this model: {traced} in the trace; in the model {model}"
    return InvalidInputError(message, hint=hint)


def time_of(measured: Measured, trace: OperatorTrace) -> Time:
    """Return what the runs come to."""
    return Time(measured.runs, measured.total_ns, median(measured.executions, trace))


def median(executions: Mapping[int, int], trace: OperatorTrace) -> int | None:
    """Return the median over all executions, rounded down; those that are not in `executions` took no time."""
    if trace.averaged:
        return None
    times = sorted(executions.values())
    absent = trace.executions - len(times)

    def at(position: int) -> int:
        return times[position - absent] if position >= absent else 0

    return (at((trace.executions - 1) // 2) + at(trace.executions // 2)) // 2
