"""Which operator feeds which: a directed graph without cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError

Indices = NDArray[np.int64]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators 0..n-1; `successors` and `predecessors` of each ascend and name nobody twice.

    `order` is a valid execution order: the operators' own where that is one. `constants` are the operators that
    depend on constants only, ascending: they are no work, and belong to their readers. `beside` has sets of operators
    of which those of one device may be one partition though nothing connects them. `share` is the part of a model's
    operators that these are: what searching may take in it of what it may take in the model.
    """

    successors: list[list[int]]
    predecessors: list[list[int]]
    order: list[int]
    constants: tuple[int, ...] = ()
    beside: tuple[tuple[int, ...], ...] = ()
    share: float = 1.0

    def __len__(self) -> int:
        """Return the number of operators."""
        return len(self.successors)

    @property
    def joins_any(self) -> bool:
        """Say whether any operators of a device may be one partition."""
        return any(len(row) == len(self) - len(self.constants) for row in self.beside)


def graph_from_edges(count: int, sources: Indices, targets: Indices) -> OperatorGraph:
    """Return the graph of `count` operators with these edges. Raises ModelFormatError for a cycle."""
    edges = np.sort(sources * count + targets)
    edges = edges[np.diff(edges, prepend=-1) != 0]  # each once; np.unique takes ten times as long
    sources, targets = edges // count, edges % count
    back = np.argsort(targets, kind="stable")
    successors = grouped(count, sources, targets.tolist())
    predecessors = grouped(count, targets[back], sources[back].tolist())
    forward = bool((sources < targets).all())
    order = list(range(count)) if forward else _execution_order(successors, predecessors)
    if len(order) < count:
        stuck = min(set(range(count)).difference(order))
        raise ModelFormatError("the operators form a cycle", location=f"operators[{stuck}]")
    return OperatorGraph(successors, predecessors, order)


def grouped(count: int, keys: Indices, items: list[_Item]) -> list[list[_Item]]:
    """Return the items of each key from 0 to `count` - 1; keys ascend."""
    bounds = np.searchsorted(keys, np.arange(count + 1)).tolist()
    return [items[start:end] for start, end in pairwise(bounds)]


def _execution_order(successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return the operators in an order in which they can run; those in a cycle are left out."""
    waiting = [len(row) for row in predecessors]
    order = [operator for operator, count in enumerate(waiting) if count == 0]
    for operator in order:
        for successor in successors[operator]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                order.append(successor)
    return order
