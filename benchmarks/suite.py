"""The benchmarks: commands by name, and their targets.

Times are compared within one run, with a peer, `cp`, another command of ours or another checkout, since times from
two machines, or from different hours on a busy one, are hardly comparable.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

from benchmarks.models import big, many_operators
from benchmarks.process import ROOT
from benchmarks.traces import encoded, workload

OURS = "circletool"
"""The first word of our commands, which are also run in another checkout."""

OPERATORS, WEIGHT_BYTES, LINES, FILES = 100_000, 256 << 20, 1_000_000, 200
_PYTHON = sys.executable


@dataclass(frozen=True)
class Target:
    """A target of a command: `cpu` is its time relative to `base`, `mb` its memory, `rate` the units per second."""

    command: str
    kind: Literal["cpu", "mb", "rate"]
    limit: float
    base: str = ""
    units: int = 1

    @property
    def words(self) -> str:
        """The target in words."""
        if self.kind == "cpu":
            return f"at most {self.limit:g} x {self.base}"
        return f"at most {self.limit:g} MB" if self.kind == "mb" else f"at least {self.limit:,.0f} a CPU second"


@dataclass
class Group:
    """Commands that take turns, and their targets."""

    commands: dict[str, list[str]] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)


def start(_: Path) -> Group:
    """The cost of starting the program."""
    commands = {"click": [_PYTHON, str(ROOT / "benchmarks/hello.py"), "--help"], "help": [OURS, "--help"]}
    return Group(commands, [Target("help", "cpu", 2.5, "click")])


def operators(folder: Path) -> Group:
    """A model with many operators."""
    model, embedded, annotated = (str(folder / name) for name in ("many.tflite", "origins.tflite", "affinity.tflite"))
    many_operators(Path(model), OPERATORS)
    where = ["--devices", "npu,cpu", "--set", "op:CONV_2D=npu", "--default", "cpu"]
    commands = {
        "inspect": [OURS, "inspect", model],
        "peer": [_PYTHON, str(ROOT / "benchmarks/peer.py"), model],
        "check --structure-only": [OURS, "check", "--structure-only", model],
        "check": [OURS, "check", model],
        "embed-origins": [OURS, "embed-origins", model, embedded],
        "dump-origins": [OURS, "dump-origins", embedded, "--format", "csv"],
        "annotate-affinity": [OURS, "annotate-affinity", model, annotated, *where],
        "fit": [OURS, "fit", model, "--on", "xnnpack"],
    }
    limits = {"check --structure-only": 1.2, "check": 6, "embed-origins": 2.2, "dump-origins": 6}
    limits |= {"annotate-affinity": 8, "fit": 6}
    targets = [Target(name, "cpu", limit, "inspect") for name, limit in limits.items()]
    return Group(commands, [Target("inspect", "cpu", 0.5, "peer"), *targets, Target("embed-origins", "mb", 180)])


def weights(folder: Path) -> Group:
    """A model with many bytes, which edits copy without keeping any in memory."""
    model = folder / "big.tflite"
    big(model, WEIGHT_BYTES)
    commands = {
        "cp": ["cp", str(model), str(folder / "copy.tflite")],
        "help (again)": [OURS, "--help"],
        "embed-origins of weights": [OURS, "embed-origins", str(model), str(folder / "out.tflite")],
        "compact of weights": [OURS, "compact", str(model), str(folder / "compact.tflite")],
    }
    return Group(
        commands,
        [
            Target("embed-origins of weights", "cpu", 5, "cp + help (again)"),
            Target("embed-origins of weights", "mb", 80),
            Target("compact of weights", "mb", 80),
        ],
    )


def traces(folder: Path) -> Group:
    """A long trace, in each encoding."""
    commands, targets = {}, []
    for name, ending, per_run, limit in (
        ("text", "ftrace", 40, 0.0),
        ("runs of 5,000", "ftrace", 5000, 1.25),
        ("HTML", "html", 40, 1.25),
        ("gzip", "ftrace.gz", 40, 2),
        ("Perfetto", "pftrace", 40, 2.5),
    ):
        path = folder / f"{name}.{ending}"
        path.write_bytes(encoded(list(workload(LINES, per_run=per_run)), ending))
        commands[f"trace-stats, {name}"] = [OURS, "trace-stats", str(path), "--by", "function"]
        if limit:
            targets.append(Target(f"trace-stats, {name}", "cpu", limit, "trace-stats, text"))
    return Group(
        commands,
        [
            Target("trace-stats, text", "rate", 1_300_000, units=LINES),
            Target("trace-stats, text", "mb", 80),
            *targets,
        ],
    )


def files(folder: Path) -> Group:
    """Many small models: in one process, in two, and a tenth of them in separate processes."""
    small = sorted(
        path
        for path in (ROOT / "testdata").rglob("*.[tc]*l*e")
        if path.suffix in (".tflite", ".circle") and path.stat().st_size < 1 << 16
    )
    (folder / "models").mkdir()
    for number, path in enumerate(islice(cycle(small), FILES)):
        shutil.copy(path, folder / "models" / f"{number:05}{path.suffix}")
    one = str(folder / "models" / f"00000{small[0].suffix}")
    commands = {
        "check of one file": [OURS, "check", one],
        f"check of {FILES} files": [OURS, "check", str(folder / "models")],
        f"check of {FILES} files, --jobs 2": [OURS, "check", str(folder / "models"), "--jobs", "2"],
    }
    targets = [
        Target(f"check of {FILES} files", "cpu", FILES / 10, "check of one file"),
        Target(f"check of {FILES} files, --jobs 2", "cpu", 1.5, f"check of {FILES} files"),
    ]
    return Group(commands, targets)


def page(folder: Path) -> Group:
    """The page of a model with 5,000 operators."""
    model = str(folder / "page.tflite")
    many_operators(Path(model), 5000)
    commands = {
        "check of 5,000": [OURS, "check", model],
        "report of 5,000": [OURS, "report", model, "-o", str(folder / "page.html")],
    }
    return Group(commands, [Target("report of 5,000", "cpu", 3, "check of 5,000")])


GROUPS: dict[str, Callable[[Path], Group]] = {
    "start": start,
    "operators": operators,
    "weights": weights,
    "traces": traces,
    "files": files,
    "page": page,
}
