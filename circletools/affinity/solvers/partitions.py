"""Form partitions, given a device for each operator, in either mode, and order the partitions so that they can run.

seed     the design of OpenVINO's hetero plugin, exactly; its partitions may wait for each other
min      as few connected partitions as merging can form, by the following steps

1. Connected operators on the same device form one partition unless a path leaves it and returns. Such a path needs a
   cycle in the graph of these sets, so the operators on each such cycle are solved as a separate problem.
2. In each problem, edges are contracted in post order, as in XLA (MarkForCompilation): each operator, after all
   operators that it feeds, is merged with them wherever no cycle results. The same is done in execution order, with
   edges within a level first (all operators of a level have the same number of device changes before them). The
   result with the fewest partitions is kept.
3. Ruin and recreate (G. Schrimpf et al., Record breaking optimization results using the ruin and recreate principle,
   2000): a random share of the partitions (a tenth in large graphs) is broken up, edges are contracted in another
   order, and results that are no worse are kept. This ends when a path proves that the number of partitions is
   minimal, or when the effort allowed for the model is spent.

Operators that may share a partition without being connected (`beside`) are merged after operators that feed each
other. docs/decisions/014 gives the measured gain of each step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations, groupby
from typing import Literal

from circletools.affinity.solvers.contraction import Contraction, Detours
from circletools.affinity.solvers.groups import (
    GroupGraph,
    Partition,
    connected,
    graph_inside,
    group_of,
    group_successors,
    members_of,
    sets_beside,
    turns,
    working,
)
from circletools.affinity.solvers.seed import OnStep, Step, seed_partitions
from circletools.errors import EditError
from circletools.graph.algorithms import Dag, strong_components

OperatorSets = list[tuple[int, ...]]
_ORDERS, _EDGES = 128, 96_000
"""The number of orders tried per cycle, and the number of edge contractions allowed for a whole model."""
_RUINED = 0.1
"""The share of partitions to break up if only a few orders can be tried; a small share gains most."""
_NEAR = 8
"""A sibling is merged with one of at most this many preceding siblings, or with none."""


def minimum_partitions(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    """Return connected partitions with an acyclic graph, as few as merging can form."""
    group = connected(graph, devices)
    members = members_of(group)
    rank = {operator: number for number, operator in enumerate(graph.order)}
    beside = sets_beside(graph, devices)
    partitions: OperatorSets = []
    effort = int(_EDGES * graph.share)
    for component in strong_components(group_successors(graph, group, len(members))):
        if len(component) == 1:
            partitions.append(tuple(members[component[0]]))
            continue
        operators = [operator for number in component for operator in members[number]]
        operators.sort(key=rank.__getitem__)
        whole = graph_inside(graph, operators, devices)
        rows = _inside(beside, operators)
        detours = Detours(whole)
        visits = [number for number, _ in groupby(group[operators[at]] for at in detours.path)]
        least = len(component) + max(1, len(visits) - len(set(visits)))  # one more for each return to a set
        home = _contracted(whole, detours, rows, least)
        if max(home) >= least:
            pairs = [pair for row in rows for pair in combinations(row[:_NEAR], 2)]
            count = sum(map(len, whole.successors)) + len(pairs)
            orders = min(_ORDERS, effort // count)
            effort -= orders * count
            home = _ruin_and_recreate(whole, detours, home, pairs, orders, least)
        partitions += [tuple(operators[at] for at in some) for some in members_of(home)]
    return partitions


def _inside(beside: Sequence[Sequence[int]], operators: Sequence[int]) -> list[list[int]]:
    """Return the positions of siblings in `operators`, in ascending order."""
    if not beside:
        return []
    place = {operator: at for at, operator in enumerate(operators)}
    rows = (sorted(place[operator] for operator in row if operator in place) for row in beside)
    return [row for row in rows if len(row) > 1]


def _contracted(graph: GroupGraph, detours: Detours, rows: Sequence[Sequence[int]], least: int) -> list[int]:
    """Return the partition of each operator, numbered from 0, after contracting edges and merging siblings."""
    found: list[list[int]] = []
    for edges in _orders(graph, detours.level):
        contraction = Contraction(graph, detours)
        contraction.merge_edges(edges)
        for row in rows:
            ends: list[int] = []
            for operator in row:
                if not any(contraction.merge(operator, end) for end in ends[-_NEAR:]):
                    ends.append(operator)
        found.append(contraction.homes())
        if max(found[-1]) < least:
            break
    return min(found, key=max)


def _orders(graph: GroupGraph, level: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all edges in execution order (within a level first, then the others by level), then in post order."""
    forward = [(source, target) for target, row in enumerate(graph.predecessors) for source in row]
    yield sorted(forward, key=lambda edge: -1 if level[edge[0]] == level[edge[1]] else level[edge[1]])
    yield [(source, target) for source in reversed(range(len(graph))) for target in graph.successors[source]]


