"""The types of operator-level traces, which record how long each operator ran."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple

from circletools.errors import InvalidInputError, UsageError
from circletools.wording import Attributes, Tabular, counted

Runtime = Literal["onert", "litert", "benchmark_model", "openvino", "executorch", "tflm"]

_FEWEST = 4
_DECIMAL = re.compile(r"(\d{1,15})(?:\.(\d{1,12}))?", re.ASCII)
NORMAL_QUARTILE = 0.6745  # the upper quartile of a normal distribution, in standard deviations


class OperatorRun(NamedTuple):
    """One run of an operator or, in an averaged trace, all its runs together.

    `operator` is its index, `name` the runtime's name for it, and `backend` the backend that ran it (empty if the
    trace does not record it). `execution` counts the inferences from 0. `lane` is a thread or session: runs in a lane
    can be nested, because an operator that calls a subgraph runs as long as the subgraph. `of_delegate` means that
    the run is of a delegate's own operator, and `operator` is the delegate's number for it. `label` is what a report
    adds to the name, such as the names of outputs.
    """

    subgraph: int
    operator: int
    name: str
    backend: str
    start_ns: int
    duration_ns: int
    execution: int
    lane: int = 0
    calls: int = 1
    of_delegate: bool = False
    label: str = ""


class OtherRow(NamedTuple):
    """A row that is not an operator: its mean time, calls per run (0 if not in every run), and memory."""

    name: str
    mean_ns: int
    calls: int = 1
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Whole(Attributes):
    """Figures of executions as a whole, apart from their operators; None or empty if the file lacks them.

    `elapsed_ns` holds the time of each execution; for averages, `mean_ns` is the mean of `runs` without warm-up,
    `first_ns` the first time, and `range_ns` the minimum, maximum, standard deviation (not of onert_run) and, if
    known, 5th percentile, median and 95th percentile (of all operators if `range_of_operators`). `memory_bytes` is
    the peak memory of the process or, if `memory_added`, the memory that the run added; `initial_memory_bytes` is the
    same figure after initialization. `parts` are those of initialization, with total times, `model_bytes` the size of
    the file `model`, and `delegates` what a log states about delegates. `warm_up_ns` holds the mean of the warm-up
    and, if known, its minimum and maximum; `operators_ns` is the mean time of all operators in a run, and
    `first_operators_ns` that in the first; `options` are those that a log shows; `program` wrote the log, if not
    benchmark_model. If it ran several times, `sessions` has the figures of each run, which begins at `line` or just
    before; the other figures are those of the run with this `line`. If a report has only times by type, `types` holds
    the types' names and numbers of operators, if known. `failure` is `failed` or `cut` if there are no results,
    perhaps with `: ` and an error. `clock` is what a log states about the length of its ticks.
    """

    initialization_ns: int | None = None
    elapsed_ns: tuple[int, ...] = ()
    first_ns: int | None = None
    mean_ns: int | None = None
    memory_bytes: int | None = None
    threads: int | None = None
    range_ns: tuple[int, ...] = ()
    warm_up_runs: int | None = None
    parts: tuple[OtherRow, ...] = ()
    initial_memory_bytes: int | None = None
    memory_added: bool = False
    model_bytes: int | None = None
    model: str = ""
    delegates: tuple[str, ...] = ()
    runs: int | None = None
    others: tuple[OtherRow, ...] = ()
    warm_up_ns: tuple[int, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    operators_ns: int | None = None
    first_operators_ns: int | None = None
    program: str = ""
    line: int = 1
    types: tuple[tuple[str, int], ...] = ()
    failure: str = ""
    sessions: tuple[Whole, ...] = ()
    range_of_operators: bool = False
    clock: str = ""

    def known(self, executions: int, averaged: bool) -> int | None:
        """Return the number of executions of a trace, or None if its averages do not state it."""
        return executions if executions > 1 or not averaged or self.runs else None


@dataclass(frozen=True, slots=True, repr=False)
class OperatorTrace(Tabular):
    """The runs of operators in `executions` inferences.

    `averaged` means that only averages are known: there is one `OperatorRun` for each operator (with `Whole.types`,
    for each type, with the operator -1), with the total time of its `calls` in all executions. `inside` holds the
    parts that a delegate reports of its own run, whose time is included in that run. `incomplete` counts unpaired
    begin and end events or, in a report, tables without their end, and `skipped` the omitted executions. `name` is
    the name of the source. `own` means that the trace was recorded with the model to which it is compared. If `unit`
    is `ticks`, all times are numbers of ticks.
    """

    runtime: Runtime
    runs: tuple[OperatorRun, ...]
    executions: int
    averaged: bool = False
    inside: tuple[OperatorRun, ...] = ()
    incomplete: int = 0
    skipped: int = 0
    name: str = field(default="", compare=False)
    whole: Whole = Whole()
    own: bool = False
    unit: Literal["ns", "ticks"] = "ns"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each run of an operator."""
        return [run._asdict() for run in self.runs]


