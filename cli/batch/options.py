"""The options that every command for several files has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NamedTuple

import typer


def _jobs(given: str | int) -> int:
    """Return how many processes that is. Raises BadParameter."""
    number = str(given)  # the default comes as it is
    if number in ("0", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not number.isascii() or not number.isdigit():
        raise typer.BadParameter(f"{number!r} is neither a number of processes nor 'auto'.")
    return int(number)


Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        metavar="N",
        parser=_jobs,
        help="Run several models in N processes; 0 or auto: one for each core.",
    ),
]
Log = Annotated[
    Path | None, typer.Option("--log", metavar="FILE", help="Append a line of JSON for each model to FILE.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Skip the models that --log FILE lists as done.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Run several models on a Dask cluster.")
]


class BatchOptions(NamedTuple):
    """How to run over many files; the options that every such command has."""

    jobs: int = 1
    log: Path | None = None
    resume: bool = False
    scheduler: str | None = None


ANNOTATIONS = dict(zip(BatchOptions._fields, (Jobs, Log, Resume, Scheduler), strict=True))
