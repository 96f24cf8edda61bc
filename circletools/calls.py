"""Wrap functions, requests and classes of the public API so that wrong calls raise a helpful error.

The argument checks are imported at the first call, so `circletool --help` does not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from functools import cached_property, wraps
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.storage": "ct.files",
}
_Kind = TypeVar("_Kind", bound=type)


def title_of(module: str, name: str) -> str:
    """Return how programs write a public name of a module."""
    return f"{_TITLES.get(module, module.replace('circletools', 'ct'))}.{name}"


def checked(value: Any, module: str, name: str, *, first: bool = True) -> Any:
    """Wrap a public name of a module so that functions and requests check their arguments.

    They do so before anything else, or where Python cannot use them, as `first` says.
    """
    if isinstance(value, FunctionType):
        made = (_checking if first else _explaining)(value, title_of(module, name))
        made.__module__, made.__qualname__ = module, name  # pickle finds the function by this name
        return made
    if isinstance(value, type) and name.endswith("Request"):
        plain = vars(value)["__init__"]
        if not hasattr(plain, "__wrapped__"):
            type.__setattr__(value, "__init__", _checking(plain, title_of(module, name)))
    return value


def explained(kind: _Kind) -> _Kind:
    """Make public methods of a class check their arguments if Python raises an error.

    Its objects say that they are no list and, of what is computed once, that it is read only.
    """
    for name, held in list(vars(kind).items()):
        if isinstance(held, FunctionType) and (name == "__init__" or name[0] != "_"):
            title = f"ct.{kind.__name__}.{name}".removesuffix(".__init__")
            setattr(kind, name, _explaining(held, title, kind))
    for name, answer in {"__setattr__": _assign, "__getitem__": _no_item}.items():
        type.__setattr__(kind, name, answer)
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


class Attributes:
    """An object that lists its attributes in the error about one that it does not have."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker reports these before the program runs

        def __getattr__(self, name: str) -> Any:
            has = "" if name.startswith("_") else f" ({_attributes(self)})"
            if has and isinstance(self, Sequence) and self and name in dir(self[0]):
                has = f" (its items have: [0].{name})"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{has}", name=name, obj=self)


def _no_item(self: object, index: object) -> Any:
    raise TypeError(f"{type(self).__name__} is no list ({_attributes(self)})")


def _attributes(value: object) -> str:
    return f"it has {', '.join(name for name in dir(value) if name[0] != '_')}"


def _assign(self: object, name: str, value: object) -> None:
    """Refuse to set what is computed once."""
    if isinstance(getattr(type(self), name, None), cached_property):
        words = "ct.edit(model) changes a model, dataclasses.replace makes another value"
        raise FrozenInstanceError(f"{type(self).__name__}.{name} is read only ({words})")
    object.__setattr__(self, name, value)


class Named(dict[str, Any]):
    """Values by name, which says what names there are."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"there is no {name!r} (there are {', '.join(map(str, self))})")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"write [{name!r}]; there are {', '.join(map(str, self))}")
