"""The laws of the house that can be read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.support import ROOT

# A room imports from rooms further down only; rooms of one floor do not know each other. ARCHITECTURE.md draws it.
FLOORS = [
    {"cli"},
    {"circletools"},
    {"html", "modelexplorer"},
    {"render"},
    {"planning"},
    {"split", "diff", "profile", "check", "inspection"},
    {"origin", "affinity"},
    {"metadata", "outputs"},
    {"edit"},
    {"model", "trace", "runtimes"},
    {"storage", "flatbuf"},
    {"schema"},
    {"errors", "findings", "wording", "lazy"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
SOURCES = sorted(path for folder in ("circletools", "cli") for path in (ROOT / folder).rglob("*.py"))
LIBRARY = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == "circletools"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] == "cli" else parts[1]


def imported_rooms(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and room of every import of the project, also of those inside functions."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 2, f"{path}:{node.lineno}: an import that leaves its room unnamed"
            module = "" if node.level else node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "circletools" else [module]
        line = getattr(node, "lineno", 0)
        for name in names:
            parts = name.split(".")
            if parts[0] == "circletool_cli":
                yield line, "cli"
            elif parts[0] == "circletools":
                yield line, parts[1] if len(parts) > 1 and parts[1] in FLOOR else "circletools"


def upward(source: str, path: Path) -> list[str]:
    """Return the imports of a file that lead up, or sideways into another room."""
    room = room_of(path)
    found = []
    for line, other in imported_rooms(ast.parse(source), path):
        if other != room and FLOOR.get(other, -1) <= FLOOR[room]:
            found.append(f"{name_of(path)}:{line}: {room} imports {other}")
    return found


def forbidden(source: str) -> list[str]:
    """Return what the library must not do: print, exit, know of the command line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in ("print", "exit", "quit", "breakpoint", "input"):
            found.append(f"{node.lineno}: {node.id}")
        if isinstance(node, ast.Name) and node.id == "SystemExit":
            found.append(f"{node.lineno}: SystemExit")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            whole = f"{node.value.id}.{node.attr}"
            if whole in ("sys.exit", "os._exit", "sys.argv"):
                found.append(f"{node.lineno}: {whole}")
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if alias.name.split(".")[0] in CLI_ONLY]
        if isinstance(node, ast.ImportFrom):
            first = (node.module or "").split(".")[0]
            found += [f"{node.lineno}: {first}"] if first in CLI_ONLY else []
            found += [f"{node.lineno}: exit" for a in node.names if first == "sys" and a.name in ("exit", "argv")]
    return found


CLI_ONLY = ("typer", "click", "argparse", "rich", "circletool_cli")


def test_there_is_something_to_look_at() -> None:
    assert {room_of(path) for path in LIBRARY} >= {"flatbuf", "model", "errors", "findings"}


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_returns_values_and_leaves_printing_to_others(path: Path) -> None:
    assert forbidden(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", [path for path in SOURCES if room_of(path) != "__init__"], ids=name_of)
def test_imports_point_down(path: Path) -> None:
    assert upward(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    "source",
    ["print(1)", "import sys\nsys.exit(1)", "import typer", "from typer import Option", "raise SystemExit",
     "from sys import exit", "def f():\n    import click.testing"],
)  # fmt: skip
def test_what_is_forbidden_is_seen(source: str) -> None:
    assert forbidden(source) != []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("flatbuf", "from circletools.model import Model"),
        ("model", "def f():\n    import circletools.origin"),
        ("origin", "from circletools.affinity.read import x"),
        ("origin", "from circletools.render import x"),
        ("render", "import circletool_cli.main"),
        ("schema", "from circletools.flatbuf.schema import load_schema"),
        ("model", "import circletools"),
        ("errors", "from circletools.findings import Finding"),
    ],
)
def test_an_import_that_leads_up_is_seen(place: str, source: str) -> None:
    assert upward(source, ROOT / "circletools" / place / "x.py") != []


def words(source: str) -> Iterator[tuple[int, str]]:
    """Yield the identifiers and strings of a source file, without its docstrings."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield getattr(node, "lineno", 0), value
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", sorted((ROOT / "circletools" / "flatbuf").glob("*.py")), ids=name_of)
def test_the_wire_knows_nothing_of_models(path: Path) -> None:
    known = [word for word in words(path.read_text(encoding="utf-8")) if "operator" in word[1].lower()]
    assert known == []


def test_a_word_of_models_is_seen() -> None:
    assert list(words('"""operator"""\nx = f("the operator")')) == [(2, "x"), (2, "f"), (2, "the operator")]
