"""Taking turns: one device runs all it can, then another. The groups need not be connected.

This is how LiteRT gives operators to a delegate (`PartitionGraphIntoIndependentNodeSubsets`): of the operators that
are ready, the lowest says whose turn it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from circletools.affinity.solvers.min import OperatorSets
from circletools.graph.dag import Dag


def fewest_turns(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    """Return the groups in the order they run; as few as there can be where there are two devices.

    LiteRT's own groups, unless beginning with another device makes fewer.
    """
    own = turns(graph, devices)
    others = (turns(graph, devices, first) for first in sorted(set(devices)))
    return min((own, *others), key=len)


def turns(graph: Dag, devices: Sequence[int], first: int | None = None) -> OperatorSets:
    """Return the groups in the order they run. `first` is the device that begins, if it can."""
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
