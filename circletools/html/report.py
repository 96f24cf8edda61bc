"""The report of a model: one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from circletools.findings import Finding, Severity
from circletools.fit.fit import fit
from circletools.fit.request import FitRequest
from circletools.html.document import page_document, read_times
from circletools.html.html import SourceLinks, page_html
from circletools.model.model import Model
from circletools.storage.documents import naming_files
from circletools.storage.files import write
from circletools.wording import Items, counted, missing

__all__ = ["Report", "report_html"]


class Report(str):
    """The text of an HTML page, and `notes` that count its errors and warnings."""

    notes: tuple[Finding, ...]

    def __new__(cls, html: str = "", notes: Iterable[Finding] = ()) -> Report:
        """Add the notes to a page."""
        made = super().__new__(cls, html)
        made.notes = Items(notes)
        return made

    def __repr__(self) -> str:
        return f"Report(notes={self.notes!r})"

    if not TYPE_CHECKING:
        __getattr__ = missing

    @property
    def html(self) -> bytes:
        """The page as bytes."""
        return self.encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file. Raises OutputError if it cannot be written."""
        write(path, [self.html])


def report_html(
    model: Model,
    traces: Iterable[str | os.PathLike[str]] = (),
    *,
    skip: int = 0,
    on: Sequence[str] = (),
    source_url: str = "",
    source_root: str = "",
) -> Report:
    """Make a page about a model and its traces (paths of operator-level or NNAPI traces).

    `skip` is the number of executions to leave out at the start of operator-level traces. `on` names targets for the
    model, as in `FitRequest`. Source lines link to `source_url` with `{file}` and `{line}` filled in; files are
    relative to `source_root`, and files outside it have no link. Raises UsageError if `source_url` is not an address,
    ModelFormatError if the structure of the model is broken, and InvalidInputError if a trace cannot be read or
    belongs to another model.

        with ct.open("out.circle") as model:
            ct.report_html(model, ["trace.chrome.json"]).save("report.html")
    """
    links = SourceLinks(source_url, source_root)
    with naming_files():
        read = [read_times(os.fspath(trace), skip) for trace in traces]
    fitted = fit(model, FitRequest(on=tuple(on))) if on else None
    document = page_document(model, title_of(model), read, fitted=fitted, links=links)
    return Report(page_html(document), _notes(document))


def title_of(model: Model) -> str:
    """Return the name of a model's file without its folder, which a shared page should not reveal."""
    name = model.source.name
    return name.strip("<>") if name in ("<standard input>", "<bytes>") else os.path.basename(name)


def _notes(document: dict[str, Any]) -> Iterable[Finding]:
    """Count the errors and warnings of `check`, the errors of `trace-stats`, and the refusals of targets."""
    findings = [finding["severity"] for finding in document["findings"]]
    diagnostics = [one["severity"] for trace in document["traces"] for one in trace["diagnostics"]]
    counts: Sequence[tuple[Severity, int, str, str]] = (
        ("error", findings.count("error"), "error", "in the model"),
        ("warning", findings.count("warning"), "warning", "about the model"),
        ("error", diagnostics.count("error"), "error", "in traces"),
    )
    for severity, count, what, where in counts:
        if count:
            yield Finding("REPORTED", severity, document["name"], f"{counted(count, what)} {where}")
    for target in document.get("fit", ()):
        if target["refused_count"]:
            refused = f"{counted(target['refused_count'], 'operator')} refused by {target['target']}"
            yield Finding("REPORTED", "error", document["name"], refused)
