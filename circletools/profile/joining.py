"""Join the runs of a trace, optionally including those of delegates, with the operators of a model.

Executions of other models in the trace are recognized and omitted.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from circletools.errors import InvalidInputError
from circletools.graph.graph import ModelGraph
from circletools.origin.modules import split
from circletools.profile.delegates import WHOLE, Delegates, Row
from circletools.trace.operators.names import agrees, is_builtin
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, only_executions, self_times
from circletools.trace.operators.tflm import in_order
from circletools.wording import Attributes

AddedKind = Literal["inserted", "delegate", "unattributed", "inside"]
Kind = AddedKind | Literal["operator"] | None
Place = tuple[int, int]
"""A subgraph index and an operator index."""

_Key = tuple[int, int, str, bool]
"""The key of a row: its subgraph, number and name, and whether it is a delegate's."""

_MOST_KINDS = 64
_MOST_ROWS = 10_000  # placing them takes three seconds
_SHARE_BYTES = 16  # charged to the budget for each operator that shares the time of rows in an execution


@dataclass(frozen=True, slots=True)
class Spread(Attributes):
    """The distribution of execution times, in nanoseconds.

    `p90_ns` and `p99_ns` are nearest-rank percentiles, `spread_ns` is the interquartile range, and the bounds enclose
    the median with 95% confidence.
    """

    min_ns: int
    p90_ns: int
    p99_ns: int
    spread_ns: int
    median_low_ns: int
    median_high_ns: int


@dataclass(frozen=True, slots=True)
class Time(Attributes):
    """A measured time. `median_ns` is the median over executions, or None if only averages are known.

    The same holds for `spread`, the distribution over executions. `delegated_ns` is the part from a delegate's rows,
    and `ambiguous_ns` the part from equal shares of rows that match several operators.
    """

    runs: int
    total_ns: int
    median_ns: int | None
    spread: Spread | None = None
    delegated_ns: int = 0
    ambiguous_ns: int = 0


@dataclass(slots=True)
class Measured:
    """The runs of one operator, or of one kind of added time.

    `delegated_ns` is the part of the total from a delegate's rows, and `ambiguous_ns` the operator's equal shares of
    rows that may belong to several operators.
    """

    runs: int = 0
    total_ns: int = 0
    delegated_ns: int = 0
    ambiguous_ns: int = 0
    backends: set[str] = field(default_factory=set)
    executions: Counter[int] = field(default_factory=Counter)

    def add(self, run: OperatorRun, self_ns: int, *, delegated: bool = False) -> None:
        """Add a run and its self time."""
        self.runs += run.calls
        self.total_ns += self_ns
        self.delegated_ns += self_ns * delegated
        self.executions[run.execution] += self_ns
        if run.backend:
            self.backends.add(run.backend)


