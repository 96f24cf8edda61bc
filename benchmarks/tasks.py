"""What is measured: the tasks, who does each, and what is promised of ours."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.process import Run, run

OURS, COPY, HELLO = "circletool", "cp", "click hello --help"


@dataclass(frozen=True)
class Contestant:
    """Somebody who does a task. Without a command it is not installed, and is shown as such."""

    name: str
    command: tuple[str, ...]
    least_lines: int = 0


@dataclass(frozen=True)
class Target:
    """A limit on our median: `factor` times the median of `reference`, plus `plus` seconds."""

    plus: float
    factor: float = 0.0
    reference: str = ""
    peak_mb: float | None = None

    def limit(self, medians: Mapping[str, float]) -> float | None:
        """Return the limit in seconds, or None if the reference has no time."""
        if not self.reference:
            return self.plus
        if self.reference not in medians:
            return None
        return self.factor * medians[self.reference] + self.plus

    def describe(self, medians: Mapping[str, float]) -> str:
        """Return the limit as the report shows it."""
        text = f"{self.plus:g} s"
        if self.reference:
            limit = self.limit(medians)
            value = "?" if limit is None else f"{limit:.3f} s"
            text = f"{self.factor:g} x {self.reference} + {self.plus:g} s = {value}"
        memory = "" if self.peak_mb is None else f"; <= {self.peak_mb:g} MB"
        return f"<= {text}{memory}"


@dataclass
class Task:
    """One job, who does it, and their runs."""

    title: str
    contestants: list[Contestant]
    target: Target
    output: Path | None = None
    source: Path | None = None
    prepare: Callable[[], None] | None = None
    prepared: Path | None = None
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def failure(self, name: str) -> str:
        """Return why a contestant failed, or nothing."""
        return next((run.failure for run in self.runs.get(name, []) if run.failure), "")

    def medians(self) -> dict[str, float]:
        """Return the median of everybody who finished."""
        return {
            name: statistics.median(run.seconds for run in runs)
            for name, runs in self.runs.items()
            if runs and not self.failure(name)
        }

    def peak_mb(self, name: str) -> float:
        """Return the highest private memory of all runs, in MB."""
        return max(run.peak_kb for run in self.runs[name]) * 1024 / 1e6

    def met(self) -> bool:
        """Tell whether our time and memory are within the target; no time at all is not."""
        medians = self.medians()
        limit = self.target.limit(medians)
        if OURS not in medians or limit is None or medians[OURS] > limit:
            return False
        return self.target.peak_mb is None or self.peak_mb(OURS) <= self.target.peak_mb


@dataclass(frozen=True)
class Programs:
    """Where the contestants are: our command, and for each peer the interpreter that has it."""

    python: str
    circletool: str
    peers: Mapping[str, str]
    with_peers: bool = True

    def ours(self, *arguments: object, least_lines: int = 0) -> Contestant:
        """Return our command with arguments."""
        command = (self.circletool, *map(str, arguments)) if self.circletool else ()
        return Contestant(OURS, command, least_lines)

    def peer_command(self, name: str, task: str, *paths: Path) -> tuple[str, ...]:
        """Return the command of one peer, or nothing if its library is not installed."""
        python = self.peers.get(name)
        return (python, "-m", "benchmarks.peers", name, task, *map(str, paths)) if python else ()

    def rivals(self, task: str, source: Path, *rest: Path, least_lines: int = 0) -> list[Contestant]:
        """Return every peer that does the task with files of this format."""
        if not self.with_peers:
            return []
        return [
            Contestant(f"{peer.title}: {task}", self.peer_command(name, task, source, *rest), least_lines)
            for name, peer in PEERS.items()
            if peer.suffix == source.suffix and task in peer.jobs
        ]


def _label(source: Path, size: str) -> str:
    return f"{size} {'TFLite' if source.suffix == '.tflite' else 'Circle'}"


def big_tasks(programs: Programs, source: Path, folder: Path) -> list[Task]:
    """Return the tasks on a model of many bytes."""
    size = _label(source, f"{source.stat().st_size / 1e9:.3g} GB")
    output = folder / f"out{source.suffix}"
    embedded = folder / f"embedded-{source.name}"

    def embed() -> None:
        """Make the input of dump-origins; when that fails, so does the task, with its reason."""
        if programs.circletool:
            embedded.unlink(missing_ok=True)
            run(programs.ours("embed-origins", source, embedded).command, 600)

    return [
        Task(
            f"embed-origins, {size}",
            [
                programs.ours("embed-origins", source, output),
                Contestant(COPY, ("cp", str(source), str(output))),
                *programs.rivals("metadata", source, output),
            ],
            Target(0.25, 1.3, COPY, peak_mb=80),
            output,
            source,
        ),
        Task(
            f"dump-origins, {size}",
            [programs.ours("dump-origins", embedded, least_lines=1), *programs.rivals("operators", source)],
            Target(0.3),
            prepare=embed,
            prepared=embedded,
        ),
    ]


def operator_tasks(programs: Programs, source: Path, folder: Path, count: int) -> list[Task]:
    """Return the tasks on a model of many operators."""
    size = _label(source, f"{count} operators")
    output = folder / f"out{source.suffix}"
    return [
        Task(
            f"embed-origins, {size}",
            [
                programs.ours("embed-origins", source, output),
                Contestant(COPY, ("cp", str(source), str(output))),
                *programs.rivals("metadata", source, output),
            ],
            Target(0.8),
            output,
            source,
        ),
        Task(
            f"verify, {size}",
            [programs.ours("check", "--structure-only", source), *programs.rivals("verify", source)],
            Target(1.5),
        ),
        Task(
            f"inspect, {size}",
            [
                programs.ours("inspect", source, least_lines=1),
                *programs.rivals("operators", source, least_lines=count),
            ],
            Target(0.6),
        ),
    ]


def start_task(programs: Programs) -> Task:
    """Return the task of starting at all."""
    hello = Path(__file__).with_name("hello.py")
    return Task(
        "start (--help)",
        [programs.ours("--help"), Contestant(HELLO, (programs.python, str(hello), "--help"))],
        Target(0.03, 1.0, HELLO),
    )


def contestants_in_turn(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """Return the contestants of one round, each round starting with the next: none always runs first."""
    shift = number % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]
