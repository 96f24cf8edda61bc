"""The known pairs of corresponding operators. Passes take pairs and return new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.origin.tracking.side import NONE, Side


@dataclass(frozen=True, eq=False)
class Pairs:
    """The partner of each operator, or -1.

    `inputs` and `outputs` are pairs of corresponding values at the ends of the two graphs. `by_name` is whether names
    count.
    """

    to_after: Indices
    to_before: Indices
    inputs: tuple[tuple[int, int], ...] = ()
    outputs: tuple[tuple[int, int], ...] = ()
    by_name: bool = False

    @classmethod
    def none(cls, before: Side, after: Side) -> Pairs:
        """Return an empty set of pairs."""
        return cls(np.full(len(before), NONE), np.full(len(after), NONE))

    @property
    def partners(self) -> tuple[Indices, Indices]:
        """The partner of each operator of BEFORE, and of each operator of AFTER."""
        return self.to_after, self.to_before

    def unpaired(self, side: int) -> Mask:
        """Return which operators of BEFORE (0) or AFTER (1) have no partner."""
        unpaired: Mask = self.partners[side] == NONE
        return unpaired

    @property
    def complete(self) -> bool:
        """Whether all operators of one of the models are paired."""
        return not (self.unpaired(0).any() and self.unpaired(1).any())

    def added(self, found: Sequence[tuple[int, int]]) -> Pairs:
        """Return these pairs and additional ones of operators without partners."""
        if not found:
            return self
        olds, news = np.array(found, np.int64).T
        to_after, to_before = self.to_after.copy(), self.to_before.copy()
        to_after[olds], to_before[news] = news, olds
        return replace(self, to_after=to_after, to_before=to_before)

    def without(self, news: Indices) -> Pairs:
        """Return these pairs without the given operators of AFTER."""
        to_after, to_before = self.to_after.copy(), self.to_before.copy()
        to_after[to_before[news]] = NONE
        to_before[news] = NONE
        return replace(self, to_after=to_after, to_before=to_before)
