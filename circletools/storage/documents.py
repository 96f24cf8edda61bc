"""Read documents from files, such as the output of an earlier run that serves as the baseline of a later one."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import math
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from importlib import resources
from typing import Any, NoReturn, TypeVar

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.storage.files import open_source
from circletools.wording import SCHEMA_VERSION

# --- read JSON from other sources strictly, with line numbers in all errors -----------------------------------
# The reader refuses duplicate keys in an object, NaN, infinite numbers, integers of thousands of digits, and nesting
# deeper than any document here needs, so that readers of the result can use recursion.


_DEEPEST = 100
_TOO_DEEP = f"arrays and objects are nested more than {_DEEPEST} deep"
EXCESSIVE = "it has far more arrays, objects and keys than its size justifies"
# Arrays and objects, keys, or lines; and characters that justify one more, which takes 300, 150 or 60 bytes.
_MOST, _CHARACTERS, _OF_KEYS, _OF_LINES = 500_000, 40, 12, 8


class Object(dict[str, Any]):
    """A JSON object; `line` is the line in which it begins, or 0 if lines were not requested."""

    __slots__ = ("line",)  # a document can consist of empty objects
    line: int


class _RefusedError(ValueError):
    """The error for valid JSON that the reader refuses; `lineno` is the line of the enclosing object."""

    lineno = 1


def read_json(data: bytes | str, name: str, *, lines: bool = False) -> Any:
    """Return the value of a JSON document; its objects have the type `Object`.

    `name` is the document's name in errors. `lines` adds line numbers to objects, for documents written by people;
    reading then takes ten times longer. Raises InvalidInputError, whose location is `name:line`.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        value = _decoded(text, lines=lines)
        _check_depth(value)
    except RecursionError as error:
        raise InvalidInputError(f"not JSON: {_TOO_DEEP}", location=f"{name}:1") from error
    except ValueError as error:
        raise InvalidInputError(f"not JSON: {error}", location=f"{name}:{getattr(error, 'lineno', 1)}") from error
    return value


def is_excessive(text: str) -> bool:
    """Return whether the arrays, objects and keys of a JSON document would take far more memory than its text."""
    objects, keys = text.count("[") + text.count("{"), text.count(":")
    return objects > _MOST + len(text) // _CHARACTERS or keys > _MOST + len(text) // _OF_KEYS


def check_lines(text: str, name: str | None = None, ends: str = "\n") -> str:
    """Return a text. Raises InvalidInputError if its lines, or pieces between `ends`, would take far more memory."""
    if sum(map(text.count, ends)) > _MOST + len(text) // _OF_LINES:
        raise InvalidInputError("the text has far more lines than its size justifies", location=name)
    return text


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a text, without their ends. Raises InvalidInputError if there are far too many."""
    return check_lines(data.decode("utf-8", "surrogateescape")).split("\n")


def _decoded(text: str, *, lines: bool) -> Any:
    if is_excessive(text):
        raise _RefusedError(EXCESSIVE)
    if not lines:
        try:
            return json.loads(text, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
        except _RefusedError:
            pass  # read it again to find the line
    return _Numbering(text).decode(text)


def _object(pairs: list[tuple[str, Any]]) -> Object:
    found = Object(pairs)
    found.line = 0
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _RefusedError(f"the key {twice!r} occurs twice in one object")
    return found


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _RefusedError(f"{digits[:50]} is too large")
    return value


def _constant(word: str) -> NoReturn:
    raise _RefusedError(f"{word} is not a JSON number")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _RefusedError(_TOO_DEEP)


class _Numbering(json.JSONDecoder):
    """A decoder that gives each object the number of the line in which it begins."""

    def __init__(self, text: str) -> None:
        super().__init__(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
        read = json.decoder.JSONObject  # type: ignore[attr-defined]
        breaks = [match.start() for match in re.finditer("\n", text)]

        def parse(text_and_end: tuple[str, int], *others: Any) -> tuple[Object, int]:
            line = bisect_left(breaks, text_and_end[1]) + 1
            try:
                found, end = read(text_and_end, *others)
            except _RefusedError as error:
                error.lineno = max(error.lineno, line)  # the object that begins last is the innermost
                raise
            found.line = line
            return found, end

        self.parse_object = parse
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined] # the C one lacks this hook


_Known = TypeVar("_Known")


@contextmanager
def naming_files() -> Iterator[None]:
    """Mark errors as errors in a request or in a file that it names, rather than in the model."""
    try:
        yield
    except CircleToolsError as error:
        error.names_file = True
        raise


@cache
def packaged(package: str, name: str) -> Any:
    """Return the JSON document `name` of a package; callers must not change it."""
    return json.loads((resources.files(package) / name).read_text("utf-8"))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file. Raises InvalidInputError."""
    with closing(open_source(path)) as source:
        return bytes(source.octets)


def read_baseline(
    path: str | os.PathLike[str], command: str, known: Callable[[Mapping[str, Any]], _Known]
) -> dict[str, _Known]:
    """Read the documents that a command wrote with `--json` (one document, or JSON Lines), calling `known` for each.

    Returns a dict of each model's first result by absolute path. A relative path is resolved against the baseline's
    folder and the current one; the baseline's wins. If there is only one model and none of its paths exists any more,
    the key "" has its result too. Raises InvalidInputError if the file cannot be read, has another version, or
    `known` finds missing fields (KeyError, TypeError, AttributeError) or invalid values (ValueError).
    """
    name, data = os.fspath(path), read_bytes(path)
    if not data.strip():
        hint = "write to another file: a shell's `>` empties this one first"
        raise InvalidInputError("not JSON: it is empty", location=name, hint=hint)
    check_lines(data.decode("latin-1"), name)
    lines = data.splitlines() if b"\n{" in data else [data]
    documents = [read_json(line, name) for line in lines if line.strip()]
    try:
        for document in documents:
            if document["schema_version"] != SCHEMA_VERSION:
                message = f"schema_version {document['schema_version']!r} is not known"
                raise InvalidInputError(message, location=name)
        models = [(document.get("file", ""), known(document)) for document in documents]
        found: dict[str, _Known] = {}
        for folder in (os.path.dirname(name), ""):
            for file, value in models:
                found.setdefault(os.path.abspath(os.path.join(folder, file)), value)
        gone = len(dict(models)) == 1 and not any(map(os.path.isfile, found))
        return {"": models[0][1], **found} if gone else found
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        hint = f"use a file that `circletool {command} --json` wrote"
        message = "this is not a baseline" + (f": {error}" if isinstance(error, ValueError) else "")
        raise InvalidInputError(message, location=name, hint=hint) from error


def of_model(baseline: Mapping[str, _Known], file: str, renamed: bool) -> _Known | None:
    """Return the baseline's result for a model, however its path is spelled, or if `renamed`, that of a lost path."""
    return baseline.get(os.path.abspath(file), baseline.get("") if renamed else None)
