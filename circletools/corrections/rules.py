"""What a wrong argument may stand for: RULES are tried in order, and `meant` returns the first code that fits."""

from __future__ import annotations

import json
import os
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from circletools.arguments import classes_in, fits, kinds_of, words_of
from circletools.corrections.snippets import LONGEST, Variables, maker_of, shown, variable_of
from circletools.corrections.words import foreign, known_word
from circletools.wording import ranges

MODEL = "tflite|circle"
"""Extensions of model files."""
_SURE = object()


class Code(NamedTuple):
    """Code for an argument, and its value; without a value, it is taken unchecked."""

    text: str
    value: Any = _SURE


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit the annotation of its parameter; `place` is `function.parameter`."""

    value: Any
    hint: Any
    place: str
    variables: Variables

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]

    @property
    def code(self) -> str:
        return shown(self.value, self.name, self.variables)

    @property
    def variable(self) -> str:
        own = variable_of(type(self.value))
        return shown(self.value, own, self.variables) if classes_in(type(self.value)) else own

    @property
    def items(self) -> list[Any]:
        return [*self.value] if isinstance(self.value, list | tuple) else [self.value]

    @property
    def text(self) -> str:
        return self.value.decode("utf-8", "replace") if isinstance(self.value, bytes) else str(self.value)

    @property
    def made(self) -> str:
        """Code that makes an object of the class in the annotation; a plan has the devices that the value names."""
        made, plan = maker_of(self.hint), foreign()["made"]["PlanRequest"]
        if type(self.value).__name__ == "PlanRequest":
            return made.replace(plan, shown(self.value, "request", self.variables))
        fields = {} if is_file(self.value) else placement(self.value)
        given = ", ".join(f"{field}={value!r}" for field, value in fields.items())
        return made.replace(plan, f"ct.PlanRequest({given})") if given else made

    def is_a(self, *kinds: type) -> bool:
        """Return whether the value is of one of the types."""
        return isinstance(self.value, kinds)


def is_file(value: Any, ending: str = r"\w+") -> bool:
    """Return whether a value is a path with this extension (a regular expression)."""
    return isinstance(value, str | os.PathLike) and re.search(rf"\.({ending})$", os.fspath(value)) is not None


def _from_file(wrong: Misfit) -> Iterator[Code]:
    places = [wrong.place, *(one.__name__ for one in classes_in(wrong.hint))]
    for place, ending, code in foreign()["files"]:
        is_path = is_file(wrong.value) and os.fspath(wrong.value).endswith(ending)
        if place in places and (is_path if ending[:1] in "." else variable_of(type(wrong.value)) == ending):
            yield Code(code.format(wrong.code))


def _found(wrong: Misfit) -> Iterator[Code]:
    is_index, found, items = "int" in str(wrong.hint), foreign()["found"], wrong.items
    by_name = found.get(wrong.place, found.get(wrong.name))
    by_index = "model.subgraphs[0].tensors[{}].name" * (wrong.name in ("tensors", "every", "to", "from_"))
    if (find := by_name if is_index else by_index) and items and isinstance(items[0], str if is_index else int):
        codes = ", ".join(find.format(repr(one)) for one in items)
        yield Code(codes if wrong.hint is int else f"[{codes}]")


def _nested(wrong: Misfit) -> Iterator[Code]:
    if "ndarray" not in str(wrong.hint):
        return
    code, value, wide = wrong.code, wrong.value, (getattr(one, "dtype", "") == np.float64 for one in wrong.items)
    if any(wide):
        code = (
            f"[one.astype('float32') for one in {code}]" if wrong.is_a(list, tuple) else f"{code}.astype('float32')"
        )
    yield from (Code(f"[{code}]", [value]), Code(f"[[{code}]]", [[value]]))
    if isinstance(value, Mapping):
        names = "model.subgraphs[0].tensors[one].name"
        yield Code(f"[[{code}[{names}] for one in model.subgraphs[0].inputs]]", [[*value.values()]])


def _opened(wrong: Misfit) -> Iterator[Code]:
    if is_file(wrong.value, MODEL) and "model" in wrong.made:
        yield Code(re.sub(r"\bmodel\b", lambda _: f"ct.open({wrong.code})", wrong.made))
    if wrong.is_a(str, os.PathLike) and "(path)" in wrong.made:
        yield Code(wrong.made.replace("path", wrong.code))


def _words(wrong: Misfit) -> Iterator[Code]:
    words = [word for one in kinds_of(wrong.hint) for word in words_of(one)]
    yield from [Code(repr(known_word(wrong.value, words) or words[0]))] if words else []


def _pairs(wrong: Misfit) -> Iterator[Any]:
    if wrong.is_a(Mapping):
        yield [*wrong.value.items()]
        yield from [] if wrong.place.startswith("PlanRequest.") else [[*wrong.value.values()]]
    yield from wrong.items[:1] * (len(wrong.items) == 1)


def _known(wrong: Misfit) -> Iterator[Any]:
    (place, name), items = foreign()["known"].get(wrong.place, ("circletools", "")), _split(wrong)
    if name and all(isinstance(one, str) for one in items):
        words = getattr(import_module(place), name)
        yield [known_word(one, words() if callable(words) else words) or one for one in items]


def _split(wrong: Misfit) -> list[Any]:
    is_text = wrong.is_a(str, bytes, int, float, Path) and not _is_number_for_path(wrong)
    return [word.strip() for word in wrong.text.split(",")] if is_text else wrong.items


def _is_number_for_path(wrong: Misfit) -> bool:
    return "PathLike" in str(wrong.hint) and wrong.is_a(int, list, tuple)


def _number(wrong: Misfit) -> Iterator[Any]:
    found = re.fullmatch(r"(-?(0|[1-9]\d*)(\.\d+)?) ?(s|sec|seconds|%)?", wrong.value) if wrong.is_a(str) else None
    yield from [literal_eval(found[1])] if found else []


def _texts(wrong: Misfit) -> Iterator[Any]:
    if wrong.is_a(str, bytes, int, float, Path) and not _is_number_for_path(wrong):
        yield from (wrong.text, wrong.text.encode("utf-8", "replace"))
    yield from [[wrong.value]] if wrong.is_a(int, float) else []


def _joined(wrong: Misfit) -> Iterator[Any]:
    if not _is_number_for_path(wrong) and all(isinstance(one, int | float | Path) for one in wrong.items):
        yield from ([*map(str, wrong.items)], ",".join(map(str, wrong.items)))


def _assigned(wrong: Misfit) -> Iterator[Any]:
    if not wrong.is_a(Mapping):
        return
    if wrong.place.startswith("PlanRequest.") and wrong.name != "limits":
        yield [*wrong.value] if wrong.name == "devices" else [f"{key}={held}" for key, held in wrong.value.items()]
    if all(isinstance(held, Mapping) for held in wrong.value.values()):
        yield [f"{key}:{kind}={number}" for key, held in wrong.value.items() for kind, number in held.items()]


def _example(wrong: Misfit) -> Iterator[Code]:
    given = foreign()["given"]
    example = given.get(wrong.place) or given.get(wrong.name)
    yield from [Code(example, _SURE if example[0].isalpha() else literal_eval(example))] if example else []


def _all(wrong: Misfit, attribute: str) -> list[Any]:
    return [getattr(one, attribute, one if attribute == "name" else None) for one in wrong.items]


def _when(applies: object, code: str, value: Any = _SURE) -> list[Code]:
    return [Code(code, value)] if applies else []


def _json(wrong: Misfit) -> Iterator[Any]:
    if wrong.is_a(Mapping, list) and bytes in kinds_of(wrong.hint):
        is_short = len(text := json.dumps(wrong.value, default=str)) < LONGEST
        yield text.encode() if is_short else Code(f"json.dumps({wrong.code}).encode()")


RULES: dict[str, Callable[[Misfit], Iterable[Any]]] = {
    # "a wrong call -> code for its wrong argument": the code with its value, or a plain value that is its own code
    "ct.metadata.labels(edit, 'a.txt') -> open('a.txt').read().splitlines()": _from_file,
    "ct.surgery.prune(model, file) -> 'a.tflite'": lambda one: _when(
        hasattr(one.value, "write"), repr(getattr(one.value, "name", 0)), getattr(one.value, "name", 0)
    ),
    "ct.metadata.set(edit, 'a', pathlib.Path('b')) -> open('b', 'rb').read()": lambda one: _when(
        one.is_a(os.PathLike) and bytes in kinds_of(one.hint), f"open({one.code}, 'rb').read()"
    ),
    "ct.PlanRequest(rules={'CONV_2D': 'npu'}) -> ['op:CONV_2D=npu']": lambda one: _when(
        one.is_a(Mapping, list, tuple) and one.place == "PlanRequest.rules",
        repr(placement(one.value).get("rules", [])),
    ),
    "ct.cost(model, 'layer') -> 'operator'": _words,
    "ct.metadata.set(model, 'a', b'b') -> edit": lambda one: _when("ModelEdit" in str(one.hint), "edit"),
    "edit.set_inputs(0, ['x']) -> [next(one.index for one in model.subgraphs[0].tensors if one.name == 'x')]": _found,
    "edit.set_constant(0, 1, [1, 2]) -> numpy.array([1, 2], tensor.numpy().dtype)": lambda one: _when(
        np.ndarray in [getattr(kind, "__origin__", kind) for kind in kinds_of(one.hint)]
        and one.code != one.name
        and not one.is_a(str, os.PathLike),
        f"numpy.array({one.code}, tensor.numpy().dtype)",
    ),
    "ct.PlanRequest(explain=[3]) -> True": lambda one: _when(bool in kinds_of(one.hint), "True", True),
    "ct.metadata.set(edit, 'a', {'b': 1}) -> b'{\"b\": 1}'": _json,
    "ct.profile(model, inputs=array) -> [[array]]": _nested,
    "ct.check(edit) -> ct.open(edit.to_bytes())": lambda one: (
        _when(type(one.value).__name__ == "ModelEdit", f"ct.open({one.variable}.to_bytes())", one.value.model)
        if hasattr(one.value, "model")
        else []
    ),
    "edit.set_metadata(tensor, b'') -> tensor.name": lambda one: [
        Code(f"{one.variable}.{name}", getattr(one.value, name, None)) for name in ("index", "name", "model", "code")
    ],
    "ct.verify_split('parts', source=model) -> model.source.path": lambda one: (
        [Code("model.source.path", getattr(getattr(one.value, "source", None), "path", None))]
        * (one.name == "source")
    ),
    "ct.check('m.tflite') -> ct.open('m.tflite')": _opened,
    "ct.render.cost_json(model) -> ct.cost(model)": lambda one: _when(one.made, one.made),
    "ct.surgery.ShapeRequest(inputs=[1, 8]) -> [(name, [1, 8])]": lambda one: _when(
        one.is_a(list, tuple), f"[(name, {one.code})]", [("", one.value)]
    ),
    "ct.PlanRequest(solve_time='10s') -> 10": _number,
    "edit.set_metadata('a', 'b') -> b'b'": _texts,
    "ct.surgery.RenameRequest(tensors={'a': 'b'}) -> [('a', 'b')]": _pairs,
    "ct.FitRequest(on='gpu') -> ['litert-gpu']": _known,
    "ct.check(model, with_='litert, onert') -> ['litert', 'onert']": lambda one: [_split(one)],
    "edit.set_inputs(0, tensors) -> [0]": lambda one: [_all(one, "index"), _all(one, "name")],
    "ct.surgery.ExtractRequest(operators=[2, 3]) -> '2,3'": _joined,
    "ct.PlanRequest(memory={'npu': 5}) -> ['npu=5']": _assigned,
    "ct.files.make_directory('a') -> pathlib.Path('a')": lambda one: (
        _when(True, f"pathlib.Path({one.code})", Path(one.value)) if one.is_a(str, os.PathLike) else []
    ),
    'ct.split(model, 2) -> "parts"': _example,
}


def meant(value: Any, hint: Any, place: str, variables: Variables) -> str:
    """Return code for the argument that a wrong value probably stands for; empty if unknown."""
    wrong = Misfit(value, hint, place, variables)
    if fits(value, hint):
        return wrong.code
    for rule in RULES.values():
        for way in rule(wrong):
            code, made = way if isinstance(way, Code) else (shown(way, wrong.name, variables), way)
            if made is _SURE or (made is not None and fits(made, hint)):
                return str(code)
    return ""


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
