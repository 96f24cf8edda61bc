"""A difference as a Markdown comment for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from circletools.cost.cost import Cost
from circletools.diff.difference import ModelDifference
from circletools.diff.summary import summarize
from circletools.findings import Finding
from circletools.fit.verdicts import Fit
from circletools.model.model import Model
from circletools.render.difference_lines import summary_lines
from circletools.wording import Attributes, counted


@dataclass(frozen=True, slots=True)
class ModelVerdicts(Attributes):
    """The costs of a model, the findings of `check`, and verdicts of targets, if requested."""

    cost: Cost
    findings: Sequence[Finding]
    fit: Fit | None = None


def difference_markdown(
    found: ModelDifference, before: Model, after: Model, verdicts: Sequence[ModelVerdicts]
) -> Iterator[str]:
    """Yield the summary of a difference, and a table of size, cost and `verdicts` before and after."""
    names = " -> ".join(_cell(model.source.name) for model in (before, after))
    yield f"**{names}**: {counted(len(found.changes), 'difference')}"
    yield ""
    yield from (f"* {_cell(line)}" for line in summary_lines(summarize(found, before, after)))
    yield ""
    yield from ("| | before | after | change |", "|---|---:|---:|---:|")
    fields = ("operators", "macs", "parameters", "weight_bytes")
    titles = ("operators", "MACs", "parameters", "bytes of constants")
    totals = [[getattr(side.cost.total, name) for name in fields] for side in verdicts]
    peaks = [max((one.peak_bytes for one in side.cost.activations), default=0) for side in verdicts]
    rows = [("file, bytes", before.wire.size, after.wire.size), *zip(titles, *totals, strict=True)]
    for title, old, new in [*rows, ("peak of activations, bytes", *peaks)]:
        yield f"| {title} | {old:,} | {new:,} | {f'{new - old:+,}' if new != old else ''} |"
    words = [[("check", _checked(side.findings)), *_fitted(side.fit)] for side in verdicts]
    for one, other in zip_longest(*words):
        yield f"| {_cell(one[0])} | {one[1]} | {other[1]} | {'' if one[1] == other[1] else 'changed'} |"


def _checked(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(counted(counts[kind], kind) for kind in ("error", "warning") if counts[kind]) or "no findings"


def _fitted(found: Fit | None) -> Iterator[tuple[str, str]]:
    for one in () if found is None else found.targets:
        yield f"fit on {one.name}", f"{one.verdict.replace('_', ' ')}, {one.refused:,} of {one.operators:,} refused"


def _cell(words: str) -> str:
    """Return a name for a table cell, with characters escaped that Markdown or HTML would interpret."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#&@" else letter for letter in words)
    return " ".join(escaped.split())
