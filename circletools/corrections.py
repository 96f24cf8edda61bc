"""Rewrite a wrong call as it was probably meant: keep arguments that fit, and suggest code for the others."""

from __future__ import annotations

import inspect
import json
import os
import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np

from circletools.arguments import classes_in, declared, fits, in_range, kinds_of, taken, words_of
from circletools.wording import nearest, ranges

_LONGEST = 80  # the most characters of an argument that are repeated; longer ones are named after their parameter
_OWN = {"model", "edit", "before", "after", "other"}  # parameters for which users already have a value
_SURE = object()
_MODEL = "tflite|circle"  # extensions of model files
_Named = dict[str, Any]


def corrected(
    title: str, call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], owner: type | None
) -> str:
    """Return what to write instead of a wrong call; for a method, `owner` is its class."""
    if owner is not None and (not given or title.endswith(f".{owner.__name__}")):
        return f"write {maker_of(owner)}" if given else f"{maker_of(owner)} makes one"
    (signature, hints), name = declared(call), title.rpartition(".")[2]
    if any(one is None for one in given) and (
        other := getattr(owner, removing := name.replace("set_", "remove_"), None)
    ):
        return corrected(
            title.replace(name, removing), other, tuple(one for one in given if one is not None), named, owner
        )
    saved = next((one for one in (*given[1:], *named.values()) if "edit" in hints and _is_file(one, _MODEL)), _SURE)
    given, named = tuple(one for one in given if one is not saved), {k: v for k, v in named.items() if v is not saved}
    held, wrong, loose, unknown = _sorted_out(call, given["self" in signature.parameters :], named)
    held |= _placed(type(given[0]), loose) if title.endswith("Request") else {}
    flags = [one for one in wrong if hints.get(one) is bool and isinstance(wrong[one], list | tuple)]
    held |= _placed(type(given[0]), [wrong.pop(one) for one in flags]) | dict.fromkeys(flags, True) if flags else {}
    place = f"{variable_of(owner)}.{name}" if owner else title
    codes, by_name, series = list[str](), name[:1].isupper(), ""
    for one in (signature.parameters[parameter] for parameter in taken(call)):
        if not (code := _shown(in_range(one.name, held[one.name]), one.name) if one.name in held else ""):
            hint, values = hints.get(one.name, Any), [wrong[one.name]] if one.name in wrong else []
            is_needed = one.default is one.empty and one.kind is not one.VAR_POSITIONAL
            some = [*values, *loose] if values or is_needed or _request_of(hint) else []
            if values and not by_name and _is_each(values[0], hint):
                series, code = _shown(values[0], f"{one.name}s"), "one"
            elif code := _meant(some, unknown, hint, f"{name}.{one.name}"):
                loose, unknown = [], {} if _request_of(hint) else unknown
            elif values or is_needed:
                code = _meant(values, {}, hint, f"{name}.{one.name}") or _placeholder(one, hint)
        if f"{place}(" in code:  # a whole statement
            return f"write {code}"
        if code:
            codes.append(f"{one.name}={code}" if by_name or one.kind is one.KEYWORD_ONLY else code)
        by_name = by_name or not code
    form = re.sub(r"\(0, (\w+)\.index", r"(\1.subgraph, \1.index", f"{place}({', '.join(codes)})")
    if elsewhere := _elsewhere(title, form, wrong, loose, unknown):
        return f"write {elsewhere}"
    form = f"[{form} for one in {series}]" if series else form
    if len(unknown) == 1 and hasattr(_item_of(hints.get("return")), word := "".join(unknown)):
        form, unknown = f"[one for one in {form} if one.{word} == {_shown(unknown[word], word)}]", {}
    has_edit = any(type(one).__name__ == "ModelEdit" for one in (*given, *named.values()))
    if has_edit and saved is not _SURE:
        form += f"; edit.save({_shown(saved, 'target')})"
    opened = _shown(wrong["edit"], "path") if isinstance(wrong.get("edit"), str | os.PathLike) else ""
    form = form if has_edit else kept(form, opened, _shown(saved, "target"))
    form += next((f"; {note}" for part, note in foreign()["notes"].items() if part in form), "")
    return f"write {form}" + (f"; it takes {', '.join(taken(call)) or 'nothing'}" if unknown else "")


