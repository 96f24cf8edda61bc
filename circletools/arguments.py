"""Check arguments of public functions against their annotations before the call.

Only values that an annotation definitely excludes are refused: numpy's numbers count as numbers, and lists as tuples.
A string is not accepted as a sequence of strings, since it would be split into letters.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache
from importlib import import_module
from math import inf
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from circletools.calls import title_of
from circletools.errors import UsageError, shortened
from circletools.wording import Attributes, Index, by_name, did_you_mean

_NO_LIST = "is not a list"
_ALIKE = 0.8  # the minimum similarity of two spellings of a word, as measured by difflib
_FAR = 2.0  # names with this many extra words are not suggested
_SHOWN = 60  # how many characters of a wrong value are shown
_TENSORS = {"tensor", "tensors", "inputs", "outputs", "like"}  # parameters of tensor indices
_MADE_BY = {"Model": "ct.open(path)", "ModelEdit": "ct.edit(model)", "Source": "ct.open(path)"}
_NUMBERS = {int: "__index__", float: "__float__"}


class CallError(UsageError, TypeError):
    """An error: the function or request does not accept the arguments of a call."""


def check_arguments(
    call: Callable[..., Any], title: str, given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None = None
) -> None:
    """Raise CallError if a function does not accept the arguments; for a method, `owner` is its class."""
    signature, hints = _declared(call)
    if owner is not None and not (given and isinstance(given[0], owner)):
        raise CallError(f"{title} must be called on an object, not on the class", hint=_remedy(owner))
    has_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    unknown = [] if has_any else sorted({*named} - {*_taken(call)})
    try:
        if unknown:
            raise TypeError(f"there is no parameter {unknown[0]!r}")
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        shown = title if owner is None else f".{title.rpartition('.')[2]}"
        hint = _remedy(owner) if owner and title.endswith(owner.__name__) else _usage(shown, call, hints, unknown)
        raise CallError(f"{title}: {error}", hint=hint) from error
    for parameter, value in bound.items():
        if parameter in hints and not _fits(value, hints[parameter]):
            others = [one for one in hints if one not in {*bound, "return"} and type(value) in _classes(hints[one])]
            raise _refusal(title, parameter, value, hints[parameter], others)


def _usage(title: str, call: Callable[..., Any], hints: Mapping[str, Any], unknown: Sequence[str]) -> str:
    """Return how to call a function, including its request if that is required or has the unknown parameters."""
    for word in unknown[:1]:
        if near := did_you_mean(word, (one for one in _taken(call) if len(one) < 2 * len(word))):
            return near
    kinds = [(name, kind) for name in hints for kind in _classes(hints[name])]
    requests = [(name, kind) for name, kind in kinds if kind.__name__.endswith("Request") and name != "return"]
    if not requests:
        return f"it takes {', '.join(_taken(call)) or 'nothing'}" if unknown else f"write {_form(title, call)}"
    name, request = requests[0]
    made = _remedy(request).removesuffix(" makes one")
    if unknown and {*unknown} <= {*_taken(request)}:
        made = f"{made.partition('(')[0]}({', '.join(f'{one}=…' for one in unknown)})"
    start, _, rest = _form(title, call).partition("(")
    return f"write {start}({rest.replace(name, made) if name in rest else f'{rest[:-1]}, {name}={made})'}"


def _taken(call: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a function or class."""
    return [name for name in inspect.signature(call).parameters if name != "self"]


