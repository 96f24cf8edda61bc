"""Time by origin: the operators of a trace are matched to the model's, and their times divided among their sources.

All times are whole nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, Literal

from circletools.cost.macs import UNKNOWN, macs
from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.origin.names import origins_by_output
from circletools.origin.read import NOTHING_KNOWN, Origins, origins_freshness, origins_in
from circletools.profile.compare import tick_of
from circletools.profile.joining import AddedKind, Join, Place, Time, joined_executions, time_of
from circletools.profile.shares import GroupTime, OperatorTime, grouped_times
from circletools.trace.operators.profile import OperatorTrace, Runtime, Whole, merged, warm_up
from circletools.wording import Attributes, Tabular, counted

_OF_TRACE = ("runtime", "executions", "averaged", "incomplete", "whole", "unit")


@dataclass(frozen=True, slots=True)
class AddedTime(Attributes):
    """Time that belongs to no operator of the model.

    The kinds are `inserted` (by the runtime), `delegate` (a delegate or an operator of one), `unattributed` (a row
    that fits no operator), and `inside` (part of another row, which already includes its time).
    """

    kind: AddedKind
    subgraph: int
    index: int
    name: str
    backends: tuple[str, ...]
    time: Time


@dataclass(frozen=True, slots=True)
class AmbiguousTime(Attributes):
    """The time of rows that may belong to any of several operators; it is divided evenly among them."""

    names: tuple[str, ...]
    operators: tuple[Place, ...]
    total_ns: int


@dataclass(frozen=True, slots=True)
class DelegatedGroup(Attributes):
    """The time of a delegate for several operators that it does not report individually.

    `estimates_ns` divides the total among them by their MACs or, if these are unknown, by their bytes.
    """

    name: str
    operators: tuple[Place, ...]
    time: Time
    estimates_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Attribution(Tabular):
    """The time of `executions` inferences by operator, source, module and operator code.

    `total_ns` is the sum over operators and added time, and `medians_ns` the sum of their medians or, if that is
    more, the median of their sum; `outside_ns` is the median of what an execution took beyond them, if the trace has
    its time. `named` means that the model has no origin tables, so operators' output names serve as sources.
    `unchecked` counts operators whose names could not be compared with the model's codes; `ignored` names marks that
    are neither operators nor parts of operators. The time of `ambiguous` rows is divided evenly among their
    operators. `others` counts omitted executions of other models. Times are multiples of `tick_ns`. `whole` holds the
    trace's figures for whole executions; `whole.elapsed_ns` excludes the first `warm_up` executions. `notes` are
    remarks for readers of the tables; STALE_ORIGIN means that the origins no longer describe the operators.
    """

    runtime: Runtime
    executions: int
    averaged: bool
    incomplete: int
    total_ns: int
    operators: tuple[OperatorTime, ...]
    added: tuple[AddedTime, ...]
    sources: tuple[GroupTime, ...]
    modules: tuple[GroupTime, ...]
    types: tuple[GroupTime, ...]
    source_names: Mapping[int, str]
    named: bool
    unchecked: int
    ignored: tuple[str, ...]
    ambiguous: tuple[AmbiguousTime, ...]
    medians_ns: int
    others: int
    tick_ns: int
    groups: tuple[DelegatedGroup, ...] = ()
    whole: Whole = field(default_factory=Whole)
    warm_up: int = 0
    notes: tuple[Finding, ...] = ()
    outside_ns: int | None = None
    unit: Literal["ns", "ticks"] = "ns"

    def share_percent(self, time: Time) -> float:
        """Return a time as a percentage of the total measured time."""
        return 100 * time.total_ns / self.total_ns if self.total_ns else 0.0

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the time of each operator of the model (None if the trace does not contain it), and its sources."""
        return [
            {"subgraph": row.subgraph, "operator_index": row.index, "code": row.code, "output": row.output}
            | {"backends": list(row.backends)}
            | {name: getattr(row.time, name, None) for name in ("runs", "total_ns", "median_ns")}
            | {"share_percent": None if row.time is None else self.share_percent(row.time)}
            | {"sources": [self.source_names[source] for source in row.sources]}
            for row in self.operators
        ]


