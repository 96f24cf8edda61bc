"""Reachability between all pairs of operators, stored as a few numbers for each operator.

The operators are laid out on chains: each operator reaches all later ones on its chain. So the operators that one
reaches are described by one number for each chain, the first place reached; the operators that reach it by the last
place. Model graphs are long and narrow: a hundred thousand operators need a few chains, whereas one bit for each pair
would need a gigabyte. (H. V. Jagadish, A compression technique to materialize transitive closure, 1990.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError

Matrix = NDArray[np.int32]
NOWHERE = np.int32(2**31 - 1)
"""Stands for a place on a chain that is not reached at all."""
_MEMORY_BYTES = 1 << 29


class Chains:
    """A layout of operators 0..n-1, which must be in execution order.

    `chain` and `place` are the position of each operator. `reached[v][c]` is the first place on chain c that v
    reaches, or NOWHERE; `reaching[v][c]` is the last place that reaches v, or -1. An operator does not reach itself.
    """

    def __init__(self, successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]) -> None:
        """Lay the operators out. Raises EditError if the graph is too wide."""
        self.chain: list[int] = [0] * len(successors)
        self.place: list[int] = [0] * len(successors)
        self.reaching: Matrix = self._lay_out(predecessors)
        self.reached: Matrix = self._look_ahead(successors, self.reaching.shape[1])

    def _look_ahead(self, successors: Sequence[Sequence[int]], width: int) -> Matrix:
        reached = np.full((len(successors), width), NOWHERE, np.int32)
        for operator in range(len(successors) - 1, -1, -1):
            row = reached[operator]
            for successor in successors[operator]:
                np.minimum(row, reached[successor], out=row)
                chain, place = self.chain[successor], self.place[successor]
                row[chain] = min(row[chain], place)
        return reached

    def _lay_out(self, predecessors: Sequence[Sequence[int]]) -> Matrix:
        """Put each operator at the end of a chain whose last operator reaches it."""
        count = len(predecessors)
        reaching = np.full((count, 8), -1, np.int32)
        ends = np.full(8, -2, np.int32)  # the chain does not exist yet
        used = 0
        for operator, row_predecessors in enumerate(predecessors):
            row, chosen = reaching[operator], -1
            for predecessor in row_predecessors:
                np.maximum(row, reaching[predecessor], out=row)
                chain, place = self.chain[predecessor], self.place[predecessor]
                row[chain] = max(row[chain], place)
                if place == ends[chain]:
                    chosen = chain
            if chosen < 0:
                free = np.flatnonzero(row == ends)
                chosen = int(free[0]) if free.size else used
            if chosen == used:
                used += 1
                if used > len(ends):
                    _check_memory(count, 2 * len(ends))
                    reaching = np.concatenate([reaching, np.full_like(reaching, -1)], axis=1)
                    ends = np.concatenate([ends, np.full_like(ends, -2)])
                ends[chosen] = -1
            ends[chosen] += 1
            self.chain[operator], self.place[operator] = chosen, int(ends[chosen])
        return reaching[:, :used].copy()


def _check_memory(count: int, width: int) -> None:
    if count * width * 2 * NOWHERE.itemsize > _MEMORY_BYTES:
        message = f"the graph of {count} operators is more than {width // 2} operators wide"
        raise EditError(message, hint="`mode=min` takes any graph")
