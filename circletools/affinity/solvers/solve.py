"""Find the best candidate for a problem, and a lower bound on the cost.

two devices, times and copies only    a minimum cut, which is exact
otherwise                             start from cuts; the integer program improves and bounds them
too large for the program             cuts and repair; the bound is the sum of the least times
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Indices
from circletools.affinity.problem import Candidate, Limit, Problem, Violation, better, total_us, violations
from circletools.affinity.solvers.contraction import Contraction
from circletools.affinity.solvers.flow import flow, is_exact, least_bound
from circletools.affinity.solvers.groups import Partition, devices_of, graph_inside, members_of
from circletools.affinity.solvers.milp import PartitionProgram, is_too_large
from circletools.affinity.solvers.partitions import make_partitions
from circletools.errors import EditError

_STARTS = 3
_EXACT = 1 - 1e-9
_SHARE = 8
"""The total time is divided by this number for each test of whether the constraints can be met without one."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A candidate without violations, and a lower bound on the time of all candidates, in microseconds."""

    candidate: Candidate
    least_us: float


def solve(problem: Problem, seconds: float) -> Solution:
    """Return the best candidate found; the integer program may use `seconds` of processor time.

    Raises EditError if no valid candidate was found (the message says whether one may exist), and UsageError if SciPy
    is not installed.
    """
    if not len(problem):
        return Solution((), 0.0)
    if not problem.able.any(axis=1).all():
        raise _impossible(problem, seconds)
    best = better(problem, flow(problem))
    if best is not None and is_exact(problem):
        return Solution(best, total_us(problem, best))
    best, least_us, is_impossible = _by_program(problem, best, least_bound(problem), seconds)
    if is_impossible:
        raise _impossible(problem, seconds)
    if best is None or (problem.is_constrained and not _is_proven(problem, best, least_us)):
        mended = [repaired(problem, start)[0] for start in flow(problem)[:_STARTS]]
        best = better(problem, mended if best is None else [best, *mended])
    if best is None:
        raise _not_found(problem)
    return Solution(best, min(least_us, total_us(problem, best)))


def _is_proven(problem: Problem, best: Candidate | None, least_us: float) -> bool:
    return best is not None and total_us(problem, best) * _EXACT <= least_us + 1e-9


def _by_program(
    problem: Problem, best: Candidate | None, least_us: float, seconds: float
) -> tuple[Candidate | None, float, bool]:
    """Solve the integer program, adding violated constraints in each round, until there are none or time is up.

    Return the best candidate, the lower bound, and whether it is proven that no valid candidate exists.
    """
    if seconds <= 0 or is_too_large(problem) or _is_proven(problem, best, least_us):
        return best, least_us, False
    program, ends = PartitionProgram(problem), process_time() + seconds
    while (left := ends - process_time()) > 0:
        solved = program.solve(left)
        if solved.is_infeasible:
            return best, least_us, best is None and program.is_exact
        if program.is_exact:
            least_us = max(least_us, solved.bound)
        if solved.values is None:
            break
        is_violated, candidate = program.add_violated_cuts(solved.values)
        # The program does not join units on devices that have neither launch costs nor limits.
        joined = split_large(problem, make_partitions(problem.graph, program.devices(solved.values)))
        best = better(problem, [one for one in (best, joined, candidate) if one is not None])
        if not is_violated or _is_proven(problem, best, least_us):
            break
    return best, least_us, False


# --- constraints that cannot be met ------------------------------------------------------------------------


def _constraints(problem: Problem) -> list[str]:
    caps = [f"memory {problem.names[device]}={cap}" for device, cap in problem.caps.items()]
    return [*(str(limit) for _, limit in problem.limits), *caps]


def _impossible(problem: Problem, seconds: float) -> EditError:
    """Return the error for constraints that cannot be met, naming a minimal contradictory set (deletion filter)."""
    for limit in problem.limits:
        fewer = replace(problem, limits=tuple(other for other in problem.limits if other != limit))
        problem = fewer if _is_impossible(fewer, seconds / _SHARE) else problem
    for device in problem.caps:
        fewer = replace(problem, caps={other: cap for other, cap in problem.caps.items() if other != device})
        problem = fewer if _is_impossible(fewer, seconds / _SHARE) else problem
    names, needs = _constraints(problem), ""
    if problem.caps and problem.able.any(axis=1).all():
        found = violations(problem, flow(problem)[0])
        needs = next((f": {one.message}" for one in found if one.limit is None), "")
    together = " together" * (len(names) > 1)
    hint = "rules and device capabilities fix the operators' devices"
    return EditError(f"{' and '.join(names)} cannot be met{together}{needs}", hint=hint)


def _is_impossible(problem: Problem, seconds: float) -> bool:
    if not problem.is_constrained:
        return False
    if not problem.able.any(axis=1).all():
        return True
    return _by_program(problem, None, -np.inf, seconds)[2]


def _not_found(problem: Problem) -> EditError:
    """Return the error to raise if it is unknown whether all constraints can be met."""
    _, violated = min((repaired(problem, start) for start in flow(problem)), key=lambda pair: len(pair[1]))
    message = "; ".join(violation.message for violation in violated[:3])
    hint = "a plan may exist: choose devices by rules, relax the limits, or allow more time"
    return EditError(f"no plan was found within {', '.join(_constraints(problem))}: {message}", hint=hint)


# --- repair: a heuristic that moves units until no constraint is violated -----------------------------------
# A partition that is too large is split by contracting edges as far as the limit allows. Partitions that are too
# small, too many, or too large for memory move to other devices, starting with those that add the least to the total
# time. A unit never returns to a device that it left, so the procedure terminates.


Able = NDArray[np.bool_]
_MOVES = 2_000
"""The maximum number of rounds."""


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
    """Return the candidate after splitting each partition that is too large."""
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
    """Move units to resolve the first violation and others of its kind; return whether this was possible."""
    first = found[0]
    if first.device is None:
        return False
    own = [one for one in current if one.device == first.device]
    if first.partition is not None:
        own = [one.partition for one in found if one.limit == first.limit and one.partition is not None]
    moves = [(*move, one) for one in own if (move := _elsewhere(problem, able, one)) is not None]
    moves.sort(key=lambda move: move[0])
    surplus = len(own) - int(first.limit.number) if first.limit is not None else 1
    for _, targets, partition in moves if first.partition is not None else moves[: max(1, surplus // 2)]:
        units, chosen = list(partition.operators), slice(None)
        if first.limit is None and len(own) == 1 and len(units) > 1:
            chosen = slice(len(units) // 2, None)
        devices[units[chosen]] = targets[chosen]
        able[units[chosen], partition.device] = False
    return bool(moves)


def _elsewhere(problem: Problem, able: Able, partition: Partition) -> tuple[float, Indices] | None:
    """Return the added time if a partition's units run elsewhere, and their new devices (one for all if possible).

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

    Moves that violate a constraint are not made. Return the candidate, and the partitions that remain too small.
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
        devices, current = tried, made
