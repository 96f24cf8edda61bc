"""Check arguments of public functions against their annotations before the call.

Only values that an annotation definitely excludes are refused: numpy's numbers count as numbers, and lists as tuples.
A string is not accepted as a sequence of strings, since it would be split into letters.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from math import inf
from types import UnionType
from typing import Any, BinaryIO, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from circletools.errors import UsageError, shortened
from circletools.wording import warn

_RANGES: dict[str, tuple[float, float]] = {"min_confidence": (0, 1), "runs": (1, inf)}
_RANGES |= dict.fromkeys(("timeout_s", "seconds"), (0, 1_000_000))  # timers are limited to 2**31 milliseconds
_RANGES |= dict.fromkeys(("threshold_percent", "seed", "max_abs", "max_steps", "skip"), (0, inf))
_EXACT = (str, bytes, bytearray, memoryview, type(None), np.ndarray)
_HAVING = {int: "__index__", float: "__float__", BinaryIO: "read"}


class CallError(UsageError, TypeError):
    """An error: the function or request does not accept the arguments of a call."""


def check_arguments(
    call: Callable[..., Any], title: str, given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None = None
) -> None:
    """Raise CallError if a function does not accept the arguments; for a method, `owner` is its class."""
    if owner is not None and not (given and isinstance(given[0], owner)):
        fault, given = " must be called on an object, not on the class", ()
    elif fault := _fault(call, given, named):
        fault = f": {fault}"
    if fault:
        hint = import_module("circletools.usage").usage(title, call, given, named, owner)
        raise CallError(f"{title}{fault}", hint=hint) from None


def _fault(call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Return the first error in the arguments of a call; empty if there is none."""
    signature, hints = declared(call)
    try:
        if unknown := sorted({*named} - {*taken(call)}):
            raise TypeError(f"there is no parameter {unknown[0]!r}")
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        return str(error)
    for name, value in bound.items():
        if name in hints and not fits(value, hints[name]):
            return f"`{name}` must be {_described(hints[name])}, not {shortened(' '.join(repr(value).split()), 60)}"
        if name.endswith("_percent") and isinstance(value, float) and 0 < value < 1:
            warn(f"`{name}` is in percent: {value:g} is {value:g}%, and {100 * value:g} is {100 * value:g}%")
        if (nearest := in_range(name, value)) is not value:
            return f"`{name}` must be at {'most' if nearest < value else 'least'} {_RANGES[name][nearest < value]}"
    return ""


def in_range(name: str, value: Any) -> Any:
    """Return a parameter's value, or the nearest one in the parameter's range; a percentage becomes a fraction."""
    lowest, highest = _RANGES.get(name, (0, 0))
    if name not in _RANGES or not isinstance(value, int | float) or lowest <= value <= highest:
        return value
    return value / 100 if highest == 1 and 1 < value <= 100 else max(lowest, min(highest, value))


def taken(call: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a function or class."""
    return [name for name in inspect.signature(call).parameters if name != "self"]


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or only the annotation if it is not a union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def classes_in(hint: Any) -> list[type]:
    """Return the classes of this library that an annotation names."""
    kinds = [one for one in kinds_of(hint) if get_origin(one) not in (Mapping, dict)]
    inner = (one for kind in kinds for one in (get_origin(kind) or kind, *get_args(kind)) if isinstance(one, type))
    return [one for one in inner if one.__module__.startswith("circletools.")]


@cache
def declared(call: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the parameters of a function, and their annotations."""
    signature = inspect.signature(call)
    try:
        hints = get_type_hints(call)
    except NameError:  # an annotation names something imported for type checkers only
        known = {one.__name__: one for one in (int, str, bool, bytes)}
        hints = {name: known[text] for name, text in call.__annotations__.items() if text in known}
    return signature, hints


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type; True if this cannot be determined."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, one) for one in arguments)
    if get_origin(hint) is Literal:
        return any(isinstance(value, type(one)) and value == one for one in arguments)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        names = [name for name in vars(kind) if name[0] != "_"]
        return all(hasattr(value, name) for name in (*names, *kind.__annotations__))
    return _is_of(value, kind, arguments)


def _is_of(value: Any, kind: type, arguments: tuple[Any, ...]) -> bool:
    if kind in _HAVING:
        return hasattr(value, _HAVING[kind])
    if kind is bool:
        return isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1))
    exact = kind in _EXACT or kind.__module__.startswith("circletools.")
    if exact or issubclass(kind, os.PathLike | Mapping):
        return isinstance(value, kind)
    return _is_series(value, arguments) if issubclass(kind, Iterable) else True


def _is_series(value: Any, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or not getattr(value, "ndim", 1):
        return False
    items = value if isinstance(value, list | tuple) else value[:1].tolist() if isinstance(value, np.ndarray) else ()
    if isinstance(value, tuple | list) and len(arguments) > 1 and Ellipsis not in arguments:
        return len(items) == len(arguments) and all(map(fits, items, arguments))
    return {*map(type, items)} == {*arguments[:1]} or all(map(fits, items, arguments[:1] * len(items)))


def words_of(kind: Any) -> list[Any]:
    """Return the values that a Literal or an enum allows."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [one.value for one in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _described(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described, arguments)))
    if words := words_of(hint):
        return f"{'' if origin else f'{hint.__name__}, '}one of {', '.join(map(repr, words))}"
    if origin is np.ndarray:
        return "a numpy array"
    if origin is tuple and Ellipsis not in arguments:
        return f"({', '.join(map(_described, arguments))})"
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments and not issubclass(origin, Mapping):
        return f"a list of {_described(arguments[0])}"
    return "None" if hint is type(None) else str(getattr(origin or hint, "__name__", origin or hint))
