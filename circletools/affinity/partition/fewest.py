"""As few partitions as merging makes: from several starts, in both directions; the best of each part counts.

What is connected and of one device is one partition, unless a path leaves it and comes back. That takes a cycle in
the graph of these sets, so the operators on each such cycle are a problem of their own. There, merging starts from

    pieces by level     the changes of device on the worst way to an operator, or from it; operators of one level and
                        device never wait for each other
    single operators

and goes from the first to the last or the other way round (from single operators and the last, as XLA clusters). None
is better: it depends on the graph. Of few operators partitions are then broken up and merged again in other orders.
It ends where a path shows that there are no fewer. Operators that may be together though nothing connects them
(`Dag.beside`) are merged after those that feed each other, or before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, groupby

from circletools.affinity.partition.contraction import Contraction
from circletools.affinity.partition.detours import longest
from circletools.affinity.partition.groups import (
    GroupGraph,
    connected,
    finder,
    graph_inside,
    group_successors,
    members_of,
    sets_beside,
    strong_components,
)
from circletools.affinity.partition.repair import OperatorSets
from circletools.graph.dag import Dag

_MANY = 20_000
"""Of so many operators of a model on cycles each is a start, and of more where two starts of the graph differed so
far; but of more on the same cycles only where pieces by level can be merged. Else they seldom win.
"""
_ORDERS, _EDGES, _AGREED = 64, 40_000, 4
"""Orders by chance of the edges on a cycle, and how many edges may be tried for all cycles of a model.

