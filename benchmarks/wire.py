"""Measure the command, its peers and `cp` in one run, and print the tables.

`python -m benchmarks.wire [MODEL...] [--cache DIR] [--runs 5] [--skip-peers] [--big-bytes N] [--json FILE]`
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import models, report, sizes
from benchmarks.evidence import missing_metadata
from benchmarks.process import ROOT, Run, run
from benchmarks.tasks import (
    COPY,
    HELLO,
    OURS,
    Contestant,
    Programs,
    Task,
    big_tasks,
    contestants_in_turn,
    operator_tasks,
    start_task,
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.wire", description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("models", nargs="*", type=Path, metavar="MODEL", help="more models to compact, besides testdata/")
    add("--cache", type=Path, default=Path(tempfile.gettempdir()) / "circletools-benchmarks")
    add("--runs", type=int, default=5, help="runs of everybody, of which the median counts")
    add("--peer-runs", type=int, default=None, help="runs of the slow peers, if not as many")
    add("--skip-peers", action="store_true", help="measure the command and cp only")
    add("--big-bytes", type=int, default=1 << 30, help="weights of the big model")
    add("--operators", type=int, default=100_000, help="operators of the other model")
    add("--only", default="", help="only tasks whose title contains this; `compact` for the sizes")
    add("--circletool", default="", help="the command to measure, if not beside this interpreter")
    add("--peer-python", action="append", default=[], help="an interpreter to look for more peers in")
    add("--timeout", type=float, default=300.0, help="seconds after which a run is given up")
    add("--json", type=Path, help="write everything measured to this file too")
    return parser.parse_args(arguments)


def find_programs(options: argparse.Namespace) -> Programs:
    """Find the command, and for each peer the first interpreter that has it."""
    if options.circletool and shutil.which(options.circletool) is None:
        sys.exit(f"no such command: {options.circletool}")
    beside = Path(sys.executable).with_name("circletool")
    command = options.circletool or (str(beside) if beside.exists() else shutil.which("circletool")) or ""
    found: dict[str, str] = {}
    for python in (sys.executable, *options.peer_python):
        listing = subprocess.run(
            [python, "-m", "benchmarks.peers", "available"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listing.stdout.split():
            found.setdefault(name, python)
    return Programs(sys.executable, command, found, not options.skip_peers)


def all_tasks(programs: Programs, options: argparse.Namespace) -> list[Task]:
    """Make the models and return what is measured on them."""
    if options.only == "compact":
        return []
    tasks = [start_task(programs)]
    for circle in (False, True):
        small = models.cached_operators(options.cache, options.operators, circle=circle)
        tasks += operator_tasks(programs, small, options.cache, options.operators)
    for circle in (False, True):
        large = models.cached_big(options.cache, options.big_bytes, circle=circle)
        tasks += big_tasks(programs, large, options.cache)
    return [task for task in tasks if options.only in task.title]


def measure(task: Task, options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Run everybody in turns, so that a slow moment of the machine falls on all of them."""
    if task.prepare is not None:
        task.prepare()
    _warm(task)
    for number in range(options.runs):
        for contestant in contestants_in_turn(task.contestants, number):
            peer = contestant.name not in {OURS, COPY, HELLO}
            limited = peer and options.peer_runs is not None and number >= options.peer_runs
            if contestant.command and not limited and not task.failure(contestant.name):
                result = _one(task, contestant, options.timeout)
                task.runs.setdefault(contestant.name, []).append(result)
                say(f"{task.title} | {contestant.name} | {result.seconds:.3f} s {result.failure}")
    for path in (task.output, task.prepared):
        if path is not None:
            path.unlink(missing_ok=True)


def _warm(task: Task) -> None:
    """Read every file that a command names once: the page cache is warm for the first run too."""
    for path in {Path(word) for contestant in task.contestants for word in contestant.command[1:]}:
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass


def _one(task: Task, contestant: Contestant, timeout: float) -> Run:
    """Run one contestant, and see that it has done something."""
    if task.output is not None:
        task.output.unlink(missing_ok=True)
        # What the one before has left to write would be paid by this one.
        os.sync()
    result = run(contestant.command, timeout)
    # The copy is the limit of speed, not a contestant at the job itself.
    if not result.failure and task.output and task.source and contestant.name != COPY:
        result = replace(result, failure=missing_metadata(task.source, task.output))
    if not result.failure and result.lines < contestant.least_lines:
        return replace(result, failure=f"printed {result.lines} lines, not {contestant.least_lines}")
    return result


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a target is missed."""
    options = parse(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    programs = find_programs(options)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    tasks = all_tasks(programs, options)
    for task in tasks:
        measure(task, options, say)
    compacted: list[sizes.Size] = []
    if options.only in {"", "compact"}:
        chosen = [*sizes.models_below(ROOT / "testdata"), *options.models]
        for size in sizes.compare(programs, chosen, options.cache, options.timeout):
            compacted.append(size)
            say(" | ".join(report.size_cells(size)))
    if tasks:
        print(report.table(report.TIME_COLUMNS, [row.cells() for task in tasks for row in report.rows(task)]))
    if compacted:
        print(f"\n{report.table(report.SIZE_COLUMNS, map(report.size_cells, compacted))}")
        print(f"\n{report.size_total(compacted)}")
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(tasks, compacted, machine()), indent=1) + "\n")
    missed = [task.title for task in tasks if not task.met()]
    missed += [f"compact, {size.model.name}: {size.ours_failure}" for size in compacted if size.ours_failure]
    print(
        f"\n{sum(task.met() for task in tasks)} of {len(tasks)} targets met."
        + "".join(f"\nmissed: {t}" for t in missed)
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
