"""Run the benchmarks, and report missed targets.

    python -m benchmarks [--only GROUP]... [--rounds 3] [--against CHECKOUT]

The commands of a group take turns; the result is the minimum processor time over the rounds, and the maximum private
memory. With `--against`, each command is also run, in the same turns, in the environment of another checkout
(CHECKOUT/.venv), and must take less than 1.1 times the time there. The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.process import Run, run
from benchmarks.suite import GROUPS, OURS, Group, Target

SLOWER = 1.1
Row = tuple[str, str, str, bool]
"""The command, the target, the measurement, and whether the target was met."""


def measure(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Run]:
    """Run commands in turns; return the minimum time and maximum memory of each, or its failure."""
    best: dict[str, Run] = {}
    names = list(commands)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            old, new = best.get(name), run(commands[name])
            if old is None or new.failure:
                best[name] = new
            elif not old.failure:
                best[name] = Run(min(old.cpu, new.cpu), max(old.peak_kb, new.peak_kb))
    return best


def judge(target: Target, runs: Mapping[str, Run]) -> Row:
    """Compare measurements with a target."""
    bases = target.base.split(" + ") if target.base else []
    failed = next((runs[name] for name in (target.command, *bases) if runs[name].failure), None)
    if failed is not None:
        return target.command, target.words, failed.failure, False
    mine = runs[target.command]
    if target.kind == "mb":
        return target.command, target.words, f"{mine.peak_mb:.0f} MB", mine.peak_mb <= target.limit
    if target.kind == "rate":
        rate = target.units / mine.cpu
        return target.command, target.words, f"{rate:,.0f} ({mine.cpu:.2f} s)", rate >= target.limit
    ratio = mine.cpu / sum(runs[name].cpu for name in bases)
    return target.command, target.words, f"{ratio:.2f} x ({mine.cpu:.2f} s)", ratio <= target.limit


def rows_of(group: Group, rounds: int, against: Path | None) -> list[Row]:
    """Measure a group; return a row for each target, and for each command that another checkout also ran."""
    ours = {name: command for name, command in group.commands.items() if command[0] == OURS}
    tool = str(Path(sys.executable).with_name(OURS))
    commands = dict(group.commands) | {name: [tool, *command[1:]] for name, command in ours.items()}
    other = "" if against is None else str(against / ".venv" / "bin" / OURS)
    there = {f"{name} there": [other, *command[1:]] for name, command in ours.items()} if other else {}
    runs = measure(commands | there, rounds)
    rows = [judge(target, runs) for target in group.targets]
    return rows + [judge(Target(name, "cpu", SLOWER, f"{name} there"), runs) for name in ours if there]


def main() -> None:
    """Measure all groups, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*GROUPS], help="a group; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout with a .venv")
    args = parser.parse_args()
    rows: list[Row] = []
    print("| command | target | measured | met? |\n|---|---|---|---|", flush=True)
    for name in args.only or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            for row in rows_of(GROUPS[name](Path(folder)), args.rounds, args.against):
                rows.append(row)
                command, target, measured, met = row
                print(f"| {command} | {target} | {measured} | {'yes' if met else 'NO'} |", flush=True)
    missed = [f"{command}: {measured}, {target}" for command, target, measured, met in rows if not met]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} targets met", *missed, sep="\nmissed: ")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
