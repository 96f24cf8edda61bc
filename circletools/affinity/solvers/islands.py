"""Moving connected sets of operators of one device to a device beside them, where that is cheaper with the launches.

This is what a cut cannot see: a whole island that moves takes its launch along.
"""

from __future__ import annotations

import numpy as np

from circletools.affinity.costs.table import CostTable, Indices
from circletools.affinity.solvers.groups import connected, gathered, members_of
from circletools.graph.dag import Dag

_ROUNDS = 8


def move_islands(problem: CostTable, graph: Dag, devices: Indices) -> Indices:
    """Return the devices with islands moved, the smallest first, as long as the total gets less."""
    sea = _Sea(problem, graph, devices.tolist())
    for _ in range(_ROUNDS):
        if not sea.move_islands():
            break
    return np.asarray(sea.devices, np.int64)


class _Sea:
    """A graph in plain lists, and the devices as they are by now."""

    def __init__(self, problem: CostTable, graph: Dag, devices: list[int]) -> None:
        self.devices = devices
        self._problem, self._graph = problem, graph
        self._producers = problem.producers.tolist()
        count, read, readers = len(self._producers), problem.read.tolist(), problem.readers.tolist()
        self._readers = gathered(count, read, readers)
        self._touched = gathered(len(devices), [*self._producers, *readers], [*range(count), *read])
        self._times = problem.times_us.tolist()
        self._sizes = problem.sizes_bytes.tolist()
        links = problem.links
        self._overhead, self._per_byte = links.overhead_us.tolist(), links.us_per_byte.tolist()
        self._launch = links.launch_us.tolist()

    def move_islands(self) -> bool:
        """Look at every island once; say whether any was moved."""
        group = connected(self._graph, self.devices)
        islands = members_of(group)
        moved = False
        stale: set[int] = set()  # islands that are no longer whole, or grew
        for number in sorted(range(len(islands)), key=lambda number: len(islands[number])):
            beside = self._beside(islands[number])
            if number in stale or not beside:
                continue
            beside_groups = {group[neighbour] for neighbour in beside}
            if beside_groups & stale:
                continue
            device = self._cheaper(islands[number], {group[o]: self.devices[o] for o in beside})
            if device is not None:
                for operator in islands[number]:
                    self.devices[operator] = device
                stale |= {number, *beside_groups}
                moved = True
        return moved

    def _beside(self, island: list[int]) -> set[int]:
        graph, device = self._graph, self.devices[island[0]]
        return {
            neighbour
            for operator in island
            for neighbour in (*graph.successors[operator], *graph.predecessors[operator])
            if self.devices[neighbour] != device
        }

    def _cheaper(self, island: list[int], beside: dict[int, int]) -> int | None:
        """Return the neighbours' device on which an island costs least, None where it is best as it is."""
        here = self.devices[island[0]]
        tensors = {tensor for operator in island for tensor in self._touched[operator]}
        best, most = None, 1e-9
        before = sum(self._times[operator][here] for operator in island) + sum(map(self._copies, tensors))
        for device in sorted(set(beside.values())):
            after = sum(self._times[operator][device] for operator in island)
            if after == np.inf:
                continue
            merged = sum(other == device for other in beside.values())
            for operator in island:
                self.devices[operator] = device
            after += sum(map(self._copies, tensors))
            for operator in island:
                self.devices[operator] = here
            gain = before - after + self._launch[here] + (merged - 1) * self._launch[device]
            if gain > most:
                best, most = device, gain
        return best

    def _copies(self, tensor: int) -> float:
        source = self.devices[self._producers[tensor]]
        total: float = sum(
            self._overhead[source][target] + self._sizes[tensor] * self._per_byte[source][target]
            for target in {self.devices[reader] for reader in self._readers[tensor]}
            if target != source
        )
        return total
