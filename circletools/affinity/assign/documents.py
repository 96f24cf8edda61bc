"""Helpers for hand-written JSON documents: check keys, locate errors, read numbers and selectors."""

from __future__ import annotations

import os
from collections.abc import Iterator

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.selectors import Selector, parse_selector
from circletools.storage.documents import read_bytes
from circletools.storage.strict_json import Object, read_json
from circletools.wording import SCHEMA_VERSION

_LARGEST, _LEAST = 1e15, 1e-9


def read_words(path: str | os.PathLike[str]) -> str:
    """Return the text of a file; names in the text need not be valid UTF-8. Raises InvalidInputError."""
    return read_bytes(path).decode("utf-8-sig", "surrogateescape")


def read_document(words: str, name: str, keys: set[str], holds: str, see: str) -> tuple[Object, str]:
    """Return the JSON object of a document and its location; for errors, `holds` is the contents, `see` the page.

    Raises InvalidInputError if it is not an object, has another version or has keys other than `keys`.
    """
    document = read_json(words, name, lines=True)
    if not isinstance(document, Object):
        raise InvalidInputError(f"the document must be an object with {holds}", location=f"{name}:1", hint=see)
    version = document.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise InvalidInputError(f"schema_version {version!r} is not known", location=name)
    place = f"{name}:{document.line}"
    _check_keys(document, {"schema_version", *keys}, place)
    return document, place


def objects_of(holder: Object, key: str, name: str, keys: set[str], see: str) -> Iterator[tuple[Object, str]]:
    """Yield each object of the list at `key`, with its location. Raises InvalidInputError."""
    entries = holder.get(key, [])
    if not isinstance(entries, list):
        raise InvalidInputError(f"`{key}` must be a list", location=f"{name}:{holder.line}", hint=see)
    for index, entry in enumerate(entries):
        if not isinstance(entry, Object):
            message = f"an entry of `{key}` must be an object"
            raise InvalidInputError(message, location=f"{name}: {key}[{index}]", hint=see)
        place = f"{name}:{entry.line}"
        _check_keys(entry, keys, place)
        yield entry, place


def text_of(entry: Object, key: str, place: str, see: str) -> str:
    """Return the string at `key`. Raises InvalidInputError if it is missing or empty."""
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{key}` must be a string that is not empty", location=place, hint=see)
    return value


def number_of(entry: Object, key: str, place: str, see: str, *, above: bool = False) -> float:
    """Return the number at `key`: at least 0, or with `above` more than 0. Raises InvalidInputError."""
    value = entry[key]
    least = _LEAST if above else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _LARGEST:
        raise InvalidInputError(f"`{key}` must be a number from {least:g} to {_LARGEST:g}", location=place, hint=see)
    return float(value)


def selector_of(entry: Object, place: str, see: str) -> Selector:
    """Return the selector of an entry. Raises UsageError if it is not valid."""
    return selector_from(text_of(entry, "select", place, see), place)


def selector_from(words: str, place: str) -> Selector:
    """Parse a selector; errors name `place`."""
    try:
        return parse_selector(words)
    except UsageError as error:
        raise UsageError(error.message, location=place, hint=error.hint) from error


def _check_keys(entry: Object, known: set[str], place: str) -> None:
    for key in sorted(entry.keys() - known):
        raise InvalidInputError(f"`{key}` is not known; known keys: {', '.join(sorted(known))}", location=place)
