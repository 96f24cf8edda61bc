"""Show how to call a function: with the arguments of a wrong call that fit, and code for the others."""

from __future__ import annotations

import inspect
import os
import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from circletools.arguments import classes_in, declared, fits, in_range, kinds_of, taken, words_of
from circletools.snippets import foreign, importing, kept, maker_of, placeholder, same_name, shown, variable_of
from circletools.wording import nearest

_MODEL = re.compile(r"\.(tflite|circle)$")
_SURE, _NONE = object(), object()
_Named = dict[str, Any]


def usage(
    title: str, call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None
) -> str:
    """Return what to write instead of a wrong call; for a method, `owner` is its class."""
    if owner is not None and (not given or title.endswith(f".{owner.__name__}")):
        return f"write {maker_of(owner)}" if given else f"{maker_of(owner)} makes one"
    signature, hints = declared(call)
    name, given = title.rpartition(".")[2], given["self" in signature.parameters :]
    saved = [one for one in given[1:] if _is_model(one)] if "edit" in hints else []  # fix("in.tflite", "out.tflite")
    given = tuple(one for one in given if one not in saved) if saved else given
    held, rest, unknown = _assigned(call, given, named)
    codes, by_name = list[str](), name[:1].isupper()
    for one in (signature.parameters[parameter] for parameter in taken(call)):
        hint, place = hints.get(one.name, Any), f"{name}.{one.name}"
        if one.name in held:
            code = meant(held[one.name], hint, place) or placeholder(one, hint, place) or one.name
        elif (kind := _request_of(hint)) and (rest or unknown):  # ct.fit(model, on="xnnpack")
            code, rest, unknown = _request(kind, rest, unknown), [], {}
        else:
            code = placeholder(one, hint, place)
        if f"{title}(" in code:  # a whole statement
            return f"write {code}"
        codes += [f"{one.name}={code}" if by_name or one.kind is one.KEYWORD_ONLY else code] if code else []
        by_name = by_name or not code
    form = f"{f'{variable_of(owner)}.{name}' if owner else title}({', '.join(codes)})"
    if owner is not None or "edit" not in hints or type(held.get("edit")).__name__ == "ModelEdit":
        form += f"; edit.save({saved[0]!r})" if saved else ""
    else:
        opened = shown(held["edit"], "path") if isinstance(held.get("edit"), str | os.PathLike) else ""
        form = kept(form, opened, shown(saved[0], "target") if saved else "target")
    note = foreign()["notes"].get(title, "") if rest or unknown else ""
    takes = f"it takes {', '.join(taken(call)) or 'nothing'}" if unknown else ""
    return importing("; ".join(filter(None, (f"write {form}", note, takes))))


def meant(value: Any, hint: Any, place: str) -> str:
    """Return Python code for what a wrong value of `function.parameter` probably means; empty if unknown."""
    name = place.rpartition(".")[2]
    value = in_range(name, value)
    if fits(value, hint):
        return shown(value, name)
    if (kind := _request_of(hint)) is not None:
        return _request(kind, [value], {})
    return next((code for code, made in _conversions(value, hint, place) if made is _SURE or fits(made, hint)), "")


