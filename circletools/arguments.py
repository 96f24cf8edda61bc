"""Check arguments of public functions against their annotations before the call.

Only values that an annotation definitely excludes are refused: numpy's numbers count as numbers, and lists as tuples.
A string is not accepted as a sequence of strings, since it would be split into letters.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from ast import literal_eval
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

_SHOWN = 60  # how many characters of a wrong value are shown
_OWN = {"model", "edit", "before", "after", "other"}  # parameters whose values users have
_NUMBERS = {int: "__index__", float: "__float__"}


class CallError(UsageError, TypeError):
    """An error: the function or request does not accept the arguments of a call."""


def check_arguments(
    call: Callable[..., Any], title: str, given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None = None
) -> None:
    """Raise CallError if a function does not accept the arguments; for a method, `owner` is its class."""
    signature, hints = _declared(call)
    if owner is not None and not (given and isinstance(given[0], owner)):
        raise CallError(f"{title} must be called on an object, not on the class", hint=f"{_made(owner)} makes one")
    makes = f"write {_made(owner)}" if owner and title.endswith(f".{owner.__name__}") else ""
    unknown = sorted({*named} - {*_taken(call)})
    try:
        if unknown:
            raise TypeError(f"there is no parameter {unknown[0]!r}")
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        place = title if owner is None else f".{title.rpartition('.')[2]}"
        hint = makes or _usage(place, call, hints, {one: named[one] for one in unknown})
        raise CallError(f"{title}: {error}", hint=hint) from error
    for parameter, value in bound.items():
        if parameter in hints and not _fits(value, hints[parameter]):
            others = [one for one in hints if one not in {*bound, "return"} and type(value) in _classes(hints[one])]
            hint = makes or _instead_of_value(title, call, parameter, value, others)
            message = f"`{parameter}` must be {_described(hints[parameter])}, not {shortened(repr(value), _SHOWN)}"
            raise CallError(f"{title}: {message}", hint=hint)


def _usage(title: str, call: Callable[..., Any], hints: Mapping[str, Any], unknown: Mapping[str, Any]) -> str:
    """Return how to call a function, including its request if that is required or has the unknown parameters."""
    for word in unknown:
        if near := did_you_mean(word, (one for one in _taken(call) if len(one) < 2 * len(word))):
            return near
    kinds = [(name, kind) for name in hints if name != "return" for kind in _classes(hints[name])]
    holding = [(name, kind) for name, kind in kinds if unknown and {*unknown} <= {*_taken(kind)} and _made(kind)]
    if not (requests := holding or [one for one in kinds if one[1].__name__.endswith("Request")]):
        return f"it takes {', '.join(_taken(call)) or 'nothing'}" if unknown else f"write {_form(title, call)}"
    name, request = requests[0]
    made, form = _made(request), _form(title, call)
    if holding:
        takes = _declared(request)[1]
        fitting = [(one, value if _fits(value, takes[one]) else [value]) for one, value in unknown.items()]
        named = ", ".join(f"{one}={shortened(repr(value), _SHOWN)}" for one, value in fitting)
        changed = f"{made.partition('(')[0]}({named})"
        form, made = form.replace(made, changed), changed
    return f"write {_kept(form if made in form else f'{form[:-1]}, {name}={made})')}"


def _taken(call: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a function or class."""
    return [name for name in inspect.signature(call).parameters if name != "self"]


def _kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or else only the annotation."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _classes(hint: Any) -> list[type]:
    """Return the classes of this library that an annotation names."""
    kinds = [one for one in _kinds_of(hint) if get_origin(one) not in (Mapping, dict)]
    inner = (one for kind in kinds for one in (get_origin(kind) or kind, *get_args(kind)) if isinstance(one, type))
    return [one for one in inner if one.__module__.startswith("circletools.")]


@cache
def _declared(call: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, Any]]:
    """Return the parameters of a function, and their annotations."""
    signature = inspect.signature(call)
    try:
        hints = get_type_hints(call)
    except NameError:  # one of them is imported for type checkers only
        known = {one.__name__: one for one in (int, str, bool, bytes)}
        hints = {
            name: known[text] for name, text in call.__annotations__.items() if isinstance(known.get(text), type)
        }
    return signature, hints


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type; True if this cannot be determined."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one) for one in arguments)
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
    if kind in _NUMBERS:
        return hasattr(value, _NUMBERS[kind])
    if kind is bool:
        return not isinstance(value, str | bytes)
    exact = kind in (str, bytes, type(None), np.ndarray) or kind.__module__.startswith("circletools.")
    if exact or issubclass(kind, os.PathLike | Mapping):
        return isinstance(value, kind)
    return _is_series(value, arguments) if issubclass(kind, Iterable) else True


