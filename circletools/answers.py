"""Suggest what to write instead of a name or item that an object, class or module lacks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from math import inf
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from circletools.arguments import declared, fits, kinds_of
from circletools.calls import title_of
from circletools.snippets import LONGEST, foreign, form_of, importing, kept, meanings, plain_name, variable_of
from circletools.wording import CHANGES, Attributes, Index, counted, nearest, suggestion

_MOST_NAMES, _LISTED = 200, 8


def answer(fault: str, value: Any, key: object) -> str:
    """Return an error message about a missing attribute or item that shows what to write instead."""
    what = f"module {value.__name__!r}" if inspect.ismodule(value) else type(value).__name__
    hint = _instead_of(key, value) if isinstance(key, str) else _contents(value)
    if fault == "is not a list" and (isinstance(key, int) or hint.startswith("it has ")):
        lists = [way[:-3] for way, _, _ in _held(value) if way.endswith("[0]")]
        known = (one for one in foreign()["lists"].split() if re.split(r"[\[(]", one)[0][1:] in _public(value))
        noted = _noted("unpack" if isinstance(key, int) else "getitem", value).replace("name", repr(key))
        if noted or (isinstance(key, str) and (noted := _named(value, key, lists))):
            hint = f"write {noted.replace('`', '')}"
        elif best := next(known, "".join(lists[:1])):
            hint = f"write {best}" + (f"; its lists are {', '.join(lists)}" if lists else "")
    return f"{what} {fault}" + (f" ({placed(hint, value)})" if hint else "")


def placed(hint: str, items: Any) -> str:
    """Put code for a list of a model in place of `items` in a hint, and name the imports that it needs."""
    kind = type(items[0]).__name__ if isinstance(items, Sequence) and items else ""
    if kind in ("Tensor", "Operator", "Subgraph"):
        place = f"[{items[0].subgraph}].{kind.lower()}s" if kind != "Subgraph" else ""
        hint = re.sub(r"(?<![\w.])items(?=[.\[\])]| for| if|$)", f"model.subgraphs{place}", hint)
    return importing(hint)


def no_key(values: Mapping[Any, Any], name: object) -> str:
    """Return an error message about a name that is not in a dict of values by name, or of names by number."""
    if noted := _noted(str(name), values):
        return f"there is no {name!r} (write {noted})"
    words, keys = [one for one in values.values() if isinstance(one, str)], [*islice(values, _MOST_NAMES)]
    if isinstance(name, str) and keys and not isinstance(keys[0], str) and words:
        near = next((one for one in words if name in one), nearest(name, words[:_MOST_NAMES])) or words[0]
        found = f"[one for one, name in items.items() if {name if name in near else near!r} in name]"
        return f"there is no {name!r}: items are numbered (write {found})"
    return f"there is no {name!r} ({suggestion(str(name), map(str, keys))})"


def _named(value: Any, name: str, lists: Sequence[str]) -> str:
    """Return code that finds the item with a name in the lists of an object; empty if no items have names."""
    held = [(getattr(value, one[1:]), f"{variable_of(type(value))}{one}") for one in lists]
    held = [(items, place) for items, place in held if items and hasattr(items[0], "name")]
    own = [one for one in held if any(item.name == name for item in one[0])]
    return next((_found_by_name(items, name, place)[1] for items, place in (*own, *held)), "")


def _instead_of(name: str, value: Any) -> str:
    """Return what to write instead of a name; in an edit, omit the statement that would start another edit."""
    hint = _found(name, value)
    inner = re.search(r"with ct\.edit\(model\) as edit: (.+?)(; edit\.save\(target\))?$", hint)
    kind = type(value).__name__
    is_edit = kind == "ModelEdit" or (kind == "Model" and getattr(value, "editing", bool)())
    return f"write {inner[1]}" if inner and is_edit else hint


def _found(name: str, value: Any) -> str:
    """Return what to write instead of a name that an object, class or module lacks, or else list its names."""
    if name[:1] == "_":
        return ""
    if isinstance(value, Index):
        return f"this is the index {value}: write {value.of}[index]" + f".{name}" * (value.of != "plan.devices")
    wanted = meanings(name)
    around = meanings(value.__name__) - {"circletool"} if inspect.ismodule(value) else frozenset()
    squeezed, *own = (plain_name(one).replace("_", "").lower() for one in (name, *_public(value)))
    is_own = not around and squeezed in own
    noted = _noted(name, value) if not is_own else ""
    if noted[:1] == "=":
        wanted = meanings(noted)
    elif noted:
        return f"{'' if noted.startswith('circletools ') else 'write '}{noted.replace('`', '')}"
    if isinstance(options := getattr(value, "options", None), Mapping) and name in options:
        return f"write .options[{name!r}]"
    near: dict[str, float] = {}
    for way, have, optional, far in _ways(value, name):
        distance = _distance(wanted, have, optional) - 1.1 * bool(around & have)
        if far < 0.2 and have - around < wanted and (around or not inspect.ismodule(value)):
            distance = min(distance, 1.5)  # one of the object's own names that lacks some of the words
        if (distance := distance + far) < (2 if far < 0.3 else far + 0.1):  # at most one word more than wanted
            near.setdefault(way, distance)
    ways = sorted((way for way in near if near[way] == min(near.values())), key=len)
    if not ways and type(value).__name__ == "ModelEdit":
        hint = _instead_of(name, value.model)
        return re.sub(r"\bmodel\b", "edit.model", hint) if hint.startswith("write ") else _contents(value, name)
    return f"write {ways[0]}" if ways else _contents(value, name)


def _noted(name: str, value: Any) -> str:
    """Return this library's counterpart of a name of another library; empty if there is none."""
    kinds, wanted = _kinds(value), meanings(name)
    rows = ((on, names, noted) for on, names, noted in foreign()["instead"] if kinds & {*on.split()})
    alike = [(names.split(), noted) for _, names, noted in rows if wanted in map(meanings, names.split())]
    noted = next((noted for names, noted in alike if name in names), next((noted for _, noted in alike), ""))
    first = value[0] if isinstance(value, Sequence) and value else None
    if first is not None and len(value) > 1 and name in _public(first):
        return f"[one.{name} for one in items]"
    return str(noted) if hasattr(first, "name") else str(noted).replace("{one.name:", "{one.key:")


