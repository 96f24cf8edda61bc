"""The operators that outputs depend on, and those with side effects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.reach import Reach

_FOREIGN = ("CUSTOM", "DELEGATE", "UNKNOWN")  # their effects are not known


class Needs:
    """Finds the operators that outputs depend on, in each graph of a model."""

    def __init__(self, model: ModelGraph) -> None:
        """Start without reading anything."""
        self._model = model

    def of(self, index: int, tensors: Iterable[int]) -> list[int]:
        """Return the operators that tensors of a graph depend on, and those with side effects, ascending.

        Raises ModelFormatError for a broken structure, a tensor that two operators make, and a cycle.
        """
        graph, (own, with_effects) = self._model.graphs[index], self._with_effects
        _ = graph.dag  # checks for a broken structure
        calling = {operator for operator in graph.callees if not with_effects.isdisjoint(graph.called([operator]))}
        chosen, reach = own[index] | calling, Reach(graph)
        return sorted(chosen | reach.behind([*tensors, *reach.read_by(chosen)]))

    @cached_property
    def _with_effects(self) -> tuple[list[set[int]], set[int]]:
        """The operators of each graph with side effects, and the graphs that contain or call such operators."""
        own = [_with_effects(graph) for graph in self._model.graphs]
        return own, self._model.reaching(index for index, operators in enumerate(own) if operators)


def _with_effects(graph: Graph) -> set[int]:
    """Return the operators with side effects, or with unknown effects."""
    graph.check_values()
    names = graph.operators.code_names
    each = np.concatenate([np.stack(graph.uses, axis=1), np.stack(graph.definitions, axis=1)])
    operators, values = np.unique(each, axis=0).T
    users = np.bincount(values, minlength=len(graph.values))
    touching = graph.is_handle | (graph.values.is_variable & (users > 1))
    foreign = {operator for operator, name in enumerate(names) if name.split(":")[0] in _FOREIGN}
    makes_nothing = np.setdiff1d(np.arange(len(graph)), graph.definitions.operators)
    return foreign.union(makes_nothing.tolist(), operators[touching[values]].tolist())
