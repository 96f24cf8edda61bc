"""Wrap the functions, requests and classes of the public API so that wrong calls raise helpful errors.

The argument checks are imported at the first call, so that `circletool --help` need not load them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, TypeVar

from circletools.errors import UsageError

_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.origin.exporters": "ct.exporters",
    "circletools.storage": "ct.files",
}
_Kind = TypeVar("_Kind", bound=type)


def title_of(module: str, name: str) -> str:
    """Return a public name in a module as users write it."""
    return f"{_TITLES.get(module, module.replace('circletools', 'ct'))}.{name}"


def checked(value: Any, module: str, name: str, *, first: bool = True) -> Any:
    """Wrap what a public name of a module refers to, so that functions and requests check their arguments.

    With `first`, they check before each call; otherwise, only after Python has raised an error.
    """
    if isinstance(value, FunctionType):
        made = (_checking if first or isgeneratorfunction(value) else _explaining)(value, title_of(module, name))
        made.__module__, made.__name__, made.__qualname__ = module, name, name  # for pickle and `help`
        return made
    if isinstance(value, type) and name.endswith("Request"):
        plain = vars(value)["__init__"]
        if not hasattr(plain, "__wrapped__"):
            type.__setattr__(value, "__init__", _checking(plain, title_of(module, name)))
    return value


def explained(kind: _Kind) -> _Kind:
    """Make the public methods of a class check their arguments when Python raises an error."""
    for name, held in list(vars(kind).items()):
        is_made = name == "__init__" and "__dataclass_fields__" not in vars(kind)
        if isinstance(held, FunctionType) and (is_made or name[0] != "_"):
            title = f"ct.{kind.__name__}.{name}".removesuffix(".__init__")
            setattr(kind, name, _explaining(held, title, kind))
    return kind


def _checking(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Return a function that checks its arguments before the call."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        import_module("circletools.arguments").check_arguments(call, title, given, named)
        return call(*given, **named)

    return run


def _explaining(call: Callable[..., Any], title: str, owner: type | None = None) -> Callable[..., Any]:
    """Return a function that checks its arguments only after an error, since it may be called very often."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (AttributeError, TypeError, ValueError, UsageError):
            import_module("circletools.arguments").check_arguments(call, title, given, named, owner)
            raise

    return run
