"""docs/stability.md says what is stable; here is whether it tells all of it."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from tests.kit.support import ROOT

TEXT = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def listed() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(circletools[a-z_.]*)` \| (.+) \|$", TEXT, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def public() -> dict[str, list[str]]:
    """Return the modules that have `__all__`, and what is in it, from the source."""
    found = {}
    for path in sorted((ROOT / "circletools").rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
                parts = path.relative_to(ROOT).with_suffix("").parts
                found[".".join(part for part in parts if part != "__init__")] = ast.literal_eval(statement.value)
    return found


def test_the_stable_names_are_those_in_the_document() -> None:
    assert listed() == public()


@pytest.mark.parametrize("module", sorted(public()))
def test_every_stable_name_is_there_and_explained(module: str) -> None:
    names = public()[module]
    for name in names:
        value = getattr(import_module(module), name)
        if callable(value) and not hasattr(value, "__args__"):
            assert value.__doc__, name


def test_all_documents_have_the_version_that_is_told() -> None:
    assert "`schema_version`, 1 so far" in TEXT
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "circletools").rglob("*.py")]
    assert {version for text in sources for version in re.findall(r"^SCHEMA_VERSION = \"?(\d+)", text, re.M)} == {"1"}
