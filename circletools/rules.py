"""What a wrong argument may stand for: `meant` tries rules in order; a test runs the example above each."""

from __future__ import annotations

import json
import os
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from circletools.arguments import classes_in, fits, kinds_of, words_of
from circletools.snippets import LONGEST, foreign, maker_of, same_name, shown, variable_of
from circletools.wording import nearest, ranges

MODEL = "tflite|circle"
"""Extensions of model files."""
_SURE = object()
_FOUND = "model.subgraphs[0].tensors[{}].name"


def meant(value: Any, hint: Any, place: str) -> str:
    """Return code for the argument of `function.parameter` that a wrong value stands for; empty if unknown."""
    name = place.rpartition(".")[2]
    if fits(value, hint):
        return shown(value, name)
    plain = ((shown(made, name), made) for made in _plain_values(value, hint, place))
    ways = chain(_objects(value, hint, place), _made(value, hint, place), plain, _last(value, place))
    return next((code for code, made in ways if made is _SURE or (made is not None and fits(made, hint))), "")


def is_file(value: Any, ending: str = r"\w+") -> bool:
    """Return whether a value is a path with this extension (a regular expression)."""
    return isinstance(value, str | os.PathLike) and re.search(rf"\.({ending})$", os.fspath(value)) is not None


# Rules yield code with its value, or without (_SURE) if it need not be checked; None does not fit.


def _objects(value: Any, hint: Any, place: str) -> Iterator[tuple[str, Any]]:
    name, kinds, is_path = place.rpartition(".")[2], kinds_of(hint), isinstance(value, str | os.PathLike)
    code, items = shown(value, name), [*value] if isinstance(value, list | tuple) else [value]
    variable = variable_of(type(value))
    # ct.metadata.labels(edit, 'a.txt') -> open('a.txt').read().splitlines()
    places = [place, *(one.__name__ for one in classes_in(hint))]
    for aim, ending, read in foreign()["files"]:
        is_one = is_file(value) and os.fspath(value).endswith(ending) if ending[:1] in "." else variable == ending
        if aim in places and is_one:
            yield read.format(code), _SURE
    # ct.surgery.prune(model, file) -> 'a.tflite'
    if hasattr(value, "write") and isinstance(getattr(value, "name", None), str):
        yield repr(value.name), value.name
    # ct.metadata.set(edit, 'a', pathlib.Path('b')) -> open('b', 'rb').read()
    yield f"open({code}, 'rb').read()", _SURE if isinstance(value, os.PathLike) and bytes in kinds else None
    # ct.PlanRequest(rules={'CONV_2D': 'npu'}) -> ['op:CONV_2D=npu']
    if isinstance(value, Mapping | list | tuple) and place == "PlanRequest.rules":
        yield repr(placement(value).get("rules", [])), _SURE
    # ct.cost(model, 'layer') -> 'operator'
    if words := [word for one in kinds for word in words_of(one)]:
        yield repr(_known(value, words) or words[0]), _SURE
    # ct.metadata.set(model, 'a', b'b') -> edit
    yield "edit", _SURE if "ModelEdit" in str(hint) else None
    # edit.set_inputs(0, ['x']) -> [next(one.index for one in model.subgraphs[0].tensors if one.name == 'x')]
    is_index, found = "int" in str(hint), foreign()["found"]
    by_index = _FOUND * (name in ("tensors", "every", "to", "from_"))
    find = found.get(place, found.get(name)) if is_index else by_index
    if find and items and isinstance(items[0], str if is_index else int):
        codes = ", ".join(find.format(repr(one)) for one in items)
        yield codes if hint is int else f"[{codes}]", _SURE
    # edit.set_constant(0, 1, [1, 2]) -> numpy.array([1, 2], tensor.numpy().dtype)
    if np.ndarray in [getattr(one, "__origin__", one) for one in kinds] and code != name and not is_path:
        yield f"numpy.array({code}, tensor.numpy().dtype)", _SURE
    # ct.PlanRequest(explain=[3]) -> True
    yield "True", True if bool in kinds else None
    # ct.metadata.set(edit, 'a', {'b': 1}) -> b'{"b": 1}'
    if isinstance(value, Mapping | list) and bytes in kinds:
        text = json.dumps(value, default=str)
        yield repr(text.encode()) if len(text) < LONGEST else f"json.dumps({code}).encode()", _SURE


