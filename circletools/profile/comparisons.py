"""Compare recordings: operator-level traces by operator, NNAPI traces by layer and phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from circletools.profile import compare
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.timeline import APP_PHASES, run_of
from circletools.trace.nnapi.wall_clock import EXECUTING
from circletools.trace.operators.profile import NORMAL_QUARTILE, OperatorRun, OperatorTrace, Runtime, self_times
from circletools.wording import Attributes, Tabular

_NEW = 1 << 20  # the first number of an added row, above those of all earlier rows

_Key = tuple[int, int, int, int, str]
"""The subgraph, the index of the model's operator, and the runtime's name.

Between the operator and the name are two numbers. For the operator's own run, both are 0; for a delegate's row after
it (at the start, after operator -1), they are the numbers of the delegate's part, from 1, and of the row in it.
"""

_Times = dict[_Key | None, compare.Samples]
"""The self times in every execution: of each operator and, under the key None, of all operators together."""


@dataclass(frozen=True, slots=True)
class ComparedProfile(Attributes):
    """A recording in a comparison; `executions` is None if its averages do not state how many there were."""

    runtime: Runtime
    executions: int | None
    averaged: bool


@dataclass(frozen=True, slots=True)
class ComparedOperator(Attributes):
    """The self time of an operator per execution; without a subgraph, the sum over all operators.

    A delegate's row has no operator of the model, but a number among all rows of an execution (`row`); the time of a
    type has neither.
    """

    subgraph: int | None
    operator_index: int | None
    row: int | None
    name: str
    time: compare.ComparedTime


@dataclass(frozen=True, slots=True, repr=False)
class ProfileComparison(compare.Comparison[ComparedProfile, ComparedOperator], Tabular):
    """Operator recordings of two sides; the first row is the sum over all operators."""

    @property
    def unpaired(self) -> int:
        """The number of operators with times on one side only; if most are, the model or runtime differs."""
        return sum(bool(row.time.before_ns) != bool(row.time.after_ns) for row in self.rows[1:])


def compare_profiles(
    before: OperatorTrace | Sequence[OperatorTrace],
    after: OperatorTrace | Sequence[OperatorTrace],
    threshold_percent: float = 10.0,
    *,
    history: Sequence[OperatorTrace] = (),
    paired: bool = False,
) -> ProfileComparison:
    """Compare the operators of two sides by self time per execution; a side is one recording or several.

    Operators are matched by subgraph, index and the runtime's name; a delegate's rows are matched by their order and
    by the operators between which they run. If a recording has times only by type, types are compared. For
    `history`, `paired` and the verdicts, see `compare_traces`.
    """
    sides = compare.sides_of(OperatorTrace, before, after, history, paired=paired)
    by_type = any(trace.whole.types for side in sides for trace in side)
    times = [[_times(trace, by_type=by_type) for trace in side] for side in sides]
    same = _same_rows(*({key for some in side for key in some if key} for side in times[:2]))
    times[1] = [{same.get(key, key): found for key, found in some.items()} for some in times[1]]
    keys = [None, *sorted({key for side in times[:2] for some in side for key in some if key})]
    series = {key: [[some.get(key, compare.NO_TIME) for some in side] for side in times] for key in keys}
    total_ns = float(np.mean([recording.mean() for recording in series[None][0]]))
    tick_ns = max(  # for averages, the tick is divided by the number of executions
        compare.tick_of(run.duration_ns for run in trace.runs) / (trace.executions if trace.averaged else 1)
        for side in sides
        for trace in side
    )
    speeds, spread = _speeds(list(series.values()))
    pairs = [
        compare.Row(first, second, total_ns, known, paired, speed, key is None)
        for (key, (first, second, known)), speed in zip(series.items(), speeds, strict=True)
    ]
    compared = compare.compare_times(pairs, limit=threshold_percent / 100, tick_ns=tick_ns, spread=spread)
    found = zip(series, _places(series), compared, strict=True)
    rows = [ComparedOperator(*place, _present(key, time, times)) for key, place, time in found]
    first, second = (
        tuple(
            ComparedProfile(one.runtime, one.whole.known(one.executions, one.averaged), one.averaged) for one in side
        )
        for side in sides[:2]
    )
    return ProfileComparison(first, second, threshold_percent, tuple(rows))


def _present(key: _Key | None, time: compare.ComparedTime, times: Sequence[Sequence[_Times]]) -> compare.ComparedTime:
    """Return the time; if only one side has the operator, the verdict states this, unless it is `slower`."""
    before, after = (any(key in some for some in side) for side in times[:2])
    verdict: compare.Verdict = "only after" if after else "only before"
    return time if (before and after) or time.regressed else replace(time, verdict=verdict)


def _speeds(series: Sequence[Sequence[Sequence[compare.Samples]]]) -> tuple[list[list[compare.Samples]], float]:
    """Return `compare.Row.speeds` of each row, a median weighted by time, and `spread` for `compare_times`."""
    times = np.array([[compare.location(one) for side in sides for one in side] for sides in series])
    ends = np.cumsum([len(side) for side in series[0]])[:-1]
    usual = np.maximum(times.mean(axis=1, keepdims=True), 1.0)
    weights = np.where(times > 0, usual, 0.0)
    weights[0] = 0.0  # all operators together
    logs = np.log(np.where(times > 0, times, usual) / usual) * (len(series) > 2)
    speeds = np.exp([_of_others(logs[:, at], weights[:, at]) for at in range(logs.shape[1])]).T
    before, after, _ = np.split(times[1:], ends, axis=1)
    both = before.any(axis=1) & after.any(axis=1)
    changes = np.log(after[both].mean(axis=1) / before[both].mean(axis=1))
    spread = np.median(abs(changes - np.median(changes))) / NORMAL_QUARTILE if len(changes) > 3 else 0.0
    return [np.split(speed, ends) for speed in speeds], float(spread)


def _of_others(values: compare.Samples, weights: compare.Samples) -> compare.Samples:
    """Return for each value the weighted median of the others, or 0 if there are none."""
    order = np.argsort(values, kind="stable")
    places, sums = np.argsort(order), np.cumsum(weights[order])
    left = sums[-1] - weights
    half = left / 2 - 1e-9 * sums[-1]
    found = np.searchsorted(sums, half)
    found = np.where(found < places, found, np.searchsorted(sums, half + weights))
    return np.where(left > 1e-9 * sums[-1], values[order[np.minimum(found, len(values) - 1)]], 0.0)


def _places(keys: Iterable[_Key | None]) -> Iterator[tuple[int | None, int | None, int | None, str]]:
    """Yield the subgraph, operator, row and name of each key, in order."""
    row = -1
    for key in keys:
        if key is None:
            yield None, None, None, "all operators"
        elif key[2]:
            row += 1
            yield key[0], None, row, key[-1]
        else:
            yield key[0], None if key[1] < 0 else key[1], None, key[-1]


def _same_rows(before: Iterable[_Key], after: Iterable[_Key]) -> dict[_Key | None, _Key]:
    """Return the earlier rows that match delegates' later rows; a changed operator may change names and numbers.

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


