"""The command inspect: what is in a model."""

from __future__ import annotations

from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as
from .parameters import Input, Json


def inspect(
    source: Input,
    digest: Annotated[
        bool, typer.Option("--digest", help="Show digests of the model and its parts, whatever the layout.")
    ] = False,
    json: Json = False,
) -> None:
    """Show format, sizes, operators, signatures and metadata.

    With --digest, instead of these, what is equal for models that say the same, however their files are laid out:
    docs/digest.md.
    """
    kind = "json" if json else "text"
    if digest:
        with reading(source) as model:
            digests = ct.digests(model)
        show_as(kind, digests, text=ct.render.digests_text, json=ct.render.digests_json)
    else:
        with reading(source) as model:
            found = ct.inspect(model)
        show_as(kind, found, text=ct.render.inspection_text, json=ct.render.inspection_json)
