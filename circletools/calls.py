"""Wrap functions, requests and classes of the public API so that wrong calls raise a helpful error.

The argument checks are imported at the first call, so `circletool --help` does not load them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, is_dataclass
from enum import Enum
from functools import cached_property, wraps
from importlib import import_module
from types import FunctionType
from typing import Any, TypeVar

_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.storage": "ct.files",
}
_answering: set[type] = set()
_Kind = TypeVar("_Kind", bound=type)


def title_of(module: str, name: str) -> str:
    """Return how programs write a public name of a module."""
    return f"{_TITLES.get(module, module.replace('circletools', 'ct'))}.{name}"


def checked(value: Any, module: str, name: str, *, first: bool = True) -> Any:
    """Wrap a public name of a module so that functions and requests check their arguments.

    They do so before anything else, or where Python cannot use them, as `first` says. Classes, and those of what
    functions return, answer wrong uses of their objects.
    """
    if isinstance(value, FunctionType):
        made = (_checking if first else _explaining)(value, title_of(module, name))
        made.__module__, made.__qualname__ = module, name  # pickle finds the function by this name
        _answer(value.__annotations__.get("return"), value.__globals__)
        return made
    if isinstance(value, type):
        _answer(name, {name: value})
        plain = vars(value).get("__init__")
        if plain and name.endswith("Request") and not hasattr(plain, "__wrapped__"):
            type.__setattr__(value, "__init__", _checking(plain, title_of(module, name)))
    return value


def explained(kind: _Kind) -> _Kind:
    """Make public methods of a class check their arguments if Python raises an error.

    What is computed once cannot be set.
    """
    for name, held in list(vars(kind).items()):
        if isinstance(held, FunctionType) and (name == "__init__" or name[0] != "_"):
            title = f"ct.{kind.__name__}.{name}".removesuffix(".__init__")
            setattr(kind, name, _explaining(held, title, kind))
    type.__setattr__(kind, "__setattr__", _assign)
    return kind


def _checking(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Return a function that checks its arguments before the call."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        import_module("circletools.arguments").check_arguments(call, title, given, named)
        return call(*given, **named)

    return run


def _explaining(call: Callable[..., Any], title: str, owner: type | None = None) -> Callable[..., Any]:
    """Return a function that checks its arguments only after an error, because it may be called very often."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (AttributeError, TypeError, ValueError):
            import_module("circletools.arguments").check_arguments(call, title, given, named, owner)
            raise

    return run


def _answer(annotation: object, names: Mapping[str, Any]) -> None:
    """Have the classes that an annotation names, and those of their attributes, answer wrong uses."""
    for word in re.findall(r"\w+", str(annotation)):
        kind = names.get(word)
        if not isinstance(kind, type) or kind in _answering or not _is_plain(kind):
            continue
        _answering.add(kind)
        for name, answer in {"__getattr__": _no_attribute, "__getitem__": _no_item}.items():
            if not hasattr(kind, name):
                setattr(kind, name, answer)
        if "__setattr__" in vars(kind):  # it is frozen
            type.__setattr__(kind, "__setattr__", _assign)
        for base in filter(_is_plain, kind.__mro__):
            reads = [getattr(one, "fget", None) or getattr(one, "func", one) for one in vars(base).values()]
            returned = [getattr(one, "__annotations__", {}).get("return") for one in reads]
            for inner in (*base.__annotations__.values(), *returned, getattr(base, "__orig_bases__", ())):
                _answer(inner, vars(sys.modules[base.__module__]))


def _is_plain(kind: type) -> bool:
    ours = kind.__module__.startswith("circletools.") and not getattr(kind, "_is_protocol", False)
    return ours and not issubclass(kind, Enum | BaseException)


def _no_attribute(self: object, name: str) -> Any:
    has = "" if name.startswith("_") else f" ({_attributes(self)})"
    if has and isinstance(self, Sequence) and self and name in dir(self[0]):
        has = f" (its items have: [0].{name})"
    raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{has}", name=name, obj=self)


def _no_item(self: object, index: object) -> Any:
    raise TypeError(f"{type(self).__name__} is no list ({_attributes(self)})")


def _attributes(value: object) -> str:
    return f"it has {', '.join(name for name in dir(value) if name[0] != '_')}"


def _assign(self: object, name: str, value: object) -> None:
    """Refuse to set what is frozen, or computed once."""
    if is_dataclass(self) or isinstance(getattr(type(self), name, None), cached_property):
        words = "ct.edit(model) changes a model, dataclasses.replace makes another value"
        raise FrozenInstanceError(f"{type(self).__name__}.{name} is read only ({words})")
    object.__setattr__(self, name, value)


class Named(dict[str, Any]):
    """Values by name, which says what names there are."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"there is no {name!r} (there are {', '.join(map(str, self))})")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"write [{name!r}]; there are {', '.join(map(str, self))}")