def _is_series(value: Any, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or not getattr(value, "ndim", 1):
        return False
    items = value if isinstance(value, list | tuple) else list(value[:1]) if isinstance(value, np.ndarray) else ()
    if isinstance(value, tuple | list) and len(arguments) > 1 and Ellipsis not in arguments:
        return len(items) == len(arguments) and all(map(_fits, items, arguments))
    return all(map(_fits, items, arguments[:1] * len(items)))


def _instead_of_value(title: str, call: Callable[..., Any], parameter: str, value: Any, others: Sequence[str]) -> str:
    """Return what to write instead of a value that a parameter cannot have; empty if there is no way to know."""
    hint, default = _declared(call)[1][parameter], _declared(call)[0].parameters[parameter].default
    kinds, shown = _kinds_of(hint), shortened(repr(value), _SHOWN)
    if words := [word for one in kinds for word in _words(one)]:
        return did_you_mean(str(value), map(str, words))
    if any(one.__name__ == "ModelEdit" for one in _classes(hint)):
        return f"write {_kept(_form(title, call), is_open=type(value).__name__ == 'Model')}"
    if parameter in {"tensor", "tensors", "inputs", "outputs", "like"} and "int" in _described(hint).split():
        name = str(next(iter(value), "") if isinstance(value, list | tuple) else value)
        return f"an index by its name: next(one.index for one in subgraph.tensors if one.name == {name!r})"
    text, example = value if isinstance(value, str) else "", _foreign()["given"].get(parameter, "None")
    items = [word.strip() for word in text.split(",")] if text else [value]
    ways = (
        ("True", bool in kinds or None),
        (f"{type(value).__name__.lower()}.index", getattr(value, "index", None)),
        (repr(str(value)), str(value) if isinstance(value, int | float | Path) else None),
        ("model.source.path", getattr(getattr(value, "source", None), "path", None)),
        (f"{shown}.encode()", text.encode() or None),
        (f"pathlib.Path({shown})", Path(text) if text else None),
        (text, literal_eval(text) if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) else None),
        (f"[*{shown}.items()]", [*value.items()] if isinstance(value, Mapping) else None),
        (shortened(repr(items), _SHOWN), items),
        (example, None if example[0].isalpha() else literal_eval(example)),
        (repr(default), (default or None) if isinstance(default, int | float | str) else None),
    )
    fitting = (f"{parameter}={way}" for way, made in ways if made is not None and _fits(made, hint))
    if way := next((f"{one}=…" for one in others), "") or next(fitting, ""):
        return f"write {way}"
    return f"{made} makes one" if (made := _made(hint)) else ""


def _kept(form: str, *, is_open: bool = True) -> str:
    """Return a statement that saves the edit that an expression makes."""
    start = "with ct.edit(model)" if is_open else "with ct.open(path) as model, ct.edit(model)"
    return f"{start} as edit: {form}; edit.save(target)" if re.search(r"\bedit[,.)]", form) else form


def _made(hint: Any) -> str:
    """Return an expression that makes an object of a class in an annotation; empty if there is none."""
    ways = [(one in _kinds_of(hint), _foreign()["made"].get(one.__name__)) for one in _classes(hint)]
    return next((way if is_one else f"[{way}]" for is_one, way in ways if way), "")


