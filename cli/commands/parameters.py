"""Parameters that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Input = Annotated[
    str, typer.Argument(metavar="IN", help="The model to read; - is standard input.", show_default=False)
]
Output = Annotated[
    str | None,
    typer.Argument(
        metavar="OUT",
        help="The file to write (a directory where IN is one); - is standard output.",
        show_default=False,
    ),
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Write over IN.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory to write to.", show_default=False)]


class Format(StrEnum):
    """How to write what was found out."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
