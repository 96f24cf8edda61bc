"""Wrap the functions, requests and classes of the public API so that wrong calls raise helpful errors.

The argument checks are imported at the first call, so that `circletool --help` need not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, wraps
from importlib import import_module
from inspect import isgeneratorfunction
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from circletools.errors import UsageError

_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.origin.exporters": "ct.exporters",
    "circletools.storage": "ct.files",
}
_Kind = TypeVar("_Kind", bound=type)


class Lines(Iterator[str]):
    """Lines of text that are made one by one; `str()` gives the whole text, to which the methods of a str apply."""

    def __init__(self, make: Callable[[], Iterator[str]]) -> None:
        """Start with a function that returns an iterator over all lines."""
        self._make, self._rest = make, make()

    def __iter__(self) -> Iterator[str]:
        return self._rest

    def __next__(self) -> str:
        return next(self._rest)

    def __str__(self) -> str:
        return "\n".join(self._make())

    if not TYPE_CHECKING:
        __repr__ = __str__

        def __add__(self, other: str) -> str:
            return str(self) + other

        def __radd__(self, other: Any) -> Any:
            return other + str(self) if isinstance(other, str) else NotImplemented

        def __getitem__(self, index: Any) -> Any:
            return [*self._make()][index]

        def __contains__(self, part: object) -> bool:
            return part in str(self)

        def __getattr__(self, name: str) -> Any:
            return getattr("" if name[0] == "_" else str(self), name)


class Block(AbstractContextManager[Any]):
    """A context manager whose other attributes say that `with` is missing."""

    def __init__(self, made: AbstractContextManager[Any], title: str) -> None:
        """Wrap the context manager that the function called `title` made."""
        self._made, self._title = made, title

    def __enter__(self) -> Any:
        return self._made.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._made.__exit__(*error)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            way = f"with {self._title}(...) as log: ...; then log.{name}" if name[0] != "_" else ""
            raise AttributeError(f"{name!r} does not exist before `with`" + f" (write {way})" * bool(way))


def title_of(module: str, name: str) -> str:
    """Return a public name in a module as users write it."""
    return f"{_TITLES.get(module, module.replace('circletools', 'ct'))}.{name}"


def checked(value: Any, module: str, name: str, *, first: bool = True) -> Any:
    """Wrap what a public name of a module refers to, so that functions and requests check their arguments.

    With `first`, they check before each call; otherwise, only after Python has raised an error.
    """
    if isinstance(value, FunctionType):
        title = title_of(module, name)
        made = (_checking if first or isgeneratorfunction(value) else _explaining)(_shown(value, title), title)
        made.__module__, made.__name__, made.__qualname__ = module, name, name  # for pickle and `help`
        return made
    if isinstance(value, type) and name.endswith("Request"):
        plain = vars(value)["__init__"]
        if not hasattr(plain, "__wrapped__"):
            type.__setattr__(value, "__init__", _checking(plain, title_of(module, name)))
    return value


def _shown(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Make a function return Lines instead of a generator of strings, and a Block instead of a context manager."""
    if isgeneratorfunction(getattr(call, "__wrapped__", None)):
        return wraps(call)(lambda *given, **named: Block(call(*given, **named), title))
    if call.__annotations__.get("return") == "Iterator[str]":
        return wraps(call)(lambda *given, **named: Lines(partial(call, *given, **named)))
    return call


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
