"""Paths over other devices that part two groups of one device, without a search.

One path through the graph is known, one with as many changes of device as there can be. Where a group reaches it, and
it reaches another group behind, with a group of another device between, the two can never be merged: merging makes no
path go away, and groups of two devices are never merged. In networks, which are long and narrow, nearly every detour
has part of that path; what has not is left to a search.
"""

from __future__ import annotations

from circletools.affinity.partition.groups import GroupGraph


class Detours:
    """For each group the first place on the path that it reaches, and the last that reaches it, itself included."""

    def __init__(self, graph: GroupGraph) -> None:
        """Choose the path."""
        count = len(graph.devices)
        path = longest(graph)
        self._own = graph.devices
        self._devices = [graph.devices[group] for group in path]
        self._first = [len(path)] * count
        self._last = [-1] * count
        for place, group in enumerate(path):
            self._first[group] = self._last[group] = place
        for rows, place_of, better, order in (
            (graph.predecessors, self._last, max, range(count)),
            (graph.successors, self._first, min, reversed(range(count))),
        ):
            for group in order:
                for other in rows[group]:
                    place_of[group] = better(place_of[group], place_of[other])
        self._stretch_end = list(range(len(path)))  # of the groups of one device that follow each other there
        for place in range(len(path) - 2, -1, -1):
            if self._devices[place] == self._devices[place + 1]:
                self._stretch_end[place] = self._stretch_end[place + 1]

    def between(self, source: int, target: int) -> bool:
        """Say whether the path leads from one group to another of its device by way of a third device."""
        first, last = self._first[source], self._last[target]
        if first > last:
            return False
        return self._devices[first] != self._own[source] or self._stretch_end[first] < last

    def join(self, group: int, other: int) -> None:
        """Take what is known of another group for the group that both are now."""
        self._first[group] = min(self._first[group], self._first[other])
        self._last[group] = max(self._last[group], self._last[other])


def longest(graph: GroupGraph) -> list[int]:
    """Return a path with as many changes of device as there can be."""
    level = [0] * len(graph.devices)
    back = [-1] * len(graph.devices)
    for group, row in enumerate(graph.predecessors):
        device, most = graph.devices[group], -1
        for other in row:
            changes = level[other] + (graph.devices[other] != device)
            if changes > most:
                most, back[group] = changes, other
        level[group] = max(most, 0)
    group = max(range(len(level)), key=level.__getitem__, default=-1)
    path = []
    while group >= 0:
        path.append(group)
        group = back[group]
    return path[::-1]
