"""Moves connected sets of operators to an adjacent device if that is cheaper, launches included.

A cut cannot find such a move: only an island that moves as a whole saves its launch.
"""

from __future__ import annotations

import numpy as np

from circletools.affinity.costs.table import CostTable, Indices
from circletools.affinity.solvers.groups import connected, gathered, members_of
from circletools.graph.dag import Dag

_ROUNDS = 8


def move_islands(table: CostTable, graph: Dag, devices: Indices) -> Indices:
    """Return the devices after moving islands, the smallest first, as long as the total decreases."""
    sea = _Sea(table, graph, devices.tolist())
    for _ in range(_ROUNDS):
        if not sea.move_islands():
            break
    return np.asarray(sea.devices, np.int64)


class _Sea:
    """A graph in plain lists, and the current devices."""

    def __init__(self, table: CostTable, graph: Dag, devices: list[int]) -> None:
        self.devices, self._graph = devices, graph
        self._times, self._launch = table.times_us.tolist(), table.links.launch_us.tolist()
        self._tensors = [(maker, readers, costs.tolist()) for maker, readers, costs in table.copies()]
        uses = [(unit, at) for at, (maker, readers, _) in enumerate(self._tensors) for unit in {maker, *readers}]
        self._touched = gathered(len(devices), *zip(*uses, strict=True)) if uses else [[] for _ in devices]

    def move_islands(self) -> bool:
        """Try to move every island once; return whether any was moved."""
        group = connected(self._graph, self.devices)
        islands = members_of(group)
        moved = False
        stale: set[int] = set()  # skip islands that were broken up or grew
        for number in sorted(range(len(islands)), key=lambda number: len(islands[number])):
            beside = {group[unit]: self.devices[unit] for unit in self._beside(islands[number])}
            if number in stale or not beside or stale.intersection(beside):
                continue
            if self._moved(islands[number], list(beside.values())):
                stale |= {number, *beside}
                moved = True
        return moved

    def _beside(self, island: list[int]) -> set[int]:
        graph, device = self._graph, self.devices[island[0]]
        rows = (row for unit in island for row in (graph.successors[unit], graph.predecessors[unit]))
        return {unit for row in rows for unit in row if self.devices[unit] != device}

    def _moved(self, island: list[int], beside: list[int]) -> bool:
        """Move an island to the neighbouring device on which it costs least; return whether its device changed."""
        here = best = self.devices[island[0]]
        most, before = 1e-9, self._cost(island)
        for device in sorted(set(beside)):
            self._put(island, device)
            gain = (
                before - self._cost(island) + self._launch[here] + (beside.count(device) - 1) * self._launch[device]
            )
            if gain > most:
                best, most = device, gain
        self._put(island, best)
        return best != here

    def _put(self, island: list[int], device: int) -> None:
        for unit in island:
            self.devices[unit] = device

    def _cost(self, island: list[int]) -> float:
        """Return the time of an island's units, and of all copies of tensors that they read or make."""
        devices = self.devices
        total: float = sum(self._times[unit][devices[unit]] for unit in island)
        for tensor in {tensor for unit in island for tensor in self._touched[unit]}:
            maker, readers, costs = self._tensors[tensor]
            total += sum(costs[devices[maker]][there] for there in {devices[reader] for reader in readers})
        return total
