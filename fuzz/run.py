"""Search for inputs that a target handles wrongly: `python -m fuzz.run --seconds 600 [--target look]`.

Each target runs in a separate process, under libFuzzer (atheris), for an equal share of the time, guided by the
coverage of `circletools`. Failures are printed, and the smallest input for each kind of error is saved:

    WORK/findings/TARGET-NUMBER      the input
    WORK/corpus/TARGET/              inputs that reached new code, from which the next run continues

Needs the extra `fuzz`. The exit status is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from fuzz.limits import TooSlow, limited

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
LONGEST_SECONDS = 10.0  # processor time for one input
MOST_MEMORY = 3 << 30  # address space of the process
_LONGEST_INPUT = 1 << 16
_OWN_MUTATIONS = 0.6  # the share of this package's mutators; libFuzzer's own make the other mutations
_STATISTICS = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)


class Findings:
    """The errors of a target, by kind, each with its smallest input."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder, self.target = folder, target
        self.known: dict[str, int] = {}

    def add(self, data: bytes, error: BaseException) -> None:
        """Record an input that led to an error."""
        frames = [
            f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).is_relative_to(ROOT)
        ]
        kind = f"{type(error).__name__} {' < '.join(reversed(frames[-3:]))}"
        if len(data) >= self.known.get(kind, len(data) + 1):
            return
        path = self.folder / f"{self.target}-{crc32(kind.encode()):08x}"
        path.write_bytes(data)
        if kind not in self.known:
            print(f"FOUND {path}: {kind}: {error}"[:600], flush=True)
        self.known[kind] = len(data)


def fuzz_one(name: str, seconds: float, work: Path) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415 - the extra

    with atheris.instrument_imports(include=["circletools"]):
        from fuzz.targets import TARGETS  # noqa: PLC0415
    target = TARGETS[name]
    corpus, seeds = work / "corpus" / name, work / "seeds" / name
    for folder in (corpus, seeds, work / "findings"):
        folder.mkdir(parents=True, exist_ok=True)
    inputs = target.seeds()
    for number, data in enumerate(inputs):
        (seeds / str(number)).write_bytes(data)
    findings = Findings(work / "findings", name)

    def run(data: bytes) -> None:
        try:
            with limited(LONGEST_SECONDS):
                target.outcome(data)
        except (Exception, TooSlow) as error:
            findings.add(data, error)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() > _OWN_MUTATIONS:
            return bytes(atheris.Mutate(data, longest))
        return target.mutate(data, random, random.choice(inputs))[:longest]

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    options: dict[str, Any] = {
        "max_total_time": int(seconds),
        "max_len": _LONGEST_INPUT,
        "timeout": int(10 * LONGEST_SECONDS),
        "rss_limit_mb": 2048,
        "artifact_prefix": f"{work}/findings/{name}-",
    }
    arguments = [*(f"-{option}={value}" for option, value in options.items()), str(corpus), str(seeds)]
    given = CORPUS / name
    atheris.Setup([sys.argv[0], *arguments, *([str(given)] if given.is_dir() else [])], run, custom_mutator=mutate)
    atheris.Fuzz()


def fuzz_all(names: list[str], seconds: float, work: Path) -> int:
    """Fuzz targets one after another; print the coverage, and return the exit status."""
    total, found = 0, 0
    for name in names:
        command = [sys.executable, "-m", "fuzz.run", "--child", name, "--seconds", str(seconds / len(names))]
        done = subprocess.run(
            [*command, "--work", str(work)], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
        )
        kinds = re.findall(r"^FOUND (.*)$", done.stdout, re.MULTILINE)
        if done.returncode:  # libFuzzer stopped it: out of time or memory
            kinds.append(f"{name}: exit status {done.returncode}: {done.stderr.strip()[-800:]}")
        last = list(_STATISTICS.finditer(done.stderr))[-1:]
        executions, edges, features, inputs = map(int, last[0].groups()) if last else (0, 0, 0, 0)
        rate = executions * len(names) / seconds
        print(f"{name:18} {executions:9} executions {rate:7.1f}/s {edges:6} edges {features:6} features", end=" ")
        print(f"{inputs:5} inputs {len(kinds):3} findings", flush=True)
        for kind in kinds:
            print(f"  {kind}", flush=True)
        total, found = total + executions, found + len(kinds)
    print(f"{len(names)} targets: {total} executions, {found} findings")
    return 1 if found else 0


def main() -> int:
    """Run the command line."""
    from fuzz.targets import TARGETS  # noqa: PLC0415 - after the child has instrumented what they import

    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="for all targets together")
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be given again; all unless given")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="where inputs and findings go")
    given = parser.parse_args()
    try:
        import atheris  # type: ignore[import-not-found, unused-ignore] # noqa: F401, PLC0415
    except ImportError:
        print("fuzzing needs atheris: pip install -e '.[fuzz]'", file=sys.stderr)
        return 2
    return fuzz_all(given.target or list(TARGETS), given.seconds, given.work)


if __name__ == "__main__":
    if "--child" in sys.argv:
        child = argparse.ArgumentParser()
        child.add_argument("--child")
        child.add_argument("--seconds", type=float)
        child.add_argument("--work", type=Path)
        wanted = child.parse_args()
        fuzz_one(wanted.child, wanted.seconds, wanted.work)
    else:
        sys.exit(main())
