"""Aligns the rows of a delegate with the operators that it took, both in execution order.

The best alignments are those in which most rows have an expected kind. A row that has the same operator in all of
them is exact; one that has several is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Scores = npt.NDArray[np.int32]

_ROWS, _OPERATORS = 128, 1024
_MAIN, _AROUND, _AGAIN, _WRONG, _SKIPPED = 10, 4, -20, -50, -3
_NEVER = np.int32(-(1 << 28))
_BEFORE, _DOES, _AFTER = range(3)


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The rows expected for an operator: kinds of rows before its work, doing its work, and after its work.

    `many`: several rows may do its work; `elided`: it may have no row. If `does` is empty, any row may do it.
    """

    before: frozenset[str]
    does: frozenset[str] | None
    after: frozenset[str]
    many: bool
    elided: bool


def align(operators: Sequence[ExpectedRows], rows: Sequence[str]) -> list[list[int]]:
    """Return the operators that each row may belong to, by their places; `rows` are kinds.

    Long lists are aligned piece by piece.
    """
    if not (operators and rows):
        return [[] for _ in rows]
    found: list[list[int]] = []
    first = 0
    while True:
        some, more = operators[first : first + _OPERATORS], rows[len(found) : len(found) + _ROWS]
        last = len(found) + len(more) == len(rows)
        places = [[first + place for place in row] for row in _Window(some, more, last).places()]
        if last:
            return found + places
        kept = len(places) // 2  # later rows can still change the others
        found += places[:kept]
        first = places[kept][0]


class _Window:
    """The scores of all alignments of some rows with some operators.

    For each row, an operator has three scores: the row comes before its work, does the work, or comes after it.
    """

    def __init__(self, operators: Sequence[ExpectedRows], rows: Sequence[str], last: bool) -> None:
        self._rows = rows
        skipped = np.array([0 if one.elided else _SKIPPED for one in operators], np.int32)
        self._skipped = np.append(np.int32(0), np.cumsum(skipped, dtype=np.int32))  # sums before each operator
        self._end = -self._skipped[1:] if last else np.zeros(len(operators), np.int32)
        self._many = np.array([0 if one.many or one.does is None else _AGAIN for one in operators], np.int32)
        self._scores = {row: self._of(operators, row) for row in set(rows)}

    def _of(self, operators: Sequence[ExpectedRows], row: str) -> _Scores:
        """Return the scores of one row with each operator."""
        return np.array(
            [
                [_AROUND if row in one.before else _NEVER for one in operators],
                [_AROUND if one.does is None else _MAIN if row in one.does else _WRONG for one in operators],
                [_AROUND if row in one.after else _NEVER for one in operators],
            ],
            np.int32,
        )

    def places(self) -> list[list[int]]:
        """Return the operators of each row in the best alignments."""
        forward = list(self._forward())
        behind = np.stack([np.full_like(self._end, _NEVER), self._end, self._end])
        found = []
        best = int((forward[-1] + behind).max())
        for row, before in zip(reversed(self._rows), reversed(forward), strict=True):
            found.append(np.flatnonzero((before + behind).max(axis=0) == best).tolist())
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
        """Return the best scores of alignments after a row, given those after the next one."""
        enter = np.maximum(state[_BEFORE], state[_DOES]) + self._skipped[:-1]
        later = np.append(np.maximum.accumulate(enter[::-1])[::-1][1:], _NEVER) - self._skipped[1:]
        before = np.maximum(state[_BEFORE], state[_DOES])
        does = np.maximum(np.maximum(state[_DOES] + self._many, state[_AFTER]), later)
        after = np.maximum(state[_AFTER], later)
        found: _Scores = np.maximum(np.stack([before, does, after]), _NEVER)
        return found
