"""What is known of a model on its devices: the times of operators, launches and copies; as costs, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from circletools.affinity.costs.costfile import CostDocument, parse_costs
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.graph.resources import Resources
from circletools.model.model import Model
from circletools.parts.plan import PlannedPart
from circletools.split.measuring.bench import AlonePart
from circletools.split.measuring.fitting import (
    Floats,
    Moving,
    Segment,
    fit_launch,
    fit_moving,
    fit_times,
    work_of,
)
from circletools.split.measuring.request import Device
from circletools.wording import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Factors:
    """What was fitted of a device: a launch, what fusion leaves of the operators' time, and moving tensors."""

    launch_us: float
    fusion: float
    bring: Moving
    take: Moving


@dataclass(frozen=True, slots=True)
class Known:
    """The factors of each device, and the time of each operator by device; infinite where it does not run it.

    `segments` are what was measured, in the order it counts.
    """

    devices: tuple[Device, ...]
    factors: tuple[Factors, ...]
    times_us: Floats
    subgraph_count: int = 1
    segments: tuple[Segment, ...] = ()

    def copy_us(self, source: int, target: int, size_bytes: float) -> float:
        """Return what it takes to bring a tensor from a device to another."""
        return self.factors[source].take.of(size_bytes) + self.factors[target].bring.of(size_bytes)

    def segment_us(self, device: int, operators: Sequence[int]) -> float:
        """Return what operators take together on a device."""
        return self.factors[device].launch_us + float(self.times_us[list(operators), device].sum())

    def corrected(self, segments: Sequence[Segment]) -> Known:
        """Return the same with what was measured in addition."""
        every = (*self.segments, *segments)
        launches = [one.launch_us for one in self.factors]
        return replace(self, segments=every, times_us=fit_times(self.times_us, launches, every))

    def without(self, device: int, operators: Sequence[int]) -> Known:
        """Return the same, as operators do not run on a device."""
        times = self.times_us.copy()
        times[list(operators), device] = np.inf
        return replace(self, times_us=times)

    def costs(self) -> dict[str, Any]:
        """Return the document of costs (docs/costs.md)."""
        devices = []
        for number, (device, one) in enumerate(zip(self.devices, self.factors, strict=True)):
            times = [
                {"select": f"index:{operator}", "time_us": None if time_us == np.inf else _rounded(time_us)}
                for operator, time_us in enumerate(self.times_us[:, number].tolist())
            ]
            others = [{"select": "op:*", "time_us": 0}] if self.subgraph_count > 1 else []
            devices.append(
                {"name": device.name, "launch_us": _rounded(one.launch_us), "operators": [*others, *times]}
            )
        transfers = []
        for source, one in zip(self.devices, self.factors, strict=True):
            for target, other in zip(self.devices, self.factors, strict=True):
                rate = one.take.us_per_byte + other.bring.us_per_byte
                entry = {
                    "from": source.name,
                    "to": target.name,
                    "overhead_us": _rounded(one.take.overhead_us + other.bring.overhead_us),
                } | ({"bytes_per_us": _rounded(1 / rate)} if rate > 0 else {})
                if source != target:
                    transfers.append(entry)
        return {"schema_version": SCHEMA_VERSION, "devices": devices, "transfers": transfers}

    def document(self) -> CostDocument:
        """Return the same, read."""
        return parse_costs(json.dumps(self.costs()), "measured costs")


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def known_of(
    model: Model, devices: tuple[Device, ...], alone: Sequence[AlonePart], whole_us: Sequence[float | None]
) -> Known:
    """Return what operators alone, and the whole model where a device runs it, say of devices."""
    graphs = model_graph(model)
    facts = graphs.graphs[0]
    idle = {*facts.dag.constants, *Resources(graphs).state(0).copied}
    times = np.full((len(facts), len(devices)), np.inf)
    factors, wholes = [], []
    for number, whole in enumerate(whole_us):
        ran = [(part, taken) for part in alone if (taken := part.times_us[number]) is not None]
        launch, fusion = fit_launch([run for _, (_, run, _) in ran], whole)
        for part, (_, run, _) in ran:
            its = [operator for operator in part.operators if operator not in idle]
            times[its, number] = work_of(run, launch, fusion) / max(1, len(its))
        bring, take = (
            fit_moving(
                [part.moved[end][0] for part, _ in ran if part.moved],
                [part.moved[end][1] for part, _ in ran if part.moved],
                [taken[2 * end] for part, taken in ran if part.moved],
            )
            for end in (0, 1)
        )
        factors.append(Factors(launch, fusion, bring, take))
        if whole is not None:
            wholes.append(Segment(number, tuple(sorted(set(range(len(facts))) - idle)), whole))
    times[sorted(idle)] = 0.0
    for segment in wholes:  # what runs as a whole runs in it, also where it could not be measured alone
        column = times[:, segment.device]
        column[np.isinf(column)] = _typical(times)[np.isinf(column)]
    return Known(devices, tuple(factors), times, len(model.subgraphs)).corrected(wholes)


def _typical(times_us: Floats) -> Floats:
    """Return for each operator the least time that any device has for it, else that of most operators."""
    least: Floats = times_us.min(axis=1)
    known = least[np.isfinite(least) & (least > 0)]
    least[np.isinf(least)] = float(np.median(known)) if len(known) else 1.0
    return least


def segments_of(
    known: Known, facts: Graph, parts: Sequence[PlannedPart], steps_us: Sequence[float]
) -> tuple[Segment, ...]:
    """Return what the parts of a plan took, without the copies between devices that costs know."""
    number = {device.name: place for place, device in enumerate(known.devices)}
    producers, sizes = facts.producer.tolist(), facts.values.bytes.tolist()
    home = {operator: number[part.device] for part in parts for operator in part.operators}
    copied: set[tuple[int, int]] = set()
    found = []
    for part, step_us in zip(parts, steps_us, strict=True):
        device = number[part.device]
        copies_us = 0.0
        for tensor in part.inputs:
            source = home.get(producers[tensor], device)
            if source != device and (tensor, device) not in copied:
                copied.add((tensor, device))
                copies_us += known.copy_us(source, device, sizes[tensor])
        found.append(Segment(device, part.operators, max(step_us - copies_us, 0.0)))
    return tuple(found)
