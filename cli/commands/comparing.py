"""The diff command: show the differences between two models, or compare their digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_notes, show, show_as, show_json
from ..signature import argument, option
from .parameters import FORMAT, listed
from .rewriting import refuse_inputs


def diff(
    before: Annotated[str, argument("A", "The model to compare with, or - for standard input.")],
    after: Annotated[str, argument("B", "The model to compare, or - for standard input.")],
    only: Annotated[
        str | None, option("--only", "Compare only these: structure,metadata,origins,affinity,file.", "SECTIONS")
    ] = None,
    ignore: Annotated[
        tuple[str, ...], option("--ignore", "Ignore a path and everything below it; may be repeated.", "PATHGLOB")
    ] = (),
    full: Annotated[bool, option("--full", "Show every difference, with complete values.")] = False,
    attest: Annotated[
        bool, option("--attest", "Use digests to show which parts are identical; docs/attest.py checks the JSON.")
    ] = False,
    form: Annotated[Literal["text", "json", "markdown", "in-toto"], FORMAT] = "text",
    on: Annotated[
        str | None,
        option("--on", "With --format markdown, show the refusals of these targets, as in fit --on.", "TARGETS"),
    ] = None,
    html: Annotated[
        str | None, option("--html", "Also write a page with both graphs side by side and changes in colour.", "FILE")
    ] = None,
) -> None:
    """Show what differs between two models.

    Compares structure, metadata, origins, affinity and the files appended to the model. Operators, tensors and
    buffers are matched by content; their order in the file does not matter. Exits with status 1 if there is a
    difference; docs/diff.md gives the rules. --format markdown writes a comment for a pull request. --attest proves
    that two models are identical except for the parts it lists: tensors with their data, operators, subgraphs,
    signatures and metadata entries (docs/digest.md).
    """
    if before == after == "-":
        raise ct.UsageError("only one of the models can come from standard input")
    if attest and (only or ignore or full or html or form == "markdown"):
        raise ct.UsageError("--attest cannot be combined with --only, --ignore, --full, --html or --format markdown")
    if on is not None and form != "markdown":
        raise ct.UsageError("--on requires --format markdown")
    if html is not None:
        refuse_inputs(html, [before, after])
        ct.files.check_target(html)
    if attest:
        _attest(before, after, form)
        return
    if form == "in-toto":
        raise ct.UsageError("--format in-toto requires --attest")
    sections = None if only is None else listed(only)
    with reading(before) as old, reading(after) as new:
        differences = ct.diff(old, new, sections, ignore=ignore)
        text = partial(ct.render.difference_text, full=full)
        page = html and ct.difference_html(differences, old, new)
        if form == "markdown":
            verdicts = list(_verdicts((old, new), listed(on)))
            show(ct.render.difference_markdown(differences, old, new, verdicts))
        else:
            show_as(form, differences, old, new, text=text, json=ct.render.difference_json)
        if html and page:
            ct.files.write(html, [page])
    print_notes(differences.notes)
    if differences.changes:
        raise Exit(1)


def _verdicts(models: Iterable[ct.Model], on: Sequence[str]) -> Iterator[ct.render.ModelVerdicts]:
    request = ct.FitRequest(on=tuple(on)).read() if on else None
    for model in models:
        yield ct.render.ModelVerdicts(ct.cost(model), ct.check(model), ct.fit(model, request) if request else None)


def _attest(before: str, after: str, form: str) -> None:
    with reading(before) as old, reading(after) as new:
        found = ct.attest(old, new)
        if form == "in-toto":
            show_json(ct.render.attestation_statement(found, old, new))
        else:
            show_as(form, found, text=ct.render.attestation_text, json=ct.render.attestation_json)
