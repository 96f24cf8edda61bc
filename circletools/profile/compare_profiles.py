"""Two operator-level traces side by side: operator by operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.profile.compare import FEWEST, ComparedTime, Samples, compared, ratio_bounds
from circletools.trace.operators.profile import OperatorTrace, Runtime, self_times

__all__ = ["ProfileComparison", "compare_profiles"]

_Key = tuple[int, int, str]
_Times = dict[_Key, list[tuple[int, int]]]
"""The executions of each operator, and its self time in them."""


@dataclass(frozen=True, slots=True)
class ComparedProfile:
    """One of the two traces of a comparison."""

    runtime: Runtime
    executions: int
    averaged: bool


@dataclass(frozen=True, slots=True)
class ComparedOperator:
    """The self time of an operator per execution; without subgraph and index, the sum of all operators."""

    subgraph: int | None
    operator_index: int | None
    name: str
    time: ComparedTime


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """Two operator-level traces; the first row is the sum of all operators."""

    before: ComparedProfile
    after: ComparedProfile
    threshold_percent: float
    rows: tuple[ComparedOperator, ...]

    @property
    def regressed(self) -> bool:
        """Whether something is slower."""
        return any(row.time.regressed for row in self.rows)


def compare_profiles(
    before: OperatorTrace, after: OperatorTrace, threshold_percent: float = 10.0
) -> ProfileComparison:
    """Compare the operators of two traces by their self times per execution.

    Operators are the same where subgraph, index and the runtime's name are. Bounds and regressions are those of
    `compare_traces`; averages have no bounds.
    """
    traces, times = (before, after), (_times(before), _times(after))
    bounded = min(trace.executions for trace in traces) >= FEWEST and not (before.averaged or after.averaged)
    limit = threshold_percent / 100
    total_ns = round(float(_series(times[0], None, before).mean()))
    rows = []
    for key in [None, *sorted(times[0].keys() | times[1].keys())]:
        first, second = (_series(some, key, trace) for some, trace in zip(times, traces, strict=True))
        bounds = ratio_bounds(first, second) if bounded else None
        time = compared(float(first.mean()), float(second.mean()), bounds, limit=limit, total_ns=total_ns)
        subgraph, index, name = key or (None, None, "all operators")
        rows.append(ComparedOperator(subgraph, index, name, time))
    return ProfileComparison(_described(before), _described(after), threshold_percent, tuple(rows))


def _described(trace: OperatorTrace) -> ComparedProfile:
    return ComparedProfile(trace.runtime, trace.executions, trace.averaged)


def _times(trace: OperatorTrace) -> _Times:
    own = [run.duration_ns for run in trace.runs] if trace.averaged else self_times(trace.runs)
    found: _Times = {}
    for run, time in zip(trace.runs, own, strict=True):
        found.setdefault((run.subgraph, run.operator, run.name), []).append((run.execution, time))
    return found


def _series(times: _Times, key: _Key | None, trace: OperatorTrace) -> Samples:
    """Return the time of an operator, or of all, in every execution."""
    keys = [key] if key is not None else list(times)
    if trace.averaged and key is None:
        first = min(subgraph for subgraph, _, _ in times)
        keys = [found for found in keys if found[0] == first]  # averages of a caller are of what it calls, too
    chosen = [pair for found in keys for pair in times.get(found, ())]
    values = np.zeros(trace.executions)
    if trace.averaged:
        values += sum(time for _, time in chosen) / trace.executions
    else:
        np.add.at(values, [execution for execution, _ in chosen], [time for _, time in chosen])
    return values