def _kinds(value: Any) -> set[str]:
    """Return the name of a module, or the names of the classes of an object or class."""
    classes = {one.__name__ for one in type(value).__mro__}
    classes |= {f"[{type(value[0]).__name__}]"} if isinstance(value, Sequence) and value else set()
    return {title_of(value.__name__, "").removesuffix(".")} if inspect.ismodule(value) else classes


def _distance(wanted: frozenset[str], have: frozenset[str], optional: frozenset[str]) -> float:
    """Return how many extra words a name has; infinite if a wanted word is missing in all its spellings."""
    lacking = wanted - have
    starts = {word[:1] for word in have}
    misspelt = [one for one in lacking if one[0] in starts and get_close_matches(one, have, 1, 0.8)]
    misspelt += [one for one in lacking if sorted(one) in map(sorted, have)]
    if len(misspelt) < len(lacking - optional) or not (misspelt or wanted & have):
        return inf
    return max(len(have - (optional - wanted)) - len(wanted), 0) + len(misspelt) / 10


_Way = tuple[str, frozenset[str], frozenset[str], float]


def _ways(value: Any, name: str) -> Iterator[_Way]:
    """Yield candidates: an expression, its words, the optional ones among these, and its distance from the object."""
    is_value = not inspect.ismodule(value)
    own = frozenset() if inspect.ismodule(value) else meanings(type(value).__name__)
    counts = re.search(r"length$|^(num|n|count)_|_count$", name, re.IGNORECASE)
    template = f"len({type(value).__name__.lower()}{{}})" if counts else "{}"
    places = [*_held(value)] if is_value else []
    for way, held, far in (("", value, 0.0), *places) if is_value else ():
        for one in _public(held):
            call = getattr(held if isinstance(held, type) else type(held), one, None)
            is_first = name[:1].isupper() and not counts and f".{one}[0]" in dict.fromkeys(way for way, *_ in places)
            yield template.format(f"{way}.{form_of(one, call)}{'[0]' * is_first}"), meanings(one), own, far
    for title, call in _offered():
        place, _, last = title.rpartition(".")
        is_made = last[0].isupper() and name[0].islower()  # a class can replace a function of the same name
        if is_made or inspect.ismodule(call) or (is_value and not _takes_first(call, place, last, value)):
            continue
        far = 0.2 * (place not in _kinds(value))
        around = own if is_value else meanings(place[3:])
        is_own = is_value and inspect.isfunction(call) and fits(value, next(iter(declared(call)[1].values()), None))
        form = kept(form_of(title, call, variable_of(type(value)) * is_own), "" if is_value else "path")
        yield form, meanings(f"{place[3:]}_{last}"), around, far
        result = declared(call)[1].get("return") if inspect.isfunction(call) and is_value else None
        for kind in kinds_of(result):
            if Attributes in getattr(kind, "__mro__", ()) and "," not in form_of(title, call):
                yield from ((f"{form_of(title, call)}.{one}", meanings(one), own, 0.4) for one in _public(kind))
    if not is_value or type(value).__module__.startswith("circletools.model."):
        for maker, made in (("edit", "edit"), ("open", "ct.open(path)")):
            kind = declared(getattr(import_module("circletools"), maker))[1]["return"]
            for one in _public(kind):
                yield kept(f"{made}.{form_of(one, getattr(kind, one))}"), meanings(one), own, 0.3