class Join:
    """Classifies the runs of a trace as `operators` of the model, `added` runs, or names that are neither.

    `unchecked` holds operators whose names do not identify the code. Runs of delegates are added or, if `delegates`,
    joined with the operators that the delegates took; `groups` holds a delegate's runs for several operators, by its
    name and these operators. `ambiguous` holds runs that may belong to several operators: their names in the runtime,
    these operators, and the time. Raises InvalidInputError for a trace of another model: OpenVINO's layers may fit
    no operator, because it rewrites the model, but over half must fit. Without a model, each of the trace's `rows` is
    an operator.
    """

    def __init__(self, model: ModelGraph | None, trace: OperatorTrace, *, delegates: bool = False) -> None:
        """Classify every run."""
        self.operators: dict[Place, Measured] = {}
        self.added: dict[tuple[AddedKind, int, int, str], Measured] = {}
        self.groups: dict[tuple[str, tuple[Place, ...]], Measured] = {}
        self.unchecked: set[Place] = set()
        self.ignored: set[str] = set()
        self.ambiguous: list[tuple[tuple[str, ...], tuple[Place, ...], int]] = []
        self.rows = _numbered(trace.runs) if model is None else {}
        if trace.runtime == "executorch" and model:
            message = "the trace is from ExecuTorch: its operators are those of a .pte program, not of this model"
            raise InvalidInputError(message, hint="trace-compare --operators reads them without a model")
        self._codes = [graph.operators.code_names for graph in model.graphs] if model else []
        self._builtin = frozenset(model.source.schema.enums["BuiltinOperator"].values() if model else ())
        self._runtime = trace.runtime
        kinds = self._kinds(trace) if model else {}
        each = ((kinds[_key(run)] if model else "operator", run) for run in trace.runs)
        runs: list[tuple[Kind, OperatorRun]] = [(kind, run) for kind, run in each if kind is not None]
        first = min((run.subgraph for _, run in runs), default=0)
        own = (run.duration_ns for _, run in runs) if trace.averaged else self_times([run for _, run in runs])
        places = self._delegated(model, runs, trace, first) if delegates and model else {}
        # Runs that may belong to several operators, by the identity of the tuple of operators: the tuple, the names,
        # and the sums of runs and of times by execution and backend.
        shared: dict[int, tuple[tuple[Place, ...], set[str], dict[tuple[int, str], tuple[OperatorRun, int]]]] = {}
        for at, ((kind, run), self_ns) in enumerate(zip(runs, own, strict=True)):
            of = places.get(at, ())
            if len(of) == 1:
                backend = run.backend or ("delegate" if run.of_delegate else run.name)
                row = run._replace(backend=backend)
                self.operators.setdefault(of[0], Measured()).add(row, self_ns, delegated=True)
            elif of and run.of_delegate:
                _, some, times = shared.setdefault(id(of), (of, set(), {}))
                some.add(run.name)
                one, total_ns = times.get((run.execution, run.backend), (run._replace(calls=0), 0))
                times[run.execution, run.backend] = one._replace(calls=one.calls + run.calls), total_ns + self_ns
            elif of:
                self.groups.setdefault((run.name, of), Measured()).add(run, self_ns)
            else:
                # A caller's time includes the subgraphs it calls, and averages do not show their share.
                self._add("inside" if trace.averaged and run.subgraph != first else kind, run, self_ns)
        if model:
            size = _SHARE_BYTES * sum(len(of) * len(times) for of, _, times in shared.values())
            model.source.wire.budget.charge("the operators that rows of a trace may belong to", size)
        for of, some, times in shared.values():
            self.ambiguous.append((tuple(sorted(some)), of, sum(total_ns for _, total_ns in times.values())))
            for run, total_ns in times.values():
                for place, part in zip(of, split(total_ns, len(of)), strict=True):
                    measured = self.operators.setdefault(place, Measured())
                    measured.add(run, part, delegated=True)
                    measured.ambiguous_ns += part
        for run in trace.inside:
            self._add("inside", run, run.duration_ns)

    def _add(self, kind: Kind, run: OperatorRun, self_ns: int) -> None:
        if kind == "operator":
            place = self.rows[(*run[:3], *run[9:])] if self.rows else (run.subgraph, run.operator)
            delegated = bool(self.rows) and (run.of_delegate or "delegate" in run.name.lower())
            self.operators.setdefault(place, Measured()).add(run, self_ns, delegated=delegated)
        elif kind is not None:
            if kind == "delegate" and self._runtime == "openvino":  # a Reorder or Transpose for a kernel's layout
                kind = "inserted"
            self.added.setdefault((kind, run.subgraph, run.operator, run.name), Measured()).add(run, self_ns)

    def _delegated(
        self, model: ModelGraph, runs: Sequence[tuple[Kind, OperatorRun]], trace: OperatorTrace, first: int
    ) -> dict[int, tuple[Place, ...]]:
        """Return the operators of each run of a delegate, by the index of the run; equal results share a tuple."""
        executions: dict[tuple[int, int], list[int]] = {}
        for at, (kind, run) in enumerate(runs):
            if kind in ("operator", "delegate") and not (trace.averaged and run.subgraph != first):
                executions.setdefault((run.subgraph, run.execution), []).append(at)
        known: dict[int, Delegates] = {}
        different = 0
        found: dict[tuple[int, tuple[Row, ...]], list[tuple[Place, ...]]] = {}
        places: dict[int, tuple[Place, ...]] = {}
        for (subgraph, _), members in executions.items():
            members.sort(key=lambda at: runs[at][1].start_ns)
            rows = tuple(_row(*runs[at], trace) for at in members)
            if subgraph >= len(self._codes) or not any(row.of_delegate for row in rows):
                continue
            if (subgraph, rows) not in found:
                if subgraph not in known:
                    known[subgraph] = Delegates(model.graphs[subgraph])
                different += len(rows)
                if different > _MOST_ROWS:
                    raise InvalidInputError(f"executions with delegates have more than {_MOST_ROWS:,} different rows")
                every = known[subgraph].operators_of(rows)
                shared = {id(some): some for some in every}
                placed = {key: tuple((subgraph, operator) for operator in some) for key, some in shared.items()}
                found[subgraph, rows] = [placed[id(some)] for some in every]
            places |= {at: of for at, of in zip(members, found[subgraph, rows], strict=True) if of}
        return places

    def _kinds(self, trace: OperatorTrace) -> dict[_Key, Kind]:
        """Return the kind of each row. Raises InvalidInputError for a trace of another model."""
        kinds: dict[_Key, Kind] = {}
        misfits: list[InvalidInputError] = []
        for run in trace.runs:
            key = _key(run)
            try:
                if key not in kinds:
                    kinds[key] = self._kind(run)
            except InvalidInputError as error:
                if not trace.own and self._runtime != "openvino":
                    raise
                kinds[key] = "unattributed"
                misfits.append(error)
        checked = sum(not of_delegate for *_, of_delegate in kinds)
        if misfits and 2 * len(misfits) >= checked and not trace.own:
            message = f"{misfits[0].message} ({len(misfits)} of {checked} layers fit no operator)"
            raise InvalidInputError(message, hint=misfits[0].hint)
        return kinds

    def _kind(self, run: OperatorRun) -> Kind:
        """Return the kind of a run, or None for other marks. Raises InvalidInputError for a run of another model."""
        if run.of_delegate:
            return "delegate"
        if run.subgraph >= len(self._codes):
            raise _other_model(f"subgraph {run.subgraph} ran {run.name}", f"the subgraph count is {len(self._codes)}")
        if self._runtime == "onert" and run.name == "Permute":
            return "inserted"
        codes = self._codes[run.subgraph]
        place = f"subgraphs[{run.subgraph}].operators[{run.operator}] is {run.name}"
        if run.operator >= len(codes):
            builtin = self._runtime == "openvino" or is_builtin(self._runtime, run.name, self._builtin)
            # LiteRT appends the operators in a composite's decomposition to the subgraph that contains the composite;
            # OpenVINO numbers them as in the decomposition.
            if builtin and (self._runtime == "onert" or "STABLEHLO_COMPOSITE" not in codes):
                raise _other_model(place, f"the operator count is {len(codes)}")
            added: AddedKind = "inserted" if builtin or self._runtime == "onert" else "delegate"
            return "unattributed" if self._runtime == "openvino" else added
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