def _made(value: Any, hint: Any, place: str) -> Iterator[tuple[str, Any]]:
    name, made, variable = place.rpartition(".")[2], maker_of(hint), variable_of(type(value))
    code, plan = shown(value, name), foreign()["made"]["PlanRequest"]
    if type(value).__name__ == "PlanRequest":
        made = made.replace(plan, "request")
    elif given := "" if is_file(value) else shown_fields({k: repr(v) for k, v in placement(value).items()}):
        made = made.replace(plan, f"ct.PlanRequest({given})")
    # ct.profile(model, inputs=array) -> [[inputs]]
    if "ndarray" in str(hint):
        cast = code + ".astype('float32')" * (getattr(value, "dtype", "") == np.float64)
        yield from ((f"[{cast}]", [value]), (f"[[{cast}]]", [[value]]))
        by_name = f"[[{code}[{_FOUND.format('one')}] for one in model.subgraphs[0].inputs]]"
        yield by_name, [[*value.values()]] if isinstance(value, Mapping) else None
    # ct.check(edit) -> ct.open(edit.to_bytes())
    yield "ct.open(edit.to_bytes())", value.model if variable == "edit" else None
    # edit.set_metadata(tensor, b'') -> tensor.name
    for attribute in ("index", "name", "model", "code"):
        yield f"{variable}.{attribute}", getattr(value, attribute, None)
    # ct.check('m.tflite') -> ct.open('m.tflite')
    if is_file(value, MODEL) and "model" in made:
        yield re.sub(r"\bmodel\b", lambda _: f"ct.open({code})", made), _SURE
    # ct.origins.embed(edit, 'm.json') -> ct.origins.parse
    if isinstance(value, str | os.PathLike) and "(path)" in made:
        yield made.replace("path", code), _SURE
    # ct.render.cost_json(model) -> ct.cost(model)
    yield made, _SURE if made else None
    # ct.surgery.ShapeRequest(inputs=[1, 8]) -> [(name, [1, 8])]
    yield f"[(name, {code})]", [("", value)] if isinstance(value, list | tuple) else None


def _plain_values(value: Any, hint: Any, place: str) -> Iterator[Any]:
    is_number_for_path = "PathLike" in str(hint) and isinstance(value, int | list | tuple)
    items = [*value] if isinstance(value, list | tuple) else [value]
    # ct.PlanRequest(solve_time='10s') -> 10
    number = re.fullmatch(r"(-?(0|[1-9]\d*)(\.\d+)?) ?(s|sec|seconds|%)?", value) if isinstance(value, str) else None
    yield literal_eval(number[1]) if number else None
    # edit.set_metadata('a', 'b') -> b'b'
    if isinstance(value, str | bytes | int | float | Path) and not is_number_for_path:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        yield from (text, text.encode("utf-8", "replace"))
        items = [word.strip() for word in text.split(",")]
    yield [value] if isinstance(value, int | float) else None
    # ct.surgery.RenameRequest(tensors={'a': 'b'}) -> [('a', 'b')]
    if isinstance(value, Mapping):
        yield [*value.items()]
        yield [*value.values()] if not place.startswith("PlanRequest.") else None
    yield items[0] if len(items) == 1 else None
    # ct.FitRequest(on='gpu') -> ['litert-gpu']
    if (known := foreign()["known"].get(place)) and all(isinstance(one, str) for one in items):
        words = getattr(import_module(known[0]), known[1])
        yield [_known(one, words() if callable(words) else words) or one for one in items]
    # ct.check(model, with_='litert, onert') -> ['litert', 'onert']
    yield items
    # edit.set_inputs(0, tensors) -> [0]
    yield from ([getattr(one, "index", None) for one in items], [getattr(one, "name", one) for one in items])
    # ct.surgery.ExtractRequest(operators=[2, 3]) -> '2,3'
    if not is_number_for_path and all(isinstance(one, int | float | Path) for one in items):
        yield from ([*map(str, items)], ",".join(map(str, items)))
    # ct.PlanRequest(memory={'npu': 5}) -> ['npu=5']
    if isinstance(value, Mapping) and place.startswith("PlanRequest.") and not place.endswith("limits"):
        yield [*value] if place.endswith("devices") else [f"{key}={held}" for key, held in value.items()]
    if isinstance(value, Mapping) and all(isinstance(held, Mapping) for held in value.values()):
        yield [f"{key}:{kind}={number}" for key, held in value.items() for kind, number in held.items()]


def _last(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    name, given = place.rpartition(".")[2], foreign()["given"]
    # ct.files.make_directory('a') -> pathlib.Path('a')
    if isinstance(value, str | os.PathLike):
        yield f"pathlib.Path({shown(value, name)})", Path(value)
    # ct.split(model, 2) -> "parts"
    if example := given.get(place) or given.get(name):
        yield example, _SURE if example[0].isalpha() else literal_eval(example)


def shown_fields(fields: Mapping[str, str]) -> str:
    """Return arguments by name, given code for each."""
    return ", ".join(f"{name}={code}" for name, code in fields.items() if code)


def _known(value: object, words: Any) -> str:
    """Return the word that is meant, by its letters or its meaning; empty if there is none."""
    word, known = str(value), [*map(str, words)]
    return word if word in known else same_name(word, known) or nearest(word, known)


def placement(value: Any) -> dict[str, Any]:
    """Return the fields of a plan's request, given devices, rules, devices by operator, or operators by device."""
    if not isinstance(value, str | Mapping | list | tuple):
        return {}
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