def attribute(
    model: Model | None, trace: OperatorTrace | Sequence[OperatorTrace], *, depth: int | None = None
) -> Attribution:
    """Return the times in a trace by operator, source and module, using the origins in the model.

    Several recordings are merged. The time of a module includes the modules in it; paths have at most `depth` parts.
    Without a model, each row of the trace is an operator. A report that has times only by type gives no operators.
    Raises UsageError for recordings that cannot be merged, InvalidInputError for a trace of another model or, with a
    model, for times by type, and TableFormatError for malformed origins.

        with ct.open("out.circle") as model:
            for row in ct.attribute(model, ct.read_profile("trace.chrome.json")).operators:
                print(row.index, row.code, row.time.total_ns if row.time else None)
    """
    traces = [trace] if isinstance(trace, OperatorTrace) else list(trace)
    trace = merged(traces)
    if model is not None and trace.whole.types:
        message = "the report has times only by type, not by operator"
        raise InvalidInputError(message, location=trace.name, hint="read it without a model")
    graph = None if model is None else model_graph(model)
    origins = None if graph is None else origins_in(graph)
    found = attribute_to(graph, trace, origins, depth)
    notes = [] if graph is None else [*_notes(found, graph, trace, origins)]
    notes += (note for one in traces for note in _notes_on_executions(one))
    return replace(found, notes=tuple(notes))


def _notes(found: Attribution, model: ModelGraph, trace: OperatorTrace, origins: Origins | None) -> Iterator[Finding]:
    if origins is not None and (freshness := origins_freshness(model, origins)).state == "stale":
        yield Finding("STALE_ORIGIN", "warning", model.name, f"the origins are stale: {freshness.reason}")
    elif found.named:
        message = "the model has no origins, so every operator is its own source (embed-origins adds them)"
        yield Finding("NO_ORIGINS", "info", model.name, message)
    size, logged = model.source.wire.size, trace.whole.model_bytes
    if logged and abs(size - logged) > logged / 100_000:  # the logged size has six digits
        message = f"the model has {size:,} bytes, but the one in the log had about {logged:,}: was another model run?"
        yield Finding("OTHER_SIZE", "warning", model.name, message)
    share = 100 * sum(row.total_ns for row in found.ambiguous) / max(found.total_ns, 1)
    rows = counted(sum(len(row.names) for row in found.ambiguous), "kind of row", "kinds of rows")
    even = f"{rows} may belong to several operators, which share the time evenly ({share:.1f}% of the total)"
    unchecked = "operators not checked against the model, because their names are unknown"
    strange = found.incomplete - trace.incomplete
    ignored = f"marks that are not operators of the model (ignored): {', '.join(found.ignored)}"
    for some, code, message in (
        (found.others, "OTHER_MODELS", f"executions of other models (left out): {found.others}"),
        (strange, "OTHER_MODELS", f"events of operators that are not in the model's order (left out): {strange}"),
        (found.ambiguous, "AMBIGUOUS_OPERATORS", even),
        (found.unchecked, "UNCHECKED_OPERATORS", f"{unchecked}: {found.unchecked}"),
        (found.ignored, "IGNORED_MARKS", ignored),
    ):
        if some:
            yield Finding(code, "info", trace.name, message)


def _notes_on_executions(trace: OperatorTrace) -> Iterator[Finding]:
    threads = sorted({run.lane for run in trace.runs}) if trace.runtime == "litert" else []
    if len(threads) > 1:
        message = f"operators ran on threads {', '.join(map(str, threads[:8]))}; select one with `thread=`"
        yield Finding("SEVERAL_THREADS", "info", trace.name, message)
    if trace.incomplete:
        cut = "the report is truncated; incomplete tables"
        what = cut if trace.averaged else "unmatched begin or end events (ignored)"
        yield Finding("INCOMPLETE_EVENTS", "info", trace.name, f"{what}: {trace.incomplete}")
    if trace.skipped:
        message = f"executions at the beginning (left out): {trace.skipped}"
        yield Finding("SKIPPED_EXECUTIONS", "info", trace.name, message)
    elif count := warm_up(trace):
        message = f"{counted(count, 'execution')} at the start took longer than the rest (`skip=auto` omits warm-up)"
        yield Finding("WARM_UP", "info", trace.name, message)


