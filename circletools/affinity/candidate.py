"""Candidate solutions: partitions in execution order, with the check and the cost that all solvers share.

The result of every solver passes `violations`, and every solver computes times as `total_us` does.
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
    """A subgraph as a problem, and the chosen candidate."""

    subgraph: Subgraph
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated constraint of a candidate; `limit`, `device` and `partition` are set if they are involved."""

    message: str
    device: int | None = None
    limit: Limit | None = None
    partition: Partition | None = None


def violations(problem: Problem, candidate: Candidate) -> list[Violation]:
    """Return the constraints that a candidate violates; a candidate is a solution if there are none."""
    found = list(_broken(problem, candidate))
    return found or [*_over_limits(problem, candidate), *_over_memory(problem, candidate)]


def _broken(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    """Yield the reasons why a candidate is not a set of valid partitions."""
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
                yield Violation(f"unit {unit} runs before its producers", partition=partition)
    if not graph.joins_any:
        for partition in disconnected(problem, candidate):
            yield Violation("a partition is not connected", partition.device, partition=partition)


def disconnected(problem: Problem, candidate: Candidate) -> list[Partition]:
    """Return the partitions whose units are connected neither by edges nor by sets that may share a partition."""
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
    """Return the objective in microseconds: times, copies, launches and the constants that partitions load."""
    devices = devices_of(len(problem), candidate)
    total = evaluate(problem.table, devices, [partition.device for partition in candidate]).total_us
    rate = problem.table.links.constant_us_per_byte
    if rate is not None:
        total += sum(
            problem.constant_bytes(partition.operators) * float(rate[partition.device]) for partition in candidate
        )
    return total


def better(problem: Problem, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the valid candidate of least total time; if several are equal, the one with fewest partitions."""
    valid = [candidate for candidate in candidates if not violations(problem, candidate)]
    return min(valid, key=lambda candidate: (round(total_us(problem, candidate), 6), len(candidate)), default=None)
