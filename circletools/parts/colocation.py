"""Keep operators that share a written resource in one partition (colocation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.solvers.partitions import make_partitions
from circletools.errors import EditError
from circletools.graph.algorithms import (
    Indices,
    UnionFind,
    dag_from_edges,
    distinct_edges,
    renumbered,
    rows_by_key,
    strong_components,
)
from circletools.graph.graph import Graph
from circletools.graph.resources import Resource, State


@dataclass(frozen=True, slots=True)
class Placement:
    """The partition of each operator of a graph (-1: none); the operators' devices; and the devices' names."""

    partitions: Indices
    devices: Indices
    names: Mapping[int, str]

    def operator(self, operator: int) -> str:
        """Return words that describe an operator and its device."""
        return f"operator {operator} on {self.device(operator)}"

    def device(self, operator: int) -> str:
        """Return the name of an operator's device."""
        return self.names[int(self.devices[operator])]


def colocated(graph: Graph, state: State, placed: Placement) -> Indices:
    """Return the given partitions if they keep the users of each resource together, otherwise new ones that do.

    Operators between two users join their partition. Raises EditError if these operators have different devices.
    """
    if all((placed.partitions[users] == placed.partitions[users[0]]).all() for users in state.users.values()):
        return placed.partitions
    operators = np.flatnonzero(placed.partitions >= 0)
    position = np.full(len(graph) + 1, -1, np.int64)  # the last element is for values without a producer
    position[operators] = np.arange(len(operators))
    sources, targets = position[graph.producer[graph.uses.values]], position[graph.uses.operators]
    fed = (sources >= 0) & (targets >= 0)
    sources, targets = sources[fed], targets[fed]
    home = _sets(len(operators), sources, targets, [position[users].tolist() for users in state.users.values()])
    members = rows_by_key(int(home.max()) + 1, home, operators)
    _check_devices(graph, state, placed, members)
    between = home[sources] != home[targets]
    dag = dag_from_edges(len(members), home[sources[between]], home[targets[between]])
    partitions = placed.partitions.copy()
    for number, made in enumerate(make_partitions(dag, [int(placed.devices[row[0]]) for row in members])):
        partitions[[operator for one in made.operators for operator in members[one]]] = number
    return partitions


def _sets(count: int, sources: Indices, targets: Indices, users: Sequence[Sequence[int]]) -> Indices:
    """Return the number of each operator's set: the users of a resource and the operators between them form a set.

    The users of a resource are contracted to one node, then the nodes of each cycle (strongly connected component).
    """
    together = UnionFind(count)
    for some in users:
        for operator in some[1:]:
            together.join(operator, some[0])
    labels = np.array(together.labels(), np.int64)
    successors = rows_by_key(count, *distinct_edges(count, labels[sources], labels[targets]))
    component = {label: number for number, some in enumerate(strong_components(successors)) for label in some}
    return np.array(renumbered(component[label] for label in labels.tolist()), np.int64)


def _check_devices(graph: Graph, state: State, placed: Placement, sets: Sequence[Sequence[int]]) -> None:
    torn = [members for members in sets if len(set(placed.devices[members].tolist())) > 1]
    if torn:
        hint = "give these operators one device, as annotate-affinity --keep-together variables does"
        raise EditError(next(_contradictions(state.users, torn[0], placed)), location=graph.place(), hint=hint)


def _contradictions(
    users: Mapping[Resource, Sequence[int]], members: Sequence[int], placed: Placement
) -> Iterator[str]:
    """Yield the reasons why operators that must run together cannot do so."""
    here = {resource: some for resource, some in users.items() if some[0] in set(members)}
    for resource, some in here.items():
        other = next((one for one in some if placed.devices[one] != placed.devices[some[0]]), None)
        if other is not None:
            used = f"{placed.operator(some[0])} and by {placed.operator(other)}"
            yield f"{resource} is used by {used}, but only one part can contain it"
    for resource, some in here.items():
        other = next((one for one in members if placed.devices[one] != placed.devices[some[0]]), None)
        if other is not None:
            yield f"{placed.operator(other)} lies between operators on {placed.device(some[0])} that use {resource}"
