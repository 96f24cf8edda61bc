"""Faces of packages: names that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def face(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    `places` has for each name the module that defines it, or `module:name` where the module has another name for it;
    a module that is itself the value is written `module:`. A name of the face that is also a module of the package
    (`edit` is a function and a folder) stays what `places` says, whoever imports the module.
    """
    hidden = {f"{package}.{name}" for name, place in places.items() if place != f"{package}.{name}:"}

    class Face(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            if not (isinstance(value, ModuleType) and value.__name__ in hidden):
                super().__setattr__(name, value)

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, colon, attribute = places[name].partition(":")
        found = import_module(module)
        value: object = found if colon and not attribute else getattr(found, attribute or name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    sys.modules[package].__class__ = Face
    return find, names
