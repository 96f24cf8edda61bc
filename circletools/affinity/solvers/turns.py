"""Taking turns: one device runs all operators it can, then another does. The groups need not be connected.

LiteRT gives operators to a delegate this way (`PartitionGraphIntoIndependentNodeSubsets`): the device of the lowest
ready operator runs next.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from circletools.affinity.solvers.min import OperatorSets
from circletools.graph.dag import Dag


def fewest_turns(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    """Return the groups in execution order; with two devices, their number is the minimum.

    These are LiteRT's groups unless starting with another device gives fewer.
    """
    own = turns(graph, devices)
    others = (turns(graph, devices, first) for first in sorted(set(devices)))
    return min((own, *others), key=len)


def turns(graph: Dag, devices: Sequence[int], first: int | None = None) -> OperatorSets:
    """Return the groups in execution order. `first` is the device that starts, if it can."""
    waiting = [len(row) for row in graph.predecessors]
    ready: dict[int, list[int]] = {device: [] for device in set(devices)}
    for operator, count in enumerate(waiting):
        if count == 0:
            ready[devices[operator]].append(operator)  # ascending, so a heap
    partitions: OperatorSets = []
    while any(ready.values()):
        turn = min((queue[0], device) for device, queue in ready.items() if queue)[1]
        if first is not None and ready[first] and not partitions:
            turn = first
        queue, partition = ready[turn], []
        while queue:
            operator = heappop(queue)
            partition.append(operator)
            for successor in graph.successors[operator]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heappush(ready[devices[successor]], successor)
        partitions.append(tuple(partition))
    return partitions