def without_first(trace: OperatorTrace, count: int | Literal["auto"]) -> OperatorTrace:
    """Return the trace without its first `count` executions, which often do one-time work.

    `auto` removes the warm-up, if there is any. Raises UsageError if executions cannot be removed.
    """
    if count == "auto":
        count = warm_up(trace)
    if not count:
        return trace
    if trace.averaged:
        raise UsageError("cannot skip executions: the trace has only averages")
    if count >= trace.executions:
        raise UsageError(f"cannot skip {counted(count, 'execution')}: the trace has {trace.executions}")
    kept = {number: number - count for number in range(count, trace.executions)}
    found = replace(only_executions(trace, kept), skipped=trace.skipped + count)
    first_ns = trace.whole.elapsed_ns[0] if trace.whole.elapsed_ns and not trace.skipped else trace.whole.first_ns
    return replace(found, whole=replace(found.whole, first_ns=first_ns))


def only_executions(trace: OperatorTrace, kept: Mapping[int, int]) -> OperatorTrace:
    """Return the trace with only some of its executions; `kept` maps their numbers to new ones."""
    runs, inside = (
        tuple(run._replace(execution=kept[run.execution]) for run in rows if run.execution in kept)
        for rows in (trace.runs, trace.inside)
    )
    elapsed = tuple(one for at, one in enumerate(trace.whole.elapsed_ns) if at in kept)
    whole = replace(trace.whole, elapsed_ns=elapsed)
    return replace(trace, runs=runs, inside=inside, executions=len(kept), whole=whole)


def warm_up(trace: OperatorTrace) -> int:
    """Return the number of initial executions that are significantly slower than those of the second half.

    These must be slower by a tenth and by five times the spread. Four executions are needed; at least half are kept.
    """
    if trace.averaged or trace.executions < _FEWEST:
        return 0
    times = [0] * trace.executions
    for run, own in zip(trace.runs, self_times(trace.runs), strict=True):
        times[run.execution] += own
    half = trace.executions // 2
    settled = times[half:]
    usual = median(settled)
    spread = median(abs(time - usual) for time in settled) / NORMAL_QUARTILE
    limit = max(1.1 * usual, usual + 5 * spread)
    return next((at for at, time in enumerate(times[:half]) if time <= limit), half)


def merged(traces: Sequence[OperatorTrace]) -> OperatorTrace:
    """Merge recordings of the same model into one, with their executions one after another.

    Raises UsageError if there are no recordings, if they are from several runtimes, or if only some are averages.
    """
    if len({(trace.runtime, trace.averaged, not trace.whole.types, trace.unit) for trace in traces}) != 1:
        raise UsageError("only recordings of one runtime can be merged, and only if all have the same kind of times")
    runs, inside = list[OperatorRun](), list[OperatorRun]()
    executions = lanes = 0
    for trace in traces:
        for rows, recorded in ((runs, trace.runs), (inside, trace.inside)):
            rows += [run._replace(execution=run.execution + executions, lane=run.lane + lanes) for run in recorded]
        executions += trace.executions
        lanes += 1 + max((run.lane for run in (*trace.runs, *trace.inside)), default=0)
    incomplete, skipped = (sum(getattr(trace, name) for trace in traces) for name in ("incomplete", "skipped"))
    each = [trace.whole.elapsed_ns for trace in traces]
    elapsed = tuple(one for some in each for one in some) if all(each) else ()
    alone = Whole() if len(traces) > 1 else traces[0].whole
    whole = replace(traces[0].whole, elapsed_ns=elapsed, range_ns=alone.range_ns, runs=alone.runs)
    one = replace(traces[0], runs=tuple(runs), inside=tuple(inside), executions=executions, whole=whole)
    return replace(one, incomplete=incomplete, skipped=skipped)


def nothing_found(what: str) -> InvalidInputError:
    """Return the error for a readable trace without operators."""
    return InvalidInputError(f"no operator times: {what}", hint="see docs/trace.md; for NNAPI, see ct.read_trace")


def nanoseconds(text: str, unit: Literal["microseconds", "milliseconds"], location: str | None = None) -> int:
    """Return a time, written in the given unit, in nanoseconds. Raises InvalidInputError with this location."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"{text[:40]!r} is not a time in {unit}", location=location)
    return int(match[1] + (match[2] or "").ljust(6, "0")[: 3 if unit == "microseconds" else 6])


def self_times(runs: Sequence[OperatorRun]) -> list[int]:
    """Return, for each run, the nanoseconds in which it ran and no run nested in it did; none is negative.

    A run is nested in another one of its lane if it lies within that run's time and belongs to another subgraph:
    operators of one subgraph do not call each other, but may overlap on several threads. Without such overlap, the
    self times of an operator and of all operators that it called add up to its duration.
    """
    own = [run.duration_ns for run in runs]
    covered = [run.start_ns for run in runs]
    stack: list[tuple[int, int, int | None]] = []  # the end, the run, and the run around it
    lane = None
    for at in sorted(
        range(len(runs)), key=lambda at: (runs[at].lane, runs[at].start_ns, -runs[at].duration_ns, runs[at].subgraph)
    ):
        run = runs[at]
        end = run.start_ns + run.duration_ns
        if run.lane != lane:
            lane, stack = run.lane, []
        while stack and stack[-1][0] < end:
            stack.pop()
        parent = None
        if stack:
            _, above, beyond = stack[-1]
            parent = above if runs[above].subgraph != run.subgraph else beyond
        if parent is not None:
            own[parent] -= max(0, end - max(run.start_ns, covered[parent]))
            covered[parent] = max(end, covered[parent])
        stack.append((end, at, parent))
    return own