def _elsewhere(title: str, form: str, wrong: _Named, loose: list[Any], unknown: _Named) -> str:
    """Return code that uses surplus arguments for a request of another function; empty if there is none."""
    module, kind, other = foreign()["elsewhere"].get(title, ("", "", ""))
    aimed = wrong.get("target") if title == "ct.split" else None
    loose = loose or [aimed] * (aimed is not None and not isinstance(aimed, int))
    plan = next((one for one in (*loose, *wrong.values()) if type(one).__name__ in ("Plan", "Affinity")), None)
    kind = getattr(import_module(module), kind) if module else dict
    if not (module and (loose or unknown or plan)) or {*unknown} - {*taken(kind)}:
        return ""
    request = _request(kind, [] if plan else loose, unknown)
    made = variable_of(type(plan)) if plan else f"ct.plan(model, {request})"
    return str(other.format(request=request, plan=made, form=form.replace("ct.open(path)", "model")))


def _sorted_out(
    call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[_Named, _Named, list[Any], _Named]:
    """Return arguments that fit their parameter, arguments that do not, surplus arguments, and unknown keywords."""
    (signature, hints), names = declared(call), taken(call)
    ordered = [name for name in names if signature.parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    needed = [name for name in names if signature.parameters[name].default is inspect.Parameter.empty]
    pairs = [one for one in given if isinstance(one, Mapping) and len(one) == 1 and {"name", "value"} <= {*needed}]
    pairs = pairs if len(given) + len(named) < len(needed) else []
    given = tuple(one for one in given if not any(one is pair for pair in pairs))
    if ordered[:1] == ["subgraph"] and given:
        count, shifted = len(given) + len(named), [*map(fits, (0, *given), [hints.get(one, Any) for one in ordered])]
        if (all(shifted) and count < len(needed)) or count == 1 or not fits(given[0], int):
            given = (0, *given)  # users forget the subgraph, the first argument of many methods
    held, unknown = dict(zip(ordered, given, strict=False)), dict(pairs[0]) if pairs else _Named()
    fields = {one for hint in hints.values() if (kind := _request_of(hint)) for one in taken(kind)} - {*names}
    for word, value in named.items():
        name = "" if word in fields else _same(word, names)
        (held if name and name not in held else unknown)[name or word] = value
    if len(unknown) == 1 and {"name", "value"} <= {*needed} - {*held}:
        ((held["name"], held["value"]),), unknown = unknown.items(), {}
    wrong = {name: held.pop(name) for name in [*held] if not fits(held[name], hints.get(name, Any))}
    loose: list[Any] = []
    for own, value in [*wrong.items(), *(("", one) for one in given[len(ordered) :])]:
        for name in names:
            hint = hints.get(name, Any)
            is_kept = isinstance(value, bool) if hint is bool else classes_in(type(value)) and classes_in(hint)
            is_home = fits(value, hint) and (hint is not bool or isinstance(value, bool))
            is_number = hint in (int, float) and type(value) is hint and own not in {*needed, *named}
            is_kept = is_kept or (is_number and not (own and fits([value], hints[own])))
            is_free = name not in held and name != own and (name in {*needed, *wrong} or is_kept)
            if is_free and is_home:
                held[name] = value
                break
            if "other" == name not in wrong and (_is_file(value) or type(value).__name__ == "ModelEdit"):
                wrong[name] = value
                break
        else:
            loose += [value] if not own or own in held else []
            continue
        wrong.pop(own, None)
    loose += [wrong.pop(name) for name in [*wrong] if name in held]
    return held, wrong, loose, unknown


def _same(word: str, names: list[str]) -> str:
    """Return the parameter with the same name or meaning, or a similar name; empty if there is none."""
    spellings = re.sub("_names?$", "s", word), word.removesuffix("s")
    words = " ".join(foreign()["parameters"].get(one, "") for one in spellings).split()
    ways = (one for one in names if one in (word, f"{word}_", *words) or meanings(one) == meanings(word))
    return next(ways, "") or nearest(word, (one for one in names if len(one) < 2 * len(word)))


def _item_of(hint: Any) -> Any:
    """Return the class of the items of a list annotation; None for any other annotation."""
    listed = [hint, *getattr(hint, "__orig_bases__", ())]
    return next((get_args(one)[0] for one in listed if get_origin(one) in (list, Sequence)), None)


def _is_each(value: Any, hint: Any) -> bool:
    """Return whether a value is a list of values for a parameter that takes only one."""
    return isinstance(value, list | tuple) and bool(value) and all(fits(one, hint) for one in value)


def _request_of(hint: Any) -> type | None:
    """Return the class in an annotation whose objects are made of plain values only; None if there is none."""
    endings = ("Request", "Description", "Selection")
    return next((one for one in classes_in(hint) if one.__name__.endswith(endings)), None)


def _meant(values: list[Any], unknown: _Named, hint: Any, place: str) -> str:
    """Return code for the argument that misplaced values probably stand for; empty if unknown."""
    if (kind := _request_of(hint)) and (values or unknown):
        return _request(kind, values, unknown)
    if not values:
        return ""
    if len(values) == 1 and fits(values[0], hint):
        return _shown(values[0], place.rpartition(".")[2])
    if len(values) > 1:
        return _paired(values, hint) or _shown(tuple(values), "") * fits(tuple(values), hint)
    ways = _ways(values[0], hint, place)
    return next((way for way, made in ways if made is _SURE or (made is not None and fits(made, hint))), "")


def _paired(values: list[Any], hint: Any) -> str:
    """Return code for a list with one pair of values; empty if this does not fit."""
    pairs = ([tuple(values)], [(str(values[0]), *values[1:])]) if len(values) > 1 else ()
    return next((_shown(one, "") for one in pairs if fits(one, hint)), "")


def _request(kind: type, values: list[Any], unknown: _Named) -> str:
    """Return code for a request with these unnamed values and named fields, or for any request if none fits."""
    made, hints, found = maker_of(kind), declared(kind)[1], dict[str, str]()
    if len(values) == 1 and isinstance(values[0], Mapping) and {*values[0]} <= {*taken(kind)}:
        values, unknown = [], dict(values[0])
    elif kind.__name__ == "PlanRequest" and len(values) == 1 and isinstance(values[0], str | Mapping | list | tuple):
        values, unknown = [], _placement(values[0]) | unknown
    for word, value in unknown.items():
        if name := _same(word, taken(kind)):
            found[name] = _meant([value], {}, hints[name], f"{kind.__name__}.{name}")
    if any(isinstance(one, np.ndarray) for one in values):
        found["inputs"] = foreign()["given"].get(f"{kind.__name__}.inputs", "")
    values = values * all(_shown(one, "") for one in values)
    for name in taken(kind):
        if pair := _paired(values, hints[name]):
            found[name], values = pair, []
    if len(values) > 1 and len(placed := _placed(kind, values)) == len(values):
        found, values = {name: repr(value) for name, value in placed.items()} | found, []
    for name in sorted(taken(kind), key=lambda one: f"{one}=" not in made):
        if values and name not in found and (code := _meant(values, {}, hints[name], f"{kind.__name__}.{name}")):
            found[name], values = code, []
    fields = ", ".join(f"{name}={code}" for name, code in found.items() if code)
    return f"{made.partition('(')[0]}({fields})" if fields else made


def _placed(kind: type, values: list[Any]) -> _Named:
    """Assign each value to the next field of a class that it fits; path fields and inherited fields come last."""
    hints, forms = declared(kind)[1], foreign()["forms"]
    ordered = sorted(taken(kind), key=lambda one: (one not in kind.__annotations__, "Path" in str(hints[one])))
    if len(values) == 1 and fits([*values], hints[ordered[0]]):
        return {ordered[0]: [*values]}
    fields, found, is_wrapped = iter(ordered), _Named(), bool({*forms} & {*ordered})
    for value in values:
        for own in fields:
            made = next((one for one in (value, [value])[: 1 + is_wrapped] if fits(one, hints[own])), None)
            if made is not None and re.fullmatch(forms.get(own, ".*"), str(made), re.DOTALL):
                found[own] = made
                break
    return found


def _ways(value: Any, hint: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield code that a value may stand for, and the code's result (_SURE: it fits; None: it does not apply)."""
    name, made, variable = place.rpartition(".")[2], maker_of(hint), variable_of(type(value))
    shown, is_file, is_model = _shown(value, name), isinstance(value, str | os.PathLike), _is_file(value, _MODEL)
    places = [place, *(one.__name__ for one in classes_in(hint))]
    for place_of, ending, code in foreign()["files"]:
        is_one = _is_file(value) and os.fspath(value).endswith(ending) if ending[:1] in "." else variable == ending
        if place_of in places and is_one:
            yield code.format(shown), _SURE
    if hasattr(value, "write") and isinstance(getattr(value, "name", None), str):
        yield repr(value.name), value.name
    if isinstance(value, Mapping | list | tuple) and place == "PlanRequest.rules":
        yield repr(_placement(value).get("rules", [])), _SURE
    if "ct.PlanRequest(" in made and not _is_file(value):
        kind = import_module("circletools.planning.request").PlanRequest
        requested = "request" if isinstance(value, kind) else _request(kind, [value], {})
        made = made.replace(foreign()["made"]["PlanRequest"], requested)
    if words := [word for one in kinds_of(hint) for word in words_of(one)]:
        yield repr(_known(value, words) or words[0]), _SURE
    if "ModelEdit" in places:
        yield "edit", _SURE
    names = [*value] if isinstance(value, list | tuple) else [value]
    is_index, is_named = "int" in str(hint), name in ("tensors", "every", "to", "from_")
    found = foreign()["found"]
    find = found.get(place, found.get(name)) if is_index else "model.subgraphs[0].tensors[{}].name" * is_named
    if find and names and isinstance(names[0], str if is_index else int):
        codes = ", ".join(find.format(repr(one)) for one in names)
        yield codes if hint is int else f"[{codes}]", _SURE
    if np.ndarray in [getattr(one, "__origin__", one) for one in kinds_of(hint)]:
        yield f"numpy.array({shown}, tensor.numpy().dtype)", _SURE if shown != name and not is_file else None
    yield "True", True if bool in kinds_of(hint) else None
    is_json = isinstance(value, Mapping | list) and bytes in kinds_of(hint) and shown != name
    yield f"json.dumps({shown}).encode()", _SURE if is_json else None
    arrays = [*value.values()] if isinstance(value, Mapping) else value
    by_name = f"[[{shown}[model.subgraphs[0].tensors[one].name] for one in model.subgraphs[0].inputs]]"
    cast = "[one.astype('float32') for one in {}]" if isinstance(value, list | tuple) else "{}.astype('float32')"
    cast = cast.format(shown) if any(getattr(one, "dtype", "") == np.float64 for one in (value, *names)) else shown
    for code, one in ((f"[{cast}]", [value]), (f"[[{cast}]]", [[value]]), (by_name, [arrays])):
        yield code, one if shown == name and "ndarray" in str(hint) else None
    yield "ct.open(edit.to_bytes())", value.model if variable == "edit" else None
    for attribute in ("index", "name", "model", "code"):
        yield f"{variable}.{attribute}", getattr(value, attribute, None)
    yield "model.source.path", getattr(getattr(value, "source", None), "path", None) if name == "source" else None
    yield re.sub(r"\bmodel\b", lambda _: f"ct.open({shown})", made), _SURE if is_model and "model" in made else None
    yield made.replace("path", shown), _SURE if is_file and "(path)" in made else None
    yield made, _SURE if made else None
    yield f"[(name, {shown})]", [("", value)] if isinstance(value, list | tuple) else None
    for one in _plain_ways(value, names, place, isinstance(value, int) and "PathLike" in str(hint)):
        yield _shown(one, name), one
    yield f"pathlib.Path({shown})", Path(value) if is_file else None
    example = foreign()["given"].get(place) or foreign()["given"].get(name, "None")
    yield example, None if example[0].isalpha() else literal_eval(example)


def _plain_ways(value: Any, items: list[Any], place: str, is_path: bool) -> Iterator[Any]:
    """Yield plain values that a value may mean."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if isinstance(value, str) and (number := re.fullmatch(r"(-?(0|[1-9]\d*)(\.\d+)?) ?(s|sec|seconds|%)?", value)):
        yield literal_eval(number[1])
    if isinstance(value, str | bytes | int | float | Path):
        yield from () if is_path else (text, text.encode("utf-8", "replace"))
        items = [] if is_path else [word.strip() for word in text.split(",")]
        yield [value] if isinstance(value, int | float) else None
    yield [*value.items()] if isinstance(value, Mapping) else items[0] if len(items) == 1 else None
    yield [*value.values()] if isinstance(value, Mapping) and not place.startswith("PlanRequest.") else None
    if (known := foreign()["known"].get(place)) and all(isinstance(one, str) for one in items):
        words = getattr(import_module(known[0]), known[1])
        items = [_known(one, words() if callable(words) else words) or one for one in items]
    yield from (items, [getattr(one, "index", None) for one in items], [getattr(one, "name", one) for one in items])
    if all(isinstance(one, int | float | Path) for one in items):
        yield from ([*map(str, items)], ",".join(map(str, items)))
    if isinstance(value, Mapping) and place.startswith("PlanRequest.") and not place.endswith("limits"):
        yield [*value] if place.endswith("devices") else [f"{key}={held}" for key, held in value.items()]
    if isinstance(value, Mapping) and all(isinstance(held, Mapping) for held in value.values()):
        yield [f"{key}:{kind}={number}" for key, held in value.items() for kind, number in held.items()]


def _known(value: Any, words: Sequence[Any]) -> str:
    """Return the word that is meant, by its letters or its meaning; empty if there is none."""
    word, known = str(value), [*map(str, words)]
    return word if word in known else _same(word, known) or nearest(word, known)


def _shown(value: Any, name: str) -> str:
    """Return code for a short plain value, or a name for any other value."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    value = value.item() if isinstance(value, np.generic) else value
    try:
        if not classes_in(type(value)) and literal_eval(text := repr(value)) == value and len(text) <= _LONGEST:
            return text
    except (ValueError, SyntaxError):
        pass
    return "model" if type(value).__name__ == "Model" and name not in _OWN else name


def _placement(value: str | Mapping[Any, Any] | list[Any] | tuple[Any, ...]) -> _Named:
    """Return the fields of a plan's request, given devices, rules, devices by operator, or operators by device."""
    words = [value] if "=" in str(value) else [one.strip() for one in str(value).split(",")]
    items = words if isinstance(value, str) else [*(value.items() if isinstance(value, Mapping) else value)]
    items = [*enumerate(items)] if all(isinstance(one, int) for one in items) else items  # a device for each operator
    pairs = [one for one in items if isinstance(one, list | tuple) and len(one) == 2]
    pairs = [(one, device) for device, held in pairs if isinstance(held, list | tuple) for one in held] or pairs
    words, indices = [one for one in items if isinstance(one, str)], dict[str, list[int]]()
    for one, device in pairs:
        if isinstance(one, int):
            indices.setdefault(str(device), []).append(one)
        elif isinstance(one, str):
            words.append(f"{'' if ':' in one else 'op:' if one.isupper() else 'name:'}{one}={device}")
    rules = [*(f"index:{ranges(sorted(own))}={device}" for device, own in indices.items()), *words]
    rules = [one for one in rules if "=" in one]
    devices = [*dict.fromkeys(one.rpartition("=")[2] for one in rules)] or words
    return {"devices": devices, **({"rules": rules} if rules else {}), "default": devices[-1]} if devices else {}


def _is_file(value: Any, ending: str = r"\w+") -> bool:
    """Return whether a value is a path with this extension (a regular expression)."""
    return isinstance(value, str | os.PathLike) and re.search(rf"\.({ending})$", os.fspath(value)) is not None


def variable_of(kind: type) -> str:
    """Return the usual name of a variable for an object of a class."""
    return "edit" if kind.__name__ == "ModelEdit" else kind.__name__.lower()


def kept(form: str, path: str | None = "", target: str = "target") -> str:
    """Return a statement that saves the edit that an expression makes; `path` and `target` are code for files."""
    start = f"with ct.open({path}) as model, ct.edit(model)" if path else "with ct.edit(model)"
    return f"{start} as edit: {form}; edit.save({target})" if re.search(r"\bedit[,.)]", form) else form


def maker_of(hint: Any) -> str:
    """Return an expression that makes an object of a class in an annotation; empty if there is none."""
    ways = [(one in kinds_of(hint), foreign()["made"].get(one.__name__)) for one in classes_in(hint)]
    return next((way if is_one else f"[{way}]" for is_one, way in ways if way), "")


def form_of(title: str, call: Any, first: str = "") -> str:
    """Return a call of a function with `first` and placeholders for arguments; for other objects, only the title."""
    if not inspect.isfunction(call):
        return title
    (signature, hints), codes = declared(call), list[str]()
    for one in (signature.parameters[name] for name in taken(call)):
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL:
            code = _placeholder(one, hints.get(one.name))
            codes.append(f"{one.name}={code}" if one.kind is one.KEYWORD_ONLY else code)
    return f"{title}({', '.join([first or codes[0], *codes[1:]] if codes else codes)})"


def _placeholder(one: inspect.Parameter, hint: Any) -> str:
    """Return code for a missing argument: the parameter's name, an example, or an expression that makes it."""
    if one.name in _OWN:
        return one.name if classes_in(hint) else "path"
    is_plain = hint is int or one.kind is one.KEYWORD_ONLY
    return str(foreign()["given"].get(one.name, one.name)) if is_plain else maker_of(hint) or one.name


def plain_name(name: str) -> str:
    """Return a name without the suffixes that flatc adds to the names of generated methods."""
    return re.sub(r"^(GetRootAs)[A-Z]\w*|(?<=[a-z])(AsNumpy|IsNone|Length)$", r"\1", name)


@cache
def foreign() -> Any:
    """Return words and names from other libraries, with their counterparts in this one."""
    return json.loads(Path(__file__).with_name("foreign.json").read_bytes())


@cache
def meanings(name: str) -> frozenset[str]:
    """Return a name's words in lower case and singular, without fillers; synonyms become this library's words."""
    same = {one: word for word, others in foreign()["words"].items() for one in others.split()}
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", plain_name(name))
    fillers = {*foreign()["fillers"].split()}
    telling = [word for word in found if not fillers & {word.lower(), word.lower().removesuffix("s")}]
    words = [word.lower().removesuffix("s") for word in telling or found]
    return frozenset(same.get(word, word) for word in words if word)
