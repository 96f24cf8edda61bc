"""Translate fields to options: library messages say `min_size=0`, the command line --min-size 0."""

from __future__ import annotations

import re

_OTHERS = {
    "explain": "by operator",
    "from_": "from",
    "limits": "limit",
    "rules": "set",
    "rules_file": "rules",
    "subgraphs": "subgraph",
    "target": "to",
    "traces": "trace",
    "with_": "with",
}
"""Options whose names differ from their field's."""
_FIELD = re.compile(r"`([a-z_]+)=([^`]*)`")


def as_options(message: str) -> str:
    """Return a message in which options replace fields and parameters (`field=value`, or `field=` alone)."""
    return _FIELD.sub(_option, message)


def _option(field: re.Match[str]) -> str:
    name, value = field.groups()
    option = f"--{_OTHERS.get(name, name.replace('_', '-'))}"
    return option if value in ("", "True") else f"{option} {value}"