def _conversions(value: Any, hint: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield code that converts a wrong value, with the converted value, or _SURE if that need not be checked."""
    name, is_path = place.rpartition(".")[2], isinstance(value, str | os.PathLike)
    kinds, code, variable = kinds_of(hint), shown(value, name), variable_of(type(value))
    places = [place, *(one.__name__ for one in classes_in(hint))]
    for _, ending, read in (row for row in foreign()["files"] if row[0] in places):
        if (is_path and ending[:1] in "." and os.fspath(value).endswith(ending)) or variable == ending:
            yield read.format(code), _SURE
    if words := [word for kind in kinds for word in words_of(kind)]:
        yield repr(_known(value, words) or words[0]), _SURE
    if "ModelEdit" in str(hint):
        yield "edit", _SURE
    if "int" in str(hint) and (find := foreign()["found"].get(place, foreign()["found"].get(name))):
        found = ", ".join(find.format(repr(one)) for one in _items(value) if isinstance(one, str))
        yield found if hint is int else f"[{found}]", _SURE if found else value
    yield from _made(value, hint, place)
    is_array = np.ndarray in [getattr(kind, "__origin__", kind) for kind in kinds]
    if is_array and isinstance(value, list | tuple | float):
        yield f"numpy.array({code}, tensor.numpy().dtype)", _SURE
    if bytes in kinds and isinstance(value, Mapping | list | os.PathLike):
        yield f"open({code}, 'rb').read()" if is_path else f"json.dumps({code}).encode()", _SURE
    example = foreign()["given"].get(place) or foreign()["given"].get(name) or ""
    shape = _SURE if example[:1].isalpha() else literal_eval(example or "()")
    if "PathLike" in str(hint) and not is_path:
        yield from [(example, shape)] * bool(example)
    yield from ((shown(plain, name), plain) for plain in _plain_values(value, place))
    yield from [(example, shape)] * bool(example)


def _made(value: Any, hint: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield code that makes an object of the wanted class, from a path or from another object."""
    made, is_path, variable = maker_of(hint), isinstance(value, str | os.PathLike), variable_of(type(value))
    code = shown(value, place.rpartition(".")[2])
    if rules := _rules(value) if place == "PlanRequest.rules" or "ct.plan(" in made else []:
        plan = f"ct.PlanRequest(rules={rules!r}, default={rules[-1].rpartition('=')[2]!r})"
        yield made.replace(foreign()["made"]["PlanRequest"], plan) if made else repr(rules), _SURE
    if is_path and "path" in made:
        yield made.replace("path", code), _SURE
    if _is_model(value) and "model" in made:
        yield re.sub(r"\bmodel\b", f"ct.open({code})", made), _SURE
    if variable == "edit" and "Model" in str(hint):
        yield "ct.open(edit.to_bytes())", _SURE
    for attribute in ("index", "name", "model", "code"):
        yield f"{variable}.{attribute}", getattr(value, attribute, _NONE)
    if made:
        yield made, _SURE


def _items(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]


def _plain_values(value: Any, place: str) -> Iterator[Any]:
    """Yield values of other types that a plain value may represent."""
    items = _items(value)
    if isinstance(value, str) and (number := re.fullmatch(r"(-?(0|[1-9]\d*)(\.\d+)?) ?(s|%)?", value)):
        yield literal_eval(number[1])
    if isinstance(value, str | bytes | int | float | os.PathLike):
        plain = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        text = os.fspath(plain) if isinstance(plain, os.PathLike) else str(plain)
        yield from (text, text.encode("utf-8", "replace"))
        items = [word.strip() for word in text.split(",")]
    if isinstance(value, Mapping):
        yield from ([*value.items()], [f"{key}={held}" for key, held in value.items()])
    if (known := foreign()["known"].get(place)) and all(isinstance(one, str) for one in items):
        words = getattr(import_module(known[0]), known[1])
        yield [_known(one, words() if callable(words) else words) or one for one in items]
    yield items
    yield [value] if isinstance(value, int | float) else items[0] if len(items) == 1 else _NONE
    yield from ([getattr(one, key, None) for one in items] for key in ("index", "name"))
    if all(isinstance(one, int | float) for one in items):
        yield ",".join(map(str, items))


def _rules(value: Any) -> list[str]:
    """Return placement rules for a dict of devices by operator code, name or index, or a list of such pairs."""
    pairs = value.items() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    pairs = [one for one in pairs if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], str)]
    kinds = ("index:" if isinstance(one, int) else "" if ":" in str(one) else "op:" for one, _ in pairs)
    return [f"{kind}{one}={device}" for kind, (one, device) in zip(kinds, pairs, strict=True)]


def _known(value: object, words: Any) -> str:
    """Return the word that is meant, by its letters or its meaning; empty if there is none."""
    word, known = str(value), [*map(str, words)]
    return word if word in known else same_name(word, known) or nearest(word, known)