def _classes(hint: Any) -> list[type]:
    """Return the classes of this library that an annotation names."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    inner = (one for kind in kinds for one in (get_origin(kind) or kind, *get_args(kind)) if isinstance(one, type))
    return [one for one in inner if one.__module__.startswith("circletools.")]


@cache
def _declared(call: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the signature of a function, and the annotations of the parameters that are not variadic."""
    signature = inspect.signature(call)
    try:
        hints = get_type_hints(call)
    except NameError:  # a name is imported only for type checkers
        hints = {}
    several = {
        name for name, one in signature.parameters.items() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    return signature, {name: hint for name, hint in hints.items() if name not in several}


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type; True if this cannot be determined."""
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
    if isinstance(value, tuple | list) and len(arguments) > 1 and Ellipsis not in arguments:
        return len(items) == len(arguments) and all(map(_fits, items, arguments))
    return all(map(_fits, items, arguments[:1] * len(items)))


def _refusal(title: str, parameter: str, value: Any, hint: Any, others: Sequence[str]) -> CallError:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    remedy: str | None
    words = [word for one in kinds for word in _words(one)]
    shown = shortened(repr(value), _SHOWN)
    if words:
        remedy = did_you_mean(str(value), map(str, words))
    elif others:
        remedy = f"write {others[0]}=…"
    elif bytes in kinds and isinstance(value, str):
        remedy = f"write {parameter}={shown}.encode()"
    elif isinstance(value, Mapping) and _fits([*value.items()], hint):
        remedy = f"write {parameter}=[*{shown}.items()]"
    elif parameter in _TENSORS and "int" in _described(hint).split():
        name = next(iter(value), "") if isinstance(value, list | tuple) else value
        remedy = f"an index by its name: next(one.index for one in subgraph.tensors if one.name == {name!r})"
    elif any(_fits([value], one) for one in kinds if get_origin(one)):
        items = [word.strip() for word in value.split(",")] if isinstance(value, str) else [value]
        remedy = f"write {parameter}={shortened(repr(items), _SHOWN)}"
    else:
        remedy = next(filter(None, map(_remedy, _classes(hint))), "")
    return CallError(f"{title}: `{parameter}` must be {_described(hint)}, not {shown}", hint=remedy)


def _remedy(kind: type) -> str:
    """Return the shortest expression that makes an object of a class, or "" if nothing public makes one."""
    if kind.__name__ in _MADE_BY:
        return f"{_MADE_BY[kind.__name__]} makes one"
    made = [
        f"{title}({_needed(public)})"
        for title, public in _offered()
        if public is kind or kind.__name__ == getattr(public, "__annotations__", {}).get("return")
    ]
    return f"{min(made, key=len)} makes one" if made else ""


def _offered() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes with their names, as users write them."""
    facade = import_module("circletools")
    for module in (facade, *filter(inspect.ismodule, (getattr(facade, name) for name in facade.__all__))):
        yield from ((title_of(module.__name__, name), getattr(module, name)) for name in module.__all__)


def _needed(call: Callable[..., Any]) -> str:
    """Return the required parameters of a call, or the optional ones if it has no others."""
    parameters = [one for one in inspect.signature(call).parameters.values() if one.name != "self"]
    needed = [one for one in parameters if one.default is one.empty] or parameters
    names = [f"{one.name}=…" if one.kind is one.KEYWORD_ONLY else one.name for one in needed]
    return ", ".join([*names[:4], *(["…"] if names[4:] else [])])


def answer(fault: str, value: Any, key: object) -> str:
    """Return an error message about a missing attribute or item that shows what to write instead."""
    kind = value if isinstance(value, type) else type(value)
    what = f"module {value.__name__!r}" if inspect.ismodule(value) else kind.__name__
    hint = _instead_of(key, value) if isinstance(key, str) else _contents(value)
    if fault == _NO_LIST and (isinstance(key, int) or hint.startswith("it has ")):
        lists = [way[:-3] for way, _, _ in _held(value) if way.endswith("[0]")]
        hint = f"its lists are {', '.join(lists)}" if lists else hint
    return f"{what} {fault}" + (f" ({hint})" if hint else "")


def _instead_of(name: str, value: Any) -> str:
    """Return what to write instead of a name that an object, class or module lacks, or else list its names."""
    if name[:1] == "_":
        return ""
    if isinstance(value, Index):
        return f"it is an index: write {value.of}[{value}].{name}"
    wanted, kinds = _meanings(name), _kinds(value)
    around = _meanings(value.__name__) - {"circletool"} if inspect.ismodule(value) else frozenset()
    is_own = not around and any(_squeezed(one) == _squeezed(name) for one in _public(value))
    for on, names, noted in _foreign()["instead"] if not is_own else ():
        if kinds & {*on.split()} and wanted in map(_meanings, names.split()):
            if noted[0] != "=":
                return noted if noted.startswith("circletools ") else f"write {noted}"
            wanted = _meanings(noted)
    near: dict[str, float] = {}
    for way, have, optional, far in _ways(value, name):
        distance = _distance(wanted, have, optional) - 1.1 * bool(around & have)
        if far < 0.2 and have - around < wanted and (around or not inspect.ismodule(value)):
            distance = min(distance, 1.5)  # one of the object's own names that lacks some of the words
        if (distance := distance + far) < (_FAR if far < 0.3 else far + 0.1):
            near.setdefault(way, distance)
    ways = sorted((way for way in near if near[way] == min(near.values())), key=len)
    return f"write {' or '.join(ways[:3])}" if ways else _contents(value)


def _squeezed(name: str) -> str:
    return _plain(name).replace("_", "").lower()


def _plain(name: str) -> str:
    """Return a name without the suffixes that flatc adds to the names of generated methods."""
    return re.sub(r"^(GetRootAs)[A-Z]\w*|(?<=[a-z])(AsNumpy|IsNone|Length)$", r"\1", name)


@cache
def _foreign() -> Any:
    """Return words and names of other libraries with their counterparts in this one."""
    return json.loads(Path(__file__).with_name("foreign.json").read_bytes())


@cache
def _meanings(name: str) -> frozenset[str]:
    """Return a name's words in lower case and singular, without fillers; synonyms become this library's words."""
    same = {one: word for word, others in _foreign()["words"].items() for one in others.split()}
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", _plain(name))
    fillers = {*_foreign()["fillers"].split()}
    telling = [word for word in found if not fillers & {word.lower(), word.lower().removesuffix("s")}]
    words = [word.lower().removesuffix("s") for word in telling or found]
    return frozenset(same.get(word, word) for word in words if word)


def _kinds(value: Any) -> set[str]:
    """Return the name of a module, or the names of the classes of an object or class."""
    if inspect.ismodule(value):
        return {title_of(value.__name__, "").removesuffix(".")}
    return {one.__name__ for one in (value if isinstance(value, type) else type(value)).__mro__}


def _distance(wanted: frozenset[str], have: frozenset[str], optional: frozenset[str]) -> float:
    """Return how many extra words a name has; infinite if it lacks a wanted word in any spelling."""
    lacking = wanted - have
    starts = {word[:1] for word in have}
    misspelt = [one for one in lacking if one[0] in starts and get_close_matches(one, have, 1, _ALIKE)]
    misspelt += [one for one in lacking if sorted(one) in map(sorted, have)]
    if len(misspelt) < len(lacking - optional) or not (misspelt or wanted & have):
        return inf
    return max(len(have - (optional - wanted)) - len(wanted), 0) + len(misspelt) / 10


_Way = tuple[str, frozenset[str], frozenset[str], float]


def _ways(value: Any, name: str) -> Iterator[_Way]:
    """Yield candidates: an expression, its words, those that may be missing, and its distance from the object."""
    is_value = not inspect.ismodule(value) and not isinstance(value, type)
    own = frozenset() if inspect.ismodule(value) else _meanings(type(value).__name__)
    counts = re.search(r"length$|^(num|n|count)_|_count$", name, re.IGNORECASE)
    template = f"len({type(value).__name__.lower()}{{}})" if counts else "{}"
    for way, held, far in (("", value, 0.0), *_held(value)) if is_value else ():
        for one in _public(held):
            call = getattr(held if isinstance(held, type) else type(held), one, None)
            yield template.format(f"{way}.{_form(one, call)}"), _meanings(one), own, far
    for title, call in _offered():
        place, _, last = title.rpartition(".")
        is_made = last[0].isupper() and name[0].islower()  # a class can replace a function of the same name
        if is_made or inspect.ismodule(call) or (is_value and not _takes_first(call, place, last, value)):
            continue
        far = 0.2 * (place not in _kinds(value))
        around = own if is_value else _meanings(place[3:])
        yield _form(title, call), _meanings(f"{place[3:]}_{last}"), around, far
        result = _declared(call)[1].get("return") if inspect.isfunction(call) and is_value else None
        for kind in get_args(result) if get_origin(result) in (Union, UnionType) else (result,):
            if Attributes in getattr(kind, "__mro__", ()) and "," not in _needed(call):
                yield from ((f"{_form(title, call)}.{one}", _meanings(one), own, 0.4) for one in _public(kind))
    if not is_value or type(value).__module__.startswith("circletools.model."):
        for maker in ("edit(model)", "open(path)"):
            kind = _declared(getattr(import_module("circletools"), maker.partition("(")[0]))[1]["return"]
            for one in _public(kind):
                yield f"ct.{maker}.{_form(one, getattr(kind, one))}", _meanings(one), own, 0.3


def _takes_first(call: Any, place: str, name: str, value: Any) -> bool:
    """Return whether a function's first argument may be an object; in `ct.render`, its name must match the class."""
    if place == "ct.render":
        return bool(_meanings(name) & _meanings(type(value).__name__))
    first = next(iter(_declared(call)[1].values()), None) if inspect.isfunction(call) else None
    return first in type(value).__mro__[:-1]


def _form(title: str, call: Any) -> str:
    """Return a call of a function; for other objects, only the title."""
    return f"{title}({_needed(call)})" if inspect.isfunction(call) else title


def _public(value: Any) -> list[str]:
    """Return the public names of an object or module, lower case first."""
    names = getattr(value, "__all__", None) or (name for name in dir(value) if name[0] != "_")
    return sorted(names, key=str.swapcase)


def _contents(value: Any) -> str:
    """Describe an object by its names; for a list, by the number of items and their names."""
    if not isinstance(value, Sequence):
        return f"it has {', '.join(_public(value))}"
    declared = [one for base in getattr(value, "__orig_bases__", ()) for one in get_args(base)]
    item = type(value[0]) if value else next(iter(declared), None)
    if not isinstance(item, type):
        return "it is an empty list"
    names = getattr(item, "_fields", None) or (_public(item) if issubclass(item, Attributes) else ())
    fields = f", each with {', '.join(names)}" if names else ""
    return f"it is a list of {len(value)} {item.__name__}{fields}{by_name(value)}"


def _held(value: Any) -> Iterator[tuple[str, type, float]]:
    """Yield expressions for the objects that an object contains (only the first of each list), and their classes."""
    kind = type(value)
    if isinstance(value, Sequence) and value:
        yield "[0]", type(value[0]), 0.1
    for attribute in _public(value):
        held = getattr(kind, attribute, None)
        try:
            hints = get_type_hints(kind) | get_type_hints(getattr(held, "func", getattr(held, "fget", kind)))
        except NameError:  # a name is imported only for type checkers
            continue
        own = type(getattr(value, "__dict__", {}).get(attribute))
        hint = hints.get("return", hints.get(attribute, own))
        origin, arguments = get_origin(hint), get_args(hint)
        is_series = isinstance(origin, type) and issubclass(origin, Sequence)
        for one in arguments if is_series or origin in (Union, UnionType) else (hint,):
            if isinstance(one, type) and (issubclass(one, Attributes) or (one is str and attribute == "name")):
                yield f".{attribute}{'[0]' * is_series}", one, 0.1


def _words(kind: Any) -> list[Any]:
    """Return the values that a Literal or an enum allows."""
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
