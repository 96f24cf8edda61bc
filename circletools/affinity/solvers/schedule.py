"""An order in which groups can run."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def schedule(successors: Sequence[Sequence[int]], priority: Sequence[int]) -> list[int]:
    """Return the groups in topological order; among those that can run, the lowest priority comes first.

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
