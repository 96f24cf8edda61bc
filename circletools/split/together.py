"""Partitions in which operators that use the same variable are together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.partition.groups import Groups, finder, gathered, group_successors, strong_components
from circletools.affinity.partition.partitions import make_partitions
from circletools.errors import EditError
from circletools.graph.algorithms import Indices
from circletools.graph.dag import Dag, dag_from_edges
from circletools.graph.graph import Graph
from circletools.split.state import State
from circletools.split.uses import Kept
from circletools.wording import ranges


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the operators of a subgraph are: the partition of each, and its device, by id; what devices are called.

    The partition of an operator that has none of its own is -1.
    """

    partitions: Indices
    devices: Indices
    names: Mapping[int, str]


def partitions_with_state(facts: Graph, state: State, placed: Placement) -> Indices:
    """Return partitions that leave together what uses the same: those that there are, or else new ones.

    Operators between two that use the same are with them. Raises EditError where these are on several devices.
    """
    if all((placed.partitions[users] == placed.partitions[users[0]]).all() for users in state.users.values()):
        return placed.partitions
    operators = np.flatnonzero(placed.partitions >= 0)
    work = _data_graph(facts, operators)
    position = {operator: at for at, operator in enumerate(operators.tolist())}
    users = {kept: [position[operator] for operator in some] for kept, some in state.users.items()}
    sets = _bound(work, users)
    devices = placed.devices[operators].tolist()
    torn = [members for members in sets if len({devices[at] for at in members}) > 1]
    if torn:
        said = next(_contradictions(users, torn[0], devices, operators.tolist(), placed.names))
        prefix = f"{facts.index}/" if facts.index else ""
        rules = (
            f"--set {prefix}index:{ranges(operators[members].tolist())}={placed.names[_most(devices, members)]}"
            for members in torn
        )
        command = f"annotate-affinity {' '.join(rules)}"
        hint = f"give these operators one device, also where rules by index say another, as with {command}"
        raise EditError(said, location=facts.place(), hint=hint)
    home = [0] * len(operators)
    for number, members in enumerate(sets):
        for at in members:
            home[at] = number
    edges = [(one, other) for one, row in enumerate(group_successors(work, home, len(sets))) for other in row]
    sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
    made = make_partitions(dag_from_edges(len(sets), sources, targets), [devices[members[0]] for members in sets])
    partitions = placed.partitions.copy()
    for number, partition in enumerate(made):
        partitions[operators[[at for one in partition.operators for at in sets[one]]]] = number
    return partitions


def _most(devices: Sequence[int], members: Sequence[int]) -> int:
    """Return the device that most of these operators have."""
    return Counter(devices[at] for at in members).most_common(1)[0][0]


def _data_graph(facts: Graph, operators: Indices) -> Dag:
    """Return who feeds whom of these operators, by tensors alone: what else they keep is for the sets."""
    position = np.full(len(facts) + 1, -1, np.int64)
    position[operators] = np.arange(len(operators))
    readers, read = facts.uses
    sources, targets = position[facts.producer[read]], position[readers]
    fed = (sources >= 0) & (targets >= 0)
    return dag_from_edges(len(operators), sources[fed], targets[fed])


def _bound(work: Dag, users: Mapping[Kept, Sequence[int]]) -> list[list[int]]:
    """Return the operators in sets that must run in one go, each ascending, by their lowest.

    They are those that use the same, and all between them.
    """
    home: Groups = list(range(len(work)))
    of = finder(home)
    for some in users.values():
        for operator in some[1:]:
            home[of(operator)] = of(some[0])
    group = [of(operator) for operator in range(len(work))]
    found = strong_components(group_successors(work, group, len(work)))
    members = gathered(len(work), group, range(len(work)))
    sets = [sorted(operator for one in component for operator in members[one]) for component in found]
    return sorted(row for row in sets if row)


def _contradictions(
    users: Mapping[Kept, Sequence[int]],
    members: Sequence[int],
    devices: Sequence[int],
    operators: Sequence[int],
    names: Mapping[int, str],
) -> Iterator[str]:
    """Yield why operators that must run in one go cannot."""

    def said(at: int) -> str:
        return f"operator {operators[at]} on {names[devices[at]]}"

    here = {kept: some for kept, some in users.items() if some[0] in set(members)}
    for kept, some in here.items():
        other = next((at for at in some if devices[at] != devices[some[0]]), None)
        if other is not None:
            yield f"{kept} is used by {said(some[0])} and by {said(other)}: it can be in one part only"
    for kept, some in here.items():
        other = next((at for at in members if devices[at] != devices[some[0]]), None)
        if other is not None:
            yield f"between the operators on {names[devices[some[0]]]} that use {kept} is {said(other)}"