def _times(trace: OperatorTrace, *, by_type: bool) -> _Times:
    """Return the times of each operator or type in every execution, or their means if only these are known."""
    some = [run._replace(operator=-1, of_delegate=False) for run in trace.runs] if by_type else trace.runs
    averaged, count = trace.averaged, 1 if trace.averaged else trace.executions
    own = [run.duration_ns / trace.executions for run in trace.runs] if averaged else self_times(trace.runs)
    found: dict[_Key | None, list[float]] = {None: [0.0 if trace.runs else float(trace.whole.mean_ns or 0)] * count}
    first = min((run.subgraph for run in trace.runs), default=0)
    for run, key, time in zip(trace.runs, _keys(some), own, strict=True):
        at = 0 if averaged else run.execution
        if key not in found:
            found[key] = [0.0] * count
        found[key][at] += time
        if not averaged or run.subgraph == first:  # a caller's averages include the subgraphs it calls
            found[None][at] += time
    return {key: np.array(times) for key, times in found.items()}


def _keys(runs: Sequence[OperatorRun]) -> list[_Key]:
    """Return the key of each run. Rows are numbered from 0 in each part of a model that a delegate took."""
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


_WARM_UP, _BENCHMARK = APP_PHASES[1:]
Unit = Literal["execution", "run"]
_Bucket = tuple[Unit, str, str]
"""The unit, the layer and the phase."""


