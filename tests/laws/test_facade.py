"""The facade: the command line takes nothing past it, and it is for type checkers what it is for Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

import circletools as ct
from tests.kit.support import ROOT
from tests.laws.source import files, imports, module_of, name_of, text_of


def faces() -> dict[str, frozenset[str]]:
    """Return the names of the facade, and of the modules in it; those of the facade itself are under no name."""
    found = {"": frozenset(ct.__all__)}
    for name in ct.__all__:
        value = getattr(ct, name)
        if isinstance(value, ModuleType):
            found[name] = frozenset(value.__all__)
    return found


def chain(node: ast.AST) -> list[str]:
    """Return the names of `a.b.c`; nothing for what is no such chain."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def past_the_facade(source: str, path: Path, known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return what a file takes from the library other than names of its facade."""
    found = []
    for one in imports(source, path):
        of_facade = one.module == "circletools" and (not one.name or one.name in known[""])
        if one.module.split(".")[0] == "circletools" and not of_facade:
            found.append(f"{one.line}: {one.module} {one.name}".rstrip())
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            others = [one.name for one in node.names if one.name == "circletools" and one.asname != "ct"]
            found += [f"{line}: {name} is not called ct" for name in others]
        if isinstance(node, ast.Constant) and re.match(r"circletools\.\w", str(node.value)):
            found.append(f"{line}: {node.value!r}")
        match chain(node):
            case ["ct", name, *_] if name not in known[""]:
                found.append(f"{line}: ct.{name}")
            case ["ct", face, name, *_] if face in known and name not in known[face]:
                found.append(f"{line}: ct.{face}.{name}")
    return found


@pytest.mark.parametrize("path", files("cli"), ids=name_of)
def test_the_command_line_takes_names_of_the_facade_only(path: Path) -> None:
    assert past_the_facade(text_of(path), path, faces()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import circletools.model",
        "import circletools",
        "import circletools as tools",
        "from circletools.errors import UsageError",
        "from circletools import errors",
        "from circletools import _PLACES",
        "def f():\n    from circletools.edit.edit import ModelEdit",
        "import circletools as ct\nct.origin.embed",
        "import circletools as ct\nct.origins.tables",
        "import circletools as ct\nct.origins._x(1).y",
        "import circletools as ct\nct._PLACES",
        "importlib.import_module('circletools.model')",
    ],
)
def test_a_name_past_the_facade_is_seen(source: str) -> None:
    assert past_the_facade(source, ROOT / "cli" / "commands" / "x.py", faces()) != []


@pytest.mark.parametrize(
    "source",
    [
        "import circletools as ct\nct.UsageError('x')\nct.origins.embed(edit).y",
        "from circletools import UsageError, origins",
        "import circletools as ct\nct.Model.subgraphs",
        "from ..console.terminal import show",
    ],
)
def test_names_of_the_facade_may_be_taken(source: str) -> None:
    assert past_the_facade(source, ROOT / "cli" / "commands" / "x.py", faces()) == []


def places(tree: ast.Module) -> dict[str, str]:
    """Return the table of a lazy package."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PLACES":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    return {}


def typed(tree: ast.Module) -> dict[str, str]:
    """Return where the names of a lazy package come from for type checkers, written as in its table."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                for alias in statement.names:
                    name = alias.asname or alias.name
                    whole = f"{statement.module}.{alias.name}"
                    if statement.module == "circletools" or isinstance(_value(whole), ModuleType):
                        found[name] = f"{whole}:"
                    else:
                        found[name] = str(statement.module) + (f":{alias.name}" if name != alias.name else "")
    return found


def _value(whole: str) -> object:
    module, _, name = whole.rpartition(".")
    return getattr(import_module(module), name)


def hides_its_lookup(source: str) -> bool:
    """Say whether type checkers see no `__getattr__`: else every name would be taken for one of the package."""
    return re.search(r"^if not TYPE_CHECKING:.*\n    __getattr__, __dir__ = face\(", source, re.MULTILINE) is not None


LAZY = [path for path in files("circletools") if "face(__name__" in text_of(path)]


@pytest.mark.parametrize("path", LAZY, ids=name_of)
def test_a_lazy_package_is_for_type_checkers_what_it_is_for_python(path: Path) -> None:
    tree = ast.parse(text_of(path))
    table = places(tree)
    assert typed(tree) == table
    assert hides_its_lookup(text_of(path))
    module = import_module(module_of(path))
    eager = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing", "circletools.lazy")
        for alias in node.names
    }
    assert set(module.__all__) - eager - set(vars(module)) == set(table) - set(vars(module))
    assert module.__all__ == sorted(module.__all__, key=_order)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


def types_in(hint: object) -> Iterator[type]:
    """Yield the classes of circletools that an annotation names."""
    if isinstance(hint, type) and hint.__module__.startswith("circletools."):
        yield hint
    for part in get_args(hint):
        yield from types_in(part)


def test_what_functions_return_can_be_named() -> None:
    values = [getattr(getattr(ct, face) if face else ct, name) for face, names in faces().items() for name in names]
    returned = {
        (function.__name__, one)
        for function in values
        if isfunction(function)
        for one in types_in(get_type_hints(function).get("return"))
    }
    assert len(returned) > 40
    assert {(name, one) for name, one in returned if one not in values} == set()


def _order(name: str) -> tuple[int, str]:
    """Constants, classes, all else: as ruff sorts them."""
    return (0 if name.isupper() else 1 if name.strip("_")[0].isupper() else 2), name
