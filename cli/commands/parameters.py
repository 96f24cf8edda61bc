"""Parameters shared by several commands, and checks for forbidden combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import circletools as ct

from ..signature import argument, option

Input = Annotated[str, argument("IN", "The model to read, or - for standard input.")]
OutputFile = Annotated[str | None, argument("OUT", "The file to write, or - for standard output.")]
Output = Annotated[str | None, argument("OUT", "The file (a directory if IN is one), or - for standard output.")]
InPlace = Annotated[bool, option("Overwrite IN.")]
DryRun = Annotated[bool, option("Show the result without writing it.")]
Erase = Annotated[bool, option("Write a minimal file without old values.")]
Stamp = Annotated[bool, option("Write a stamp that reveals stale tables.", names="--stamp/--no-stamp")]
OneSubgraph = Annotated[int, option("The subgraph to use.", "N", min=0)]
With = Annotated[tuple[str, ...], option("Also try the model in these programs (docs/runtimes.md).", "PROGRAM,...")]
Timeout = Annotated[float, option("Time limit for each program in --with.", "SECONDS", names="--timeout", min=0.1)]
Baseline = Annotated[Path | None, option("Omit findings that are in this earlier JSON output.", "FILE")]

Form = Annotated[Literal["text", "json"], option("Output format.")]
TableForm = Annotated[Literal["text", "json", "csv"], option("Output format.")]
_Number = TypeVar("_Number", int, float)


def listed(words: Iterable[str]) -> tuple[str, ...]:
    """Return the names in comma-separated lists, for an option that may be repeated."""
    return tuple(name.strip() for word in words if word for name in word.split(","))


def numbers(words: str, kind: Callable[[str], _Number]) -> tuple[_Number, ...]:
    """Return the numbers in a comma-separated list. Raises UsageError."""
    try:
        return tuple(map(kind, words.split(",")))
    except ValueError as error:
        raise ct.UsageError(f"not numbers: {words!r}", hint="write them like 2,0,1") from error


def first_executions(words: str) -> int | Literal["auto"]:
    """Return the number of executions to skip. Raises UsageError."""
    if words == "auto":
        return "auto"
    if not (words.isascii() and words.isdigit() and len(words) < 10):
        raise ct.UsageError(f"--skip takes a number or `auto`, not {words!r}")
    return int(words)


def refuse_mixing(what: str, output: str | None, hint: str) -> None:
    """Raise UsageError if both a model and `what` would go to standard output."""
    if output == "-":
        raise ct.UsageError(f"{what} and the output file would both go to standard output", hint=hint)
