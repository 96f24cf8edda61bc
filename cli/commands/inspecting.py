"""The command inspect: what is in a model."""

from __future__ import annotations

from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as
from ..signature import option
from .parameters import Input, Json


def inspect(
    source: Input,
    digest: Annotated[
        bool, typer.Option("--digest", help="Show digests of the model and its parts, whatever the layout.")
    ] = False,
    operators: Annotated[bool, option("--operators", "Show a table of the operators.")] = False,
    tensors: Annotated[bool, option("--tensors", "Show a table of the tensors.")] = False,
    subgraph: Annotated[int | None, option("--subgraph", "Only the tables of this subgraph.", "N", min=0)] = None,
    json: Json = False,
) -> None:
    """Show format, sizes, operators, signatures and metadata.

    With --operators and --tensors, instead of these, tables of all of them; the JSON has both.

    With --digest, instead of these, what is equal for models that say the same, however their files are laid out:
    docs/digest.md.
    """
    kind = "json" if json else "text"
    if digest and (operators or tensors):
        raise ct.UsageError("--digest excludes --operators and --tensors")
    if subgraph is not None and not (operators or tensors):
        raise ct.UsageError("--subgraph is for --operators and --tensors")
    if digest:
        with reading(source) as model:
            digests = ct.digests(model)
        show_as(kind, digests, text=ct.render.digests_text, json=ct.render.digests_json)
    else:
        with reading(source) as model:
            found = ct.inspect(model, operators=operators, tensors=tensors, subgraph=subgraph)
        show_as(kind, found, text=ct.render.inspection_text, json=ct.render.inspection_json)
