"""Time by origin: the operators of a trace are matched to the model's, and their times divided among their sources.

    trace  ->  runs of the model's operators, runs that the runtime added
    operator's time  ->  its sources, evenly  ->  the sources' modules, evenly

All times are whole nanoseconds. The remainder of a division goes to the first parts, one nanosecond each, so that the
parts add up to the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

import numpy as np

from circletools.cost.macs import UNKNOWN, macs
from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.origin.modules import module_tree, split
from circletools.origin.names import origins_by_output
from circletools.origin.read import NOTHING_KNOWN, Origins, origins_freshness, origins_in
from circletools.origin.source import NOTHING, SourceDetails
from circletools.profile.compare import tick_of
from circletools.profile.joining import AddedKind, Join, Measured, Place, Time, joined_executions, time_in, time_of
from circletools.trace.operators.profile import OperatorTrace, Runtime, Whole, merged, warm_up
from circletools.wording import Attributes, Tabular, counted


@dataclass(frozen=True, slots=True)
class OperatorTime(Attributes):
    """An operator of the model; `time` is None if the trace does not contain it.

    `operand_bytes` is the size of its inputs and outputs, including constants; a dynamic dimension counts as 1.
    `macs` is the number of its multiply-accumulates in one run, or None if a dimension is dynamic.
    """

    subgraph: int
    index: int
    code: str
    output: str
    backends: tuple[str, ...]
    sources: tuple[int, ...]
    time: Time | None
    operand_bytes: int = 0
    macs: int | None = None


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


@dataclass(frozen=True, slots=True)
class Shared:
    """A group's share of the time: its operators, and whether other groups share any of them."""

    operators: tuple[Place, ...]
    shared: bool
    time: Time


@dataclass(frozen=True, slots=True)
class GroupTime(Attributes):
    """A source, a module or an operator code; `source` is a source's id.

    The group without a name contains the operators without an origin. `details` are a source's details; `parent` is
    the path of the module that contains a module.
    """

    source: int | None
    name: str | None
    share: Shared
    details: SourceDetails = NOTHING
    parent: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Attribution(Tabular):
    """The time of `executions` inferences by operator, source, module and operator code.

    `total_ns` is the sum over operators and added time, and `medians_ns` the sum of their medians or, if that is
    more, the median of their sum; `outside_ns` is the median of what an execution took beyond them, if the trace has
    its time. `named` means that the model has no origin tables, so that operators' output names serve as sources.
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

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the time of each operator of the model (None if the trace does not contain it), and its sources."""
        return [
            {"subgraph": row.subgraph, "operator_index": row.index, "code": row.code, "output": row.output}
            | {"backends": list(row.backends)}
            | {name: getattr(row.time, name, None) for name in ("runs", "total_ns", "median_ns")}
            | {"sources": [self.source_names[source] for source in row.sources]}
            for row in self.operators
        ]


