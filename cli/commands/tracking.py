"""The command track-origins: origins through a tool that knew nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import CircleToolsError, UsageError

from .parameters import Json
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.edit.edit import ModelEdit
    from circletools.edit.results import RewriteResult
    from circletools.model import Model
    from circletools.origin.tracking import Tracking


def track_origins(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE", help="The model before the tool, with origins or without.", show_default=False
        ),
    ],
    after: Annotated[
        str,
        typer.Argument(metavar="AFTER", help="The model after it; one of the two may be -.", show_default=False),
    ],
    output: Annotated[
        str | None,
        typer.Argument(metavar="OUT", help="The file to write; - is standard output.", show_default=False),
    ] = None,
    min_confidence: Annotated[
        float,
        typer.Option("--min-confidence", metavar="X", min=0.0, max=1.0, help="Leave out what is less sure."),
    ] = 0.25,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace origins that AFTER has, if they are not those of BEFORE.")
    ] = False,
    stamp: Annotated[bool, typer.Option("--stamp/--no-stamp", help="Add the stamp that tells stale tables.")] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 1 when an operator is left without an origin.")
    ] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Write over AFTER.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Carry origins across a tool that does not keep them.

    Gives the operators of AFTER the origins of BEFORE, and writes AFTER with them. AFTER is what an optimiser,
    quantizer or converter that knows nothing of origins made of BEFORE. Each origin is shown with what it rests
    on and how sure it is; docs/tracking.md tells what the numbers mean. Where BEFORE has no origins, its
    operators are the sources.
    """
    if before == after == "-":
        raise UsageError("BEFORE and AFTER cannot both be standard input")
    to_stdout = output == "-" and not dry_run
    if json and to_stdout:
        raise UsageError(
            "--json and an output of - would mix on standard output", hint="name a file, or leave out --json"
        )
    found: list[tuple[int, int]] = []

    from circletools.origin import embed  # noqa: PLC0415
    from circletools.origin.tracking import carried_along  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415

    with reading(before) as old:

        def change(edit: ModelEdit) -> RewriteResult:
            tracking = _tracked(before, old, edit.model, min_confidence)
            result = embed(edit, tracking.origins, replace=replace or carried_along(old, edit.model), stamp=stamp)
            old.source.check_unchanged()
            found.append(_shown(edit.model, tracking, json=json, quiet=to_stdout))
            return result

        rewrite(after, output, in_place, change, inputs=[before], dry=dry_run)
    _conclude(after, *found[0], strict=strict)


def _tracked(name: str, before: Model, after: Model, least: float) -> Tracking:
    """Track; an error that comparing BEFORE with itself gives too is one of BEFORE and gets its name."""
    from circletools.origin.tracking import track  # noqa: PLC0415

    from ..console.reading import naming  # noqa: PLC0415

    try:
        return track(before, after, min_confidence=least)
    except CircleToolsError:
        with naming(name):
            track(before, before)
        raise


def _shown(after: Model, tracking: Tracking, *, json: bool, quiet: bool) -> tuple[int, int]:
    """Show what was found; return how many operators are left without an origin, and how many there are."""
    from circletools.render.tracking import tracking_json, tracking_text, without_origin  # noqa: PLC0415

    from ..console.terminal import show, show_json  # noqa: PLC0415

    if json:
        show_json(tracking_json(after, tracking))
    elif not quiet:
        show(tracking_text(after, tracking))
    left = len(without_origin(after, tracking))
    return left, left + sum(len(subgraph) for subgraph in tracking.grounds)


def _conclude(after: str, left: int, total: int, *, strict: bool) -> None:
    from ..console.terminal import complain  # noqa: PLC0415

    if left:
        complain("note", f"{after}: operators without an origin: {left} of {total}")
        if strict or left == total:
            raise typer.Exit(1)