def _key(run: OperatorRun) -> _Key:
    return run.subgraph, run.operator, run.name, run.of_delegate


def _numbered(runs: Sequence[OperatorRun]) -> dict[tuple[int, int, str, bool, str], Place]:
    """Return the place of each row of a trace without a model; rows without their own number get negative ones."""
    # Delegates number the operators in each of their parts from 0.
    keys = dict.fromkeys((*run[:3], *run[9:]) for run in runs)
    own, parts = (Counter(key[:2] for key in keys if key[3] is of_delegate) for of_delegate in (False, True))
    clash = max(parts.values(), default=0) > 1 or own.keys() & parts.keys()
    return {
        key: (key[0], -at if (clash if key[3] else own[key[:2]] > 1) else key[1]) for at, key in enumerate(keys, 1)
    }


def _row(kind: Kind, run: OperatorRun, trace: OperatorTrace) -> Row:
    """Return a run as a row of a delegate."""
    if kind == "operator":
        return Row(run.operator, run.name, of_delegate=False)
    copies = run.calls // trace.executions if trace.averaged and run.calls % trace.executions == 0 else 1
    return Row(run.operator if run.of_delegate else WHOLE, run.name, True, copies)


def _other_model(traced: str, model: str) -> InvalidInputError:
    hint = "use the model that was run: rewrites that add, remove or move operators change operator indices"
    message = f"the trace is from another model: {traced} in the trace; in the model, {model}"
    return InvalidInputError(message, hint=hint)


