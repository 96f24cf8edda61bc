"""docs/stability.md lists the whole facade and nothing else."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import circletools as ct
from tests.kit.support import ROOT
from tools.names import kind_of, tables

TEXT = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
FACADE: ModuleType = ct


def public() -> list[str]:
    """Return the modules that the facade offers."""
    return [name for name in FACADE.__all__ if kind_of(name) == "modules"]


def test_the_names_are_those_of_the_facade_and_its_modules() -> None:
    assert tables() in TEXT, "python -m tools.names writes them again"


def test_no_other_module_is_named() -> None:
    assert set(re.findall(r"circletools\.\w+", TEXT)) == set()


@pytest.mark.parametrize("module", ["", *public()])
def test_every_stable_name_is_there_and_explained(module: str) -> None:
    found = getattr(ct, module) if module else ct
    for name in found.__all__:
        value = getattr(found, name)
        if callable(value) and not hasattr(value, "__args__"):
            assert value.__doc__, name


def test_all_documents_have_the_documented_version() -> None:
    assert f"`schema_version`, currently {ct.render.SCHEMA_VERSION}" in TEXT
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "circletools").rglob("*.py")]
    assert {version for text in sources for version in re.findall(r"^SCHEMA_VERSION = \"?(\d+)", text, re.M)} == {"1"}
