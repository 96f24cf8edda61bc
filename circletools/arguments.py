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
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from circletools.calls import title_of
from circletools.errors import UsageError, shortened
from circletools.wording import Attributes, by_name, did_you_mean

_SHOWN = 60  # characters shown of a wrong value
_MADE_BY = {"Model": "ct.open(path)", "ModelEdit": "ct.edit(model)", "Source": "ct.open(path)"}
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
    exact = kind in (str, bytes, type(None), np.ndarray) or kind.__module__.startswith("circletools.")
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
    inner = (one for kind in kinds for one in (get_origin(kind) or kind, *get_args(kind)) if isinstance(one, type))
    classes = [one for one in inner if one.__module__.startswith("circletools.")]
    shown = shortened(repr(value), _SHOWN)
    if words:
        remedy = did_you_mean(str(value), map(str, words))
    elif bytes in kinds and isinstance(value, str):
        remedy = f"write {parameter}={shown}.encode()"
    elif isinstance(value, Mapping) and _fits([*value.items()], hint):
        remedy = f"write {parameter}=[*{shown}.items()]"
    elif any(_fits([value], one) for one in kinds if get_origin(one)):
        items = [word.strip() for word in value.split(",")] if isinstance(value, str) else [value]
        remedy = f"write {parameter}={shortened(repr(items), _SHOWN)}"
    else:
        remedy = next(filter(None, map(_remedy, classes)), "")
    return CallError(f"{title}: `{parameter}` must be {_described(hint)}, not {shown}", hint=remedy)


def _remedy(kind: type) -> str:
    """Return how programs make an object of a class; empty if there is no public way."""
    if kind.__name__ in _MADE_BY:
        return f"{_MADE_BY[kind.__name__]} makes one"
    made = [
        f"{title}({_needed(public)})"
        for title, public in _offered()
        if public is kind or kind.__name__ == getattr(public, "__annotations__", {}).get("return")
    ]
    return f"{min(made, key=len)} makes one" if made else ""


def _offered() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes, with their titles."""
    facade = import_module("circletools")
    for module in (facade, *filter(inspect.ismodule, (getattr(facade, name) for name in facade.__all__))):
        yield from ((title_of(module.__name__, name), getattr(module, name)) for name in module.__all__)


def _needed(call: Callable[..., Any]) -> str:
    """Return the parameters that a call needs, or the first of those that it may have."""
    parameters = inspect.signature(call).parameters.values()
    needed = [one for one in parameters if one.default is one.empty] or parameters
    names = [f"{one.name}=…" if one.kind is one.KEYWORD_ONLY else one.name for one in needed]
    return ", ".join([*names[:4], *(["…"] if names[4:] else [])])


def answer(fault: str, value: Any, key: object) -> str:
    """Return a sentence: a fault of an object or module that has no such attribute or item, and what to write."""
    what = f"module {value.__name__!r}" if inspect.ismodule(value) else type(value).__name__
    hint = _instead_of(key, value) if isinstance(key, str) else _contents(value)
    return f"{what} {fault}" + (f" ({hint})" if hint else "")


def _instead_of(name: str, value: Any) -> str:
    """Return where an object or module has what is looked for under a name, else what it has."""
    if name[:1] == "_":
        return ""
    if name in _public(value):
        return f"write .{name}"
    if isinstance(value, Sequence) and value and name in dir(value[0]):
        ways = [f"[0].{name}"]
    else:
        ways = [*_ways_to(value, name)] or sorted(_calls(type(value), name), key=len)
    of_part = "." in getattr(value, "__name__", "")  # not of the whole facade, which has many names
    near = did_you_mean(name, _public(value)) or (_contents(value) if of_part else "")
    hints = [f"write {' or '.join(ways[:3])}" if ways else "", near]
    return ", or ".join(filter(None, hints)) or _contents(value)


def _public(value: Any) -> list[str]:
    """Return the public names of an object or module, those in lower case first."""
    names = getattr(value, "__all__", None) or (name for name in dir(value) if name[0] != "_")
    return sorted(names, key=str.swapcase)


def _contents(value: Any) -> str:
    """Return what an object has; of a list, how many items and what each has."""
    if not isinstance(value, Sequence):
        return f"it has {', '.join(_public(value))}"
    declared = [one for base in getattr(value, "__orig_bases__", ()) for one in get_args(base)]
    item = type(value[0]) if value else next(iter(declared), None)
    if not isinstance(item, type):
        return "it is an empty list"
    names = getattr(item, "_fields", None) or (_public(item) if issubclass(item, Attributes) else ())
    fields = f", each with {', '.join(names)}" if names else ""
    return f"it is a list of {len(value)} {item.__name__}{fields}{by_name(value)}"


def _ways_to(value: Any, name: str) -> Iterator[str]:
    """Yield attributes of an object whose value, or whose first item, has an attribute of this name."""
    kind = type(value)
    for attribute in _public(value):
        held = getattr(kind, attribute, None)
        try:
            hints = get_type_hints(kind) | get_type_hints(getattr(held, "func", getattr(held, "fget", kind)))
        except NameError:  # imported for type checkers only
            continue
        own = type(getattr(value, "__dict__", {}).get(attribute))
        hint = hints.get("return", hints.get(attribute, own))
        origin, arguments = get_origin(hint), get_args(hint)
        is_series = isinstance(origin, type) and issubclass(origin, Sequence)
        for one in arguments if is_series or origin in (Union, UnionType) else (hint,):
            if isinstance(one, type) and issubclass(one, Attributes) and name in dir(one):
                yield f".{attribute}{'[0]' * is_series}.{name}"


def _calls(kind: type, name: str) -> Iterator[str]:
    """Yield public names like this one, and calls with an object whose result has it; any call, for a module."""
    for title, call in _offered():
        hints = _declared(call)[1] if inspect.isfunction(call) else {}
        first, returned = next(iter(hints), ""), hints.get("return")
        shown = f"{title}({_needed(call)})" if hints else title
        takes_it = issubclass(kind, ModuleType) or hints.get(first) in kind.__mro__[:-1]
        results = [one for one in (returned, *get_args(returned)) if Attributes in getattr(one, "__mro__", ())]
        if title.endswith(f".{name}") or (takes_it and f".{name}." in title):
            yield shown
        elif takes_it and any(name in dir(one) for one in results) and _needed(call) == first:
            yield f"{shown}.{name}"


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
    if origin is np.ndarray:
        return "a numpy array"
    if origin is tuple and Ellipsis not in arguments:
        return f"({', '.join(map(_described, arguments))})"
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments and not issubclass(origin, Mapping):
        return f"a list of {_described(arguments[0])}"
    kind = origin or hint
    return "None" if kind is type(None) else str(getattr(kind, "__name__", kind))
