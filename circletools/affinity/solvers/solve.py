"""The best candidate for a problem, and a lower bound on its cost.

two devices, times and copies only    a minimum cut, which is exact
else                                  start from cuts; the integer program improves and bounds them
too large for the program             cuts, prices and repair; the bound is the sum of the least times
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import process_time

import numpy as np

from circletools.affinity.problem import Candidate, Problem, better, total_us, violations
from circletools.affinity.solvers.flow import flow, is_exact, least_bound, priced
from circletools.affinity.solvers.milp import PartitionProgram, is_too_large
from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.solvers.repair import repaired, split_large
from circletools.errors import EditError

_ROUNDS, _STARTS = 400, 3
_EXACT = 1 - 1e-9
_SHARE = 8
"""The share of the time for each test whether constraints can be met without one of them."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A candidate without violations, and a lower bound on the time of all candidates, in microseconds."""

    candidate: Candidate
    least_us: float


@dataclass(frozen=True, slots=True)
class _Found:
    """The best candidate so far, the bound, and whether it is proven that no valid candidate exists."""

    best: Candidate | None
    least_us: float
    is_impossible: bool = False


def solve(problem: Problem, seconds: float) -> Solution:
    """Return the best candidate found; the integer program may use `seconds` of processor time.

    Raises EditError if no valid candidate was found, with a note on whether it is proven that none exists; UsageError
    if SciPy is not installed.
    """
    if not len(problem):
        return Solution((), 0.0)
    if not problem.able.any(axis=1).all():
        raise _impossible(problem, seconds)
    best = better(problem, flow(problem))
    if best is not None and is_exact(problem):
        return Solution(best, total_us(problem, best))
    found = _by_program(problem, _Found(best, least_bound(problem)), seconds)
    if found.is_impossible:
        raise _impossible(problem, seconds)
    best = found.best
    if best is None or (problem.is_constrained and not _is_proven(problem, found)):
        best = better(problem, [*(() if best is None else (best,)), *_heuristic(problem)])
    if best is None:
        raise _not_found(problem)
    return Solution(best, min(found.least_us, total_us(problem, best)))


def _is_proven(problem: Problem, found: _Found) -> bool:
    return found.best is not None and total_us(problem, found.best) * _EXACT <= found.least_us + 1e-9


def _heuristic(problem: Problem) -> Iterator[Candidate]:
    """Yield candidates of the heuristics for limits and memory; they are not all valid."""
    starts, fitting = flow(problem)[:_STARTS], list[Candidate]()
    for found in priced(problem) if problem.caps else ():
        if not violations(problem, found):
            yield found
        fitting = [found]  # the last one has the lowest prices at which everything fits, on every device
    for start in (*starts, *fitting):
        yield repaired(problem, start)[0]


def _by_program(problem: Problem, found: _Found, seconds: float) -> _Found:
    """Solve the integer program, adding violated constraints each round, until there are none or time is up."""
    if seconds <= 0 or is_too_large(problem) or _is_proven(problem, found):
        return found
    program, ends = PartitionProgram(problem), process_time() + seconds
    for _ in range(_ROUNDS):
        left = ends - process_time()
        if left <= 0:
            break
        solved = program.solve(left)
        if solved.is_infeasible:
            return replace(found, is_impossible=found.best is None and program.is_exact)
        if program.is_exact:
            found = replace(found, least_us=max(found.least_us, solved.bound))
        if solved.values is None:
            break
        is_violated, candidate = program.add_violated_cuts(solved.values)
        tried = [] if found.best is None else [found.best]
        # The program does not join units on devices without launch costs and limits.
        tried.append(split_large(problem, make_partitions(problem.graph, program.devices(solved.values))))
        tried += [] if candidate is None else [candidate]
        found = replace(found, best=better(problem, tried))
        if not is_violated or _is_proven(problem, found):
            break
    return found


# --- constraints that cannot be met ------------------------------------------------------------------------


def _constraints(problem: Problem) -> list[str]:
    caps = [f"memory {problem.names[device]}={cap}" for device, cap in problem.caps.items()]
    return [*(str(limit) for _, limit in problem.limits), *caps]


def _impossible(problem: Problem, seconds: float) -> EditError:
    """Return the error for constraints that cannot be met, with a minimal contradictory set (a deletion filter)."""
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
    return _by_program(problem, _Found(None, -np.inf), seconds).is_impossible


def _not_found(problem: Problem) -> EditError:
    """Return the error if it is not known whether all constraints can be met."""
    _, violated = min((repaired(problem, start) for start in flow(problem)), key=lambda pair: len(pair[1]))
    message = "; ".join(violation.message for violation in violated[:3])
    hint = "a plan may exist: name devices by rules, relax the limits, or allow more time"
    return EditError(f"no plan was found within {', '.join(_constraints(problem))}: {message}", hint=hint)
