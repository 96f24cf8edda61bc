"""A heuristic for problems too large for the integer program: move units until no constraint is violated.

A partition that is too large is split by contracting edges as far as the limit allows. Partitions that are too small,
too many or too large for the memory move to another device, starting with those that add least to the total time. A
unit never returns to a device that it left, so the procedure ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Indices
from circletools.affinity.limits import Limit
from circletools.affinity.problem import Candidate, Problem, Violation, violations
from circletools.affinity.solvers.contraction import Contraction
from circletools.affinity.solvers.groups import Partition, devices_of, graph_inside, members_of
from circletools.affinity.solvers.partitions import make_partitions

Able = NDArray[np.bool_]
_MOVES = 2_000
"""The most rounds."""


def repaired(problem: Problem, candidate: Candidate) -> tuple[Candidate, list[Violation]]:
    """Return a candidate after repair, and the constraints that it still violates."""
    devices = np.array(devices_of(len(problem), candidate), np.int64)
    able = problem.able.copy()
    current = split_large(problem, candidate)
    found = violations(problem, current)
    for _ in range(_MOVES):
        if not found or not _move(problem, current, devices, able, found):
            break
        current = split_large(problem, make_partitions(problem.graph, devices.tolist()))
        found = violations(problem, current)
    return current, found


def split_large(problem: Problem, candidate: Candidate) -> Candidate:
    """Return the candidate with each partition that is too large split."""
    made: list[Partition] = []
    for partition in candidate:
        upper = [limit for device, limit in problem.limits if limit.is_upper and device == partition.device]
        made += _split(problem, partition, upper) if upper else [partition]
    return tuple(made)


def _fits(problem: Problem, units: Sequence[int], device: int, upper: Sequence[Limit]) -> bool:
    return all(problem.weight(limit.measure, units, device) <= limit.number for limit in upper)


def _split(problem: Problem, partition: Partition, upper: Sequence[Limit]) -> list[Partition]:
    """Return the pieces of a partition in execution order; each piece of several units is within the limits."""
    device = partition.device
    if _fits(problem, partition.operators, device, upper):
        return [partition]
    place = {unit: at for at, unit in enumerate(problem.graph.order)}
    units = sorted(partition.operators, key=place.__getitem__)
    inside = graph_inside(problem.graph, units, [device] * len(problem))
    contraction = Contraction(inside)
    rows = {at: [unit] for at, unit in enumerate(units)}
    for target, sources in enumerate(inside.predecessors):
        for source in sources:
            one, other = contraction.find(source), contraction.find(target)
            if one != other and _fits(problem, (*rows[one], *rows[other]), device, upper):
                both = rows[one] + rows[other]
                if contraction.merge(one, other):
                    rows[contraction.find(one)] = both
    return [Partition(device, tuple(sorted(units[at] for at in row))) for row in members_of(contraction.homes())]


def _move(problem: Problem, current: Candidate, devices: Indices, able: Able, found: Sequence[Violation]) -> bool:
    """Move units to resolve the first violation and others of its kind; return whether that was possible."""
    first = found[0]
    if first.device is None:
        return False
    own = [one for one in current if one.device == first.device]
    if first.partition is not None:
        own = [one.partition for one in found if one.limit == first.limit and one.partition is not None]
    moves = [(*move, one) for one in own if (move := _elsewhere(problem, able, one)) is not None]
    if not moves:
        return False
    if first.limit is None:  # memory: best gain in bytes for the cost, half of the partitions
        moves.sort(key=lambda move: move[0] / max(problem.weight("bytes", move[2].operators, first.device or 0), 1.0))
    elif first.partition is None:
        moves.sort(key=lambda move: move[0])
    surplus = len(own) - int(first.limit.number) if first.limit is not None else 1
    for _, targets, partition in moves if first.partition is not None else moves[: max(1, surplus // 2)]:
        units, chosen = list(partition.operators), slice(None)
        if first.limit is None and len(own) == 1 and len(units) > 1:
            chosen = slice(len(units) // 2, None)
        devices[units[chosen]] = targets[chosen]
        able[units[chosen], partition.device] = False
    return True


def _elsewhere(problem: Problem, able: Able, partition: Partition) -> tuple[float, Indices] | None:
    """Return the added time if the units of a partition run elsewhere, and their devices: one if possible.

    Returns None if a unit can run on no other device. Copies are not counted.
    """
    units = list(partition.operators)
    times = np.where(able[units], problem.table.times_us[units], np.inf)
    before = float(times[:, partition.device].sum())
    times[:, partition.device] = np.inf
    if not np.isfinite(times).any(axis=1).all():
        return None
    together = times.sum(axis=0)
    targets = times.argmin(axis=1)
    if np.isfinite(together).any():
        targets = np.full(len(units), together.argmin(), np.int64)
    return float(times[np.arange(len(units)), targets].sum()) - before, targets


def demoted(problem: Problem, candidate: Candidate, least: int, fallback: int) -> tuple[Candidate, list[Partition]]:
    """Move partitions that are too small to `fallback`, or to another device that accepts them.

    A move that violates a constraint is not made. Return the candidate, and the partitions that remain too small.
    """
    devices = np.array(devices_of(len(problem), candidate), np.int64)
    able, current, stays = problem.able.copy(), candidate, set[tuple[int, ...]]()
    at_once = True
    while True:
        small = [
            one
            for one in current
            if one.device != fallback and problem.weight("operators", one.operators, one.device) < least
        ]
        chosen = [one for one in small if one.operators not in stays]
        if not chosen:
            return current, small
        moving, tried = chosen if at_once else chosen[:1], devices.copy()
        for partition in moving:
            units = list(partition.operators)
            other = _elsewhere(problem, able, partition)
            if able[units, fallback].all():
                tried[units] = fallback
            elif other is None:
                stays.add(partition.operators)
            else:
                tried[units] = other[1]
        if (tried == devices).all():
            continue
        made = split_large(problem, make_partitions(problem.graph, tried.tolist()))
        if violations(problem, made) and not violations(problem, current):
            stays |= set() if at_once else {moving[0].operators}
            at_once = False
            continue
        able[np.flatnonzero(tried != devices), devices[tried != devices]] = False
        devices, current, at_once = tried, made, True
