"""Summary of a plan: the operators of each device, and why the preferred ones do not run the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.capability.table import Refusal
from circletools.fit.fit import computed_bytes
from circletools.fit.remedies import remedy_of
from circletools.graph.graph import Graph

_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """The work of a device: operators, their percentage, the bytes they compute, and launches of partitions."""

    device: str
    operator_count: int
    share_percent: float
    computed_bytes: int
    launch_count: int


@dataclass(frozen=True, slots=True)
class RefusedOperators:
    """Operators of one code (subgraph, index) that run elsewhere since a device refuses them, for one reason.

    Not `measured`: the table does not cover them, and the device may take them.
    """

    device: str
    code: str
    reason: str
    remedy: str
    measured: bool
    operators: tuple[_Place, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The devices in their order, and what those with a capability table refuse, the most operators first."""

    devices: tuple[DeviceShare, ...] = ()
    refusals: tuple[RefusedOperators, ...] = ()


EMPTY = Summary()


def summarize(
    graphs: Sequence[Graph],
    devices: Sequence[str],
    placed: Mapping[int, tuple[Sequence[int], Sequence[int]]],
    refused: Mapping[str, Sequence[Sequence[str | None]]] | None = None,
) -> Summary:
    """Return the work of each device.

    `placed` has the device number of each operator, and of each partition, by subgraph; -1 is none. `refused` are the
    reasons of devices with a capability table, by subgraph and operator.
    """
    operators, launches = np.zeros(len(devices), np.int64), np.zeros(len(devices), np.int64)
    made = np.zeros(len(devices))
    for index, (numbers, partitions) in placed.items():
        known = np.array(numbers, np.int64)
        runs = known >= 0
        operators += np.bincount(known[runs], minlength=len(devices))
        launches += np.bincount(np.array([one for one in partitions if one >= 0], np.int64), minlength=len(devices))
        made += np.bincount(known[runs], np.array(computed_bytes(graphs[index]))[runs], len(devices))
    count = sum(len(numbers) for numbers, _ in placed.values())
    shares = tuple(
        DeviceShare(
            device, int(operators[at]), 100 * int(operators[at]) / max(count, 1), int(made[at]), int(launches[at])
        )
        for at, device in enumerate(devices)
    )
    groups = tuple(
        one for device, found in (refused or {}).items() for one in _groups(graphs, devices, placed, device, found)
    )
    return Summary(shares, groups)


def _groups(
    graphs: Sequence[Graph],
    devices: Sequence[str],
    placed: Mapping[int, tuple[Sequence[int], Sequence[int]]],
    device: str,
    refused: Sequence[Sequence[str | None]],
) -> list[RefusedOperators]:
    number = devices.index(device)
    places: dict[tuple[str, str], list[_Place]] = {}
    for index, (numbers, _) in placed.items():
        codes = graphs[index].operators.code_names
        for operator, reason in enumerate(refused[index]):
            if reason is not None and numbers[operator] != number:
                places.setdefault((codes[operator], reason), []).append((index, operator))
    found = []
    for (code, reason), operators in places.items():
        words = reason.removeprefix("not measured: ")
        refusal = Refusal(words, measured=words == reason)
        remedy = remedy_of(refusal, code)
        found.append(RefusedOperators(device, code, words, remedy, refusal.measured, tuple(operators)))
    return sorted(found, key=lambda one: (not one.measured, -len(one.operators), one.operators[0]))