@dataclass(frozen=True, slots=True)
class ComparedTrace(Attributes):
    """A recording in a comparison; `executions` counts the compared executions."""

    name: str
    runs: int
    executions: int


@dataclass(frozen=True, slots=True)
class ComparedBucket(Attributes):
    """The time of a layer and phase, per execution or per run; without a layer, it is the elapsed time."""

    layer: str
    phase: str
    unit: Unit
    time: compare.ComparedTime


@dataclass(frozen=True, slots=True, repr=False)
class TraceComparison(compare.Comparison[ComparedTrace, ComparedBucket], Tabular):
    """Recordings of two sides, and the times of each layer and phase."""


def compare_traces(
    before: Analysis | Sequence[Analysis],
    after: Analysis | Sequence[Analysis],
    threshold_percent: float = 10.0,
    *,
    history: Sequence[Analysis] = (),
    paired: bool = False,
) -> TraceComparison:
    """Compare two sides; a side is one recording or several (three or more give better intervals).

    `history` holds further recordings of the earlier model, which show how much recordings vary. `paired` means that
    the recordings of both sides were made alternately; each is then compared with its partner.

    If all recordings have executions, the phases of execution are compared per execution, in wall-clock time, and the
    others per run, in self time of threads. Warm-up is excluded. `low` and `high` bound the ratio with 95 %
    confidence. A row is slower only if the change is significant: see `compare_times`.
    """
    sides = compare.sides_of(Analysis, before, after, history, paired=paired)
    executed = all(len(analysis.executions) for side in sides for analysis in side)
    times = [[_bucket_times(analysis, executed) for analysis in side] for side in sides]
    keys = sorted({key for side in times[:2] for some in side for key in some})
    pairs = {key: [[some.get(key, compare.NO_TIME) for some in side] for side in times] for key in keys}
    totals = Counter[str]()
    for (unit, layer, _), (recordings, *_) in pairs.items():
        if layer:
            totals[unit] += round(float(np.mean([compare.location(one) for one in recordings])))
    series = (one.astype(np.int64) for side in times for some in side for one in some.values())
    tick_ns = compare.tick_of(int(np.gcd.reduce(one)) for one in series)
    rows = [compare.Row(one, two, totals[unit], known, paired) for (unit, *_), (one, two, known) in pairs.items()]
    compared = compare.compare_times(rows, limit=threshold_percent / 100, tick_ns=tick_ns)
    found = (ComparedBucket(key[1], key[2], key[0], time) for key, time in zip(pairs, compared, strict=True))
    first, second = (
        tuple(ComparedTrace(one.name, len(one.runs), len(_measured(one))) for one in side) for side in sides[:2]
    )
    return TraceComparison(first, second, threshold_percent, tuple(found))


def _measured(analysis: Analysis) -> list[int]:
    """Return the indices of the executions to compare: those of the benchmark, or else all except the warm-up."""
    phases = [run_of(segment)[1] for segment in analysis.executions.segments.tolist()]
    for wanted in ({_BENCHMARK}, set(APP_PHASES) - {_WARM_UP}):
        chosen = [place for place, phase in enumerate(phases) if phase in wanted]
        if chosen:
            return chosen
    return list(range(len(phases)))


def _bucket_times(analysis: Analysis, executed: bool) -> dict[_Bucket, compare.Samples]:
    """Return the times of each layer and phase: one for each execution, or the mean over the runs."""
    found: dict[_Bucket, compare.Samples] = {}
    chosen = _measured(analysis)
    count = len(chosen)
    if executed:
        elapsed = analysis.executions.ends - analysis.executions.starts
        found["execution", "", "elapsed"] = elapsed[chosen].astype(np.float64)
        for (layer, phase, _), own in analysis.wall_clock.each():
            if own[chosen].any():
                times = found.get(("execution", layer, phase), np.zeros(count))
                found["execution", layer, phase] = times + own[chosen]
    measured = (segment for segment in analysis.tables if run_of(segment)[1] != _WARM_UP)
    for (layer, phase), time in analysis.tables.total(measured).self_ns.items():
        if executed and phase == "PBM":  # this phase grows with the number of executions
            found["execution", layer, phase] = np.full(count, time / count)
        elif not (executed and phase in EXECUTING):
            found["run", layer, phase] = np.array([time / max(1, len(analysis.runs))])
    return found
