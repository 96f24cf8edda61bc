"""Translate fields into options: `min_size=0` in a message of the library becomes --min-size 0."""

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
"""The options whose names differ from those of their fields."""
_FIELD = re.compile(r"`([a-z_]+)=([^`]*)`")


def as_options(message: str) -> str:
    """Return a message with fields and parameters (`field=value`, or just `field=`) replaced by options."""
    return _FIELD.sub(_option, message)


def _option(field: re.Match[str]) -> str:
    name, value = field.groups()
    option = f"--{_OTHERS.get(name, name.replace('_', '-'))}"
    value = value.removeprefix("('").removesuffix("',)")
    return option if value in ("", "True") else f"{option} {value}"
