"""Which subgraphs operators call: If, While, CallOnce, composites and the like name them in their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from circletools.model.indices import Indices, model_indices
from circletools.model.model import Model


class Calls:
    """The calls of a model.

    `by_row` has what the options of each operator that makes calls hold, by row among all operators, in the order of
    their fields; -1 names no subgraph. `by_subgraph` has the subgraphs that each subgraph's operators name.
    """

    def __init__(self, model: Model) -> None:
        """Read the options of all operators. Raises ModelFormatError for a broken structure."""
        self.by_row: dict[int, list[int]] = {}
        for indices in model_indices(model, "subgraph"):
            for row, subgraph in _named(indices):
                self.by_row.setdefault(row, []).append(subgraph)
        rows = sorted(self.by_row)
        owners = np.searchsorted(model.operator_columns.splits, rows, "right") - 1
        self.by_subgraph: dict[int, set[int]] = {}
        for row, owner in zip(rows, owners.tolist(), strict=True):
            self.by_subgraph.setdefault(owner, set()).update(self.named(row))

    def named(self, row: int) -> set[int]:
        """Return the subgraphs that an operator names."""
        return {subgraph for subgraph in self.by_row.get(row, ()) if subgraph >= 0}

    def reached(self, rows: Iterable[int]) -> list[int]:
        """Return the subgraphs that these operators call, and those that are called from there, ascending."""
        return sorted(_closure((subgraph for row in rows for subgraph in self.named(row)), self.by_subgraph))

    def reaching(self, subgraphs: Iterable[int]) -> set[int]:
        """Return these subgraphs, and those from which one of them is called, however indirectly."""
        callers: dict[int, list[int]] = {}
        for caller, called in self.by_subgraph.items():
            for subgraph in called:
                callers.setdefault(subgraph, []).append(caller)
        return _closure(subgraphs, callers)


def _closure(start: Iterable[int], further: Mapping[int, Iterable[int]]) -> set[int]:
    """Return the numbers that can be reached."""
    pending, found = list(start), set[int]()
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending += further.get(number, ())
    return found


def _named(indices: Indices) -> Iterable[tuple[int, int]]:
    operators = indices.level.rows_of("Operator")
    if operators is None:
        return ()  # a signature names a subgraph too
    return zip(operators[indices.rows].tolist(), indices.values.tolist(), strict=True)
