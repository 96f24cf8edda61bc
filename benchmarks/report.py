"""The tables, for a reader and for a program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.sizes import Size
from benchmarks.tasks import COPY, OURS, Task

TIME_COLUMNS = (
    "task",
    "contestant",
    "runs",
    "median s",
    "ratio to ours",
    "ratio to cp",
    "peak MB",
    "lines",
    "target",
    "met?",
)
SIZE_COLUMNS = ("model", "bytes", "compact", "repack", "compact / before", "compact / repack")


@dataclass(frozen=True)
class Row:
    """One contestant at one task; a number that does not exist is None."""

    task: str
    contestant: str
    runs: int
    median: float | None = None
    to_ours: float | None = None
    to_copy: float | None = None
    peak_mb: float | None = None
    lines: int | None = None
    note: str = ""
    target: str = ""
    met: bool | None = None

    def cells(self) -> list[str]:
        """Return the row as text."""
        median = self.note if self.median is None else f"{self.median:.3f}"
        met = "" if self.met is None else ("yes" if self.met else "NO")
        ratios = [_number(self.to_ours, ".2f"), _number(self.to_copy, ".2f")]
        return [
            self.task,
            self.contestant,
            str(self.runs),
            median,
            *ratios,
            _number(self.peak_mb, ".1f"),
            _number(self.lines, "d"),
            self.target,
            met,
        ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def rows(task: Task) -> list[Row]:
    """Return the rows of one task, ours first."""
    medians = task.medians()
    ours, copy = medians.get(OURS), medians.get(COPY)
    result = []
    for contestant in task.contestants:
        name = contestant.name
        median = medians.get(name)
        note = "" if contestant.command else "not installed"
        if task.failure(name):
            note = f"failed: {task.failure(name)}"
        result.append(
            Row(
                task.title,
                name,
                len(task.runs.get(name, [])),
                median,
                _ratio(median, ours),
                _ratio(median, copy),
                None if median is None else task.peak_mb(name),
                None if median is None else task.runs[name][-1].lines,
                note,
                task.target.describe(medians) if name == OURS else "",
                task.met() if name == OURS else None,
            )
        )
    return result


def _ratio(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else value / reference


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a markdown table, its columns padded so that it reads as text too."""
    cells = [columns, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    padded = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    padded.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(padded)


def size_cells(size: Size) -> list[str]:
    """Return the row of one compacted model as text."""
    return [
        size.model.name,
        str(size.before),
        size.ours_failure or str(size.ours),
        size.repacked_failure or str(size.repacked),
        _number(_ratio(size.ours, size.before), ".3f"),
        _number(_ratio(size.ours, size.repacked), ".3f"),
    ]


def size_total(sizes: Sequence[Size]) -> str:
    """Return one sentence on all models that both ways could handle."""
    both = [(size.before, size.ours, size.repacked) for size in sizes if size.ours and size.repacked]
    if not both:
        return "compact: no model could be handled in both ways."
    before, ours, repacked = (sum(column) for column in zip(*both, strict=True))
    larger = sum(mine > other for _, mine, other in both)
    return (
        f"compact: {len(both)} of {len(sizes)} models in both ways: {before} bytes before, {ours} compacted, "
        f"{repacked} repacked (ratio {ours / repacked:.3f}); larger than the repack: {larger}."
    )


def as_json(tasks: Sequence[Task], sizes: Sequence[Size], machine: dict[str, Any]) -> dict[str, Any]:
    """Return everything measured, single runs included."""
    return {
        "machine": machine,
        "rows": [vars(row) for task in tasks for row in rows(task)],
        "runs": {
            task.title: {name: [vars(run) for run in runs] for name, runs in task.runs.items()} for task in tasks
        },
        "sizes": [vars(size) | {"model": str(size.model)} for size in sizes],
    }
