"""Functions, requests and classes of the public API that answer calls that cannot work.

What compares arguments is imported at the first call: `circletool --help` does without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.storage": "ct.files",
}


_Kind = TypeVar("_Kind", bound=type)


def checked(value: Any, module: str, name: str) -> Any:
    """Wrap a public name of a module so that functions and requests check their arguments first."""
    title = f"{_TITLES.get(module, module.replace('circletools', 'ct'))}.{name}"
    if isinstance(value, FunctionType):
        made = _checking(value, title)
        made.__module__, made.__qualname__ = module, name  # by which pickle finds it
        return made
    if isinstance(value, type) and name.endswith("Request"):
        plain = vars(value)["__init__"]
        if not hasattr(plain, "__wrapped__"):
            type.__setattr__(value, "__init__", _checking(plain, title))
    return value


def explained(kind: _Kind) -> _Kind:
    """Have the public methods of a class look at their arguments where Python cannot use them."""
    for name, held in list(vars(kind).items()):
        if isinstance(held, FunctionType) and (name == "__init__" or name[0] != "_"):
            setattr(kind, name, _explaining(held, f"ct.{kind.__name__}.{name}".removesuffix(".__init__")))
    return kind


def _checking(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Return a function that looks at its arguments before it does anything."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        import_module("circletools.arguments").check_arguments(call, title, given, named)
        return call(*given, **named)

    return run


def _explaining(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Return a function that looks at its arguments where Python cannot use them: it may be called very often."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (AttributeError, TypeError):
            import_module("circletools.arguments").check_arguments(call, title, given, named)
            raise

    return run


class Attributes:
    """An object that names the attributes it has where one is asked for that it has not."""

    __slots__ = ()

    if not TYPE_CHECKING:  # who checks types knows better

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            has = "" if name.startswith("_") else f" (it has {', '.join(one for one in dir(self) if one[0] != '_')})"
            raise AttributeError(f"{kind} has no attribute {name!r}{has}", name=name, obj=self)