def _ruin_and_recreate(
    graph: GroupGraph, detours: Detours, home: list[int], pairs: Sequence[tuple[int, int]], orders: int, least: int
) -> list[int]:
    """Return the partition of each operator after at most `orders` trials, or once there are only `least` partitions.

    Each trial breaks up some partitions and contracts the edges in a random order.
    """
    if not orders:
        return home
    edges = [*((source, target) for source, row in enumerate(graph.successors) for target in row), *pairs]
    generator = random.Random(0)  # noqa: S311 - the same at every run, no secret
    for _ in range(orders):
        count = max(home) + 1
        if count <= least:
            break
        share = generator.random() if orders == _ORDERS else _RUINED
        is_ruined = [generator.random() < share for _ in range(count)]
        generator.shuffle(edges)
        edges.sort(key=lambda edge: home[edge[0]] != home[edge[1]] or is_ruined[home[edge[0]]])
        contraction = Contraction(graph, detours)
        contraction.merge_edges(edges)
        found = contraction.homes()
        if max(found) < count:
            home = found
    return home


# --- taking turns: one device runs all operators it can, then another does. The groups need not be connected --
# LiteRT assigns operators to a delegate in this way (`PartitionGraphIntoIndependentNodeSubsets`): the device of the
# lowest ready operator runs next.


def fewest_turns(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    """Return the groups in execution order; with two devices, their number is minimal.

    The groups are LiteRT's unless starting with another device gives fewer groups.
    """
    own = turns(graph, devices)
    others = (turns(graph, devices, first) for first in sorted(set(devices)))
    return min((own, *others), key=len)


# --- partitions of devices, in order ---------------------------------------------------------------------------


def schedule(successors: Sequence[Sequence[int]], priority: Sequence[int]) -> list[int]:
    """Return the groups in topological order; among those that can run, the one with the lowest `priority` is first.

    Groups that wait for each other, and groups that depend on them, are omitted.
    """
    waiting = [0] * len(successors)
    for row in successors:
        for successor in row:
            waiting[successor] += 1
    ready = [(priority[group], group) for group, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while ready:
        _, group = heappop(ready)
        order.append(group)
        for successor in successors[group]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heappush(ready, (priority[successor], successor))
    return order


Mode = Literal["seed", "min"]


def make_partitions(
    graph: Dag, devices: Sequence[int], mode: Mode = "min", on_step: OnStep = None
) -> tuple[Partition, ...]:
    """Return the partitions in an order in which they can run.

    `devices` holds the device number of each operator; low numbers take precedence. Only mode `seed` raises
    EditError: for partitions that wait for each other, and for a graph that is too large or takes too many steps.
    """
    operators, work = working(graph)
    of_work = [devices[operator] for operator in operators]
    if mode == "seed":
        report = on_step and (lambda step: on_step(Step(step.action, operators[step.operator])))
        made = seed_partitions(work, of_work, report)
    else:
        made = minimum_partitions(work, of_work)
        if work.joins_any:
            made = min(made, fewest_turns(work, of_work), key=len)
    rows = (Partition(of_work[row[0]], tuple(operators[at] for at in sorted(row))) for row in _in_order(work, made))
    return with_constants(graph, tuple(rows))


def _in_order(graph: Dag, partitions: OperatorSets) -> OperatorSets:
    """Return the partitions in topological order. Raises EditError if some wait for each other."""
    successors = group_successors(graph, group_of(len(graph), partitions), len(partitions))
    order = schedule(successors, [min(partition) for partition in partitions])
    if len(order) < len(partitions):
        cycle = next(row for row in strong_components(successors) if len(row) > 1)
        first, second = (min(partitions[index]) for index in cycle[:2])
        raise EditError(
            f"{len(cycle)} partitions wait for each other, for example those of operators {first} and {second}",
            hint="`mode=min` forms no such partitions",
        )
    return [partitions[index] for index in order]


def with_constants(graph: Dag, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return the partitions; each operator that depends only on constants is added to that of its first reader."""
    if not graph.constants:
        return tuple(partitions)
    rows = [list(partition.operators) for partition in partitions]
    home = {operator: number for number, row in enumerate(rows) for operator in row}
    constants = set(graph.constants)
    for operator in reversed(graph.order):
        if operator in constants:
            home[operator] = min(home[reader] for reader in graph.successors[operator])
            rows[home[operator]].append(operator)
    whole = (Partition(its.device, tuple(sorted(row))) for its, row in zip(partitions, rows, strict=True))
    return tuple(whole)
