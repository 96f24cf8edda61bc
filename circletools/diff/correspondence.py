"""Translate indices of the second model into those of the first, by an alignment.

tensor 7 of the second model is tensor 5 of the first -> 5 tensor 8 of the second model is new          -> a number
beyond the tensors of the first
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.diff.alignment import Alignment, Indices


@dataclass(frozen=True, slots=True)
class Nested:
    """Alignments of many pairs of lists: `rows` has the pair of lists for each pair of elements."""

    rows: Indices
    before: Indices
    after: Indices
    moved: NDArray[np.bool_]
    removed: tuple[Indices, Indices]
    added: tuple[Indices, Indices]

    def moves(self) -> Iterator[tuple[int, int, int]]:
        """Yield the row of each moved element, and its index before and after."""
        columns = (column[self.moved].tolist() for column in (self.rows, self.before, self.after))
        yield from zip(*columns, strict=True)


def nested(alignments: Sequence[Alignment]) -> Nested:
    """Concatenate the alignments of lists."""

    def rows(sizes: list[int]) -> Indices:
        return np.repeat(np.arange(len(alignments)), sizes)

    def joined(columns: list[NDArray[Any]], kind: type = np.int64) -> NDArray[Any]:
        return np.concatenate(columns) if columns else np.zeros(0, kind)

    removed, added = ([getattr(one, side) for one in alignments] for side in ("removed", "added"))
    return Nested(
        rows([len(one.before) for one in alignments]),
        joined([one.before for one in alignments]),
        joined([one.after for one in alignments]),
        joined([one.moved for one in alignments], np.bool_),
        (rows([len(one) for one in removed]), joined(removed)),
        (rows([len(one) for one in added]), joined(added)),
    )


class _Numbers:
    """Indices of aligned lists in one numbering. Those below `least` do not change; those past the end keep counting.

    `splits` has the start of each owner's list among all elements, on both sides.
    """

    def __init__(self, splits: tuple[Indices, Indices], before: Indices, after: Indices, least: int = 0) -> None:
        """Store the positions of the pairs among all elements."""
        self._splits, self._least = splits, least
        self.partner: Indices = int(splits[0][-1]) + np.arange(int(splits[1][-1]))
        self.partner[after] = before

    def _global(self, values: NDArray[Any], owners: Indices | int, side: int) -> tuple[Indices, NDArray[np.bool_]]:
        """Return positions among all elements, and which of them exist."""
        splits, total = self._splits[side], int(self._splits[0][-1] + self._splits[1][-1])
        values = values.astype(np.int64)
        first, count = splits[owners], np.diff(splits)[owners]
        inside = (values >= self._least) & (values < count)
        beyond = np.where(values < self._least, values, values - count + total)
        return np.where(inside, first + values, beyond), inside

    def before(self, values: NDArray[Any], owners: Indices | int = 0) -> Indices:
        """Return indices of the first model; `owners` are the subgraphs."""
        return self._global(values, owners, 0)[0]

    def after(self, values: NDArray[Any], owners: Indices | int = 0) -> Indices:
        """Return indices of the second model."""
        numbers, inside = self._global(values, owners, 1)
        numbers[inside] = self.partner[numbers[inside]]
        return numbers


class Numbering(_Numbers):
    """The indices of two aligned lists."""

    def __init__(self, alignment: Alignment, *, zero_is_none: bool = False) -> None:
        """`zero_is_none`: index 0 means none, regardless of the lists."""
        first, second = (np.array([0, count]) for count in alignment.counts)
        super().__init__((first, second), alignment.before, alignment.after, 1 if zero_is_none else 0)


class TensorNumbering(_Numbers):
    """The tensor indices of two models; each counts within the subgraph that owns it."""

    def __init__(self, subgraphs: Alignment, tensors: Nested, splits: tuple[Indices, Indices]) -> None:
        self._subgraphs = Numbering(subgraphs)
        before, after = subgraphs.before[tensors.rows], subgraphs.after[tensors.rows]
        super().__init__(splits, splits[0][before] + tensors.before, splits[1][after] + tensors.after)

    def both(
        self, before: NDArray[Any], after: NDArray[Any], old_owners: Indices, new_owners: Indices
    ) -> tuple[Indices, Indices]:
        """Return tensor indices of both models; unchanged if the subgraphs do not match."""
        old, new = before.astype(np.int64), after.astype(np.int64)
        counts = [len(splits) - 1 for splits in self._splits]
        together = (old_owners < counts[0]) & (new_owners < counts[1])
        together[together] = self._subgraphs.partner[new_owners[together]] == old_owners[together]
        old[together] = self.before(old[together], old_owners[together])
        new[together] = self.after(new[together], new_owners[together])
        return old, new
