"""Measure how close placements come to the minimum total time.

    python -m benchmarks.placement [--cases 200]

The problems are random, with 2 to 4 devices, launches, asymmetric copy costs, limits and memory, and small enough to
try everything. The exit code is 0 only if each result is optimal, or correctly proven impossible, and otherwise 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import count, islice
from math import inf

import numpy as np

from benchmarks.graphs import Shape
from circletools.affinity.costs.table import Contents, CostTable, Links
from circletools.affinity.problem import Problem, total_us, violations
from circletools.affinity.solvers.solve import solve
from circletools.errors import EditError
from circletools.graph.algorithms import Dag
from tests.kit.placement_oracle import Placement, random_placement

_MOST, _CHOICES = 10, 20_000
"""The maximum number of units of a problem, and of device choices: trying more would take minutes."""
KINDS = ("", "limits", "memory", "limits memory", "limits memory rate")


def near(cases: int, kind: str, first: int) -> bool:
    """Compare results with an exhaustive search; return whether all guarantees are met."""
    ratios, verdicts = list[float](), Counter[str]()
    made = (random_placement(seed, _MOST, **dict.fromkeys(kind.split(), True)) for seed in count(first))
    small = (one for one in made if not kind or len(one.launch) ** len(one.times) <= _CHOICES)
    for placement in islice(small, cases):
        verdict, ratio = _judged(placement, placement.least())
        verdicts[verdict] += 1
        ratios += [] if ratio is None else [ratio]
    print(
        f"| {kind or 'times, copies, launches'} | {verdicts['least']} of {cases} | {np.mean(ratios):.4f} | "
        f"{max(ratios):.3f} | {verdicts['impossible']} | {cases - verdicts['least'] - verdicts['impossible']} |",
        flush=True,
    )
    return verdicts["least"] + verdicts["impossible"] == cases


def _judged(made: Placement, least: float) -> tuple[str, float | None]:
    """Return a verdict on a result, and its excess over the minimum time."""
    problem = made.problem()
    try:
        found = solve(problem, 20.0)
    except EditError as error:
        return ("impossible" if least == inf and "cannot be met" in error.message else "refused"), None
    total = total_us(problem, found.candidate)
    if violations(problem, found.candidate):
        return "violations", None
    if found.least_us > least + 1e-6:
        return "false bound", None
    return ("least" if total <= least + 1e-6 else "dearer"), total / least if least else 1.0


def make(shape: Shape, devices: int, launch_us: float) -> tuple[CostTable, Dag]:
    """Return costs for a shape: random times by kind and device, and a tensor for each operator that is read."""
    generator = np.random.default_rng(0)
    size = len(shape.kinds)
    by_kind = {kind: generator.lognormal(3, 1, devices) for kind in sorted(set(shape.kinds))}
    times = np.array([by_kind[kind] for kind in shape.kinds]) * generator.lognormal(0, 0.5, (size, devices))
    edges = np.unique(np.array(shape.edges, np.int64), axis=0)
    producers, number = np.unique(edges[:, 0]), np.full(size, -1, np.int64)
    number[producers] = np.arange(len(producers))
    sizes = generator.lognormal(2.3, 1, len(producers))
    apart = 1.0 - np.eye(devices)
    links = Links(apart, apart, np.full(devices, launch_us))
    return CostTable(times, producers, sizes, number[edges[:, 0]], edges[:, 1], links), shape.graph()


def problem_of(table: CostTable, graph: Dag) -> Problem:
    """Return the problem without limits and constants."""
    none = np.zeros(0, np.int64)
    contents = Contents(
        (none, none), np.zeros(0), table.sizes_bytes, table.producers, table.read, table.readers, none
    )
    return Problem(graph, table, contents, np.ones(len(graph)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each kind of constraints."""
    parser = argparse.ArgumentParser(prog="benchmarks.placement", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=200, help="random problems of each kind")
    parser.add_argument("--first", type=int, default=1_000_000, help="the number of the first problem")
    options = parser.parse_args(arguments)
    head = ("constraints", "the least", "mean", "worst", "impossible, and proven", "wrong")
    print("|", " | ".join(head), "|\n" + "|---" * len(head) + "|")
    kept = [near(options.cases, kind, options.first) for kind in KINDS]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
