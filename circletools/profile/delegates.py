"""Match the rows of a delegate with those operators of the model that it took.

A delegate takes the operators that have no row in the trace. LiteRT gives it groups of operators that are ready
together, so the rows between two of the model's own operators belong to one group. The rows and operators of a group
are aligned by kind, both in execution order; in the best alignments, most rows have an expected kind. A row matched
to the same operator in all best alignments is exact; otherwise it is ambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circletools.affinity.solvers.groups import turns
from circletools.graph.graph import Graph
from circletools.trace.operators import names

_Scores = npt.NDArray[np.int32]

_ROWS, _OPERATORS = 128, 1024
_FEW = 32  # the most operators listed for a row; a row with more may belong to any operator that has such rows
_MAIN, _AROUND, _AGAIN, _WRONG, _SKIPPED = 10, 4, -20, -50, -3
_NEVER = np.int32(-(1 << 28))
_BEFORE, _DOES, _AFTER = range(3)


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The rows expected for an operator: kinds of rows before its work, for its work, and after its work.

    `many`: several rows may do its work; `elided`: it may have no row. If `does` is empty, any row may do it.
    """

    before: frozenset[str]
    does: frozenset[str] | None
    after: frozenset[str]
    many: bool
    elided: bool


def align(operators: Sequence[ExpectedRows], rows: Sequence[str]) -> list[Sequence[int]]:
    """Return the indices of the operators that each row may belong to, a range if there are many.

    `rows` holds the kinds of the rows. Long lists are aligned piece by piece.
    """
    if not (operators and rows):
        return [[] for _ in rows]
    found: list[Sequence[int]] = []
    first = 0
    while True:
        some, more = operators[first : first + _OPERATORS], rows[len(found) : len(found) + _ROWS]
        last = len(found) + len(more) == len(rows)
        places = _Window(some, more, last).places(first)
        if last:
            return found + places
        kept = len(places) // 2  # later rows can still change the second half
        found += places[:kept]
        first = places[kept][0]


class _Window:
    """The scores of all alignments of some rows with some operators.

    For each row, an operator has three scores: the row comes before its work, does the work, or comes after it.
    """

    def __init__(self, operators: Sequence[ExpectedRows], rows: Sequence[str], last: bool) -> None:
        self._rows = rows
        skipped = np.array([0 if one.elided else _SKIPPED for one in operators], np.int32)
        self._skipped = np.append(np.int32(0), np.cumsum(skipped, dtype=np.int32))  # the sum before each operator
        self._end = -self._skipped[1:] if last else np.zeros(len(operators), np.int32)
        self._many = np.array([0 if one.many or one.does is None else _AGAIN for one in operators], np.int32)
        self._scores: dict[str, _Scores] = {}
        for row in set(rows):
            before = [_AROUND if row in one.before else _NEVER for one in operators]
            does = [_AROUND if one.does is None else _MAIN if row in one.does else _WRONG for one in operators]
            after = [_AROUND if row in one.after else _NEVER for one in operators]
            self._scores[row] = np.array([before, does, after], np.int32)

    def places(self, first: int) -> list[Sequence[int]]:
        """Return the operators that the best alignments give each row, as indices counted from `first`."""
        forward = list(self._forward())
        behind = np.stack([np.full_like(self._end, _NEVER), self._end, self._end])
        found: list[Sequence[int]] = []
        best = int((forward[-1] + behind).max())
        for row, before in zip(reversed(self._rows), reversed(forward), strict=True):
            places = first + np.flatnonzero((before + behind).max(axis=0) == best)
            many = len(places) > _FEW
            found.append(range(int(places[0]), int(places[-1]) + 1) if many else places.tolist())
            behind = self._backward(behind + self._scores[row])
        return found[::-1]

    def _forward(self) -> Iterator[_Scores]:
        """Yield the best scores of alignments up to and including each row."""
        skipped = self._skipped[:-1]
        entered = skipped.copy()
        state = np.full_like(self._scores[self._rows[0]], _NEVER)
        for row in self._rows:
            before = np.maximum(state[_BEFORE], entered)
            does = np.maximum(before, state[_DOES] + self._many)
            after = np.maximum(state[_DOES], state[_AFTER])
            state = np.maximum(np.stack([before, does, after]) + self._scores[row], _NEVER)
            left = np.maximum(state[_DOES], state[_AFTER]) - self._skipped[1:]
            entered = np.append(_NEVER, np.maximum.accumulate(left)[:-1]) + skipped
            entered = np.maximum(entered, _NEVER)
            yield state

    def _backward(self, state: _Scores) -> _Scores:
        """Return the best scores of the alignments after a row, given those after the next row."""
        enter = np.maximum(state[_BEFORE], state[_DOES]) + self._skipped[:-1]
        later = np.append(np.maximum.accumulate(enter[::-1])[::-1][1:], _NEVER) - self._skipped[1:]
        before = np.maximum(state[_BEFORE], state[_DOES])
        does = np.maximum(np.maximum(state[_DOES] + self._many, state[_AFTER]), later)
        after = np.maximum(state[_AFTER], later)
        found: _Scores = np.maximum(np.stack([before, does, after]), _NEVER)
        return found


