"""The requirements of a model as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.render.table import table_text
from circletools.requires.requirements import Requirements
from circletools.requires.table import runtime_table, title


def requirements_text(found: Requirements) -> Iterator[str]:
    """Yield the answer, then requirements that older runtimes do not meet, the runtimes, and min_runtime_version."""
    if found.first is None:
        yield "loads in no tested release"
    else:
        since = f"{title(found.first)} and later"
        yield f"loads in every tested release ({since})" if found.is_oldest else f"loads in {since}"
    rows = [
        [
            row.what,
            "none" if row.first is None else title(row.first),
            str(row.count),
            ", ".join([*row.sources[:2], *["..."] * (len(row.sources) > 2)]),
        ]
        for row in found.rows
    ]
    if rows:
        yield from table_text([["needs", "first runtime", "count", "sources"], *rows], right=(2,))
    if len(found.verdicts) < len(runtime_table().runtimes):
        for one in found.verdicts:
            words = f"{'loads it, but computes wrong values' if one.wrong else 'does not load it'}: "
            yield f"{title(one.runtime)} {'loads it' if one.takes else words + ', '.join(one.lacking)}"
    minimum = found.minimum
    declared = "none" if minimum.declared is None else minimum.declared
    needed = "no known TensorFlow release suffices" if minimum.needed is None else f"needed: {minimum.needed}"
    more = " or older" if minimum.is_bound else ""
    more += " without the custom operators" if found.first is None and minimum.needed is not None else ""
    yield f"min_runtime_version: {declared} ({minimum.state}; {needed}{more})"
