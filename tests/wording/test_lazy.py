"""Faces of packages: what they name, and that a name stays what it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

INIT = "from circletools.lazy import lazy_exports\n__getattr__, __dir__, __all__ = lazy_exports(__name__)\nown = 5\n"
STUB = """
from thing import inside as whole
from thing import other as other
from thing.inside import function
from thing.inside import plain as plain
from thing.inside import value as renamed
inside = function
"""
NAMES = ["inside", "other", "plain", "renamed", "whole"]


@pytest.fixture
def thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "__init__.pyi").write_text(STUB)
    (folder / "inside.py").write_text("plain, value = 1, 2\ndef function(): return 3\n")
    (folder / "other.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("thing")
    for name in [name for name in sys.modules if name.partition(".")[0] == "thing"]:
        del sys.modules[name]


def test_names_are_found_where_they_are_defined(thing: ModuleType) -> None:
    assert "thing.inside" not in sys.modules
    assert (thing.plain, thing.renamed, thing.own) == (1, 2, 5)
    assert thing.whole is sys.modules["thing.inside"]
    assert "plain" in vars(thing)


def test_a_name_that_is_also_a_module_keeps_its_public_meaning(thing: ModuleType) -> None:
    module = import_module("thing.inside")
    assert thing.inside() == 3
    assert "inside" in vars(thing)
    thing.inside = module  # type: ignore[attr-defined]
    assert thing.inside() == 3
    import_module("thing.other")
    assert "other" in vars(thing)
    assert thing.other is sys.modules["thing.other"]


def test_others_are_refused_and_all_are_listed(thing: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'thing' has no attribute 'missing'"):
        _ = thing.missing
    assert thing.__all__ == NAMES
    assert {*NAMES, "own"} <= set(dir(thing))
    assert dir(thing) == sorted(dir(thing))
    thing.new = 7  # type: ignore[attr-defined]
    assert thing.new == 7
