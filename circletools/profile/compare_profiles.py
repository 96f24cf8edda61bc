"""Compares operator-level traces operator by operator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.errors import UsageError
from circletools.profile.compare import (
    NO_TIME,
    ComparedTime,
    Comparison,
    Row,
    Samples,
    Verdict,
    compare_times,
    location,
    sides_of,
    tick_of,
    visible,
)
from circletools.trace.operators.profile import NORMAL_QUARTILE, OperatorRun, OperatorTrace, Runtime, self_times
from circletools.wording import Attributes, Tabular

_NEW = 1 << 20  # the number of an added row, after all earlier rows

RECORDINGS = (1, 3, 6)
"""The numbers of recordings per side for which a plan shows detectable changes."""

_Key = tuple[int, int, int, int, str]
"""Subgraph, the model's operator, and the runtime's name.

Between operator and name: two 0s for the operator's own run; for a delegate's row after it (after operator -1 at the
start) the numbers of the delegate's part, from 1, and of the row in this part.
"""

_Times = dict[_Key | None, Samples]
"""The self times in every execution: of each operator, and of all together under the key None."""


@dataclass(frozen=True, slots=True)
class ComparedProfile(Attributes):
    """A recording in a comparison."""

    runtime: Runtime
    executions: int
    averaged: bool


@dataclass(frozen=True, slots=True)
class ComparedOperator(Attributes):
    """The self time of an operator per execution; without a subgraph, the sum over all operators.

    A delegate's row has a number among all rows of an execution (`row`) instead of an operator of the model.
    """

    subgraph: int | None
    operator_index: int | None
    row: int | None
    name: str
    time: ComparedTime


@dataclass(frozen=True, slots=True, repr=False)
class ProfileComparison(Comparison[ComparedProfile, ComparedOperator], Tabular):
    """Recordings of operators of two sides; the first row is the sum over all operators."""

    @property
    def unpaired(self) -> int:
        """The number of operators with time on one side only; if that is most, the model or runtime differs."""
        return sum(bool(row.time.before_ns) != bool(row.time.after_ns) for row in self.rows[1:])


def compare_profiles(
    before: OperatorTrace | Sequence[OperatorTrace],
    after: OperatorTrace | Sequence[OperatorTrace],
    threshold_percent: float = 10.0,
    *,
    history: Sequence[OperatorTrace] = (),
    paired: bool = False,
) -> ProfileComparison:
    """Compare the operators of two sides by their self times per execution; a side is one recording or several.

    Operators are matched by subgraph, index and the runtime's name; a delegate's rows by the operators between which
    they run, and their order. `history`, `paired` and the verdicts are those of `compare_traces`.
    """
    sides = sides_of(OperatorTrace, before, after, history, paired=paired)
    times = [[_times(trace) for trace in side] for side in sides]
    same = _same_rows(*({key for some in side for key in some if key} for side in times[:2]))
    times[1] = [{same.get(key, key): found for key, found in some.items()} for some in times[1]]
    keys = {key for side in times[:2] for some in side for key in some if key}
    series = {key: [[some.get(key, NO_TIME) for some in side] for side in times] for key in (None, *sorted(keys))}
    total_ns = float(np.mean([recording.mean() for recording in series[None][0]]))
    tick_ns = _tick(sides)
    pairs = [
        Row(first, second, total_ns, known, paired, pace)
        for (first, second, known), pace in zip(series.values(), _paces(list(series.values())), strict=True)
    ]
    compared = compare_times(pairs, limit=threshold_percent / 100, tick_ns=tick_ns)
    found = zip(series, _places(series), compared, strict=True)
    rows = [ComparedOperator(*place, _present(key, time, times)) for key, place, time in found]
    first, second = (
        tuple(ComparedProfile(trace.runtime, trace.executions, trace.averaged) for trace in side)
        for side in sides[:2]
    )
    return ProfileComparison(first, second, threshold_percent, tuple(rows))


def _present(key: _Key | None, time: ComparedTime, times: Sequence[Sequence[_Times]]) -> ComparedTime:
    """Return a time whose verdict states that only one side has the operator, unless that makes it slower."""
    before, after = (any(key in some for some in side) for side in times[:2])
    verdict: Verdict = "only after" if after else "only before"
    return time if (before and after) or time.regressed else replace(time, verdict=verdict)


def _paces(series: Sequence[Sequence[Sequence[Samples]]]) -> list[float]:
    """For each row, return the median change of the other operators; the first row is not an operator."""
    times = [[location(some[0]) for some in sides[:2]] for sides in series]
    changes = [abs(math.log(after / before)) if before and after else None for before, after in times]
    known = np.sort([change for change in changes[1:] if change is not None])
    found = []
    for own in (None, *changes[1:]):
        at, left = (len(known), len(known)) if own is None else (int(np.searchsorted(known, own)), len(known) - 1)
        middle = [known[one + (one >= at)] for one in ((left - 1) // 2, left // 2)] if left else [0.0]
        found.append(float(sum(middle)) / len(middle) / NORMAL_QUARTILE)
    return found


@dataclass(frozen=True, slots=True)
class VisibleChange(Attributes):
    """The variation between recordings of an operator, as a relative standard deviation, and the detectable ratios.

    `visible` holds, for each number of recordings per side, the ratio that nine of ten comparisons detect.
    """

    subgraph: int | None
    operator_index: int | None
    row: int | None
    name: str
    mean_ns: int
    spread: float
    visible: tuple[float, ...]


def visible_changes(
    history: Sequence[OperatorTrace], recordings: Sequence[int] = RECORDINGS, threshold_percent: float = 10.0
) -> tuple[VisibleChange, ...]:
    """Return the changes that this many recordings per side could reveal, given recordings of one model.

    The first row is the sum over all operators. Raises UsageError for fewer than two recordings.
    """
    if len(history) < 2:
        raise UsageError("one recording cannot show how recordings vary", hint="give several of the same model")
    times = [_times(trace) for trace in history]
    keys = [None, *sorted({key for some in times for key in some if key})]
    tick_ns, found = _tick([history]), []
    for key, place in zip(keys, _places(keys), strict=True):
        means = np.array([location(some.get(key, NO_TIME)) for some in times])
        if not means.all():
            continue
        mean = float(means.mean())
        spread = math.sqrt(max(float((means / mean).var(ddof=1)), (tick_ns / mean) ** 2 / 12))
        errors = (spread * math.sqrt(2 / count) for count in recordings)
        limit, tick = threshold_percent / 100, tick_ns / mean
        ratios = tuple(visible(error, len(history) - 1, 2 * len(keys), limit, tick) for error in errors)
        found.append(VisibleChange(*place, round(mean), spread, ratios))
    return tuple(found)


def _places(keys: Iterable[_Key | None]) -> Iterator[tuple[int | None, int | None, int | None, str]]:
    """Yield subgraph, operator, row and name of each key, in order."""
    row = -1
    for key in keys:
        if key is None:
            yield None, None, None, "all operators"
        elif key[2]:
            row += 1
            yield key[0], None, row, key[-1]
        else:
            yield key[0], key[1], None, key[-1]


def _same_rows(before: Iterable[_Key], after: Iterable[_Key]) -> dict[_Key | None, _Key]:
    """Return the rows before that match delegates' rows after; a changed operator may change names and numbers.

    Parts with the same number of rows are paired row by row, others by name, in order of occurrence.
    """
    parts: tuple[dict[tuple[int, ...], list[_Key]], ...] = ({}, {})
    for found, keys in zip(parts, (before, after), strict=True):
        for key in sorted(keys):
            found.setdefault(key[:3], []).append(key)
    same: dict[_Key | None, _Key] = {}
    for part, rows in parts[1].items():
        others = parts[0].get(part, []) if part[2] else []
        if len(rows) == len(others):
            same |= zip(rows, others, strict=True)
            continue
        left = others.copy()
        for row in rows:
            other = next((one for one in left if one[-1] == row[-1]), None)
            if other:
                left.remove(other)
                same[row] = other
            elif others:
                same[row] = (*row[:3], row[3] + _NEW, row[4])
    return same


def _tick(sides: Sequence[Sequence[OperatorTrace]]) -> float:
    """Return the coarsest tick; the tick of averages is divided by their number of executions."""
    return max(
        tick_of([np.array([run.duration_ns for run in trace.runs], np.int64)])
        / (trace.executions if trace.averaged else 1)
        for side in sides
        for trace in side
    )


def _times(trace: OperatorTrace) -> _Times:
    """Return the times of an operator in every execution; the mean if only that is known."""
    averaged, count = trace.averaged, 1 if trace.averaged else trace.executions
    own = [run.duration_ns / trace.executions for run in trace.runs] if averaged else self_times(trace.runs)
    found: dict[_Key | None, list[float]] = {None: [0.0] * count}
    first = min((run.subgraph for run in trace.runs), default=0)
    for run, key, time in zip(trace.runs, _keys(trace.runs), own, strict=True):
        at = 0 if averaged else run.execution
        if key not in found:
            found[key] = [0.0] * count
        found[key][at] += time
        if not averaged or run.subgraph == first:  # averages of a caller include what it calls
            found[None][at] += time
    return {key: np.array(times) for key, times in found.items()}


def _keys(runs: Sequence[OperatorRun]) -> list[_Key]:
    """Return the key of each run. Each part of a model that a delegate took numbers its rows from 0."""
    found: dict[int, _Key] = {}
    latest: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for at in sorted(range(len(runs)), key=lambda at: (runs[at].execution, runs[at].lane, runs[at].start_ns)):
        run = runs[at]
        where = run.execution, run.lane, run.subgraph
        operator, part, row = run.operator, 0, 0
        if run.of_delegate:
            operator, part, row = latest.get(where, (-1, 0, 0))
            part, row = part + (not part or run.operator <= row), run.operator
        latest[where] = operator, part, row
        found[at] = run.subgraph, operator, part, row, run.name
    return [found[at] for at in range(len(runs))]
