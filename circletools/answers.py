"""Suggest what to write instead of a name or item that an object, class or module lacks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from math import inf
from typing import Any, get_type_hints

from circletools.arguments import declared
from circletools.calls import title_of
from circletools.snippets import LONGEST, foreign, form_of, importing, kept, meanings, plain_name, variable_of
from circletools.wording import CHANGES, Attributes, Index, counted, nearest, suggestion

_MOST_NAMES, _LISTED = 200, 8


def answer(fault: str, value: Any, key: object) -> str:
    """Return an error message about a missing attribute or item that shows what to write instead."""
    what = f"module {value.__name__!r}" if inspect.ismodule(value) else type(value).__name__
    hint = _list_of(value, key) if fault == "is not a list" else _instead_of(str(key), value)
    return f"{what} {fault}" + (f" ({placed(hint, value)})" if hint else "")


def placed(hint: str, items: Any) -> str:
    """Put code for a list of a model in place of `items` in a hint, and name the imports that it needs."""
    kind = type(items[0]).__name__ if isinstance(items, Sequence) and items else ""
    if kind in ("Tensor", "Operator", "Subgraph"):
        place = f"[{items[0].subgraph}].{kind.lower()}s" if kind != "Subgraph" else ""
        hint = re.sub(r"(?<![\w.])items(?=[.\[\])]| for| if|$)", f"model.subgraphs{place}", hint)
    return importing(hint)


def _list_of(value: Any, key: object) -> str:
    """Return how to get an item from an object that is not a list."""
    if noted := _noted("unpack" if isinstance(key, int) else "getitem", value):
        return f"write {re.sub(r'(?<=, )name(?=.$)', lambda _: repr(key), noted)}"
    if isinstance(key, str) and key in _public(value):
        return f"write .{key}"
    known = [one for one in foreign()["lists"].split() if re.split(r"[\[(]", one)[0][1:] in _public(value)]
    return f"write {known[0]}" if known else _contents(value)


def no_key(values: Mapping[Any, Any], name: object) -> str:
    """Return an error message about a name that a dict of values by name, or of names by number, lacks."""
    if noted := _noted(str(name), values):
        return f"there is no {name!r} (write {noted})"
    keys = [*islice(values, _MOST_NAMES)]
    if isinstance(name, str) and keys and isinstance(keys[0], int):
        found = f"[one for one, name in items.items() if {name!r} in name]"
        return f"there is no {name!r}: items are numbered (write {found})"
    return f"there is no {name!r} ({suggestion(str(name), map(str, keys))})"


def _instead_of(name: str, value: Any) -> str:
    """Return what to write instead of a name that an object, class or module lacks, or else list its names."""
    if name[:1] == "_":
        return ""
    if isinstance(value, Index):
        return f"this is the index {value}: write {value.of}[index]" + f".{name}" * (value.of != "plan.devices")
    if isinstance(options := getattr(value, "options", None), Mapping) and name in options:
        return f"write .options[{name!r}]"
    plain = plain_name(name).replace("_", "").lower()
    if not (own := [one for one in _public(value) if one.replace("_", "").lower() == plain]):
        noted = _noted(name, value)
        if noted[:1] == "=":
            name = noted
        elif noted:
            return noted if noted.startswith("circletools ") else f"write {_in_edit(noted, value)}"
    elif name.endswith("Length"):
        return f"write len({variable_of(type(value))}.{own[0]})"
    wanted = meanings(name)
    ways = [(0.0, form_of(f".{one}", getattr(type(value), one, None))) for one in own[:1]]
    ways += [(_distance(wanted, words, place) + far, code) for code, words, place, far in _ways(value)]
    distance, way = min(ways, default=(inf, ""))
    return f"write {_in_edit(way, value)}" if distance < 2 else _contents(value, name)


def _in_edit(code: str, value: Any) -> str:
    """Return Python code without the statement that would start another edit of the model being edited."""
    inner = re.search(r"with ct\.edit\(model\) as edit: (.+?)(; edit\.save\(target\))?$", code)
    is_edit = type(value).__name__ == "ModelEdit" or (type(value).__name__ == "Model" and value.editing())
    return inner[1] if inner and is_edit else code


def _noted(name: str, value: Any) -> str:
    """Return this library's counterpart of a name from another library; empty if there is none."""
    kinds, wanted = _kinds(value), meanings(name)
    rows = [(names.split(), noted) for on, names, noted in foreign()["instead"] if kinds & {*on.split()}]
    alike = (noted for names, noted in rows if wanted in map(meanings, names))
    noted = next((noted for names, noted in rows if name in names), next(alike, ""))
    first = value[0] if isinstance(value, Sequence) and value else None
    if first is not None and len(value) > 1 and name in _public(first):
        return f"[one.{name} for one in items]"
    return str(noted).replace("`", "").replace("{one.name:", "{one.name:" if hasattr(first, "name") else "{one.key:")