def attribute(
    model: Model | None, trace: OperatorTrace | Sequence[OperatorTrace], *, depth: int | None = None
) -> Attribution:
    """Return the times in a trace by operator, source and module, using the origins in the model.

    Several recordings are merged. The time of a module includes the modules in it; paths have at most `depth` parts.
    Without a model, each row of the trace is an operator. A report with only the times of types gives no operators.
    Raises UsageError for recordings that cannot be merged, InvalidInputError for a trace of another model or, with a
    model, for times of types, and TableFormatError for malformed origins.

        with ct.open("out.circle") as model:
            for row in ct.attribute(model, ct.read_profile("trace.chrome.json")).operators:
                print(row.index, row.code, row.time.total_ns if row.time else None)
    """
    traces = [trace] if isinstance(trace, OperatorTrace) else list(trace)
    trace = merged(traces)
    if model is not None and trace.whole.types:
        message = "the report has only the times of types, not those of operators"
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
    even = f"{rows} may belong to several operators, which share the time evenly ({share:.1f} % of the total)"
    unchecked = "operators not checked against the model, because their names are unknown"
    ignored = f"marks that are not operators of the model (ignored): {', '.join(found.ignored)}"
    for some, code, message in (
        (found.others, "OTHER_MODELS", f"executions of other models (left out): {found.others}"),
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
    """Do the same as `attribute`, without notes, for these origins (None: every operator is its own source)."""
    named, every = origins is None, trace
    if model is None:
        origins, joined = NOTHING_KNOWN, Join(None, trace)
        operators = tuple(_row_times(joined, trace))
    else:
        origins = origins_by_output(model, range(len(model))) if origins is None else origins
        trace, joined = joined_executions(model, trace)
        operators = _operators(model, origins, joined.operators, trace)
    sources, modules, types = _groups(operators, joined.operators, origins, trace, depth)
    if trace.whole.types:  # the rows are not operators
        operators, types = (), tuple(replace(row, share=replace(row.share, operators=())) for row in types)
    added = tuple(
        AddedTime(*key, tuple(sorted(measured.backends)), time_of(measured, trace))
        for key, measured in sorted(joined.added.items())
    )
    groups = _delegated_groups(joined, trace, operators)
    times = [row.time for row in operators if row.time] + [row.time for row in added if row.kind != "inside"]
    times += [row.share.time for row in types if trace.whole.types] + [group.time for group in groups]
    inside, elapsed, settled = _executed(joined, trace), trace.whole.elapsed_ns, warm_up(trace)
    # The difference of two medians would contain the noise of each operator.
    outside = [max(0, whole - own) for whole, own in zip(elapsed, inside, strict=False)][settled:]
    facts = trace.runtime, trace.executions, trace.averaged, trace.incomplete, sum(time.total_ns for time in times)
    ambiguous = tuple(AmbiguousTime(*row) for row in sorted(joined.ambiguous))
    medians_ns = 0 if trace.averaged else max(round(median(inside)), sum(time.median_ns or 0 for time in times))
    found = Attribution(
        *(*facts, operators, added, sources, modules, types, origins.sources, named),
        *(len(joined.unchecked), tuple(sorted(joined.ignored)), ambiguous, medians_ns),
        others=every.executions - trace.executions,
        tick_ns=tick_of([np.array([run.duration_ns for run in trace.runs], np.int64)]),
        groups=groups,
    )
    outside_ns = round(median(outside)) if outside else None
    return replace(found, whole=trace.whole, warm_up=settled, outside_ns=outside_ns)


def _executed(joined: Join, trace: OperatorTrace) -> list[int]:
    """Return the time of all operators and added rows in each execution."""
    found = Counter[int]()
    added = [measured for (kind, *_), measured in joined.added.items() if kind != "inside"]
    for measured in (*joined.operators.values(), *joined.groups.values(), *added):
        found.update(measured.executions)
    return [found[number] for number in range(trace.executions)]


def _operators(
    model: ModelGraph, origins: Origins, measured: Mapping[Place, Measured], trace: OperatorTrace
) -> tuple[OperatorTime, ...]:
    rows = []
    for facts in model.graphs:
        names = facts.operators.first_result_names
        sizes, counts = facts.operand_bytes.tolist(), macs(facts).tolist()
        columns = zip(facts.operators.code_names, names, sizes, counts, strict=True)
        for index, (code, output, size, count) in enumerate(columns):
            place = (facts.index, index)
            found = measured.get(place)
            sources = tuple(sorted(origins.of(*place)))
            backends = tuple(sorted(found.backends)) if found else ()
            time = time_of(found, trace) if found else None
            known = None if count == UNKNOWN else count
            rows.append(OperatorTime(*place, code, output, backends, sources, time, int(size), known))
    return tuple(rows)


def _row_times(joined: Join, trace: OperatorTrace) -> Iterator[OperatorTime]:
    """Yield the rows of a trace without a model as operators."""
    for (*_, name, _, label), place in joined.rows.items():
        if measured := joined.operators.get(place):
            backends = tuple(sorted(measured.backends)) or ("delegate",) * bool(measured.delegated_ns)
            yield OperatorTime(*place, name, label, backends, (), time_of(measured, trace))


def _delegated_groups(
    joined: Join, trace: OperatorTrace, operators: Sequence[OperatorTime]
) -> tuple[DelegatedGroup, ...]:
    by_place = {(row.subgraph, row.index): row for row in operators}
    found = []
    for (name, places), measured in sorted(joined.groups.items()):
        rows = [by_place[place] for place in places]
        work = [row.macs or 0 for row in rows]
        work = work if any(work) else [row.operand_bytes or 1 for row in rows]
        passed = [measured.total_ns * some // sum(work) for some in accumulate(work, initial=0)]
        estimates = tuple(after - before for before, after in pairwise(passed))
        found.append(DelegatedGroup(name, places, time_of(measured, trace), estimates))
    return tuple(found)


def _groups(
    rows: Sequence[OperatorTime],
    measured: Mapping[Place, Measured],
    origins: Origins,
    trace: OperatorTrace,
    depth: int | None,
) -> Iterator[tuple[GroupTime, ...]]:
    """Yield the times by source, those by module, and those by operator code."""
    by_source, by_module, by_code = (_Shares(measured, trace) for _ in range(3))
    tree = module_tree(origins, depth)
    for row in rows:
        place = (row.subgraph, row.index)
        sources: Sequence[int | None] = row.sources or (None,)
        by_code.add(row.code, place, row.time.total_ns if row.time else 0, 1)
        shares = split(row.time.total_ns if row.time else 0, len(sources))
        for source, share in zip(sources, shares, strict=True):
            by_source.add(source, place, share, 1 / len(sources))
            modules: Sequence[int | None] = (None,) if source is None else tree.of_source[source]
            for module, part in zip(modules, split(share, len(modules)), strict=True):
                for above in (None,) if module is None else tree.upwards(module):
                    by_module.add(above, place, part, 1 / len(sources) / len(modules))
    yield tuple(
        GroupTime(source, origins.sources.get(source), share, origins.details.get(source, NOTHING))
        for source, share in by_source.groups()
    )
    yield tuple(
        GroupTime(None, None, share)
        if row is None
        else GroupTime(None, tree.paths[row], share, parent=tree.parent(row))
        for row, share in by_module.groups()
    )
    yield tuple(GroupTime(None, code, share) for code, share in by_code.groups())


class _Shares:
    """Sums the shares of groups (a source, module or code; None: operators without one) in the operators' times."""

    def __init__(self, measured: Mapping[Place, Measured], trace: OperatorTrace) -> None:
        """Start with the measured times, and without shares."""
        self._measured, self._trace = measured, trace
        self._totals: dict[Any, int] = {}
        self._parts: dict[Any, dict[Place, float]] = {}
        self._executions: dict[frozenset[tuple[Place, float]], dict[int, int]] = {}

    def add(self, group: int | str | None, place: Place, share_ns: int, part: float) -> None:
        """Assign `share_ns` of an operator's time to a group; `part` is the share as a fraction."""
        self._totals[group] = self._totals.get(group, 0) + share_ns
        parts = self._parts.setdefault(group, {})
        parts[place] = parts.get(place, 0.0) + part

    def groups(self) -> Iterator[tuple[Any, Shared]]:
        """Yield the share of every group, ordered by name; the group without a name comes last."""
        for group, parts in sorted(self._parts.items(), key=lambda entry: (entry[0] is None, entry[0])):
            runs = sum(self._measured[place].runs for place in parts if place in self._measured)
            shared = any(not math.isclose(part, 1) for part in parts.values())
            time = time_in(runs, self._totals[group], self._times(parts), self._trace)
            yield group, Shared(tuple(sorted(parts)), shared, time)

    def _times(self, parts: Mapping[Place, float]) -> dict[int, int]:
        """Return the time of these parts in each execution."""
        known = frozenset((place, part) for place, part in parts.items() if place in self._measured)
        if known not in self._executions:  # many sources of one operator have the same share
            times: dict[int, float] = {}
            for place, part in sorted(known):
                for execution, time in self._measured[place].executions.items():
                    times[execution] = times.get(execution, 0.0) + time * part
            self._executions[known] = {execution: round(time) for execution, time in times.items()}
        return self._executions[known]