def _assigned(
    call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[_Named, list[Any], _Named]:
    """Return arguments by parameter, surplus ones and unknown keywords; misplaced ones move to where they fit."""
    (signature, hints), names = declared(call), taken(call)
    ordered = [name for name in names if signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    needed = [name for name in names if signature.parameters[name].default is inspect.Parameter.empty]
    pairs = len({*named} - {*names}) if {"name", "value"} <= {*needed} else 0
    if ordered[:1] == ["subgraph"] and given and len(given) + len(named) + pairs < len(needed):
        given = (0, *given)  # users forget the subgraph, the first argument of many methods
    held, unknown = _Named(zip(ordered, given, strict=False)), _Named()
    fields = {one for hint in hints.values() if (kind := _request_of(hint)) for one in taken(kind)}
    for word, value in named.items():
        name = word if word in names else "" if word in fields else same_name(word, names)
        (held if name and name not in held else unknown)[name or word] = value
    missing = [name for name in needed if name not in held]
    if len(missing) == len(unknown) == 1 and fits(value := next(iter(unknown.values())), hints.get(missing[0], Any)):
        held[missing[0]], unknown = value, {}  # ct.open(model_path="m.tflite")
    if len(unknown) == 1 and {"name", "value"} <= {*missing}:  # set_option(0, 0, padding="SAME")
        ((held["name"], held["value"]),), unknown = unknown.items(), {}
    wrong = {name: held[name] for name in held if not fits(held[name], hints.get(name, Any))}
    rest = [*wrong.values(), *given[len(ordered) :]]
    surplus, moved = list[Any](), _Named()
    for value in rest:
        is_own = type(value).__module__.startswith("circletools.")
        places = names if is_own else needed
        free = [one for one in places if (one not in held or one in wrong) and one not in moved]
        if home := next((one for one in free if fits(value, hints.get(one, object))), ""):
            moved[home] = value
        else:
            surplus.append(value)
    held |= moved
    for name in [*wrong]:
        if name not in moved and not any(held[name] is one for one in surplus):
            del held[name]  # it was moved
    for name in needed:
        hint = hints.get(name, Any)
        if name not in held and surplus and not _request_of(hint):
            is_list = len(surplus) > 1 and not fits(surplus[0], hint) and fits(surplus, hint)
            held[name], surplus = (surplus, []) if is_list else (surplus[0], surplus[1:])
    surplus = [one for one in surplus if not any(one is value for value in held.values())]
    return held, surplus, unknown


def _is_model(value: Any) -> bool:
    """Return whether a value is the path of a model file."""
    return isinstance(value, str | os.PathLike) and _MODEL.search(os.fspath(value)) is not None


def _request_of(hint: Any) -> type | None:
    """Return the class in an annotation whose objects are made of plain values only; None if there is none."""
    endings = ("Request", "Description", "Selection")
    return next((one for one in classes_in(hint) if one.__name__.endswith(endings)), None)


def _request(kind: type, values: list[Any], unknown: Mapping[str, Any]) -> str:
    """Return Python code for a request with these values and named fields, or for any request if none fits."""
    names, hints, found = taken(kind), declared(kind)[1], dict[str, str]()
    if len(values) == 1 and isinstance(values[0], Mapping) and {*values[0]} <= {*names}:
        values, unknown = [], {**values[0], **unknown}
    for word, value in unknown.items():
        if name := same_name(word, names):
            found[name] = meant(value, hints[name], f"{kind.__name__}.{name}")
    made = maker_of(kind)
    likely = sorted(names, key=lambda one: f"{one}=" not in made)
    for value in (one for one in values if shown(one, "")):
        free = [one for one in likely if one not in found]
        fitting = [one for one in free if fits(value, hints[one]) or fits([value], hints[one])]
        codes = ((one, meant(value, hints[one], f"{kind.__name__}.{one}")) for one in (*fitting, *free))
        found |= dict([next(((one, code) for one, code in codes if code), ("", ""))])
    for one in declared(kind)[0].parameters.values() if found else ():
        if one.default is one.empty and one.name not in {"self", *found}:
            found[one.name] = str(foreign()["given"].get(one.name, one.name))
    given = ", ".join(f"{name}={code}" for name, code in found.items() if name and code)
    return f"{made.partition('(')[0]}({given})" if given else made
