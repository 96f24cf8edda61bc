"""Regenerate the tables of public names in docs/stability.md: `python -m tools.names`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import circletools as ct

DOCUMENT = Path(__file__).parents[1] / "docs" / "stability.md"
_TABLES = re.compile(r"(?<=<!-- made by tools/names.py -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def kind_of(name: str) -> str:
    """Return the kind of a name in the facade: functions, values, errors, modules or version."""
    value = getattr(ct, name)
    if isinstance(value, ModuleType):
        return "modules"
    if isinstance(value, type):
        return "errors" if issubclass(value, Exception) else "values"
    if isinstance(value, str):
        return "version"
    return "functions" if name[0].islower() else "values"


def tables() -> str:
    """Return tables of the names in the facade and in its modules."""
    names: list[str] = vars(ct)["__all__"]
    kinds = ("functions", "values", "errors", "modules", "version")
    lines = ["| what | names |", "|---|---|"]
    lines += [_row(kind, (name for name in names if kind_of(name) == kind)) for kind in kinds]
    lines += [_row(f"`ct.{name}`", getattr(ct, name).__all__) for name in names if kind_of(name) == "modules"]
    return "\n".join(lines)


def _row(first: str, names: Iterable[str]) -> str:
    return f"| {first} | {', '.join(f'`{name}`' for name in names)} |"


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(_TABLES.sub(lambda _: tables(), text), encoding="utf-8")
