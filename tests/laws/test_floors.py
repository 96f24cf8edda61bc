"""Rooms stand on floors: an import leads down, and no files import each other in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.support import ROOT
from tests.laws.source import PACKAGES, circles, files, graph, imports, name_of, text_of

# A room imports from rooms further down only; rooms of one floor do not know each other. ARCHITECTURE.md draws it.
FLOORS = [
    {"__main__"},
    {"cli"},
    {"circletools"},
    {"checks", "entries", "types"},
    {"html", "modelexplorer"},
    {"render"},
    {"reduction"},
    {"numerics"},
    {"planning", "surgery"},
    {"diff", "profile", "check", "inspection", "editing", "judging"},
    {"fit"},
    {"parts", "cost"},
    {"requires"},
    {"origin", "affinity"},
    {"metadata", "outputs"},
    {"edit", "asking", "soundness"},
    {"shapes"},
    {"graph"},
    {"model", "trace", "runtimes"},
    {"storage", "flatbuf"},
    {"schema"},
    {"findings"},
    {"lazy"},
    {"answers"},
    {"usage"},
    {"snippets"},
    {"arguments"},
    {"calls"},
    {"errors", "wording", "version"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
SOURCES = [*files(*PACKAGES), *(ROOT / "circletools").rglob("*.pyi")]
FACADE = ROOT / "circletools" / "__init__.py"


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "cli" or path.with_suffix(".py") == FACADE else parts[1]


def room_named(module: str, name: str) -> str | None:
    first, *others = f"{module}.{name}".split(".")
    if first == PACKAGES["cli"]:
        return "cli"
    return (others[0] if others[0] in FLOOR else "circletools") if first == "circletools" else None


def upward(source: str, path: Path) -> list[str]:
    """Return the imports of a file that lead up, or sideways into another room."""
    room = room_of(path)
    found = []
    for one in imports(source, path):
        other = room_named(one.module, one.name)
        if other not in (None, room) and FLOOR[other] <= FLOOR[room]:
            found.append(f"{name_of(path)}:{one.line}: {room} imports {other}")
    return found


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in SOURCES} | {"schema"} == set(FLOOR)


def test_imports_lead_down() -> None:
    assert [found for path in SOURCES for found in upward(text_of(path), path)] == []


def test_no_files_import_each_other() -> None:
    assert circles(graph({path: text_of(path) for path in SOURCES})) == []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("flatbuf", "from circletools.model import Model"),
        ("model", "def f():\n    import circletools.origin"),
        (
            "model",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circletools.edit.edit import ModelEdit",
        ),
        ("origin", "from circletools.affinity.tables import x"),
        ("origin", "from ..affinity.read import x"),
        ("origin", "from .. import render"),
        ("origin", "from circletools.render import x"),
        ("render", "import circletool_cli.main"),
        ("schema", "from circletools.flatbuf.schema import load_schema"),
        ("model", "import circletools"),
        ("model", "from circletools import Model"),
        ("errors", "from circletools.findings import Finding"),
    ],
)
def test_an_import_that_leads_up_is_seen(place: str, source: str) -> None:
    assert upward(source, ROOT / "circletools" / place / "x.py") != []


@pytest.mark.parametrize("source", ["import os", "from circletools.errors import x", "from .y import z"])
def test_an_import_that_leads_down_is_none(source: str) -> None:
    assert upward(source, ROOT / "circletools" / "model" / "x.py") == []


@pytest.mark.parametrize(
    "back",
    [
        "from circletools.model.a import x",
        "from .a import x",
        "from . import a",
        "import circletools.model.a",
        "def f():\n    from .a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x",
    ],
)
def test_a_circle_is_seen(back: str) -> None:
    folder = ROOT / "circletools" / "model"
    sources = {folder / "a.py": "from .b import y", folder / "b.py": "from .c import z", folder / "c.py": back}
    names = [f"circletools.model.{name}" for name in "abc"]
    assert circles(graph(sources)) == [names]
    assert circles(graph({**sources, folder / "c.py": "import os"})) == []


def test_the_face_of_a_package_is_a_file_of_the_circle() -> None:
    folder = ROOT / "circletools" / "model"
    sources = {folder / "__init__.py": "from circletools.model.a import x", folder / "a.py": "from . import x"}
    assert circles(graph(sources)) == [["circletools.model", "circletools.model.a"]]