def _takes_first(call: Any, place: str, name: str, value: Any) -> bool:
    """Return whether a function's first argument may be an object; in `ct.render`, its name must match the class."""
    if place == "ct.render":
        return bool(meanings(name) & meanings(type(value).__name__))
    first = next(iter(declared(call)[1].values()), None) if inspect.isfunction(call) else None
    return first in type(value).__mro__[:-1]


def _public(value: Any) -> list[str]:
    """Return the public names of an object or module, lower case first."""
    names = getattr(value, "__all__", None) or (name for name in dir(value) if name[0] != "_")
    return sorted(names, key=str.swapcase)


def _contents(value: Any, name: str | None = None) -> str:
    """Describe an object by its names; for a list, by the number of items and their names."""
    if "__dataclass_fields__" in dir(value) and name is None:
        ways = [f"{type(value).__name__.lower()}.{one}" for one in value.__dataclass_fields__]
        return f"write {', '.join(ways[:3])}{', …' * (len(ways) > 3)}"
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return f"it has {', '.join(_public(value))}"
    if not value:
        return "it is an empty list"
    item = type(value[0])
    names = getattr(item, "_fields", None) or (_public(item) if issubclass(item, Attributes) else ())
    fields = f", each with {', '.join(names)}" if names else ""
    find = by_name(value, name)
    count = counted(len(value), f"{item.__name__} object")
    return f"it is a list of {count}{fields}" + f"; {find}" * bool(find)


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


def _offered() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes with their names, as users write them."""
    facade = import_module("circletools")
    for module in (facade, *filter(inspect.ismodule, (getattr(facade, name) for name in facade.__all__))):
        yield from ((title_of(module.__name__, name), getattr(module, name)) for name in module.__all__)


def change(value: Any, name: str, new: object) -> str:
    """Return how to make a change, such as `set_name`, to a read-only object."""
    hint = _instead_of(name, value).replace("(name, shape)", f"({getattr(value, 'name', '')!r}, {new!r})")
    if len(repr(new)) <= LONGEST and isinstance(new, str | bytes | int | float):
        hint = re.sub(r"(?<=, )(name|data|value)(?=\); edit\.save)", lambda _: repr(new), hint)
    is_way = hint.startswith(("write ", "circletools ")) and re.search("edit|surgery|convert", hint)
    return hint if is_way else CHANGES


def wrong_index(items: Sequence[object], index: Any) -> str:
    """Return an error message about an index that is not a number."""
    find = "write its .index" if hasattr(type(index), "to_row") else ""
    if isinstance(index, str):
        noted = _noted("getitem", items).replace("name", repr(index))
        if items and index in _public(items[0]):  # rows["macs"]
            noted = f"[one.{index} for one in items]"
        find = f"write {noted}" if noted else by_name(items, index)
    elif index is not None and not find:
        find = "for several items, write [items[one] for one in indices]"
    return f"an index must be a number or a slice, not {str(index)[:80]!r}" + f" ({placed(find, items)})" * bool(find)


def by_name(items: Sequence[object], name: str | None = None) -> str:
    """Return how to find an item by its name, or by the nearest one; empty if items have no names."""
    near, code, others = _found_by_name(items, name)
    fault = f"no item is named {name[:80]!r}: " if name is not None and near not in (None, name) else ""
    return placed(f"{fault}write {code}", items) + f", or another name: {others}" * bool(others) if code else ""


def _found_by_name(items: Sequence[object], name: str | None = None, place: str = "items") -> tuple[Any, str, str]:
    """Return the name of an item, code that finds the item, and other names if none is similar to the wanted one."""
    first, others = items[0] if items else None, ""
    key = next((key for key in ("name", "key", "code") if hasattr(first, key)), "")
    near: Any = None if name is None else name[:80]
    if key and name is not None:
        held = (getattr(one, key) for one in (*getattr(items, "named_first", tuple)(), *islice(items, _MOST_NAMES)))
        known = [*dict.fromkeys(getattr(one, "name", one) for one in held)]  # the name of an operator's code
        near = name if name in known else nearest(name, known)
        if not near:
            near, others = known[0], ", ".join(known[1:_LISTED]) + ", …" * (len(known) > _LISTED)
    shown = "name" if near is None else repr(near)
    if key:
        return near, f"next(one for one in {place} if one.{key} == {shown})", others
    if isinstance(first, Index):
        return None, f"next(one for one in {place} if {first.of}[one].name == {shown})", ""
    is_pair = isinstance(first, tuple) and len(first) == 2
    return None, f"dict({place})[{shown}]" if is_pair else "", ""
