"""The command track-origins: origins through a tool that knew nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .parameters import InPlace, Json, Output
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.model.edit import ModelEdit, RewriteResult
    from circletools.origin.tracking import Tracking


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("track-origins", epilog="Example: circletool track-origins in.circle b.circle out.circle")(
        track_origins
    )


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
    output: Output = None,
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
    in_place: InPlace = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Give the operators of AFTER the origins of BEFORE, and write AFTER with them.

    AFTER is what an optimiser, quantizer or converter that knows nothing of origins made of BEFORE. Each origin is
    shown with what it rests on and how sure it is; docs/tracking.md tells what the numbers mean. Where BEFORE has no
    origins, its operators are the sources.
    """
    from circletools.origin import embed  # noqa: PLC0415
    from circletools.origin.tracking import carried_along, track  # noqa: PLC0415
    from circletools.report.tracking import tracking_json, tracking_text, without_origin  # noqa: PLC0415

    from .reading import reading  # noqa: PLC0415
    from .terminal import complain, show, show_json  # noqa: PLC0415

    if before == after == "-":
        raise UsageError("BEFORE and AFTER cannot both be standard input")
    to_stdout = output == "-" and not dry_run
    if json and to_stdout:
        raise UsageError(
            "--json and an output of - would mix on standard output", hint="name a file, or leave out --json"
        )
    found: list[Tracking] = []
    left: list[tuple[int, int]] = []

    with reading(before) as old:

        def change(edit: ModelEdit) -> RewriteResult:
            tracking = track(old, edit.model, min_confidence=min_confidence)
            found.append(tracking)
            left.extend(without_origin(edit.model, tracking))
            result = embed(edit, tracking.origins, replace=replace or carried_along(old, edit.model), stamp=stamp)
            if json:
                show_json(tracking_json(edit.model, tracking))
            elif not to_stdout:
                show(tracking_text(edit.model, tracking))
            return result

        rewrite(after, output, in_place, change, dry=dry_run)
    if left:
        total = len(left) + sum(len(subgraph) for subgraph in found[0].grounds)
        complain("note", f"{after}: operators without an origin: {len(left)} of {total}")
        if strict or len(left) == total:
            raise typer.Exit(1)
