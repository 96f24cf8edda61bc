"""Build the cost table of every subgraph of a model from known costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from circletools.affinity.assign.assign import Refusals
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.capability.table import Refusal
from circletools.affinity.costs.costfile import CostDocument, Defaults
from circletools.affinity.costs.table import CostTable, Floats, Links, make_cost_table
from circletools.errors import UsageError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser

Measured = Mapping[tuple[int, int], float]
"""Microseconds of an operator, by subgraph and index."""

_DEVICES = 64
NO_TIME = Refusal("no time is known for it", remedy="add its time to the costs")


@dataclass(frozen=True, slots=True)
class Costs:
    """Known costs: a document, times measured on a device, and defaults for the rest.

    A measured time takes precedence over the document's.
    """

    document: CostDocument
    measured: Mapping[str, Measured]
    defaults: Defaults

    def assumed(self, devices: Sequence[str]) -> bool:
        """Return whether the default is used for a copy between two of these devices."""
        return any(self.document.listed(*pair) is None for pair in permutations(dict.fromkeys(devices), 2))


def cost_tables(chooser: Chooser, devices: Sequence[str], costs: Costs) -> list[CostTable]:
    """Return the costs of each subgraph of a model.

    Raises UsageError if an entry of the document selects nothing, or there are no devices or more than 64.
    """
    if not devices:
        raise UsageError("the costs name no device", hint="name some with `devices=`, or in the costs")
    if len(devices) > _DEVICES:  # memory grows with the square of the number of devices
        raise UsageError(f"costs of {len(devices)} devices; the maximum is {_DEVICES}")
    links = _links(devices, costs)
    tables = [_times(chooser, device, costs) for device in devices]
    return [
        make_cost_table(subgraph, np.stack([table[index] for table in tables], axis=1), links)
        for index, subgraph in enumerate(chooser.model.graphs)
    ]


def with_times(problems: Sequence[CostTable], devices: Sequence[str], refusals: Refusals) -> Refusals:
    """Return the refusals by capability tables, plus a refusal of each operator whose time is unknown."""
    joined = {}
    for number, device in enumerate(devices):
        rows = []
        for subgraph, problem in enumerate(problems):
            refused = refusals[device][subgraph] if device in refusals else [None] * len(problem.times_us)
            timed = np.isfinite(problem.times_us[:, number]).tolist()
            rows.append([said or (None if has else NO_TIME) for said, has in zip(refused, timed, strict=True)])
        joined[device] = rows
    return joined


def _links(devices: Sequence[str], costs: Costs) -> Links:
    overhead, per_byte = np.zeros((2, len(devices), len(devices)))
    for source, target in permutations(range(len(devices)), 2):
        link = costs.document.link(devices[source], devices[target], costs.defaults)
        overhead[source, target], per_byte[source, target] = link.overhead_us, link.us_per_byte
    launches = [costs.document.launches.get(device, costs.defaults.launch_us) for device in devices]
    constants = np.array([costs.document.constants.get(device, 0.0) for device in devices])
    return Links(overhead, per_byte, np.array(launches), constants if constants.any() else None)


def _times(chooser: Chooser, device: str, costs: Costs) -> list[Floats]:
    """Return the time of every operator on a device, by subgraph."""
    rules = costs.document.times.get(device, ())
    rows = []
    for subgraph, chosen in enumerate(by_precedence(chooser, rules, any_code=True)):
        times = np.array([np.inf if rule is None else rule.time_us for rule in chosen])
        rates = np.array([0.0 if rule is None else rule.us_per_byte for rule in chosen])
        if rates.any():
            times += rates * operator_bytes(chooser.model.graphs[subgraph])
        rows.append(times.reshape(len(chosen)))
    for (subgraph, operator), time_us in costs.measured.get(device, {}).items():
        rows[subgraph][operator] = time_us
    return rows


def operator_bytes(facts: Graph) -> Floats:
    """Return the bytes that each operator reads, constants included, and writes."""
    facts.check_values()
    total: Floats = np.zeros(len(facts))
    for uses in (facts.uses, facts.definitions):
        pairs = np.unique(np.stack(uses, axis=1), axis=0)
        total += np.bincount(pairs[:, 0], facts.values.bytes[pairs[:, 1]], minlength=len(total))
    return total
