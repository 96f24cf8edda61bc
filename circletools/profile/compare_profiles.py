"""Operator-level traces side by side: operator by operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from circletools.errors import UsageError
from circletools.profile.compare import (
    ComparedTime,
    Row,
    Samples,
    compare_times,
    location,
    refuse_unpaired,
    tick_of,
    visible,
)
from circletools.trace.operators.profile import OperatorTrace, Runtime, self_times
from circletools.wording import Tabular

__all__ = ["ProfileComparison", "VisibleChange", "compare_profiles", "visible_changes"]

RECORDINGS = (1, 3, 6)
"""Numbers of recordings a side that a plan shows."""

_Key = tuple[int, int, str]
_Times = dict[_Key, list[tuple[int, int]]]
"""The executions of each operator, and its self time in them."""


@dataclass(frozen=True, slots=True)
class ComparedProfile:
    """A recording of a comparison."""

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


@dataclass(frozen=True, slots=True, repr=False)
class ProfileComparison(Tabular):
    """Recordings of operators of two sides; the first row is the sum of all operators."""

    before: tuple[ComparedProfile, ...]
    after: tuple[ComparedProfile, ...]
    threshold_percent: float
    rows: tuple[ComparedOperator, ...]

    @property
    def regressed(self) -> bool:
        """Whether something is significantly slower."""
        return any(row.time.regressed for row in self.rows)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the key of each row, its times before and after, and the verdict."""
        return [
            {"subgraph": row.subgraph, "operator_index": row.operator_index, "name": row.name} | row.time.to_row()
            for row in self.rows
        ]


def compare_profiles(
    before: OperatorTrace | Sequence[OperatorTrace],
    after: OperatorTrace | Sequence[OperatorTrace],
    threshold_percent: float = 10.0,
    *,
    history: Sequence[OperatorTrace] = (),
    paired: bool = False,
) -> ProfileComparison:
    """Compare the operators of two sides by their self times per execution; a side is one recording or several.

    Operators are the same where subgraph, index and the runtime's name are. Verdicts are those of `compare_traces`,
    and so are `history` and `paired`.
    """
    sides = [[side] if isinstance(side, OperatorTrace) else list(side) for side in (before, after, history)]
    refuse_unpaired(len(sides[0]), len(sides[1]), paired=paired, history=bool(history))
    times = [[_times(trace) for trace in side] for side in sides]
    keys = {key for side in times[:2] for some in side for key in some}
    series = {
        key: [
            [_series(some, key, trace) for some, trace in zip(found, side, strict=True)]
            for found, side in zip(times, sides, strict=True)
        ]
        for key in [None, *sorted(keys)]
    }
    total_ns = float(np.mean([recording.mean() for recording in series[None][0]]))
    tick_ns = _tick(sides)
    pairs = [Row(first, second, total_ns, known, paired) for first, second, known in series.values()]
    compared = compare_times(pairs, limit=threshold_percent / 100, tick_ns=tick_ns)
    rows = [ComparedOperator(*_place(key), time) for key, time in zip(series, compared, strict=True)]
    first, second = (
        tuple(ComparedProfile(trace.runtime, trace.executions, trace.averaged) for trace in side)
        for side in sides[:2]
    )
    return ProfileComparison(first, second, threshold_percent, tuple(rows))


@dataclass(frozen=True, slots=True)
class VisibleChange:
    """The variation between recordings of an operator, as a relative standard deviation, and the detectable ratios.

    `visible` has the ratio that nine of ten comparisons find, for each number of recordings a side.
    """

    subgraph: int | None
    operator_index: int | None
    name: str
    mean_ns: int
    spread: float
    visible: tuple[float, ...]


def visible_changes(
    history: Sequence[OperatorTrace], recordings: Sequence[int] = RECORDINGS, threshold_percent: float = 10.0
) -> tuple[VisibleChange, ...]:
    """Return the changes that a comparison with this many recordings a side could find, from recordings of one model.

    The first row is the sum of all operators. Raises UsageError for less than two recordings.
    """
    if len(history) < 2:
        raise UsageError("one recording does not show how recordings differ", hint="give several of one model")
    times = [_times(trace) for trace in history]
    keys = [None, *sorted({key for some in times for key in some})]
    tick_ns, found = _tick([history]), []
    for key in keys:
        means = np.array([location(_series(some, key, trace)) for some, trace in zip(times, history, strict=True)])
        if not means.all():
            continue
        mean = float(means.mean())
        spread = math.sqrt(max(float((means / mean).var(ddof=1)), (tick_ns / mean) ** 2 / 12))
        errors = (spread * math.sqrt(2 / count) for count in recordings)
        limit, tick = threshold_percent / 100, tick_ns / mean
        ratios = tuple(visible(error, len(history) - 1, len(keys), limit, tick) for error in errors)
        found.append(VisibleChange(*_place(key), round(mean), spread, ratios))
    return tuple(found)


def _place(key: _Key | None) -> tuple[int | None, int | None, str]:
    return key or (None, None, "all operators")


def _tick(sides: Sequence[Sequence[OperatorTrace]]) -> float:
    """Return the coarsest tick; that of averages is shared out among their executions."""
    return max(
        tick_of([np.array([run.duration_ns for run in trace.runs], np.int64)])
        / (trace.executions if trace.averaged else 1)
        for side in sides
        for trace in side
    )


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
