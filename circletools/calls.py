"""Calls of the public API that cannot work: arguments are compared with annotations before anything is done.

Only what an annotation surely excludes is refused: numpy's numbers count as numbers, a list as a tuple; a text is not
a sequence of texts, since it would be taken letter by letter.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from types import FunctionType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from circletools.errors import UsageError, shortened
from circletools.wording import did_you_mean

_SHOWN = 60  # characters of a wrong value
_MADE_BY = {
    "Model": "ct.open(path)",
    "ModelEdit": "ct.edit(model)",
    "OperatorTrace": "ct.read_profile(path)",
    "Source": "ct.open(path)",
    "Plan": "ct.plan(model, request)",
    "TraceAnalysis": "ct.read_trace(path)",
}
_TITLES = {
    "circletools.entries": "ct.metadata",
    "circletools.origin": "ct.origins",
    "circletools.storage": "ct.files",
}
_NUMBERS = {int: "__index__", float: "__float__"}


_Kind = TypeVar("_Kind", bound=type)


class CallError(UsageError, TypeError):
    """A call with arguments that the function or request does not take."""


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
        _check(call, title, given, named)
        return call(*given, **named)

    return run


def _explaining(call: Callable[..., Any], title: str) -> Callable[..., Any]:
    """Return a function that looks at its arguments where Python cannot use them: it may be called very often."""

    @wraps(call)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (AttributeError, TypeError):
            _check(call, title, given, named)
            raise

    return run


def _check(call: Callable[..., Any], title: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise CallError for arguments that a function does not take."""
    signature, hints = _declared(call)
    takes = [name for name in signature.parameters if name != "self"]
    unknown = [] if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()) else {*named} - {*takes}
    try:
        if unknown:
            raise TypeError(f"there is no parameter {min(unknown)!r}")
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        raise CallError(f"{title}: {error}", hint=f"it takes {', '.join(takes) or 'nothing'}") from error
    for parameter, value in bound.items():
        if parameter in hints and not _fits(value, hints[parameter]):
            raise _refusal(title, parameter, value, hints[parameter])


class Attributes:
    """An object that names the attributes it has where one is asked for that it has not."""

    __slots__ = ()

    if not TYPE_CHECKING:  # who checks types knows better

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            has = "" if name.startswith("_") else f" (it has {', '.join(one for one in dir(self) if one[0] != '_')})"
            raise AttributeError(f"{kind} has no attribute {name!r}{has}", name=name, obj=self)


@cache
def _declared(call: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the parameters of a function, and the annotations of those that take one value each."""
    signature = inspect.signature(call)
    try:
        hints = get_type_hints(call)
    except NameError:  # it is imported for type checkers only
        hints = {}
    several = {
        name for name, one in signature.parameters.items() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    return signature, {name: hint for name, hint in hints.items() if name not in several}


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type; where that cannot be known, it may."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in arguments)
    if get_origin(hint) is Literal:
        return any(value == one for one in arguments)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return _is_of(value, kind, arguments)


def _is_of(value: Any, kind: type, arguments: tuple[Any, ...]) -> bool:
    if kind in _NUMBERS:
        return hasattr(value, _NUMBERS[kind])
    if kind is bool:
        return not isinstance(value, str | bytes)
    exact = kind in (str, bytes, type(None)) or kind.__module__.startswith("circletools.")
    if exact or issubclass(kind, os.PathLike | Mapping):
        return isinstance(value, kind)
    return _is_series(value, arguments) if issubclass(kind, Iterable) else True


def _is_series(value: Any, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return False
    items = value if isinstance(value, list | tuple) else ()
    of = arguments if len(arguments) == len(items) and Ellipsis not in arguments else arguments[:1] * len(items)
    return all(map(_fits, items, of))


def _refusal(title: str, parameter: str, value: Any, hint: Any) -> CallError:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    remedy: str | None
    words = [word for one in kinds if get_origin(one) is Literal for word in get_args(one)]
    classes = [one.__name__ for one in kinds if isinstance(one, type)]
    shown = shortened(repr(value), _SHOWN)
    if words:
        remedy = did_you_mean(str(value), map(str, words))
    elif any(_fits([value], one) for one in kinds if get_origin(one)):
        remedy = f"write {parameter}=[{shown}]"
    else:
        remedy = next((f"{_MADE_BY[name]} makes one" for name in classes if name in _MADE_BY), "")
    return CallError(f"{title}: `{parameter}` must be {_described(hint)}, not {shown}", hint=remedy)


def _described(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described, arguments)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments and not issubclass(origin, Mapping):
        return f"a list of {_described(arguments[0])}"
    kind = origin or hint
    return "None" if kind is type(None) else str(getattr(kind, "__name__", kind))
