"""A directed acyclic graph of operators."""

from __future__ import annotations

from dataclasses import dataclass

from circletools.errors import ModelFormatError
from circletools.graph.algorithms import Indices, distinct_edges, rows_by_key, topological_order


@dataclass(frozen=True, slots=True)
class Dag:
    """Operators 0..n-1; `successors` and `predecessors` of each ascend without duplicates.

    `order` is a valid execution order: the order in the file if it is valid. `constants` are the operators that
    depend only on constants, ascending: they do not count as work, and belong to their readers. `beside` has sets of
    operators; operators of one device in the same set may form a partition even if they are not connected. `share` is
    the graph's fraction of the model's operators, and so of the search effort for the model.
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
        """Return whether any operators of a device may form a partition."""
        return any(len(row) == len(self) - len(self.constants) for row in self.beside)


def dag_from_edges(count: int, sources: Indices, targets: Indices) -> Dag:
    """Return the graph of `count` operators with these edges. Raises ModelFormatError for a cycle."""
    sources, targets = distinct_edges(count, sources, targets)
    successors = rows_by_key(count, sources, targets)
    predecessors = rows_by_key(count, targets, sources)
    forward = bool((sources < targets).all())
    order = list(range(count)) if forward else topological_order(successors)
    if len(order) < count:
        stuck = min(set(range(count)).difference(order))
        raise ModelFormatError("the operators form a cycle", location=f"operators[{stuck}]")
    return Dag(successors, predecessors, order)
