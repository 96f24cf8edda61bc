"""Count the small mistakes that a room's own tests detect.

    python tools/mutants.py ROOM [--tests FOLDER...] [--count 200] [--seed 1]

A mutant is a copy of one module of `circletools/ROOM` (or `cli`) in which one comparison, arithmetic operator, small
constant, boolean operator or condition is changed. The tests of `tests/ROOM` that reach the changed line are run, the
fastest first, until one fails. Mutants that no test detects are printed, with the line before and after the change.

The first run for a room measures which test reaches which line (needs pytest-cov), and caches this in the folder for
temporary files until the room or its tests change. Some mutants are equivalent to the original, so no test can detect
them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.mutant_places import ROOT, Mutant, mutants_of

LEAST_SECONDS, TIMES_AS_LONG = 30.0, 4.0  # the time after which a mutant counts as never ending
CONTROLS, MOST_LEFT_OUT = 3, 3  # mutants whose tests first run without the mutation; tests that may then fail


HOOK = """
import importlib.abc, importlib.util, os, sys
class Mutated(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != os.environ["MUTANT_MODULE"]:
            return None
        place, source = os.environ["MUTANT_PATH"], os.environ["MUTANT_SOURCE"]
        class Loader(importlib.abc.InspectLoader):
            def get_source(self, fullname):
                with open(source, encoding="utf-8") as file:
                    return file.read()
            def get_filename(self, fullname):
                return place
            def is_package(self, fullname):
                return place.endswith("__init__.py")
            def exec_module(self, module):
                exec(compile(self.get_source(name), place, "exec"), module.__dict__)
        folder = [os.path.dirname(place)] if place.endswith("__init__.py") else None
        return importlib.util.spec_from_file_location(name, place, loader=Loader(), submodule_search_locations=folder)
if "MUTANT_MODULE" in os.environ:
    sys.meta_path.insert(0, Mutated())
"""


# A child process of a test counts as the test; it adds its own data file, which pytest-cov combines with the others.
MEASURED = """
import atexit, os
test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
if test:
    import coverage
    measured = coverage.Coverage(
        os.environ["COVERAGE_FILE"], data_suffix=True, source=[os.environ["MUTANTS_ROOM"]], context=test + "|child"
    )
    measured.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported", "module-not-measured"])
    measured.start()
    atexit.register(lambda: (measured.stop(), measured.save()))
"""


def reached(
    tests: list[str], database: Path, room: Path
) -> tuple[dict[tuple[str, int], list[str]], dict[str, float]]:
    """Return the tests that reach each line of a room, in the order to run them, and the seconds that each takes."""
    if not database.exists():
        # Only the lines of the room matter here.
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--cov={room}"]
        words += ["--cov-context=test", "--cov-report=", *tests, "--durations=0", "--durations-min=0", "-vv"]
        part = str(database) + ".part"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sitecustomize.py").write_text(MEASURED)
            environment = os.environ | {"COVERAGE_FILE": part, "MUTANTS_ROOM": str(room)}
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
            done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
        Path(f"{database}.times").write_text(done.stdout)
        os.rename(part, database)
    from coverage.numbits import numbits_to_nums  # noqa: PLC0415

    output = Path(f"{database}.times").read_text()
    seconds, failed = _seconds(output), {row.split()[1] for row in output.splitlines() if row.startswith("FAILED ")}
    found: dict[tuple[str, int], list[str]] = {}
    with contextlib.closing(sqlite3.connect(database)) as connection:
        query = (
            "select path, context, numbits from line_bits "
            "join file on file.id = file_id join context on context.id = context_id"
        )
        for path, context, bits in connection.execute(query):
            test = context.rpartition("|")[0]
            if test and test not in failed:
                for line in (0, *numbits_to_nums(bits)):  # 0 represents the file
                    found.setdefault((path, line), []).append(test)
    breadth = Counter(test for each in found.values() for test in each)
    for each in found.values():
        # Of tests with similar durations, those that reach few lines come first: they were written for these lines.
        each[:] = _in_turns(sorted(set(each), key=lambda test: (seconds.get(test, 0.0), breadth[test], test)))
    return found, seconds


def _in_turns(tests: list[str]) -> list[str]:
    """Order the tests so that many cases of one function do not crowd out those of another."""
    cases: Counter[str] = Counter()
    turns = []
    for test in tests:
        name = test.partition("[")[0]
        turns.append(cases[name])
        cases[name] += 1
    return [test for _, test in sorted(zip(turns, tests, strict=True), key=lambda pair: pair[0])]


def chosen_tests(mutant: Mutant, where: dict[tuple[str, int], list[str]]) -> list[str]:
    """Return the tests to run: those that reach the statement, or all that reach the file if it runs on import.

    The test that imports a module or first computes a cached result is arbitrary: the first that needs it.
    """
    path = str(mutant.path)
    lines = (0,) if mutant.on_import else mutant.lines
    return list(dict.fromkeys(test for line in lines for test in where.get((path, line), ())))


def _seconds(output: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in output.splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[1] in ("call", "setup") and words[0].endswith("s"):
            with contextlib.suppress(ValueError):
                found[words[2]] = found.get(words[2], 0.0) + float(words[0][:-1])
    return found


def noticed(mutant: Mutant, tests: list[str], folder: Path, seconds: dict[str, float]) -> str:
    """Run the tests on a mutant in a child process; return `killed`, `survived` or `timeout`.

    `seconds` holds the durations without a mutation. The result is `timeout` if a single test takes far longer.
    """
    source = mutant.path.read_bytes()
    changed = source[: mutant.start] + mutant.text.encode() + source[mutant.stop :]
    try:
        compile(changed, str(mutant.path), "exec")
    except SyntaxError:
        return "invalid"
    copy = folder / "mutant.py"
    copy.write_bytes(changed)
    parts = list(mutant.path.relative_to(ROOT).with_suffix("").parts)
    parts[0] = "circletool_cli" if parts[0] == "cli" else parts[0]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    begun = folder / "begun"
    begun.write_text("")
    child = os.fork()
    if child == 0:
        os.setsid()
        _run(name, mutant.path, copy, tests, folder)
    test, deadline = "", time.monotonic() + LEAST_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        if (following := begun.read_text()) != test:
            test, deadline = following, time.monotonic() + LEAST_SECONDS + TIMES_AS_LONG * seconds.get(following, 0.0)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def check_control(
    sample: list[Mutant], where: dict[tuple[str, int], list[str]], folder: Path, seconds: dict[str, float]
) -> None:
    """Omit and report tests that fail on an unchanged file, since their failures on mutants would prove nothing.

    Exits if more tests fail than a busy machine explains.
    """
    left_out = 0
    for mutant in sample[:CONTROLS]:
        while chosen := chosen_tests(mutant, where):
            if noticed(replace(mutant, text=mutant.was), chosen, folder, seconds) == "survived":
                break
            failed, left_out = (folder / "begun").read_text(), left_out + 1
            print(f"control: {failed or 'no test'} fails without a mutation", flush=True)
            if left_out > MOST_LEFT_OUT or failed not in chosen:
                sys.exit(f"control: the tests of {mutant.path.relative_to(ROOT)} fail without a mutation")
            for tests in where.values():
                tests[:] = [test for test in tests if test != failed]


class _Begun(NamedTuple):
    """A plugin that reports the running test."""

    path: Path

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.path.write_text(nodeid)


def _run(name: str, path: Path, copy: Path, tests: list[str], folder: Path) -> None:
    os.environ.update(MUTANT_MODULE=name, MUTANT_PATH=str(path), MUTANT_SOURCE=str(copy))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    status = 1
    try:
        exec(HOOK, {})  # noqa: S102
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest  # noqa: PLC0415

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist", "--no-header"]
        options += ["-W", "ignore:Module already imported"]
        options.append(f"--basetemp={folder / 'temporary'}")  # not cleared away by other runs
        status = int(pytest.main([*options, *tests], [_Begun(folder / "begun")]))
    finally:
        os._exit(status if status != 5 else 0)


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _digest(paths: list[Path], words: str) -> str:
    """Return a digest of files, which detects changes; a renamed test would not be found, and count as failed."""
    return hashlib.sha256(b"\0".join([words.encode(), *(path.read_bytes() for path in paths)])).hexdigest()[:12]


def main() -> None:
    """Sample the mutants of a room and count those that are detected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", help="a folder or module below circletools, or cli")
    parser.add_argument("--tests", nargs="*", help="tests/ROOM unless given")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    room = ROOT / ("cli" if given.room == "cli" else f"circletools/{given.room}")
    paths = _files(room) if room.is_dir() else [room.with_suffix(".py")]
    tests = given.tests or [f"tests/{given.room}"]
    key = _digest([*paths, *(path for test in tests for path in _files(ROOT / test))], repr((str(ROOT), tests)))
    database = Path(tempfile.gettempdir()) / f"mutants-{given.room.replace('/', '-')}-{key}.coverage"
    where, seconds = reached(tests, database, room if room.is_dir() else room.parent)
    every = [mutant for path in paths for mutant in mutants_of(path)]
    sample = Random(given.seed).sample(every, min(given.count, len(every)))  # noqa: S311
    os.chdir(ROOT)
    for module in ("pytest", "hypothesis", "numpy", "click", "flatbuffers", "flatbuffers.flexbuffers"):
        importlib.import_module(module)
    counts = dict.fromkeys(("killed", "timeout", "survived", "unreached", "invalid"), 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(HOOK)
        check_control(sample, where, folder, seconds)
        for mutant in sample:
            chosen = chosen_tests(mutant, where)
            result = noticed(mutant, chosen, folder, seconds) if chosen else "unreached"
            counts[result] += 1
            if result in ("survived", "unreached"):
                print(f"{result} in line {mutant.line}: {mutant.name}", flush=True)
    looked = sum(counts.values()) - counts["invalid"]
    share = (counts["killed"] + counts["timeout"]) / max(looked, 1)
    print(f"{given.room}: {share:.1%} of {looked} noticed; {counts}")


if __name__ == "__main__":
    main()
