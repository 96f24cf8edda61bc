"""Code as users would write it: for values, objects and calls, with the names of their own variables."""

from __future__ import annotations

import ast
import inspect
import os
import re
from ast import literal_eval
from collections.abc import Iterator
from types import FrameType, ModuleType, TracebackType
from typing import Any

import numpy as np

from circletools.arguments import classes_in, declared, kinds_of, taken
from circletools.corrections.words import foreign
from circletools.wording import Index

LONGEST = 80
"""The most characters of an argument that are repeated; longer ones are named after their parameter."""
_MOST_ITEMS = 50  # the most items of a user's list to search
_OWN = {"model", "edit", "before", "after", "other"}  # parameters for which users already have a value
_MODULES = ("json", "math", "numpy", "pandas", "pathlib")
_ASKED = ("corrections.snippets", "answers", "wording", "model.rows", "model.options")  # between a user and an error
Variables = list[tuple[str, Any]]


def variables_of(trace: TracebackType | None = None) -> Variables:
    """Return the variables of the innermost caller (or frame of a trace) outside this library, inner scopes first."""
    frame = next(
        (one for one, _ in _places(trace) if not one.f_globals.get("__name__", "").startswith("circletools")), None
    )
    found: Variables = []
    while frame is not None:
        found += [one for one in (*frame.f_locals.items(), *frame.f_globals.items()) if one[0][0] != "_"]
        frame = frame.f_back if re.match("<(?!module)", frame.f_code.co_name) else None  # a comprehension or lambda
    return found


def subject_of(trace: TracebackType | None = None) -> str:
    """Return a user's code for the object whose attribute or item was just asked for; empty if it cannot be read."""
    for frame, instruction in _places(trace):
        module = frame.f_globals.get("__name__", "")
        if module.startswith("circletools") and module.removeprefix("circletools.") not in _ASKED:
            return ""  # the library itself asked
        if not module.startswith("circletools"):
            positions = dict(enumerate(getattr(frame.f_code, "co_positions", list)()))  # Python 3.10 has none
            first, last, left, right = positions.get(instruction // 2, (0, 0, 0, 0))
            try:
                line = inspect.findsource(frame)[0][(first or 1) - 1] if first == last else ""
                node = ast.parse(line.encode()[left:right].decode(), mode="eval").body
            except (OSError, IndexError, SyntaxError, UnicodeDecodeError):
                return ""
            asked = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
            if isinstance(node, ast.Tuple):  # scale, zero = tensor.quantization
                asked = getattr(ast.parse(line.strip()).body[0], "value", None)
            return ast.unparse(asked) if isinstance(asked, ast.expr) else ""
    return ""


def _places(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    if trace is not None:
        yield from _places(trace.tb_next) if trace.tb_next else ()
        yield trace.tb_frame, trace.tb_lasti
    else:
        frame = inspect.currentframe()
        while frame is not None:
            yield frame, frame.f_lasti
            frame = frame.f_back


def own_name(value: object, variables: Variables) -> str:
    """Return the user's name for a value, or for the list that contains it with its index; empty if there is none."""
    lists = ((name, held) for name, held in variables if isinstance(held, list | tuple))
    items = (f"{name}[{at}]" for name, held in lists for at, one in enumerate(held[:_MOST_ITEMS]) if one is value)
    return next((name for name, held in variables if held is value), "") or next(items, "")


def in_own_names(hint: str, variables: Variables, subject: object = None, place: str = "") -> str:
    """Put a user's variable in place of the usual name of its class, if it is the only one; name missing imports.

    `place` is code for the `subject`, the object that a hint is about.
    """
    kinds: dict[str, set[str]] = {}
    modules = {held.__name__: name for name, held in variables if isinstance(held, ModuleType)}
    for name, value in variables:
        if type(value).__module__.startswith("circletools."):
            kinds.setdefault(variable_of(type(value)), set()).add(name)
    if place:
        kind = variable_of(type(subject))
        usual = ["index"] if isinstance(subject, Index) else [kind, kind[-3:], "items", "found"]  # CostRow: row
        kinds |= {one: {place} for one in usual}
        if place.endswith(".options"):
            kinds["operator"] = {place.removesuffix(".options")}
    models = list(dict.fromkeys(name for name, value in variables if type(value).__name__ == "Model"))
    kinds |= {word: {own} for word, own in zip(("before", "after"), models, strict=True)} if len(models) == 2 else {}
    before, is_code, code = hint.partition("write ")
    for word, own in kinds.items():
        if len(own) == 1:
            code = re.sub(rf"(?<![\w.'\"])(?<!the )(?<!a ){word}(?=[.,)\]\[:;]| = ct| if )", min(own), code)
    target = f"out.{dict(variables)[models[0]].format}" if models else "out.tflite"
    if is_code and "target" not in dict(variables):
        code = re.sub(r"(?<=[( ])target(?=[,)])", f'"{target}"', code)
    for module in _MODULES if is_code else ():
        if module in modules:
            code = re.sub(rf"(?<![\w.]){module}\.", f"{modules[module]}.", code)
        elif re.search(rf"(?<![\w.]){module}\.", code):
            before = f"import {module}, then {before}"
    return before + is_code + code


def shown(value: Any, name: str, variables: Variables) -> str:
    """Return code for a plain value, or for any other or long value, the user's name or the given one."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    value = value.item() if isinstance(value, np.generic) else value
    try:
        if not classes_in(type(value)) and literal_eval(text := repr(value)) == value and len(text) <= LONGEST:
            return text
    except (ValueError, SyntaxError):
        pass
    items = [own_name(one, variables) for one in value] if isinstance(value, list | tuple) else [""]
    if all(items) and not own_name(value, variables):
        return f"[{', '.join(items)}]"
    usual = "model" if type(value).__name__ == "Model" and name not in _OWN else name
    return own_name(value, variables) or usual


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
        if is_needed(one):
            code = placeholder(one, hints.get(one.name), f"{title.rpartition('.')[2]}.{one.name}")
            codes.append(f"{one.name}={code}" if one.kind is one.KEYWORD_ONLY else code)
    return f"{title}({', '.join([first or codes[0], *codes[1:]] if codes else codes)})"


def is_needed(one: inspect.Parameter) -> bool:
    """Return whether a call must give a parameter."""
    return one.default is one.empty and one.kind is not one.VAR_POSITIONAL


def placeholder(one: inspect.Parameter, hint: Any, place: str) -> str:
    """Return code for a missing argument of `function.parameter`: its name, an example, or code that makes it."""
    if one.name in _OWN:
        return one.name if classes_in(hint) else "path"
    is_plain, given = hint is int or one.kind is one.KEYWORD_ONLY or one.name == "file", foreign()["given"]
    example = given.get(place) or (given.get(one.name) if is_plain else maker_of(hint))
    return str(example or one.name)