def attribute_to(
    model: ModelGraph | None, trace: OperatorTrace, origins: Origins | None, depth: int | None = None
) -> Attribution:
    """Return what `attribute` does, without notes, for these origins (None: every operator is its own source)."""
    named, every = origins is None, trace
    if model is None:
        origins, joined = NOTHING_KNOWN, Join(None, trace)
        operators = tuple(_row_times(joined, trace))
    else:
        origins = origins_by_output(model, range(len(model))) if origins is None else origins
        trace, joined = joined_executions(model, trace)
        operators = tuple(_operators(model, origins, joined, trace))
    sources, modules, types = grouped_times(operators, joined, origins, trace, depth)
    if trace.whole.types:  # the rows are not operators
        operators, types = (), tuple(replace(row, operators=()) for row in types)
    rows = ((*key, tuple(sorted(one.backends)), time_of(one, trace)) for key, one in sorted(joined.added.items()))
    added = tuple(AddedTime(*row) for row in rows)
    groups = tuple(_delegated_groups(joined, trace, operators))
    times = [row.time for row in operators if row.time] + [row.time for row in added if row.kind != "inside"]
    times += [row.time for row in types if trace.whole.types] + [group.time for group in groups]
    inside, elapsed, settled = _executed(joined, trace), trace.whole.elapsed_ns, warm_up(trace)
    # The difference of two medians would contain the noise of each operator.
    outside = [max(0, whole - own) for whole, own in zip(elapsed, inside, strict=False)][settled:]
    return Attribution(
        **{name: getattr(trace, name) for name in _OF_TRACE},
        total_ns=sum(time.total_ns for time in times),
        operators=operators,
        added=added,
        sources=sources,
        modules=modules,
        types=types,
        source_names=origins.sources,
        named=named,
        unchecked=len(joined.unchecked),
        ignored=tuple(sorted(joined.ignored)),
        ambiguous=tuple(AmbiguousTime(*row) for row in sorted(joined.ambiguous)),
        medians_ns=0 if trace.averaged else max(round(median(inside)), sum(time.median_ns or 0 for time in times)),
        others=0 if trace.runtime == "tflm" else every.executions - trace.executions,
        tick_ns=tick_of(run.duration_ns for run in trace.runs),
        groups=groups,
        warm_up=settled,
        outside_ns=round(median(outside)) if outside else None,
    )


def _executed(joined: Join, trace: OperatorTrace) -> list[int]:
    """Return the time of all operators and added rows in each execution."""
    found = Counter[int]()
    added = [measured for (kind, *_), measured in joined.added.items() if kind != "inside"]
    for measured in (*joined.operators.values(), *joined.groups.values(), *added):
        found.update(measured.executions)
    return [found[number] for number in range(trace.executions)]


def _operators(model: ModelGraph, origins: Origins, joined: Join, trace: OperatorTrace) -> Iterator[OperatorTime]:
    for facts in model.graphs:
        names = facts.operators.first_result_names
        sizes, counts = facts.operand_bytes.tolist(), macs(facts).tolist()
        columns = zip(facts.operators.code_names, names, sizes, counts, strict=True)
        for index, (code, output, size, count) in enumerate(columns):
            place = (facts.index, index)
            found = joined.operators.get(place)
            sources = tuple(sorted(origins.of(*place)))
            backends = tuple(sorted(found.backends)) if found else ()
            time = time_of(found, trace) if found else None
            known = None if count == UNKNOWN else count
            yield OperatorTime(*place, code, output, backends, sources, time, int(size), known)


def _row_times(joined: Join, trace: OperatorTrace) -> Iterator[OperatorTime]:
    """Yield the rows of a trace without a model as operators."""
    for (*_, name, _, label), place in joined.rows.items():
        if measured := joined.operators.get(place):
            backends = tuple(sorted(measured.backends)) or ("delegate",) * bool(measured.delegated_ns)
            yield OperatorTime(*place, name, label, backends, (), time_of(measured, trace))


def _delegated_groups(joined: Join, trace: OperatorTrace, every: Sequence[OperatorTime]) -> Iterator[DelegatedGroup]:
    by_place = {(row.subgraph, row.index): row for row in every}
    for (name, places), measured in sorted(joined.groups.items()):
        rows = [by_place[place] for place in places]
        work = [row.macs or 0 for row in rows]
        work = work if any(work) else [row.operand_bytes or 1 for row in rows]
        passed = [measured.total_ns * some // sum(work) for some in accumulate(work, initial=0)]
        estimates = tuple(after - before for before, after in pairwise(passed))
        yield DelegatedGroup(name, places, time_of(measured, trace), estimates)
