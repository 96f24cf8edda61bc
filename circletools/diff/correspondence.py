"""What an alignment means for numbers: an index in the second model, said in terms of the first.

tensor 7 of the second model is tensor 5 of the first -> 5
tensor 8 of the second model is new                   -> a number that no tensor of the first has
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
    """Alignments of many pairs of lists: `rows` is the pair of lists that each pair of elements is in."""

    rows: Indices
    before: Indices
    after: Indices
    moved: NDArray[np.bool_]
    removed: tuple[Indices, Indices]
    added: tuple[Indices, Indices]

    def moves(self) -> Iterator[tuple[int, int, int]]:
        """Yield the row of what has moved, and its place before and after."""
        columns = (column[self.moved].tolist() for column in (self.rows, self.before, self.after))
        yield from zip(*columns, strict=True)


def nested(alignments: Sequence[Alignment]) -> Nested:
    """Join the alignments of lists, one after the other."""

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


class Numbering:
    """Indices of two aligned lists as one set of numbers. Negative ones stay, those past the end count from there."""

    def __init__(self, alignment: Alignment, *, zero_is_none: bool = False) -> None:
        """`zero_is_none` says that 0 means nothing, whatever the lists have there."""
        self._counts, self._zero_is_none = alignment.counts, zero_is_none
        self.partner: NDArray[np.int64] = alignment.counts[0] + np.arange(alignment.counts[1])
        self.partner[alignment.after] = alignment.before

    def before(self, values: NDArray[Any]) -> Indices:
        """Return indices of the first list."""
        values = values.astype(np.int64)
        translated: Indices = np.where(values < self._counts[0], values, values + self._counts[1])
        return self._with_zero(values, translated)

    def after(self, values: NDArray[Any]) -> Indices:
        """Return indices of the second list."""
        values = values.astype(np.int64)
        translated = np.where(values < 0, values, values + self._counts[0])
        inside = (values >= 0) & (values < self._counts[1])
        translated[inside] = self.partner[values[inside]]
        return self._with_zero(values, translated)

    def _with_zero(self, values: Indices, translated: Indices) -> Indices:
        if self._zero_is_none:
            translated[values == 0] = 0
        return translated


class TensorNumbering:
    """The tensor indices of two models as one set of numbers; each counts within the subgraph that owns it."""

    def __init__(self, subgraphs: Alignment, tensors: Nested, splits: tuple[Indices, Indices]) -> None:
        self._subgraphs = Numbering(subgraphs)
        self._splits, self._total = splits, int(splits[0][-1] + splits[1][-1])
        self._partner = int(splits[0][-1]) + np.arange(int(splits[1][-1]))
        before, after = subgraphs.before[tensors.rows], subgraphs.after[tensors.rows]
        self._partner[splits[1][after] + tensors.after] = splits[0][before] + tensors.before

    def before(self, values: NDArray[Any], owners: Indices) -> Indices:
        """Return tensor indices of the first model; `owners` are the subgraphs."""
        return self._global(values, owners, self._splits[0])[0]

    def after(self, values: NDArray[Any], owners: Indices) -> Indices:
        """Return tensor indices of the second model."""
        numbers, inside = self._global(values, owners, self._splits[1])
        numbers[inside] = self._partner[numbers[inside]]
        return numbers

    def _global(self, values: NDArray[Any], owners: Indices, splits: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        values = values.astype(np.int64)
        first, count = splits[owners], np.diff(splits)[owners]
        inside = (values >= 0) & (values < count)
        beyond = np.where(values < 0, values, values - count + self._total)
        return np.where(inside, first + values, beyond), inside

    def both(
        self, before: NDArray[Any], after: NDArray[Any], old_owners: Indices, new_owners: Indices
    ) -> tuple[Indices, Indices]:
        """Return tensor indices of both; as they are, where the subgraphs do not belong together."""
        old, new = before.astype(np.int64), after.astype(np.int64)
        counts = [len(splits) - 1 for splits in self._splits]
        together = (old_owners < counts[0]) & (new_owners < counts[1])
        together[together] = self._subgraphs.partner[new_owners[together]] == old_owners[together]
        old[together] = self.before(old[together], old_owners[together])
        new[together] = self.after(new[together], new_owners[together])
        return old, new
