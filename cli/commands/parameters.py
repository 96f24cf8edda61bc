"""Parameters that several commands share, and what they must not be together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import circletools as ct

Input = Annotated[str, typer.Argument(metavar="IN", help="The model to read; - is standard input.")]
Output = Annotated[
    str | None,
    typer.Argument(
        metavar="OUT",
        help="The file to write (a directory where IN is one); - is standard output.",
    ),
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Write over IN.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory to write to.")]


JsonFormat = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
Format = Literal["text", "json", "csv"]
FORMAT = typer.Option("--format", help="The output format; text by default.")


def target_names(words: str) -> tuple[str, ...]:
    """Return the names that --on lists."""
    return tuple(name.strip() for name in words.split(","))


def form_of(output_format: str | None, json: bool) -> str:
    """Return the format that --format and --json ask for. Raises UsageError where they exclude each other."""
    if json and output_format not in (None, "json"):
        raise ct.UsageError(f"--json and --format {output_format} exclude each other")
    return "json" if json else output_format or "text"


def refuse_mixing(what: str, output: str | None, hint: str) -> None:
    """Raise UsageError when standard output is to get a model, and `what` as well."""
    if output == "-":
        raise ct.UsageError(f"{what} and an output of - would mix on standard output", hint=hint)
