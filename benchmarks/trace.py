"""Measures trace-stats: lines per second of CPU time, memory, and how both grow.

    python -m benchmarks.trace [--lines 1000000] [--rounds 3] [--json result.json]

The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.process import run
from benchmarks.traces import encoded, workload

LINES_PER_SECOND = 600_000
MEMORY_MB = 50
MANY = 5000
LINEAR = 0.9
"""What a quarter of the lines must cost per line, at least, as a part of what all cost: the start costs extra."""

_TIMEOUT = 600


@dataclass(frozen=True)
class Case:
    """A trace; `limit` is what its time per line may be, as a multiple of that of the first case."""

    name: str
    ending: str
    share: float = 1.0
    per_run: int = 40
    limit: float | None = None


CASES = (
    Case("text", "ftrace"),
    Case("text, a quarter of the lines", "ftrace", 0.25),
    Case(f"text, runs of {MANY:,} executions", "ftrace", per_run=MANY, limit=1.25),
    Case("systrace HTML", "html", limit=1.25),
    Case("gzip", "ftrace.gz", limit=3),
    Case("atrace -z", "ctrace", limit=3),
    Case("Perfetto", "pftrace", limit=3),
    Case("Perfetto, compressed packets", "z.pftrace", limit=3),
)


@dataclass
class Row:
    """What a case cost: the least CPU time of all rounds, and the greatest private memory."""

    name: str
    lines: int
    megabytes: float
    cpu_seconds: float
    lines_per_second: int
    private_mb: float
    ratio: float = 1.0
    met: bool = True


def measure(case: Case, lines: int, rounds: int, folder: Path) -> Row:
    """Make the trace of a case, and read it."""
    events = list(workload(int(lines * case.share), per_run=case.per_run))
    trace = folder / f"trace.{case.ending}"
    trace.write_bytes(encoded(events, case.ending))
    count = len(events)
    del events
    command = [str(Path(sys.executable).with_name("circletool")), "trace-stats", str(trace), "--by", "function"]
    least, most = float("inf"), 0
    for _ in range(rounds):
        before = _cpu_seconds()
        done = run(command, _TIMEOUT)
        if done.failure:
            raise SystemExit(f"{case.name}: {done.failure}")
        least, most = min(least, _cpu_seconds() - before), max(most, done.peak_kb)
    size = trace.stat().st_size
    trace.unlink()
    return Row(case.name, count, size / 1e6, least, round(count / least), most / 1024)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description="Measure trace-stats.")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    args = parser.parse_args()
    rows: list[Row] = []
    print("| trace | lines | MB | CPU s | lines per s | private MB | time per line | met? |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            row = measure(case, args.lines, args.rounds, Path(folder))
            first = rows[0] if rows else row
            row.ratio = first.lines_per_second / row.lines_per_second
            if case.share < 1:
                row.met = row.ratio >= LINEAR
            elif case.limit is None:
                row.met = row.lines_per_second >= LINES_PER_SECOND and row.private_mb <= MEMORY_MB
            else:
                row.met = row.ratio <= case.limit
            rows.append(row)
            cost = f"{row.cpu_seconds:.2f} | {row.lines_per_second:,} | {row.private_mb:.0f} | {row.ratio:.2f}"
            met = "yes" if row.met else "NO"
            print(f"| {row.name} | {row.lines:,} | {row.megabytes:.1f} | {cost} | {met} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    sys.exit(not all(row.met for row in rows))


if __name__ == "__main__":
    main()