def joined_executions(model: ModelGraph, trace: OperatorTrace) -> tuple[OperatorTrace, Join]:
    """Return the trace joined with a model, without the executions of other models.

    Raises InvalidInputError if none belongs to this model.
    """
    if trace.runtime == "tflm":
        builtin = model.source.schema.enums["BuiltinOperator"].values()
        trace = in_order(trace, model.graphs[0].operators.code_names, frozenset(builtin))
    try:
        return trace, Join(model, trace, delegates=True)
    except InvalidInputError:
        kept = [] if trace.averaged else _of_model(model, trace)
        if not kept:
            raise
        some = only_executions(trace, {number: at for at, number in enumerate(kept)})
        return some, Join(model, some, delegates=True)


def _of_model(model: ModelGraph, trace: OperatorTrace) -> list[int]:
    """Return the executions of this model; empty if too many executions differ from each other."""
    runs: list[list[OperatorRun]] = [[] for _ in range(trace.executions)]
    for run in trace.runs:
        runs[run.execution].append(run)
    verdicts: dict[frozenset[_Key], bool] = {}
    kept = []
    for number, some in enumerate(runs):
        kind = frozenset(map(_key, some))
        if kind not in verdicts:
            if len(verdicts) == _MOST_KINDS:
                return []
            try:
                Join(model, only_executions(trace, {number: 0}))
                verdicts[kind] = bool(kind)
            except InvalidInputError:
                verdicts[kind] = False
        if verdicts[kind]:
            kept.append(number)
    return kept


def time_of(measured: Measured, trace: OperatorTrace) -> Time:
    """Return the time of the runs."""
    time = time_in(measured.runs, measured.total_ns, measured.executions, trace)
    return replace(time, delegated_ns=measured.delegated_ns, ambiguous_ns=measured.ambiguous_ns)


def time_in(runs: int, total_ns: int, executions: Mapping[int, int], trace: OperatorTrace) -> Time:
    """Return a time, given the time in each execution; executions that are not listed took no time."""
    if trace.averaged:
        return Time(runs, total_ns, None)
    times = sorted(executions.values())
    count, absent = trace.executions, trace.executions - len(times)

    def at(position: int) -> int:
        return times[position - absent] if position >= absent else 0

    def rank(percent: int) -> int:
        return at(-(-percent * count // 100) - 1)

    low, high = median_bounds(count)
    spread = Spread(at(0), rank(90), rank(99), rank(75) - rank(25), at(low), at(high))
    return Time(runs, total_ns, (at((count - 1) // 2) + at(count // 2)) // 2, spread)


@lru_cache(maxsize=64)
def median_bounds(count: int) -> tuple[int, int]:
    """Return the positions among `count` sorted times that enclose the true median with 95% confidence.

    If there are too few times, these are the first and the last. The bounds hold for any distribution, because the
    number of times below the median is binomial with a probability of one half.
    """
    if count < 1000:
        tails = list(accumulate(math.comb(count, heads) / 2**count for heads in range(count)))
        lower = max(bisect(tails, 0.025) - 1, 0)  # each tail has a probability of at most 2.5 %
    else:
        lower = int(count / 2 - 0.98 * math.sqrt(count)) - 1
    return lower, count - 1 - lower
