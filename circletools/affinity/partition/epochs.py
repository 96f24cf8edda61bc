"""Taking turns: one device runs all it can, then another. The groups need not be connected.

This is how LiteRT gives operators to a delegate (`PartitionGraphIntoIndependentNodeSubsets`): of the operators that
are ready, the lowest says whose turn it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from circletools.affinity.partition.repair import Parts
from circletools.model.graph import OperatorGraph


def epoch_parts(graph: OperatorGraph, devices: Sequence[int]) -> Parts:
    """Return the groups in the order they run; as few as there can be where there are two devices.

    LiteRT's own groups, unless beginning with another device makes fewer.
    """
    own = turns(graph, devices)
    others = (turns(graph, devices, first) for first in sorted(set(devices)))
    return min((own, *others), key=len)


def turns(graph: OperatorGraph, devices: Sequence[int], first: int | None = None) -> Parts:
    """Return the groups in the order they run. `first` is the device that begins, if it can."""
    waiting = [len(row) for row in graph.predecessors]
    ready: dict[int, list[int]] = {device: [] for device in set(devices)}
    for operator, count in enumerate(waiting):
        if count == 0:
            ready[devices[operator]].append(operator)  # ascending, so a heap
    parts: Parts = []
    while any(ready.values()):
        turn = first if first is not None and ready[first] and not parts else _whose_turn(ready)
        queue, part = ready[turn], []
        while queue:
            operator = heappop(queue)
            part.append(operator)
            for successor in graph.successors[operator]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heappush(ready[devices[successor]], successor)
        parts.append(tuple(part))
    return parts


def _whose_turn(ready: dict[int, list[int]]) -> int:
    return min((queue[0], device) for device, queue in ready.items() if queue)[1]
