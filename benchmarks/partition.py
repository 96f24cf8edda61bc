"""Measure how long it takes to partition large operator graphs, and how much memory.

    python -m benchmarks.partition [--more] [--architectures] [--runs 3] [--only TEXT] [--json FILE]

Every row is a process of its own, which makes the graph, partitions it `--runs` times and tells the median of the
processor's time and its own peak memory, the interpreter, numpy and the graph included. `--more` adds ways to share
out that are harder than what models are like, without targets, `--architectures` the graphs of `architectures` in
mode `min`, none of which may be refused. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import get_args

from benchmarks.architectures import ROWS
from benchmarks.graphs import ASSIGNMENTS, SHAPES, Shape, by_chance
from benchmarks.process import ROOT
from circletools.affinity.partition.partitions import Mode, make_partitions
from circletools.errors import EditError

MODES: tuple[Mode, ...] = ("safe", "min", "epochs")
_SECONDS = {("safe", 10_000): 0.5, ("safe", 100_000): 3.0, ("min", 100_000): 1.5, ("epochs", 100_000): 0.5}
_MEGABYTES = {("safe", 100_000): 600.0, ("min", 100_000): 250.0}


def _one_kind(shape: Shape, rank: int) -> list[int]:
    kinds = sorted(set(shape.kinds), key=shape.kinds.count)
    return [int(kind == kinds[rank % len(kinds)]) for kind in shape.kinds]


def _only(shape: Shape, *chosen: int) -> list[int]:
    return [int(operator in chosen) for operator in range(len(shape.kinds))]


MORE: dict[str, Callable[[Shape], list[int]]] = {
    "50 % by chance": lambda shape: by_chance(shape, 0.5),
    "1 % by chance": lambda shape: by_chance(shape, 0.01),
    "the rarest kind": lambda shape: _one_kind(shape, 0),
    "the next": lambda shape: _one_kind(shape, 1),
    "the third": lambda shape: _one_kind(shape, 2),
    "the commonest": lambda shape: _one_kind(shape, -1),
    "every second": lambda shape: [operator % 2 for operator in range(len(shape.kinds))],
    "three by chance": lambda shape: [
        a + b for a, b in zip(by_chance(shape, 0.2), by_chance(shape, 0.2, 1), strict=True)
    ],
    "first and last": lambda shape: [
        int(operator in (1, len(shape.kinds) - 2)) for operator in range(len(shape.kinds))
    ],
    "the middle one": lambda shape: _only(shape, len(shape.kinds) // 2),
}


@dataclass(frozen=True)
class Row:
    """One graph, shared out and partitioned: medians of seconds of the processor, and the peak in MB.

    No subgraphs: it was refused.
    """

    shape: str
    operators: int
    affinity: str
    mode: Mode
    subgraphs: int
    seconds: float
    megabytes: float

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Return what is promised, in seconds and MB."""
        if self.affinity not in ASSIGNMENTS:
            return None, None
        size = self.mode, 10_000 if self.operators < 50_000 else 100_000
        return _SECONDS.get(size), _MEGABYTES.get(size)

    @property
    def met(self) -> bool | None:
        """Say whether that is kept, None where nothing is promised."""
        pairs = list(zip((self.seconds, self.megabytes), self.limits, strict=True))
        known = [value <= limit for value, limit in pairs if limit is not None]
        if self.affinity == "kinds":
            known.append(self.subgraphs > 0)
        return all(known) if known else None

    def cells(self) -> list[str]:
        """Return the row as text."""
        seconds, megabytes = self.limits
        target = "" if seconds is None else f"<= {seconds:g} s"
        target += "" if megabytes is None else f", <= {megabytes:g} MB"
        verdict = {None: "", True: "yes", False: "NO"}[self.met]
        numbers = [str(self.subgraphs or "refused"), f"{self.seconds:.2f}", f"{self.megabytes:.0f}"]
        return [self.shape, str(self.operators), self.affinity, self.mode, *numbers, target, verdict]


HEAD = ("shape", "operators", "affinity", "mode", "subgraphs", "seconds", "MB", "target", "met?")


def measure(shape: str, count: int, affinity: str, mode: Mode, runs: int) -> Row:
    """Measure in this process."""
    row = next((row for row in ROWS if row.name == shape), None)
    made = row.make() if row else SHAPES[shape](count)
    graph, devices = made.graph(), row.devices(made) if row else (ASSIGNMENTS | MORE)[affinity](made)
    operators = len(graph)
    del made
    seconds = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        try:
            parts = len(make_partitions(graph, devices, mode))
        except EditError:  # too entangled
            parts = 0
        seconds.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return Row(shape, operators, affinity, mode, parts, statistics.median(seconds), peak)


def measure_apart(words: Sequence[str]) -> Row:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.partition", "--one", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each measurement as it comes."""
    parser = argparse.ArgumentParser(prog="benchmarks.partition", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--more", action="store_true", help="also share out in harder ways")
    parser.add_argument("--architectures", action="store_true", help="also whole architectures, in mode min")
    parser.add_argument("--runs", type=int, default=3, help="runs in each process, of which the median counts")
    parser.add_argument("--only", default="", help="only rows that contain this, such as `unet 100000` or `min`")
    parser.add_argument("--json", type=Path, help="write all rows to this file too")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        shape, count, affinity, mode = options.one
        chosen = next(known for known in get_args(Mode) if known == mode)
        print(json.dumps(asdict(measure(shape, int(count), affinity, chosen, options.runs))))
        return 0
    affinities = ASSIGNMENTS | MORE if options.more else ASSIGNMENTS
    print("|", " | ".join(HEAD), "|\n" + "|---" * len(HEAD) + "|")
    wanted: list[tuple[str, ...]] = list(product(SHAPES, affinities, MODES))
    chosen = [(shape, count, *rest) for count in ("10000", "100000") for shape, *rest in wanted]
    if options.architectures:
        chosen += [(row.name, "0", "kinds", "min") for row in ROWS]
    rows = []
    for words in chosen:
        if options.only in " ".join(words):
            rows.append(measure_apart((*words, "--runs", str(options.runs))))
            print("|", " | ".join(rows[-1].cells()), "|", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