def _kinds(value: Any) -> set[str]:
    """Return the name of a module, or the names of the classes of an object."""
    classes = {one.__name__ for one in type(value).__mro__}
    classes |= {f"[{type(value[0]).__name__}]"} if isinstance(value, Sequence) and value else set()
    return {title_of(value.__name__, "").removesuffix(".")} if inspect.ismodule(value) else classes


def _distance(wanted: frozenset[str], have: frozenset[str], optional: frozenset[str]) -> float:
    """Return the number of surplus words in a name; infinite if it lacks a wanted word and all similar ones."""
    misspelt = wanted - have - optional
    if have and have < wanted:
        return 1.5
    if not wanted or not all(nearest(one, have) for one in misspelt):
        return inf
    return len(have - wanted - optional) + len(misspelt) / 10


def _ways(value: Any) -> Iterator[tuple[str, frozenset[str], frozenset[str], float]]:
    """Yield expressions that start at an object or module, their words, the words of their place, and a penalty."""
    is_value, kind, none = not inspect.ismodule(value), type(value), frozenset[str]()
    for one in _public(value) if is_value else ():
        yield form_of(f".{one}", getattr(kind, one, None)), meanings(one), none, 0.0
    for attribute, held in _held(kind) if is_value else ():
        for one in _public(held):
            yield f".{attribute}.{form_of(one, getattr(held, one))}", meanings(one), meanings(attribute), 0.2
    for title, call in offered():
        place, _, last = title.rpartition(".")
        first = next(iter(declared(call)[1].values()), None) if inspect.isfunction(call) else None
        if not is_value or first in kind.__mro__[:-1]:
            form = kept(form_of(title, call, variable_of(kind) * is_value), "" if is_value else "path")
            yield form, meanings(last), meanings(place[3:] or "model"), 0.2 * (place not in _kinds(value))
    if kind.__name__ == "Model":
        edit = import_module("circletools").ModelEdit
        for one in _public(edit):
            yield kept(f"edit.{form_of(one, getattr(edit, one))}"), meanings(one), none, 0.3


def _held(kind: type) -> Iterator[tuple[str, type]]:
    """Yield the attributes of a class that hold one object of this library, with its class."""
    for attribute in _public(kind):
        held = getattr(kind, attribute, None)
        try:
            hint = get_type_hints(getattr(held, "func", getattr(held, "fget", kind)))
        except (NameError, TypeError):  # a name is imported only for type checkers
            continue
        one = hint.get("return", hint.get(attribute))
        if isinstance(one, type) and issubclass(one, Attributes):
            yield attribute, one


def offered() -> Iterator[tuple[str, Any]]:
    """Yield public functions and classes with their names, as users write them."""
    facade = import_module("circletools")
    for module in (facade, *filter(inspect.ismodule, (getattr(facade, name) for name in facade.__all__))):
        yield from ((title_of(module.__name__, name), getattr(module, name)) for name in module.__all__)


def _public(value: Any) -> list[str]:
    """Return the public names of an object or module, lower case first."""
    names = getattr(value, "__all__", None) or (name for name in dir(value) if name[0] != "_")
    return sorted(names, key=str.swapcase)


def _contents(value: Any, name: str | None = None) -> str:
    """Describe an object by its names; for a list, by the number of items and their names."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return f"it has {', '.join(_public(value))}"
    if not value:
        return "it is an empty list"
    item = type(value[0])
    names = getattr(item, "_fields", None) or (_public(item) if issubclass(item, Attributes) else ())
    fields = f", each with {', '.join(names)}" if names else ""
    find = by_name(value, name)
    return f"it is a list of {counted(len(value), f'{item.__name__} object')}{fields}" + f"; {find}" * bool(find)


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
        is_field = items and index in _public(items[0])  # rows["macs"]
        noted = f"[one.{index} for one in items]" if is_field else _noted("getitem", items)
        find = f"write {noted.replace('name', repr(index))}" if noted else by_name(items, index)
    elif index is not None and not find:
        find = "for several items, write [items[one] for one in indices]"
    return f"an index must be a number or a slice, not {str(index)[:80]!r}" + f" ({placed(find, items)})" * bool(find)


def by_name(items: Sequence[object], name: str | None = None) -> str:
    """Return how to find an item by its name, or by the nearest one; empty if items have no names."""
    first = items[0] if items else None
    if isinstance(first, Index):
        return f"write next(one for one in items if {first.of}[one].name == {'name' if name is None else repr(name)})"
    if not (key := next((key for key in ("name", "key", "code") if hasattr(first, key)), "")):
        return ""
    if name is None:
        return f"write next(one for one in items if one.{key} == name)"
    held = (getattr(one, key) for one in (*getattr(items, "named_first", tuple)(), *islice(items, _MOST_NAMES)))
    known = [*dict.fromkeys(str(getattr(one, "name", one)) for one in held)]
    near = name if name in known else nearest(name, known)
    fault = f"no item is named {name[:80]!r}: " if near != name else ""
    others = "" if near else ", ".join(known[1:_LISTED]) + ", …" * (len(known) > _LISTED)
    code = placed(f"write next(one for one in items if one.{key} == {near or known[0]!r})", items)
    return f"{fault}{code}" + f", or another name: {others}" * bool(others)
