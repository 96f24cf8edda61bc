"""docs/stability.md lists the facade and nothing else; here is whether it tells all of it."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import circletools as ct
from tests.kit.support import ROOT

TEXT = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
FACADE: ModuleType = ct
KINDS = {"functions", "values", "errors", "modules", "version"}


def listed(pattern: str) -> dict[str, list[str]]:
    """Return the names in the rows whose first cell is like that."""
    rows = re.findall(rf"^\| {pattern} \| (.+) \|$", TEXT, re.MULTILINE)
    return {row: re.findall(r"`(\w+)`", names) for row, names in rows}


def kind_of(name: str) -> str:
    value = getattr(ct, name)
    if isinstance(value, ModuleType):
        return "modules"
    if isinstance(value, type):
        return "errors" if issubclass(value, Exception) else "values"
    if isinstance(value, str):
        return "version"
    return "functions" if name[0].islower() else "values"


def public() -> dict[str, list[str]]:
    """Return the names of each module that the facade offers."""
    return {name: list(getattr(ct, name).__all__) for name in FACADE.__all__ if kind_of(name) == "modules"}


def test_the_names_in_the_document_are_those_of_the_facade() -> None:
    names: list[str] = FACADE.__all__
    expected = {kind: [name for name in names if kind_of(name) == kind] for kind in KINDS}
    assert listed(f"({'|'.join(KINDS)})") == expected


def test_the_names_of_its_modules_are_in_the_document() -> None:
    assert listed(r"`ct\.(\w+)`") == public()


def test_no_other_module_is_named() -> None:
    assert set(re.findall(r"circletools\.\w+", TEXT)) == set()


@pytest.mark.parametrize("module", ["", *public()])
def test_every_stable_name_is_there_and_explained(module: str) -> None:
    found = getattr(ct, module) if module else ct
    for name in found.__all__:
        value = getattr(found, name)
        if callable(value) and not hasattr(value, "__args__"):
            assert value.__doc__, name


def test_all_documents_have_the_version_that_is_told() -> None:
    assert f"`schema_version`, {ct.render.SCHEMA_VERSION} so far" in TEXT
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "circletools").rglob("*.py")]
    assert {version for text in sources for version in re.findall(r"^SCHEMA_VERSION = \"?(\d+)", text, re.M)} == {"1"}
