"""The commands diff and attest: what differs between two models."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as, tell_notes
from ..signature import argument, option
from .parameters import Json, listed


def diff(
    before: Annotated[str, argument("A", "The model to compare with; - is standard input.")],
    after: Annotated[str, argument("B", "The model to compare; - is standard input.")],
    only: Annotated[
        str | None, option("--only", "Compare only these: structure,metadata,origins,affinity,file.", "SECTIONS")
    ] = None,
    ignore: Annotated[
        list[str] | None, option("--ignore", "Leave out matching paths and all below; may be repeated.", "PATHGLOB")
    ] = None,
    full: Annotated[bool, option("--full", "Show every difference, and whole values.")] = False,
    json: Json = False,
) -> None:
    """Show what differs between two models.

    Compared are structure, metadata, origins, affinity and the files behind the model. Operators, tensors and buffers
    are matched by what they are, not by their index; where they stand in the file does not count. Exit status 1 when
    there is a difference; docs/diff.md has the rules.
    """
    if before == after == "-":
        raise ct.UsageError("only one of the models can be standard input")
    sections = None if only is None else listed(only)
    with reading(before) as old, reading(after) as new:
        found = ct.diff(old, new, sections, ignore=ignore or ())
        text = partial(ct.render.difference_text, full=full)
        show_as("json" if json else "text", found, old, new, text=text, json=ct.render.difference_json)
    tell_notes(found.notes)
    if found.changes:
        raise typer.Exit(1)


def attest(
    before: Annotated[str, argument("OLD", "The model that was; - is standard input.")],
    after: Annotated[str, argument("NEW", "The model that was made of it; - is standard input.")],
    json: Json = False,
) -> None:
    """State that a model is another one but for named parts.

    A part is a tensor with its data, an operator, a subgraph, a signature, a metadata entry, or the rest. --json is
    the statement that docs/attest.py checks, a program of its own: docs/digest.md.
    """
    if before == after == "-":
        raise ct.UsageError("only one of the models can be standard input")
    with reading(before) as old, reading(after) as new:
        found = ct.attest(old, new)
    show_as("json" if json else "text", found, text=ct.render.attestation_text, json=ct.render.attestation_json)
