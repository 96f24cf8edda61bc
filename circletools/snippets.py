"""Code as users would write it, with the usual names of variables, and words of other libraries."""

from __future__ import annotations

import inspect
import json
import os
import re
from ast import literal_eval
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from circletools.arguments import classes_in, declared, kinds_of, taken
from circletools.wording import nearest

LONGEST = 80
"""The maximum length of an argument that is repeated; longer ones are named after their parameter."""
_OWN = {"model", "edit", "before", "after", "other"}  # parameters for which users already have a value


@cache
def foreign() -> Any:
    """Return words and names from other libraries, with their counterparts in this one."""
    return json.loads(Path(__file__).with_name("foreign.json").read_bytes())


def plain_name(name: str) -> str:
    """Return a name without the suffixes that flatc adds to the names of generated methods."""
    return re.sub(r"^(GetRootAs)[A-Z]\w*|(?<=[a-z])(AsNumpy|IsNone|Length)$", r"\1", name)


@cache
def meanings(name: str) -> frozenset[str]:
    """Return a name's words in lower case and singular, without fillers; synonyms become this library's words."""
    same = {one: word for word, others in foreign()["words"].items() for one in others.split()}
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", plain_name(name))
    fillers = {*foreign()["fillers"].split()}
    telling = [word for word in found if not fillers & {word.lower(), word.lower().removesuffix("s")}]
    words = [word.lower().removesuffix("s") for word in telling or found]
    return frozenset(same.get(word, word) for word in words if word)


def same_name(word: str, names: Sequence[str]) -> str:
    """Return the parameter with the same name or meaning, or a similar name; empty if there is none."""
    spellings = re.sub("_names?$", "s", word), word.removesuffix("s")
    words = " ".join(foreign()["parameters"].get(one, "") for one in spellings).split()
    ways = (one for one in names if one in (word, f"{word}_", *words) or meanings(one) == meanings(word))
    return next(ways, "") or nearest(word, (one for one in names if len(one) < 2 * len(word)))


def importing(hint: str) -> str:
    """Return a hint that starts with the imports that its code needs."""
    modules = dict.fromkeys(re.findall(r"(?<![\w.'\"])(json|math|numpy|pandas|pathlib)\.(?=\w+\()", hint))
    return "".join(f"import {one}, then " for one in modules) + hint


def shown(value: Any, name: str) -> str:
    """Return Python code for a short plain value, or a name for any other value."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    value = value.item() if isinstance(value, np.generic) else value
    try:
        if not classes_in(type(value)) and literal_eval(text := repr(value)) == value and len(text) <= LONGEST:
            return text
    except (ValueError, SyntaxError):
        pass
    return "model" if type(value).__name__ == "Model" and name not in _OWN else name


def variable_of(kind: type) -> str:
    """Return the usual name of a variable for an object of a class."""
    return re.sub("^Model(?=.)", "", kind.__name__).lower()


def kept(form: str, path: str = "", target: str = "target") -> str:
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
        if code := placeholder(one, hints.get(one.name), f"{title.rpartition('.')[2]}.{one.name}"):
            codes.append(f"{one.name}={code}" if one.kind is one.KEYWORD_ONLY else code)
    return f"{title}({', '.join([first or codes[0], *codes[1:]] if codes else codes)})"


def placeholder(one: inspect.Parameter, hint: Any, place: str) -> str:
    """Return Python code for a missing argument of `function.parameter`: a name or an example; empty if optional."""
    if one.default is not one.empty or one.kind is one.VAR_POSITIONAL:
        return ""
    if one.name in _OWN:
        return one.name if classes_in(hint) else "path"
    is_plain, given = hint is int or one.kind is one.KEYWORD_ONLY or one.name == "file", foreign()["given"]
    return str(given.get(place) or (given.get(one.name) if is_plain else maker_of(hint)) or one.name)
