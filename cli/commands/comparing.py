"""The command diff: what differs between two models."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .parameters import Json

if TYPE_CHECKING:
    from circletools.diff.difference import Section
    from circletools.model import Model


def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="The model to compare with; - is standard input.", show_default=False)
    ],
    after: Annotated[
        str, typer.Argument(metavar="B", help="The model to compare; - is standard input.", show_default=False)
    ],
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="SECTIONS", help="Compare only these: structure,metadata,origins,affinity,file."
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="PATHGLOB", help="Leave out such paths and what is below; may be repeated."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every difference, and values as they are.")] = False,
    json: Json = False,
) -> None:
    """Show what differs between two models.

    Compares structure, metadata, origins, affinity and the files behind the model. Operators, tensors and buffers
    are told by what they are, not by their index, and what lies where in the file is no difference. Exit status 1
    when there is a difference; docs/diff.md has the rules.
    """
    from circletools.diff.difference import ModelDifference, compare_models  # noqa: PLC0415
    from circletools.render.difference import difference_json, difference_text, ignoring  # noqa: PLC0415

    from ..console.reading import naming  # noqa: PLC0415
    from ..console.terminal import complain, show, show_json  # noqa: PLC0415

    sections = _sections(only)
    if before == after == "-":
        raise UsageError("only one of the models can be standard input")
    with ExitStack() as opened:
        old, new = (_checked(opened, source) for source in (before, after))
        with naming(f"{before}, {after}"):
            found = compare_models(old, new, sections)
        found = ModelDifference(ignoring(found.changes, ignore or ()), found.identical, found.notes)
        if json:
            show_json(difference_json(found, old, new))
        else:
            show(difference_text(found, old, new, full=full))
    for note in found.notes:
        complain("note", note)
    if found.changes:
        raise typer.Exit(1)


def _checked(opened: ExitStack, source: str) -> Model:
    """Open a model and check its structure, so that an error names the one of the two that is broken."""
    from circletools.model import open_model  # noqa: PLC0415

    from ..console.reading import naming  # noqa: PLC0415

    with naming(source):
        model = opened.enter_context(open_model(source))
        _ = model.reachable
    return model


def _sections(only: str | None) -> tuple[Section, ...]:
    from circletools.diff.difference import SECTIONS  # noqa: PLC0415
    from circletools.wording import suggestion  # noqa: PLC0415

    if only is None:
        return SECTIONS
    wanted = [name.strip() for name in only.split(",")]
    for name in wanted:
        if name not in SECTIONS:
            raise UsageError(f"--only {only}: there is no section {name!r}", hint=suggestion(name, SECTIONS))
    return tuple(section for section in SECTIONS if section in wanted)
