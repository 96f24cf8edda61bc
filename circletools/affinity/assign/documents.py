"""JSON that people write by hand: strict about keys, and every object knows its line."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from circletools.errors import InvalidInputError, UsageError
from circletools.model.selectors import Selector, parse_selector

SCHEMA_VERSION = 1
_LINE, _TWICE = "\0line", "\0twice"
_LARGEST, _LEAST = 1e15, 1e-9

Document = dict[str, Any]


def read_document(words: str, name: str, keys: set[str], holds: str, see: str) -> tuple[Document, str]:
    """Return the object that a document is, and its place. `holds` says what it must have, `see` where that is told.

    Raises InvalidInputError where it is none, is of another version or has other keys than `keys`.
    """
    try:
        document = json.JSONDecoder.decode(_Numbering(words), words)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"not JSON: {error}", location=f"{name}:{getattr(error, 'lineno', 1)}") from error
    if not isinstance(document, dict):
        raise InvalidInputError(f"the document must be an object with {holds}", location=f"{name}:1", hint=see)
    version = document.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise InvalidInputError(f"schema_version {version!r} is not known", location=name)
    place = f"{name}:{document[_LINE]}"
    _check_keys(document, {"schema_version", *keys}, place)
    return document, place


def objects_of(holder: Document, key: str, name: str, keys: set[str], see: str) -> Iterator[tuple[Document, str]]:
    """Yield the objects of a list, and their places. Raises InvalidInputError."""
    entries = holder.get(key, [])
    if not isinstance(entries, list):
        raise InvalidInputError(f"`{key}` must be a list", location=f"{name}:{holder[_LINE]}", hint=see)
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            message = f"an entry of `{key}` must be an object"
            raise InvalidInputError(message, location=f"{name}: {key}[{index}]", hint=see)
        place = f"{name}:{entry[_LINE]}"
        _check_keys(entry, keys, place)
        yield entry, place


def text_of(entry: Document, key: str, place: str, see: str) -> str:
    """Return a string. Raises InvalidInputError where there is none, or an empty one."""
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{key}` must be a string that is not empty", location=place, hint=see)
    return value


def number_of(entry: Document, key: str, place: str, see: str, *, above: bool = False) -> float:
    """Return a number from 0 on, or `above` 0. Raises InvalidInputError."""
    value = entry[key]
    least = _LEAST if above else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _LARGEST:
        raise InvalidInputError(f"`{key}` must be a number from {least:g} to {_LARGEST:g}", location=place, hint=see)
    return float(value)


def selector_of(entry: Document, place: str, see: str) -> Selector:
    """Return the selector of an entry. Raises UsageError for one that is none."""
    return selector_from(text_of(entry, "select", place, see), place)


def selector_from(words: str, place: str) -> Selector:
    """Read a selector; an error names `place`."""
    try:
        return parse_selector(words)
    except UsageError as error:
        raise UsageError(error.message, location=place, hint=error.hint) from error


def _check_keys(entry: dict[str, Any], known: set[str], place: str) -> None:
    if _TWICE in entry:
        raise InvalidInputError(f"`{entry[_TWICE]}` stands there twice", location=place)
    for key in sorted(entry.keys() - known - {_LINE}):
        raise InvalidInputError(f"`{key}` is not known; there are {', '.join(sorted(known))}", location=place)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        found[_TWICE] = next(name for name, count in Counter(names).items() if count > 1)
    return found


class _Numbering(json.JSONDecoder):
    """A decoder that gives each object the number of the line it begins in."""

    def __init__(self, words: str) -> None:
        super().__init__(object_pairs_hook=_object)
        read: Callable[..., tuple[Any, int]] = json.decoder.JSONObject  # type: ignore[attr-defined]
        breaks = [match.start() for match in re.finditer("\n", words)]

        def parse(text_and_end: tuple[str, int], *others: Any) -> tuple[Any, int]:
            found, end = read(text_and_end, *others)
            found[_LINE] = bisect_left(breaks, text_and_end[1]) + 1
            return found, end

        self.parse_object = parse
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined] # the C one has no such hook