Where all starts agree there is little to gain: a share of that is tried.
"""
_NEAR = 8
"""Of operators beside each other each is merged with one of so many before it, or with none."""


def fewest(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    """Return connected partitions that never wait for each other, as few as merging makes."""
    group = connected(graph, devices)
    members = members_of(group)
    rank = {operator: number for number, operator in enumerate(graph.order)}
    beside = sets_beside(graph, devices)
    partitions: OperatorSets = []
    tries, singles, differed = int(_EDGES * graph.share), int(_MANY * graph.share), False
    for component in strong_components(group_successors(graph, group, len(members))):
        if len(component) == 1:
            partitions.append(tuple(members[component[0]]))
            continue
        operators = [operator for number in component for operator in members[number]]
        operators.sort(key=rank.__getitem__)
        whole = graph_inside(graph, operators, devices)
        rows = _inside(beside, operators)
        least = len(component) + max(1, _comes_back([group[operators[at]] for at in longest(whole)]))
        found: list[list[int]] = []
        for home in _from_starts(whole, rows, all_singles=len(operators) <= singles or differed):
            found.append(home)
            if max(home) < least:
                break
        found.sort(key=max)
        home = found[0]
        differed = differed or max(home) < max(found[-1])
        if max(home) >= least:
            singles -= len(operators)
            worth = tries if max(home) < max(found[-1]) else tries // _AGREED
            pairs = [pair for row in rows for pair in combinations(row[:_NEAR], 2)]
            count = sum(map(len, whole.successors)) + len(pairs)
            orders = min(_ORDERS, worth // count)
            tries -= orders * count
            home = _by_chance(whole, home, pairs, orders)
        partitions += [tuple(operators[at] for at in some) for some in members_of(home)]
    return partitions


def _comes_back(path: Sequence[int]) -> int:
    """Return how often a path comes back to a set of operators, which falls apart into as many partitions more."""
    visits = [group for group, _ in groupby(path)]
    return len(visits) - len(set(visits))


def _inside(beside: Sequence[Sequence[int]], operators: Sequence[int]) -> list[list[int]]:
    """Return the places among `operators` of those that stand beside each other, ascending."""
    if not beside:
        return []
    place = {operator: at for at, operator in enumerate(operators)}
    rows = (sorted(place[operator] for operator in row if operator in place) for row in beside)
    return [row for row in rows if len(row) > 1]


def _from_starts(whole: GroupGraph, rows: Sequence[Sequence[int]], *, all_singles: bool) -> Iterator[list[int]]:
    """Yield what merging makes of each start: the partition of each operator, numbered from 0."""
    can_merge, counts = len(whole) <= _MANY or bool(rows), set[int]()
    for start in (_levels(whole, rows), _levels(whole, rows, from_the_end=True), list(range(len(whole)))):
        graph = whole.contracted(start)
        is_worth = can_merge and (all_singles or len(counts) > 1)
        if counts and len(graph) == len(whole) and not is_worth:
            break
        last = len(graph) - 1
        pieces = [sorted({start[operator] for operator in row}) for row in rows]
        backward = [[last - piece for piece in reversed(row)] for row in pieces]
        home = _merged(graph, pieces)
        counts.add(max(home))
        yield [home[piece] for piece in start]
        if max(home) + 1 < len(graph):  # else nothing can be merged
            can_merge = True
            home = _merged(graph.reversed(), backward)[::-1]
            counts.add(max(home))
            yield [home[piece] for piece in start]
            if rows:
                home = _merged(graph, pieces, beside_first=True)
                yield [home[piece] for piece in start]


def _by_chance(whole: GroupGraph, home: list[int], pairs: list[tuple[int, int]], orders: int) -> list[int]:
    """Break some partitions up, merge along edges in another order, and keep what is no worse, so many times."""
    if not orders:
        return home
    edges = [(source, target) for source, row in enumerate(whole.successors) for target in row] + pairs
    generator = random.Random(0)  # noqa: S311 - the same at every run, no secret
    for _ in range(orders):
        count = max(home) + 1
        share = generator.random()
        breaks = [generator.random() >= share for _ in range(count)]
        generator.shuffle(edges)
        edges.sort(key=lambda edge: home[edge[0]] != home[edge[1]] or breaks[home[edge[0]]])
        contraction, before = Contraction(whole), -1
        while before < contraction.merges:
            before = contraction.merges
            contraction.merge_edges(edges)
        found = contraction.homes()
        if max(found) < count:
            home = found
    return home


def _merged(graph: GroupGraph, rows: Sequence[Sequence[int]], *, beside_first: bool = False) -> list[int]:
    contraction = Contraction(graph)
    if not beside_first:
        contraction.merge_neighbours()
    for row in rows:
        ends: list[int] = []
        for group in row:
            if not any(contraction.merge((group, end)) for end in ends[-_NEAR:]):
                ends.append(group)
    if beside_first:
        contraction.merge_neighbours()
    return contraction.homes()


def _levels(graph: GroupGraph, beside: Sequence[Sequence[int]] = (), *, from_the_end: bool = False) -> list[int]:
    """Return the piece of each operator: what is connected, of one device and level. Pieces can run in their order.

    The level is the number of changes of device on the worst way from the start, or to the end.
    """
    rows, order = graph.predecessors, range(len(graph))
    if from_the_end:
        rows, order = graph.successors, order[::-1]
    level, root = [0] * len(graph), list(range(len(graph)))
    find = finder(root)
    for operator in order:
        device, most = graph.devices[operator], 0
        for other in rows[operator]:
            changes = level[other] + (graph.devices[other] != device)
            if changes > most:  # noqa: PLR1730 - `max` takes twice as long
                most = changes
        level[operator] = most
        for other in rows[operator]:
            if level[other] == most and graph.devices[other] == device:
                one, two = find(other), find(operator)
                root[max(one, two)] = min(one, two)
    for row in beside:
        first: dict[int, int] = {}
        for operator in row:
            one, two = find(first.setdefault(level[operator], operator)), find(operator)
            root[max(one, two)] = min(one, two)
    firsts = [operator for operator in range(len(graph)) if root[operator] == operator]
    firsts.sort(key=level.__getitem__, reverse=from_the_end)
    number = {operator: at for at, operator in enumerate(firsts)}
    return [number[find(operator)] for operator in range(len(graph))]
