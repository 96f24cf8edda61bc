"""Candidates: partitions in execution order, with their checks and costs.

Every solver's result passes `violations`, and every solver adds up times as `total_us` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.memory import footprints
from circletools.affinity.limits import Limit
from circletools.affinity.partition import Partition, devices_of, group_of
from circletools.affinity.problem import Problem, Subgraph
from circletools.affinity.solvers.groups import connected

Candidate = tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A subgraph as a problem, and the candidate that was chosen for it."""

    subgraph: Subgraph
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated constraint of a candidate; `limit`, `device` and `partition` where it concerns one."""

    message: str
    device: int | None = None
    limit: Limit | None = None
    partition: Partition | None = None


def violations(problem: Problem, candidate: Candidate) -> list[Violation]:
    """Return all that a candidate does not keep to; nothing else makes it a solution."""
    found = list(_broken(problem, candidate))
    return found or [*_over_limits(problem, candidate), *_over_memory(problem, candidate)]


def _broken(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    """Yield why these are not partitions at all."""
    count, graph = len(problem), problem.graph
    if sorted(unit for partition in candidate for unit in partition.operators) != list(range(count)):
        yield Violation("some units are in no partition, or in several")
        return
    home = group_of(count, [partition.operators for partition in candidate])
    for number, partition in enumerate(candidate):
        for unit in partition.operators:
            if not np.isfinite(problem.table.times_us[unit, partition.device]):
                yield Violation(f"unit {unit} may not be on device {partition.device}", partition.device)
            if any(home[before] > number for before in graph.predecessors[unit]):
                yield Violation(f"unit {unit} runs before what feeds it", partition=partition)
    if not graph.joins_any:
        for partition in disconnected(problem, candidate):
            yield Violation("a partition is not connected", partition.device, partition=partition)


def disconnected(problem: Problem, candidate: Candidate) -> list[Partition]:
    """Return the partitions whose units nothing connects, neither edges nor that they may stand beside each other."""
    home = group_of(len(problem), [partition.operators for partition in candidate])
    label = connected(problem.graph, home)
    return [partition for partition in candidate if len({label[unit] for unit in partition.operators}) > 1]


def _over_limits(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    for device, limit in problem.limits:
        own = [partition for partition in candidate if partition.device == device]
        if limit.kind == "max-partitions":
            if len(own) > limit.number:
                yield Violation(f"{limit}: there are {len(own)}", device, limit)
            continue
        for partition in own:
            weight = problem.weight(limit.measure, partition.operators, device)
            if weight > limit.number if limit.is_upper else weight < limit.number:
                yield Violation(f"{limit}: a partition has {weight:g}", device, limit, partition)


def _over_memory(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    used = footprints(problem.contents, problem.graph, candidate, problem.devices) if problem.caps else []
    for device, cap in problem.caps.items():
        found = used[device]
        if found.total_bytes > cap:
            message = (
                f"{problem.names[device]} has {cap} bytes and would need {found.total_bytes}: "
                f"{found.constants_bytes} of constants, {found.activations_bytes} of tensors at once"
            )
            yield Violation(message, device)


def total_us(problem: Problem, candidate: Candidate) -> float:
    """Return the objective: times, copies, launches and the constants that partitions bring, in microseconds."""
    devices = devices_of(len(problem), candidate)
    total = evaluate(problem.table, devices, [partition.device for partition in candidate]).total_us
    rate = problem.table.links.constant_us_per_byte
    if rate is not None:
        total += sum(
            problem.constant_bytes(partition.operators) * float(rate[partition.device]) for partition in candidate
        )
    return total


def better(problem: Problem, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate without violations of least total time, of equal ones that of fewest partitions."""
    valid = [candidate for candidate in candidates if not violations(problem, candidate)]
    return min(valid, key=lambda candidate: (round(total_us(problem, candidate), 6), len(candidate)), default=None)
