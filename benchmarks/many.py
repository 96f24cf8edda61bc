"""Measure what `check` of many small models costs: in one process, in several, and in a process for each.

    python -m benchmarks.many [--count 1000] [--rounds 3] [--only REGEX]

The models are copies of those in `testdata/` that are smaller than 64 KiB. Every way prints the same lines, which is
checked. Times are the least of the rounds: of the clock, and of the processors, all processes of a way together.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from benchmarks.process import ROOT

TOOL = str(Path(sys.executable).with_name("circletool"))


def ways(folder: Path) -> dict[str, list[str]]:
    """Return the commands to compare."""
    names = str(folder / "names")
    return {
        "--jobs 1": [TOOL, "check", str(folder / "models")],
        "--jobs 1 --log": [TOOL, "check", str(folder / "models"), "--log", str(folder / "log")],
        "--jobs 2": [TOOL, "check", str(folder / "models"), "--jobs", "2"],
        "xargs -n 100 -P 2": ["xargs", "-0", "-a", names, "-n", "100", "-P", "2", TOOL, "check"],
        "xargs -n 1 -P 2": ["xargs", "-0", "-a", names, "-n", "1", "-P", "2", TOOL, "check"],
    }


def copy_models(folder: Path, count: int) -> None:
    """Make `count` models, and a file with their names."""
    small = sorted(path for path in (ROOT / "testdata").rglob("*.[tc]*l*e") if path.stat().st_size < 1 << 16)
    models = [path for path in small if path.suffix in (".tflite", ".circle")]
    (folder / "models").mkdir()
    copies = [
        shutil.copy(path, folder / "models" / f"{number:05}{path.suffix}")
        for number, path in enumerate(islice(cycle(models), count))
    ]
    (folder / "names").write_bytes(b"\0".join(os.fsencode(path) for path in copies))


def measure(command: list[str], output: Path) -> tuple[float, float]:
    """Run a command; return its seconds by the clock and by the processors."""
    started = time.perf_counter()
    actions = [
        (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    _, _, used = os.wait4(process, 0)
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def main() -> None:
    """Measure all ways in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_models(folder, given.count)
        chosen = {title: command for title, command in ways(folder).items() if re.search(given.only, title)}
        best = dict.fromkeys(chosen, (float("inf"), float("inf")))
        said = set()
        for _ in range(given.rounds):
            for title, command in chosen.items():
                (folder / "log").unlink(missing_ok=True)
                wall, cpu = measure(command, folder / "out")
                best[title] = min(best[title][0], wall), min(best[title][1], cpu)
                said.add(b"".join(sorted((folder / "out").read_bytes().splitlines(keepends=True))))
    if len(said) > 1:
        sys.exit("the ways do not print the same")
    print("| way | seconds | CPU seconds | CPU ms per model |\n|---|---:|---:|---:|")
    for title, (wall, cpu) in best.items():
        print(f"| `{title}` | {wall:.2f} | {cpu:.2f} | {1000 * cpu / given.count:.1f} |")


if __name__ == "__main__":
    main()
