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
from circletools.lazy import places_of
from tests.kit.support import ROOT
from tests.laws.source import files, imports, module_of, name_of, text_of

FACADE: ModuleType = ct


def faces() -> dict[str, frozenset[str]]:
    """Return the names of the facade, and of the modules in it; those of the facade itself are under no name."""
    found = {"": frozenset(FACADE.__all__)}
    for name in FACADE.__all__:
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
        "from circletools import face",
        "def f():\n    from circletools.edit.edit import ModelEdit",
        "import circletools as ct\nct.origin.embed",
        "import circletools as ct\nct.origins.tables",
        "import circletools as ct\nct.origins._x(1).y",
        "import circletools as ct\nct.face",
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


@pytest.mark.parametrize(
    "path", [path for path in files("circletools") if "lazy_exports(__name__" in text_of(path)], ids=name_of
)
def test_a_face_has_the_names_of_its_stub(path: Path) -> None:
    module = import_module(module_of(path))
    assert module.__all__ == sorted(places_of(path.with_suffix(".pyi")))
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_every_stub_is_one_of_a_face() -> None:
    stubs = (ROOT / "circletools").rglob("*.pyi")
    assert [path for path in stubs if "lazy_exports(__name__" not in text_of(path.with_suffix(".py"))] == []


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
