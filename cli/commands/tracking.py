"""The track-origins command: carry origins across a tool that drops them."""

from __future__ import annotations

from typing import Annotated

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_notes, show, show_json
from ..signature import argument, option
from .parameters import DryRun, Erase, Form, Stamp, refuse_mixing
from .rewriting import rewrite

Before = Annotated[str, argument("BEFORE", "The model that the tool read, or - for standard input.")]
After = Annotated[str, argument("AFTER", "The model that the tool wrote, or -; with --tag, the file to write.")]


def track_origins(
    before: Before,
    after: After,
    output: Annotated[str | None, argument("OUT", "The file to write, or - for standard output.")] = None,
    min_confidence: Annotated[
        float, option("--min-confidence", "Leave out origins with a lower confidence.", "X", min=0.0, max=1.0)
    ] = 0.25,
    replace: Annotated[
        bool, option("--replace", "Replace origins in AFTER that differ from those in BEFORE.")
    ] = False,
    erase: Erase = False,
    stamp: Stamp = True,
    strict: Annotated[bool, option("--strict", "Exit with status 1 if an operator has no origin.")] = False,
    tag: Annotated[
        bool, option("--tag", "Write BEFORE to AFTER with tags as tensor names, for a tool that keeps names.")
    ] = False,
    in_place: Annotated[bool, option("--in-place", "Overwrite AFTER.")] = False,
    dry_run: DryRun = False,
    form: Form = "text",
) -> None:
    """Carry origins across a tool that drops them.

    AFTER is the model that an optimizer, quantizer or converter made from BEFORE. Its operators get the origins of
    BEFORE, and OUT is AFTER with these origins. Each origin is shown with its evidence and confidence;
    docs/tracking.md explains both. If BEFORE has no origins, its operators are the sources.

    With --tag, nothing is tracked: AFTER becomes a copy of BEFORE in which tensors are named after their operators.
    Run the tool on this file, then track its result: origins are exact if the tool kept the names, and OUT has the
    original names again.
    """
    if tag:
        if output is not None or in_place or form == "json" or replace or strict:
            raise ct.UsageError("--tag only copies BEFORE to AFTER", hint="leave out OUT and the other options")
        rewrite(before, after, False, ct.origins.tag, dry=dry_run)
        return
    if before == after == "-":
        raise ct.UsageError("BEFORE and AFTER cannot both come from standard input")
    to_stdout = output == "-" and not dry_run
    if form == "json" and not dry_run:
        refuse_mixing("--json", output, "name a file, or leave out --json")
    notes: list[ct.Finding] = []
    with reading(before) as old:

        def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
            found = ct.track_origins(old, edit.model, min_confidence=min_confidence)
            result = ct.origins.embed(edit, found.origins, replace=replace or found.carried, stamp=stamp)
            names = ct.origins.untag(edit, old)
            old.source.check_unchanged()
            if form == "json":
                show_json(ct.render.tracking_json(found), after)
            elif not to_stdout:
                show(ct.render.tracking_text(found))
            notes.extend(found.notes)
            return ct.types.RewriteResult((*result.changes, *names.changes), result.notes)

        rewrite(after, output, in_place, change, inputs=[before], dry=dry_run, erase=erase)
    print_notes(notes, after)
    if any(strict or note.severity == "warning" for note in notes):
        raise Exit(1)
