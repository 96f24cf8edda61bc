"""Measure how near to the least cost the chosen devices come, and how long choosing takes.

    python -m benchmarks.costs [--cases 1000] [--operators 100000] [--only TEXT]

First small random graphs, where every assignment can be tried. Then shapes of networks, each in a process of its own:
seconds of the processor and peak memory, interpreter and graph included. The exit code is 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.graphs import SHAPES, Shape
from benchmarks.process import ROOT
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.parallel import bounds, confined, heft, quickest
from circletools.affinity.costs.problem import Links, Problem
from circletools.affinity.costs.search import least_time
from circletools.affinity.partition.partitions import make_partitions
from circletools.graph.dag import Dag
from tests.kit.costs_support import Case, random_case

_SECONDS = 5.0
_MEAN = 1.02
_SMALL = {2: 8, 3: 6, 4: 5}


def near(cases: int, devices: int, *, launch: bool) -> bool:
    """Compare with trying everything, and say whether the promise is kept."""
    ratios, preferred = [], []
    for seed in range(cases):
        case = random_case(seed, _SMALL[devices] - launch, devices, launch=launch)
        costs = {each: _cost(case, each, launch) for each in case.every()}
        least = min(costs.values())
        if not least:
            continue
        ratios.append(_cost(case, tuple(least_time(*case.problem()).tolist()), launch) / least)
        # What a priority list does: the first device that can run it.
        preferred.append(_cost(case, next(case.every()), launch) / least)
    exact = sum(ratio < 1 + 1e-6 for ratio in ratios)
    kept = exact == len(ratios) if devices == 2 and not launch else float(np.mean(ratios)) <= _MEAN
    print(
        f"| {devices} | {'yes' if launch else 'no'} | {exact} of {len(ratios)} | {np.mean(ratios):.4f} | "
        f"{max(ratios):.3f} | {np.mean(preferred):.2f} | {'yes' if kept else 'NO'} |",
        flush=True,
    )
    return kept


def _cost(case: Case, devices: tuple[int, ...], launch: bool) -> float:
    return case.cost(devices) + (case.launches(devices) if launch else 0.0)


def together(cases: int) -> bool:
    """Compare HEFT with its bounds and with the sequential best."""
    to_bound, to_sequential, kept = [], [], True
    for seed in range(cases):
        case = random_case(seed, 12, 2 + seed % 2)
        problem, graph = case.problem()
        sequential = case.cost(least_time(problem, graph).tolist())
        makespan = heft(confined(problem, quickest(problem, graph)), graph).makespan_us
        least = bounds(problem, graph).least_us
        kept = kept and least - 1e-6 <= makespan <= sequential + 1e-6
        if least:
            to_bound.append(makespan / least)
            to_sequential.append(makespan / sequential)
    print(
        f"\nHEFT, {cases} cases: {np.mean(to_bound):.3f} of the bound, {np.mean(to_sequential):.3f} of the sequential"
    )
    return kept


def make(shape: Shape, devices: int, launch_us: float) -> tuple[Problem, Dag]:
    """Return costs for a shape: a time by kind and device, spread; a tensor for each operator that is read."""
    generator = np.random.default_rng(0)
    count = len(shape.kinds)
    by_kind = {kind: generator.lognormal(3, 1, devices) for kind in sorted(set(shape.kinds))}
    times = np.array([by_kind[kind] for kind in shape.kinds]) * generator.lognormal(0, 0.5, (count, devices))
    edges = np.unique(np.array(shape.edges, np.int64), axis=0)
    producers, number = np.unique(edges[:, 0]), np.full(count, -1, np.int64)
    number[producers] = np.arange(len(producers))
    sizes = generator.lognormal(2.3, 1, len(producers))
    apart = 1.0 - np.eye(devices)
    links = Links(apart, apart, np.full(devices, launch_us))
    return Problem(times, producers, sizes, number[edges[:, 0]], edges[:, 1], links), shape.graph()


GOALS: dict[str, tuple[int, float, Callable[[Problem, Dag], object]]] = {
    "2 devices": (2, 0.0, least_time),
    "2 devices, launches": (2, 20.0, least_time),
    "3 devices": (3, 0.0, least_time),
    "3 devices, launches": (3, 20.0, least_time),
    "2 devices, parallel": (2, 0.0, quickest),
}


def measure(shape: str, count: int, goal: str) -> list[float]:
    """Return seconds, megabytes, and the totals of what is chosen and of each operator's quickest device."""
    devices, launch_us, choose = GOALS[goal]
    problem, graph = make(SHAPES[shape](count), devices, launch_us)
    started = time.process_time()
    chosen = np.asarray(choose(problem, graph), np.int64)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    totals = []
    for each in (chosen, problem.times_us.argmin(axis=1)):
        launched = [part.device for part in make_partitions(graph, each.tolist())] if launch_us else []
        totals.append(evaluate(problem, each, launched).total_us)
    return [seconds, peak, *totals]


def large(count: int, only: str) -> bool:
    """Measure the shapes, and say whether two devices take no longer than promised."""
    print(
        "\n| shape | goal | seconds | MB | total, of that of each operator's quickest device | met? |\n"
        + "|---" * 6
        + "|"
    )
    met = True
    for shape in SHAPES:
        for goal in GOALS:
            if only not in f"{shape} {goal}":
                continue
            command = [sys.executable, "-m", "benchmarks.costs", "--one", shape, str(count), goal]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            seconds, megabytes, chosen, quick = json.loads(done.stdout)
            promised = goal.startswith("2")
            kept = not promised or seconds <= _SECONDS
            met = met and kept
            verdict = ("yes" if kept else "NO") if promised else ""
            print(
                f"| {shape} | {goal} | {seconds:.2f} | {megabytes:.0f} | {chosen / quick:.3f} | {verdict} |",
                flush=True,
            )
    return met


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.costs", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=1000, help="random graphs of each kind")
    parser.add_argument("--operators", type=int, default=100_000, help="operators of each shape")
    parser.add_argument("--only", default="", help="only rows of `large` that contain this")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        shape, count, goal = options.one
        print(json.dumps(measure(shape, int(count), goal)))
        return 0
    head = ("devices", "launches", "the least", "mean", "worst", "priority list, mean", "met?")
    print("|", " | ".join(head), "|\n" + "|---" * len(head) + "|")
    kept = [near(options.cases, devices, launch=launch) for launch in (False, True) for devices in (2, 3)]
    kept += [near(options.cases, 4, launch=False), together(options.cases), large(options.operators, options.only)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