def _offered() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes with their names, as users write them."""
    facade = import_module("circletools")
    for module in (facade, *filter(inspect.ismodule, (getattr(facade, name) for name in facade.__all__))):
        yield from ((title_of(module.__name__, name), getattr(module, name)) for name in module.__all__)


def _needed(call: Callable[..., Any]) -> str:
    """Return the arguments that a call must have: the names of parameters, or what makes objects of this library."""
    signature, hints = _declared(call)
    needed = []
    for name, one in signature.parameters.items():
        if name != "self" and one.default is one.empty and one.kind is not one.VAR_POSITIONAL:
            hint, is_named = hints.get(name), one.kind is one.KEYWORD_ONLY
            given = _foreign()["given"].get(name, name) if is_named or hint is int else _made(hint) or name
            if name in _OWN:
                given = name if _classes(hint) else "path"
            needed.append(f"{name}={given}" if is_named else given)
    return ", ".join(needed)


def answer(fault: str, value: Any, key: object) -> str:
    """Return an error message about a missing attribute or item that shows what to write instead."""
    what = value.__name__ if isinstance(value, type) else type(value).__name__
    what = f"module {value.__name__!r}" if inspect.ismodule(value) else what
    hint = _instead_of(key, value) if isinstance(key, str) else _contents(value)
    if fault == "is not a list" and (isinstance(key, int) or hint.startswith("it has ")):
        lists = [way[:-3] for way, _, _ in _held(value) if way.endswith("[0]")]
        known = (one for one in _foreign()["lists"].split() if one.partition("[")[0][1:] in _public(value))
        if best := next(known, "".join(lists[:1])):
            hint = f"write {best}" + (f"; its lists are {', '.join(lists)}" if lists else "")
    return f"{what} {fault}" + (f" ({hint})" if hint else "")


def _instead_of(name: str, value: Any) -> str:
    """Return what to write instead of a name that an object, class or module lacks, or else list its names."""
    if name[:1] == "_":
        return ""
    if isinstance(value, Index):
        return f"it is an index: write {value.of}[{value}].{name}"
    wanted, kinds = _meanings(name), _kinds(value)
    around = _meanings(value.__name__) - {"circletool"} if inspect.ismodule(value) else frozenset()
    squeezed, *own = (_plain(one).replace("_", "").lower() for one in (name, *_public(value)))
    is_own = not around and squeezed in own
    for on, names, noted in _foreign()["instead"] if not is_own else ():
        if kinds & {*on.split()} and wanted in map(_meanings, names.split()):
            if noted[0] != "=":
                return f"{'' if noted.startswith('circletools ') else 'write '}{noted.replace('`', '')}"
            wanted = _meanings(noted)
    near: dict[str, float] = {}
    for way, have, optional, far in _ways(value, name):
        distance = _distance(wanted, have, optional) - 1.1 * bool(around & have)
        if far < 0.2 and have - around < wanted and (around or not inspect.ismodule(value)):
            distance = min(distance, 1.5)  # one of the object's own names that lacks some of the words
        if (distance := distance + far) < (2 if far < 0.3 else far + 0.1):  # at most one word more than wanted
            near.setdefault(way, distance)
    ways = sorted((way for way in near if near[way] == min(near.values())), key=len)
    return f"write {' or '.join(ways[:3])}" if ways else _contents(value)


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
    classes = {one.__name__ for one in getattr(value, "__mro__", type(value).__mro__)}
    return {title_of(value.__name__, "").removesuffix(".")} if inspect.ismodule(value) else classes


def _distance(wanted: frozenset[str], have: frozenset[str], optional: frozenset[str]) -> float:
    """Return how many extra words a name has; infinite if it lacks a wanted word in any spelling."""
    lacking = wanted - have
    starts = {word[:1] for word in have}
    misspelt = [one for one in lacking if one[0] in starts and get_close_matches(one, have, 1, 0.8)]
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
    places = [*_held(value)] if is_value else []
    for way, held, far in (("", value, 0.0), *places) if is_value else ():
        for one in _public(held):
            call = getattr(held if isinstance(held, type) else type(held), one, None)
            is_first = name[:1].isupper() and not counts and f".{one}[0]" in dict.fromkeys(way for way, *_ in places)
            yield template.format(f"{way}.{_form(one, call)}{'[0]' * is_first}"), _meanings(one), own, far
    for title, call in _offered():
        place, _, last = title.rpartition(".")
        is_made = last[0].isupper() and name[0].islower()  # a class can replace a function of the same name
        if is_made or inspect.ismodule(call) or (is_value and not _takes_first(call, place, last, value)):
            continue
        far = 0.2 * (place not in _kinds(value))
        around = own if is_value else _meanings(place[3:])
        yield _kept(_form(title, call), is_open=is_value), _meanings(f"{place[3:]}_{last}"), around, far
        result = _declared(call)[1].get("return") if inspect.isfunction(call) and is_value else None
        for kind in _kinds_of(result):
            if Attributes in getattr(kind, "__mro__", ()) and "," not in _needed(call):
                yield from ((f"{_form(title, call)}.{one}", _meanings(one), own, 0.4) for one in _public(kind))
    if not is_value or type(value).__module__.startswith("circletools.model."):
        for maker, made in (("edit", "edit"), ("open", "ct.open(path)")):
            kind = _declared(getattr(import_module("circletools"), maker))[1]["return"]
            for one in _public(kind):
                yield _kept(f"{made}.{_form(one, getattr(kind, one))}"), _meanings(one), own, 0.3


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
    return "None" if hint is type(None) else str(getattr(origin or hint, "__name__", origin or hint))
