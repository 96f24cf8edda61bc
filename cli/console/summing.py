"""Summarize the findings of all models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import circletools as ct

from .terminal import print_message, show


def sum_up(models: Iterable[tuple[ct.render.Tally, bool]], *, statistics: bool) -> None:
    """Show the counts for all models: with `statistics` as a table, and for several models also as one line."""
    read = list(models)
    counts: Counter[tuple[str, str]] = Counter()
    for some, _ in read:
        counts.update(some)
    if statistics:
        show(ct.render.statistics_text(counts))
    if len(read) > 1:
        print_message(ct.render.summary_text(counts, len(read), sum(broken for _, broken in read)))
