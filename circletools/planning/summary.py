"""Summary of a plan: the operators of each device, and why the preferred devices do not run the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.assign.assign import Refusals
from circletools.affinity.capability.table import Refusal
from circletools.affinity.partitioning import Partitioning
from circletools.cost.macs import macs
from circletools.fit.fit import computed_bytes
from circletools.fit.remedies import remedy_of
from circletools.graph.graph import Graph

_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """The work of a device: operators, their percentage, the bytes they compute, and launches of partitions.

    `macs` are the multiply-accumulates known from shapes, and `macs_percent` is their percentage.
    """

    device: str
    operator_count: int
    share_percent: float
    computed_bytes: int
    launch_count: int
    macs: int
    macs_percent: float


@dataclass(frozen=True, slots=True)
class RefusedOperators:
    """Operators of a code (subgraph, index) that run elsewhere because a device refuses them for the same reason.

    Without `measured`, the table does not cover them, and the device may accept them.
    """

    device: str
    code: str
    reason: str
    remedy: str
    measured: bool
    operators: tuple[_Place, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The devices in order, and the operators refused by those with a capability table, most frequent first."""

    devices: tuple[DeviceShare, ...] = ()
    refusals: tuple[RefusedOperators, ...] = ()


def summarize(
    graphs: Sequence[Graph],
    partitioning: Partitioning,
    refused: Refusals | None = None,
) -> Summary:
    """Return the work of each device; operators on device -1 are not counted.

    `refused` are the refusals of devices with a capability table, by subgraph and operator.
    """
    devices = partitioning.devices
    operators, launches, made, count, products = (np.zeros(len(devices)) for _ in range(5))
    for graph, planned in zip(graphs, partitioning.subgraphs, strict=True):
        known = np.array(planned.numbers, np.int64)
        runs, ran = known >= 0, np.array([one.device for one in planned.partitions], np.int64)
        count += len(known)
        operators += np.bincount(known[runs], minlength=len(devices))
        launches += np.bincount(ran[ran >= 0], minlength=len(devices))
        if len(known):
            made += np.bincount(known[runs], computed_bytes(graph)[runs], len(devices))
            products += np.bincount(known[runs], np.maximum(macs(graph), 0)[runs], len(devices))
    shares = 100 * operators / np.maximum(count, 1)
    of_macs = 100 * products / max(products.sum(), 1)
    columns = operators.astype(int), shares, made.astype(int), launches.astype(int), products.astype(int), of_macs
    rows = zip(devices, *(column.tolist() for column in columns), strict=True)
    groups = [
        one
        for device, found in (refused or {}).items()
        for one in _groups(graphs, partitioning, device, devices.index(device), found)
    ]
    return Summary(tuple(DeviceShare(*row) for row in rows), tuple(groups))


def _groups(
    graphs: Sequence[Graph],
    partitioning: Partitioning,
    device: str,
    number: int,
    refused: Sequence[Sequence[Refusal | None]],
) -> list[RefusedOperators]:
    places: dict[tuple[str, Refusal], list[_Place]] = {}
    for index, planned in enumerate(partitioning.subgraphs):
        codes = graphs[index].operators.code_names
        for operator, refusal in enumerate(refused[index]):
            if refusal is not None and planned.numbers[operator] != number:
                places.setdefault((codes[operator], refusal), []).append((index, operator))
    found = [
        RefusedOperators(device, code, refusal.reason, remedy_of(refusal, code), refusal.measured, tuple(operators))
        for (code, refusal), operators in places.items()
    ]
    return sorted(found, key=lambda one: (not one.measured, -len(one.operators), one.operators[0]))
