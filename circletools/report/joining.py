"""The runs of a trace joined with the operators of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from circletools.errors import InvalidInputError
from circletools.model import Model
from circletools.trace.operators import UNKNOWN_SUBGRAPH, OperatorRun, OperatorTrace, self_times
from circletools.trace.operators_names import agrees

AddedKind = Literal["inserted", "delegate", "inside"]
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

    def add(self, run: OperatorRun, own_ns: int) -> None:
        self.runs += run.calls
        self.total_ns += own_ns
        self.executions[run.execution] += own_ns
        if run.backend:
            self.backends.add(run.backend)


class Join:
    """Tells the runs of a trace apart: operators of the model, what was added, parts, and what is none of these."""

    def __init__(self, model: Model, trace: OperatorTrace) -> None:
        self.codes = [model.code_names(subgraph.index) for subgraph in model.subgraphs]
        self.builtin = frozenset(model.schema.enums["BuiltinOperator"].values())
        self.trace = trace
        self.operators: dict[Place, Measured] = {}
        self.added: dict[tuple[AddedKind, int, int, str], Measured] = {}
        self.unchecked: set[Place] = set()
        self.ignored: set[str] = set()
        kinds: dict[tuple[int, int, str, bool], AddedKind | Literal["operator"] | None] = {}
        counted = []
        for told in trace.runs:
            run = told if told.subgraph != UNKNOWN_SUBGRAPH else self._placed(told)
            key = (run.subgraph, run.operator, run.name, run.of_delegate)
            if key not in kinds:
                kinds[key] = self._kind(run)
            if kinds[key] is not None:
                counted.append(run)
        first = min((run.subgraph for run in counted), default=0)
        own = [run.duration_ns for run in counted] if trace.averaged else self_times(counted)
        for run, own_ns in zip(counted, own, strict=True):
            kind = kinds[run.subgraph, run.operator, run.name, run.of_delegate]
            if trace.averaged and run.subgraph != first:
                kind = "inside"  # of an operator that calls the subgraph; an average does not tell of which
            self._add(kind, run, own_ns)
        for run in trace.inside:
            self._add("inside", run, run.duration_ns)

    def _add(self, kind: AddedKind | Literal["operator"] | None, run: OperatorRun, own_ns: int) -> None:
        if kind == "operator":
            self.operators.setdefault((run.subgraph, run.operator), Measured()).add(run, own_ns)
        elif kind is not None:
            self.added.setdefault((kind, run.subgraph, run.operator, run.name), Measured()).add(run, own_ns)

    def _placed(self, run: OperatorRun) -> OperatorRun:
        """Return a run with the only subgraph that it can be of. Raises InvalidInputError where there are several."""
        runtime = self.trace.runtime
        found = [
            subgraph
            for subgraph, codes in enumerate(self.codes)
            if run.operator < len(codes) and agrees(runtime, run.name, codes[run.operator], self.builtin)
        ]
        if len(found) > 1:
            names = " and ".join(f"subgraphs[{subgraph}]" for subgraph in found)
            message = f"the trace does not tell operators {run.operator} ({run.name}) of {names} apart"
            raise InvalidInputError(message, hint="record atrace marks, or use benchmark_model")
        return run._replace(subgraph=found[0] if found else 0)

    def _kind(self, run: OperatorRun) -> AddedKind | Literal["operator"] | None:
        """Say what a run is; None for none of these. Raises InvalidInputError for an operator of another model."""
        runtime = self.trace.runtime
        if run.of_delegate:
            return "delegate"
        if run.subgraph >= len(self.codes):
            have = f"the model has {len(self.codes)} subgraphs"
            raise _other_model(f"subgraph {run.subgraph} runs {run.name} in the trace, but {have}")
        if runtime == "onert" and run.name == "Permute":
            return "inserted"
        codes = self.codes[run.subgraph]
        if run.operator >= len(codes):
            if runtime != "onert" and run.name in self.builtin:
                place = f"subgraphs[{run.subgraph}].operators[{run.operator}]"
                raise _other_model(f"{place} is {run.name} in the trace, but the model has {len(codes)} there")
            return "inserted" if runtime == "onert" else "delegate"
        agreed = agrees(runtime, run.name, codes[run.operator], self.builtin)
        if agreed is False:
            place = f"subgraphs[{run.subgraph}].operators[{run.operator}]"
            raise _other_model(f"{place} is {run.name} in the trace and {codes[run.operator]} in the model")
        if agreed is None and runtime == "litert":
            self.ignored.add(run.name)
            return None
        if agreed is None:
            self.unchecked.add((run.subgraph, run.operator))
        return "operator"


def _other_model(message: str) -> InvalidInputError:
    hint = "give the model that was run: a rewrite that adds, removes or moves operators changes their indices"
    return InvalidInputError(f"the trace is not of this model: {message}", hint=hint)


def time_of(measured: Measured, trace: OperatorTrace) -> Time:
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
