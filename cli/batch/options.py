"""The options shared by all commands that accept several files."""

from __future__ import annotations

import os
from typing import Annotated, Any, NamedTuple

import typer

from ..signature import option


def _jobs(given: str | int) -> int:
    """Return the number of processes that --jobs asks for. Raises BadParameter."""
    number = str(given)  # the default needs no conversion
    if number in ("0", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not number.isascii() or not number.isdigit():
        raise typer.BadParameter(f"{number!r} is neither a number of processes nor 'auto'.")
    return int(number)


class BatchOptions(NamedTuple):
    """The options shared by all commands that accept several files."""

    jobs: int = 1


_JOBS = "Process several files in N processes; 0 or auto: one per core."
ANNOTATIONS: dict[str, Any] = {"jobs": Annotated[int, option("--jobs", _JOBS, "N", parser=_jobs)]}
"""The annotated types of these options, by name."""
