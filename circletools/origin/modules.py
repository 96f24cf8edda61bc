"""The modules that sources belong to."""

from __future__ import annotations

import re

from circletools.origin.grammar import parts_of
from circletools.origin.source import SourceDetails

_SEPARATORS = re.compile("::|/")


def modules_of(source_name: str, details: SourceDetails, depth: int | None = None) -> list[str]:
    """Return the modules of a source, cut to `depth` parts: by its details, else by its name.

    A name's modules are its paths without their last parts, divided by `::` or `/`; a converter joins the names of
    fused operators with `;`. A name without a path stands for itself.
    """
    if details.path:
        separator = "/" if "/" in details.path else "."
        return [separator.join(details.path.split(separator)[:depth])]
    found = [_cut(_scope(part), depth) for part in parts_of(source_name)]
    return list(dict.fromkeys(found)) or [source_name]


def _scope(path: str) -> str:
    end = max(path.rfind("::"), path.rfind("/"))
    return path[:end] if end > 0 else path


def _cut(scope: str, depth: int | None) -> str:
    if depth is None:
        return scope
    ends = [match.start() for match in _SEPARATORS.finditer(scope) if match.start() > 0]
    return scope[: ends[depth - 1]] if len(ends) >= depth else scope
