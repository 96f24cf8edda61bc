"""Check arguments of public functions against their annotations before the call.

Only values that an annotation certainly excludes are refused: numpy's numbers count as numbers, a list as a tuple. A
string is not accepted as a sequence of strings, since it would be split into letters.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from circletools.calls import title_of
from circletools.errors import UsageError, shortened
from circletools.wording import Attributes, did_you_mean

_SHOWN = 60  # characters shown of a wrong value
_MADE_BY = {"Model": "ct.open(path)", "ModelEdit": "ct.edit(model)", "Source": "ct.open(path)"}
_MODULES = ("", ".affinity", ".checks", ".entries", ".origin", ".outputs", ".planning", ".surgery")
_NUMBERS = {int: "__index__", float: "__float__"}


class CallError(UsageError, TypeError):
    """A call with arguments that the function or request does not accept."""


def check_arguments(
    call: Callable[..., Any], title: str, given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None = None
) -> None:
    """Raise CallError for arguments that a function does not take; for a method, `owner` is its class."""
    signature, hints = _declared(call)
    if owner is not None and not (given and isinstance(given[0], owner)):
        raise CallError(f"{title} is called on an object, not on the class", hint=_remedy(owner))
    takes = [name for name in signature.parameters if name != "self"]
    has_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    unknown = [] if has_any else sorted({*named} - {*takes})
    try:
        if unknown:
            raise TypeError(f"there is no parameter {unknown[0]!r}")
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        requests = [kind for hint in hints.values() for kind in (hint, *get_args(hint)) if _takes(kind, unknown)]
        hint = f"it takes {', '.join(takes) or 'nothing'}"
        if requests:
            hint = f"write {_remedy(requests[0]).partition('(')[0]}({', '.join(f'{name}=…' for name in unknown)})"
        raise CallError(f"{title}: {error}", hint=hint) from error
    for parameter, value in bound.items():
        if parameter in hints and not _fits(value, hints[parameter]):
            raise _refusal(title, parameter, value, hints[parameter])


def _takes(kind: Any, names: Sequence[str]) -> bool:
    """Return whether a class is a request with these parameters."""
    is_request = isinstance(kind, type) and kind.__name__.endswith("Request")
    return is_request and bool(names) and {*names} <= {*inspect.signature(kind).parameters}


@cache
def _declared(call: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the parameters of a function, and the annotations of those that are not variadic."""
    signature = inspect.signature(call)
    try:
        hints = get_type_hints(call)
    except NameError:  # the name is imported for type checkers only
        hints = {}
    several = {
        name for name, one in signature.parameters.items() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    return signature, {name: hint for name, hint in hints.items() if name not in several}


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type; True if that is unknown."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in arguments)
    if get_origin(hint) is Literal:
        return any(value == one for one in arguments)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        names = [name for name in vars(kind) if name[0] != "_"]
        return all(hasattr(value, name) for name in (*names, *kind.__annotations__))
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
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    items = value if isinstance(value, list | tuple) else ()
    of = arguments if len(arguments) == len(items) and Ellipsis not in arguments else arguments[:1] * len(items)
    return all(map(_fits, items, of))


def _refusal(title: str, parameter: str, value: Any, hint: Any) -> CallError:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    remedy: str | None
    words = [word for one in kinds for word in _words(one)]
    classes = [one for one in kinds if isinstance(one, type) and one.__module__.startswith("circletools.")]
    shown = shortened(repr(value), _SHOWN)
    if words:
        remedy = did_you_mean(str(value), map(str, words))
    elif any(_fits([value], one) for one in kinds if get_origin(one)):
        remedy = f"write {parameter}=[{shown}]"
    else:
        remedy = next(filter(None, map(_remedy, classes)), "")
    return CallError(f"{title}: `{parameter}` must be {_described(hint)}, not {shown}", hint=remedy)


def _remedy(kind: type) -> str:
    """Return how programs make an object of a class, empty if no public name does."""
    if kind.__name__ in _MADE_BY:
        return f"{_MADE_BY[kind.__name__]} makes one"
    for module in (import_module(f"circletools{name}") for name in _MODULES):
        for name in module.__all__:
            public = getattr(module, name)
            if public is kind or kind.__name__ == getattr(public, "__annotations__", {}).get("return"):
                parameters = inspect.signature(public).parameters.values()
                needed = [one for one in parameters if one.default is one.empty] or parameters
                names = [f"{one.name}=…" if one.kind is one.KEYWORD_ONLY else one.name for one in needed]
                shown = ", ".join([*names[:4], *(["…"] if names[4:] else [])])
                return f"{title_of(module.__name__, name)}({shown}) makes one"
    return ""


def ways_to(kind: type, name: str) -> Iterator[str]:
    """Yield attributes of a class whose value, or whose first item, has an attribute of this name."""
    for attribute in (one for one in dir(kind) if one[0] != "_"):
        held = getattr(kind, attribute)
        try:
            hints = get_type_hints(getattr(held, "func", getattr(held, "fget", kind)))
        except NameError:  # imported for type checkers only
            continue
        hint = hints.get("return", hints.get(attribute))
        origin, arguments = get_origin(hint), get_args(hint)
        is_series = isinstance(origin, type) and issubclass(origin, Sequence)
        for one in arguments if is_series or origin in (Union, UnionType) else (hint,):
            if isinstance(one, type) and issubclass(one, Attributes) and name in dir(one):
                yield f".{attribute}{'[0]' * is_series}.{name}"


def _words(kind: Any) -> list[Any]:
    """Return the values of a Literal or an enum."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [one.value for one in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _described(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_described, arguments)))
    if words := _words(hint):
        return f"{'' if origin else f'{hint.__name__}, '}one of {', '.join(map(repr, words))}"
    if origin is tuple and Ellipsis not in arguments:
        return f"({', '.join(map(_described, arguments))})"
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments and not issubclass(origin, Mapping):
        return f"a list of {_described(arguments[0])}"
    kind = origin or hint
    return "None" if kind is type(None) else str(getattr(kind, "__name__", kind))
