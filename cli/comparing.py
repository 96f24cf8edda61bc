"""The command diff: what differs between two models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .parameters import Json

if TYPE_CHECKING:
    from circletools.report.difference import Section


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("diff", epilog="Example: circletool diff before.circle after.circle --ignore 'buffers[*]'")(diff)


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
    """Show what differs between two models: structure, metadata, origins, affinity, files behind the model.

    Operators, tensors and buffers are told by what they are, not by their index, and what lies where in the file is
    no difference. Exit status 1 when there is a difference; docs/diff.md has the rules.
    """
    from circletools.report.difference import ModelDifference, compare_models  # noqa: PLC0415
    from circletools.report.difference_output import difference_json, difference_text, ignoring  # noqa: PLC0415

    from .reading import reading  # noqa: PLC0415
    from .terminal import complain, show, show_json  # noqa: PLC0415

    sections = _sections(only)
    if before == after == "-":
        raise UsageError("only one of the models can be standard input")
    with reading(before) as old, reading(after) as new:
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


def _sections(only: str | None) -> tuple[Section, ...]:
    from circletools.model.selectors import suggestion  # noqa: PLC0415
    from circletools.report.difference import SECTIONS  # noqa: PLC0415

    if only is None:
        return SECTIONS
    wanted = [name.strip() for name in only.split(",")]
    for name in wanted:
        if name not in SECTIONS:
            raise UsageError(f"--only {only}: there is no section {name!r}", hint=suggestion(name, SECTIONS))
    return tuple(section for section in SECTIONS if section in wanted)
