"""Lazy exports of packages: names are listed only in a stub, and imported on first access."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from circletools.calls import checked
from circletools.wording import missing

LazyExports = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


class Answering(ModuleType):
    """A module whose errors about missing names say what to write instead."""

    if not TYPE_CHECKING:
        __getattr__ = missing


def lazy_exports(module: str, *, checks_first: bool = True) -> LazyExports:
    """Return the `__getattr__`, `__dir__` and `__all__` of a module according to its stub.

    Type checkers and editors also read the stub. `from a.b import c as c` exports `c` from `a.b`, and `d = c` also
    exports it under another name. A name that is also a module of the package (`edit` is a function and a folder)
    means what the stub declares, even after the module is imported. Functions check their arguments before they run
    or, if `checks_first` is false, after Python has raised an error.
    """
    places = places_of(Path(str(sys.modules[module].__file__)).with_suffix(".pyi"))
    hidden = {f"{module}.{name}" for name, place in places.items() if place != (module, name)}

    class Facade(Answering):
        def __setattr__(self, name: str, value: object) -> None:
            if not (isinstance(value, ModuleType) and value.__name__ in hidden):
                super().__setattr__(name, value)
            if type(value) is ModuleType:
                value.__class__ = Answering

    def find(name: str) -> object:
        if name not in places:
            missing(sys.modules[module], name)
        found = _imported(*places[name], module)
        value = checked(found, module, name, first=checks_first)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *places})

    Facade.__name__ = Answering.__name__ = ModuleType.__name__  # the name in Python's error messages
    sys.modules[module].__class__ = Facade
    return find, names, sorted(places)


def places_of(stub: Path) -> dict[str, tuple[str, str]]:
    """Return where each exported name is defined: a module, and the name in it."""
    return dict(_places(ast.parse(stub.read_text(encoding="utf-8"))))


def _places(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    imported: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                imported |= {one.name: (module, one.name) for one in names}
                yield from ((one.asname, (module, one.name)) for one in names if one.asname)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
                yield name, imported[other]


def _imported(place: str, name: str, package: str) -> object:
    """Return the object `name` in a module, or the module with that name in a package."""
    if package != place:
        found = import_module(place)
        if hasattr(found, name):
            return getattr(found, name)
    return import_module(f"{place}.{name}")
