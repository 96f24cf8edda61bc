"""Finds most pairs of groups that can never be merged, without a search.

One path through the graph is kept, with as many changes of device as possible:

    path     a - a - B - a - B - a       source reaches the path here, and the path reaches target there:
             |               |           a group of another device lies between: they cannot be merged
             source          target

Merging never removes a path, and groups of two devices are never merged. In networks, which are long and narrow,
nearly every detour shares part of that path; a search finds the others. Without this shortcut a UNet of 100,000
operators takes minutes.
"""

from __future__ import annotations

from copy import copy

from circletools.affinity.solvers.groups import GroupGraph


class Detours:
    """For each group the first path place that it reaches and the last that reaches it, itself included."""

    def __init__(self, graph: GroupGraph) -> None:
        """Choose the path."""
        count = len(graph)
        self.level: list[int] = alternation_levels(graph)
        self.path: list[int] = _most_alternating(graph, self.level)
        path = self.path
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
        self._stretch_end = list(range(len(path)))  # the end of each run of groups of one device on the path
        for place in range(len(path) - 2, -1, -1):
            if self._devices[place] == self._devices[place + 1]:
                self._stretch_end[place] = self._stretch_end[place + 1]

    def copy(self) -> Detours:
        """Return a copy of the current state, to try another merge order."""
        copied = copy(self)
        copied._first, copied._last = self._first.copy(), self._last.copy()
        return copied

    def between(self, source: int, target: int) -> bool:
        """Return whether the path leads from one group to another of its device through another device."""
        first, last = self._first[source], self._last[target]
        if first > last:
            return False
        return self._devices[first] != self._own[source] or self._stretch_end[first] < last

    def join(self, group: int, other: int) -> None:
        """Merge the facts about another group into the merged group."""
        self._first[group] = min(self._first[group], self._first[other])
        self._last[group] = max(self._last[group], self._last[other])


def alternation_levels(graph: GroupGraph) -> list[int]:
    """Return for each group the largest number of device changes on a path to it."""
    level = [0] * len(graph)
    for group, row in enumerate(graph.predecessors):
        device, most = graph.devices[group], 0
        for other in row:
            changes = level[other] + (graph.devices[other] != device)
            if changes > most:  # noqa: PLR1730 - `max` takes twice as long
                most = changes
        level[group] = most
    return level


def _most_alternating(graph: GroupGraph, level: list[int]) -> list[int]:
    """Return a path with as many device changes as possible."""
    devices = graph.devices
    group = max(range(len(level)), key=level.__getitem__, default=-1)
    path = []
    while group >= 0:
        path.append(group)
        before = (
            other
            for other in graph.predecessors[group]
            if level[other] + (devices[other] != devices[group]) == level[group]
        )
        group = next(before, -1)
    return path[::-1]
