"""Measures fit: what a verdict on a large model costs, where little is refused and where all is.

    python -m benchmarks.fit [--rounds 5] [--operators 100000]

Every fourth operator is a MUL, and the model has origins. Counted is the processor's time of the whole command, the
least of all rounds. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.models import many_operators

SECONDS = 1.0
CASES = (
    ("all taken", "litert-cpu", True),
    ("all taken, three targets", "litert-cpu,onert-cpu,xnnpack", False),
    ("MUL refused", "half.json", False),
    ("all refused", "none.json", False),
)


def tables(folder: Path) -> None:
    """Write the tables that no device has."""
    taken = '"ADD": [{}], "CONV_2D": [{}]'
    (folder / "half.json").write_text(f'{{"operators": {{{taken}}}}}')
    (folder / "none.json").write_text('{"operators": {}}')


def seconds(command: list[str], folder: Path) -> float:
    """Run a command; return the processor's time."""
    before = _cpu_seconds()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    return _cpu_seconds() - before


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description="Measure fit.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operators", type=int, default=100_000)
    args = parser.parse_args()
    tool = str(Path(sys.executable).with_name("circletool"))
    missed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables(folder)
        many_operators(folder / "plain.tflite", args.operators)
        seconds([tool, "embed-origins", "plain.tflite", "model.tflite"], folder)
        print("| case | CPU s | met? |\n|---|---:|---|")
        for title, targets, has_target in CASES:
            command = [tool, "fit", "model.tflite", "--on", targets]
            least = min(seconds(command, folder) for _ in range(args.rounds))
            met = ("yes" if least <= SECONDS else "NO") if has_target else ""
            missed |= met == "NO"
            print(f"| {title} | {least:.2f} | {met} |", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
