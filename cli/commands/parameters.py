"""Parameters that several commands share, and what they must not be together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import circletools as ct

from ..signature import argument, option

Input = Annotated[str, argument("IN", "The model to read; - is standard input.")]
Output = Annotated[
    str | None, argument("OUT", "The file to write (a directory where IN is one); - is standard output.")
]
InPlace = Annotated[bool, option("--in-place", "Write over IN.")]
Erase = Annotated[bool, option("--erase", "Write a minimal file, in which no old value is left.")]
Stamp = Annotated[bool, option("--stamp/--no-stamp", "Write a stamp to recognise stale tables.")]
Json = Annotated[bool, option("--json", "Write JSON.")]
Directory = Annotated[Path, argument("DIR", "The directory to write to.")]


JsonFormat = Annotated[bool, option("--json", "The same as --format json.")]
Format = Literal["text", "json", "csv"]
FORMAT = option("--format", "The output format; text by default.")
FormatOption = Annotated[Format | None, FORMAT]


With = Annotated[str | None, option("--with", "Ask these runtimes and compilers too (docs/runtimes.md).", "NAME,...")]


def listed(words: str | None) -> tuple[str, ...]:
    """Return the names that an option lists, with commas between them."""
    return tuple(name.strip() for name in words.split(",")) if words else ()


def first_executions(words: str) -> int | Literal["auto"]:
    """Return how many executions to skip. Raises UsageError."""
    if words == "auto":
        return "auto"
    if not (words.isascii() and words.isdigit() and len(words) < 10):
        raise ct.UsageError(f"--skip takes a number or auto, not {words!r}")
    return int(words)


def form_of(output_format: str | None, json: bool, option_name: str = "--format") -> str:
    """Return the format that an option and --json ask for. Raises UsageError where they exclude each other."""
    if json and output_format not in (None, "json"):
        raise ct.UsageError(f"--json and {option_name} {output_format} exclude each other")
    return "json" if json else output_format or "text"


def refuse_mixing(what: str, output: str | None, hint: str) -> None:
    """Raise UsageError when standard output is to get a model, and `what` as well."""
    if output == "-":
        raise ct.UsageError(f"{what} and an output of - would mix on standard output", hint=hint)
