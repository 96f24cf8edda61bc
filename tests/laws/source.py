"""The project's source as data: files, their names as modules, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.kit.support import ROOT

PACKAGES = {"circletools": "circletools", "cli": "circletool_cli"}
"""The folders of the product, and the names they are imported by."""

FOLDERS = (*PACKAGES, "tests", "benchmarks", "fuzz", "tools", "testdata", "schema")
"""The folders that have Python files."""


def files(*folders: str) -> list[Path]:
    """Return the Python files of some folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_of(path: Path) -> str:
    """Return the text of a source file."""
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    """Return where a file is below the root."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """Return the name that a file of the product is imported by."""
    first, *others = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in (PACKAGES[first], *others) if part != "__init__")


class Import(NamedTuple):
    """A name that is imported: `from module import name`, or `import module` (then `name` is empty)."""

    line: int
    module: str
    name: str
    inside: bool
    """In a function."""


@cache
def imports(source: str, path: Path) -> tuple[Import, ...]:
    """Return all imports of a file, wherever they stand; relative ones by their whole names."""
    return tuple(_imports(source, path))


def _imports(source: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    package = module_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, "", id(node) in inside)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(node.lineno, module, alias.name, id(node) in inside)


def graph(sources: Mapping[Path, str]) -> dict[str, set[str]]:
    """Return which modules each module imports, of those given."""
    known = {module_of(path) for path in sources}
    found: dict[str, set[str]] = {}
    for path, source in sources.items():
        targets = (
            f"{one.module}.{one.name}" if f"{one.module}.{one.name}" in known else one.module
            for one in imports(source, path)
        )
        found[module_of(path)] = {target for target in targets if target in known} - {module_of(path)}
    return found


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the modules that import each other, directly or by way of others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for module in edges[waiting.pop()] - seen:
                seen.add(module)
                waiting.append(module)
        return seen

    below = {module: reached(module) for module in edges}
    found = {frozenset(other for other in below[module] if module in below[other]) for module in edges}
    return sorted(sorted(circle) for circle in found if circle)