WHOLE = -1
"""The number of a row that covers all the work of a delegate on one group."""

_MOST_LOOKED_AT = 1 << 20
_COMPOSITE = "STABLEHLO_COMPOSITE"


class Row(NamedTuple):
    """A row of an execution, for the model's operator `number` or for a delegate.

    For a delegate, `number` counts its rows, from 0 in each group. In averages, rows with the same number and name
    are combined, and `copies` is the number of groups in the row.
    """

    number: int
    name: str
    of_delegate: bool
    copies: int = 1


@dataclass(slots=True)
class _Group:
    """The operators that a delegate took together, the indices of its rows, and the rows' numbers.

    `last` is the last index, and `highest` the highest number, not counting added rows of several groups.
    """

    operators: tuple[int, ...]
    rows: list[int]
    last: int
    highest: int
    numbers: set[int]


class Delegates:
    """Finds the operators of a subgraph that the rows of delegates belong to."""

    def __init__(self, graph: Graph) -> None:
        """Start with the operators of a graph."""
        codes, self._graph = graph.operators.code_names, graph.dag
        kept, fused = (graph.operators.option(name) for name in ("keep_num_dims", "fused_activation_function"))
        self._becomes = [
            ExpectedRows(
                names.kinds_before(code, flattened=not keeps),
                None if code == _COMPOSITE else names.kinds_of(code),
                frozenset({"Clamp"} if activation and code not in names.CLAMPING else ()),
                code in names.MANY,
                code in names.ELIDED,
            )
            for code, keeps, activation in zip(codes, kept.tolist(), fused.tolist(), strict=True)
        ]
        self._known = names.KINDS | set(graph.operators.model.schema.enums["BuiltinOperator"].values())

    def operators_of(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Return the operators that each row of an execution may belong to; none for the model's own rows.

        Rows with the same operators share one tuple, because there can be many rows with many operators.
        """
        groups, taken = self._groups(rows)
        kinds = [names.kind_of(row.name) for row in rows]
        found: list[tuple[int, ...]] = [() for _ in rows]
        missing = _assign_copies(rows, groups)
        for group in groups:
            for at, operators in zip(group.rows, self._aligned(rows, kinds, group), strict=True):
                found[at] = operators if found[at] in ((), operators) else tuple(sorted({*found[at], *operators}))
        alike: dict[str, tuple[int, ...]] = {}
        for at, row in enumerate(rows):
            if row.of_delegate and (at in missing or not found[at]):
                kind = kinds[at]
                if kind not in alike:
                    alike[kind] = taken if row.number == WHOLE else self._alike(kind, taken)
                found[at] = alike[kind]
        return found

    def _aligned(self, rows: Sequence[Row], kinds: Sequence[str], group: _Group) -> list[tuple[int, ...]]:
        becomes = [self._becomes[operator] for operator in group.operators]
        if any(rows[at].number == WHOLE for at in group.rows):
            return [group.operators for _ in group.rows]
        alike = {kind: self._alike(kind, group.operators) for kind in {kinds[at] for at in group.rows}}
        fitting = [at for at in group.rows if kinds[at] in self._known and alike[kinds[at]]]
        aligned = dict(zip(fitting, align(becomes, [kinds[at] for at in fitting]), strict=True))
        for at, places in aligned.items():
            if not any(_may_have(becomes[place], kinds[at]) for place in places):
                return [alike[kinds[at]] for at in group.rows]
        found: list[tuple[int, ...]] = []
        end = len(becomes)
        between: tuple[int, ...] = ()
        firsts = [0]  # for each row, the last index at which the next row may end
        for at in group.rows:
            firsts.append(aligned[at][-1] if at in aligned else firsts[-1])
        for first, at in zip(reversed(firsts[:-1]), reversed(group.rows), strict=True):
            if at in aligned:
                few = len(aligned[at]) <= _FEW
                found.append(tuple(group.operators[place] for place in aligned[at]) if few else alike[kinds[at]])
                end, between = aligned[at][0] + 1, ()
            elif kinds[at] in self._known:
                found.append(())
            else:  # between its neighbors, inclusive
                between = between or group.operators[first:end]
                found.append(between)
        return found[::-1]

    def _alike(self, kind: str, operators: tuple[int, ...]) -> tuple[int, ...]:
        """Return the operators that may produce a row of this kind; all of them if the kind is unknown."""
        if kind not in self._known:
            return operators
        return tuple(operator for operator in operators if _may_have(self._becomes[operator], kind))

    def _groups(self, rows: Sequence[Row]) -> tuple[list[_Group], tuple[int, ...]]:
        """Return the groups that a delegate took, in order, and all operators that it took.

        If operators ran in an unexpected order, groups cannot be distinguished, and none are returned.
        """
        own = [row.number for row in rows if not row.of_delegate]
        kept = set(own)
        devices = [int(operator not in kept) for operator in range(len(self._graph))]
        sets = turns(self._graph, devices)
        taken = tuple(operator for some in sets for operator in some if devices[operator])
        if [operator for some in sets for operator in some if not devices[operator]] != own:
            return [], taken
        behind: dict[int, list[int]] = {}
        passed = 0
        for at, row in enumerate(rows):
            if row.of_delegate:
                behind.setdefault(passed, []).append(at)
            passed += not row.of_delegate
        found, passed = list[_Group](), 0
        for operators in sets:
            if devices[operators[0]]:
                mine = behind.get(passed, [])
                numbers = {rows[at].number for at in mine}
                found.append(_Group(operators, mine, max(mine, default=-1), max(numbers, default=-1), numbers))
            else:
                passed += len(operators)
        return found, taken


def _may_have(one: ExpectedRows, kind: str) -> bool:
    return one.does is None or kind in one.does or kind in one.before or kind in one.after


def _assign_copies(rows: Sequence[Row], groups: Sequence[_Group]) -> set[int]:
    """Assign rows that cover several groups to groups without a row of their number; return the remaining rows."""
    waiting = {at: row.copies - 1 for at, row in enumerate(rows) if row.of_delegate and row.copies > 1}
    if len(waiting) * len(groups) > _MOST_LOOKED_AT:
        return set(waiting)
    numbers = Counter(rows[at].number for at in waiting)
    ordered = sorted((at for at in waiting if numbers[rows[at].number] == 1), key=lambda at: rows[at].number)
    for beyond in (False, True):  # first numbers missing between others, then numbers after the last one
        for at in ordered:
            fitting = [group for group in groups if _lacks(group, rows[at].number, at, beyond)] if waiting[at] else []
            if len(fitting) <= waiting[at]:
                waiting[at] -= len(fitting)
                for group in fitting:
                    group.rows.append(at)
                    group.numbers.add(rows[at].number)
    for group in groups if waiting else ():
        group.rows.sort(key=lambda at: rows[at].number)
    return {at for at, left in waiting.items() if left}


def _lacks(group: _Group, number: int, at: int, beyond: bool) -> bool:
    """Return whether `group` extends past row `at` and lacks `number`, which it must or, with `beyond`, may have."""
    if group.last <= at or number in group.numbers:
        return False
    return number == len(group.numbers) if beyond else number < group.highest
