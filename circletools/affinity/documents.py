"""Read hand-written documents: helpers for JSON (keys, error locations, numbers, selectors), and `.part` files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from circletools.errors import EditError, InvalidInputError, UsageError
from circletools.graph.selectors import Selector, parse_selector
from circletools.storage.documents import Object, check_lines, read_bytes, read_json
from circletools.wording import SCHEMA_VERSION

_LARGEST, _LEAST = 1e15, 1e-9


def read_words(path: str | os.PathLike[str]) -> str:
    """Return the text of a file; names in the text need not be valid UTF-8. Raises InvalidInputError."""
    return read_bytes(path).decode("utf-8-sig", "surrogateescape")


def read_document(words: str, name: str, keys: set[str], holds: str, see: str) -> tuple[Object, str]:
    """Return a document's JSON object and its location; errors quote `holds` (what it must hold) and `see` (a hint).

    Raises InvalidInputError if the document is not an object, has another version, or has keys other than `keys`.
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
        raise InvalidInputError(f"`{key}` must be a nonempty string", location=place, hint=see)
    return value


def number_of(entry: Object, key: str, place: str, see: str, *, above: bool = False) -> float:
    """Return the number at `key`, which must be at least 0 (with `above`, more than 0). Raises InvalidInputError."""
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
        raise UsageError(error.message, location=place, hint=error.hint) from None


def _check_keys(entry: Object, known: set[str], place: str) -> None:
    for key in sorted(entry.keys() - known):
        raise InvalidInputError(f"unknown key `{key}`; known keys: {', '.join(sorted(known))}", location=place)


# --- `.part` files: input of the ONE compiler's circle-partitioner, which assigns operators to backends -------
#     [partition]
#     backends=cpu,npu            the names of all backends
#     default=cpu                 for operators without a rule
#     comply=opname               the rules that apply: opname or opcode
#
#     [OPNAME]
#     conv1=npu                   the name of an operator's first output tensor = its backend
#
#     [OPCODE]
#     _=cpu                       another default, used if comply=opcode
#     CONV_2D=npu
#
# The grammar is that of ONE's compiler/crew/src/PConfigIni.cpp: a line is `key=value` up to the first `=`, quotes are
# kept, lines that start with `#` or `;` are comments, and `\;` in a key stands for `;`. This parser rejects what ONE
# ignores (a line without `=`, an unknown section or key, a duplicate rule for a name). ONE treats spaces around `=`
# and `,` as part of a name. If no such name exists, ONE refuses the file; this parser removes the spaces.


Rules = Mapping[str, tuple[str, int]]
"""The backend for each operator code or name, and the line number of the rule (0 if it is not from a file)."""

_DEFAULT = "_"
_KEYS = ("backends", "default", "comply")
_SECTIONS = ("partition", "OPCODE", "OPNAME")
_ESCAPES = re.compile(r"(?<!\\)\\+;")  # ONE removes escapes until none are left
_SHOWN = 60  # the maximum number of characters of a line that a message shows


@dataclass(frozen=True, slots=True)
class PartFile:
    """The contents of a `.part` file. Only the rules that `comply` selects apply.

    `trimmed` means that the file is valid only if the spaces around names are removed.
    """

    backends: tuple[str, ...]
    default: str
    comply: Literal["opcode", "opname"]
    opcodes: Rules = field(default_factory=dict)
    opnames: Rules = field(default_factory=dict)
    trimmed: bool = False


def parse_part(text: str, name: str) -> PartFile:
    """Parse a `.part` file. Raises InvalidInputError with `name` and the line number."""
    check_lines(text, name, "\n\r=,")
    try:
        return _parsed(_sections(text, name), name)
    except InvalidInputError as error:
        blanks = "".join(word.strip(" \t") for word in re.split("([=,\n])", text))
        try:
            return replace(_parsed(_sections(blanks, name), name), trimmed=True)
        except InvalidInputError:
            raise error from None


def _parsed(sections: dict[str, dict[str, tuple[str, int]]], name: str) -> PartFile:
    if "partition" not in sections:
        raise InvalidInputError("there is no [partition] section", location=name)
    main = sections["partition"]
    for key in main.keys() - set(_KEYS):
        raise _error(f"unknown key {key!r} in [partition]", name, main[key][1], f"known keys: {', '.join(_KEYS)}")
    for key in _KEYS:
        if key not in main:
            raise InvalidInputError(f"[partition] lacks {key}", location=name)
    backends, comply = tuple(main["backends"][0].split(",")), main["comply"][0]
    if comply not in ("opcode", "opname"):
        raise _error(f"invalid value comply={comply!r}", name, main["comply"][1], "write opcode or opname")
    if "" in backends:
        raise _error("a backend has no name", name, main["backends"][1], "write, for example, cpu,npu")
    rules = {section: dict(sections.get(section, {})) for section in ("OPCODE", "OPNAME")}
    defaults = {section: named.pop(_DEFAULT, None) for section, named in rules.items()}
    default = defaults[comply.upper()] or main["default"]
    known = set(backends)
    for backend, line in (default, *(rule for named in rules.values() for rule in named.values())):
        if backend not in known:
            hint = f"the backends are {', '.join(map(repr, backends))}"
            raise _error(f"{backend!r} is not one of the backends", name, line, hint)
    kind: Literal["opcode", "opname"] = "opcode" if comply == "opcode" else "opname"
    return PartFile(backends, default[0], kind, rules["OPCODE"], rules["OPNAME"])


def _sections(text: str, name: str) -> dict[str, dict[str, tuple[str, int]]]:
    """Return the value and line number of each key, by section and key."""
    sections: dict[str, dict[str, tuple[str, int]]] = {}
    current = None
    for number, line in enumerate(re.split("\r\n|\r|\n", text), 1):
        if "\0" in line:
            raise _error("the line contains a NUL character", name, number, "circle-partitioner stops at it")
        if line.startswith("["):
            section, bracket, _ = line[1:].partition("]")
            if not bracket or section not in _SECTIONS:
                known = ", ".join(f"[{known}]" for known in _SECTIONS)
                raise _error(f"unknown section {line[:_SHOWN]!r}", name, number, f"known sections: {known}")
            current = sections.setdefault(section, {})
        elif line and line[0] not in "#;":
            key, equals, value = line.partition("=")
            if not equals:
                raise _error(f"{line[:_SHOWN]!r} contains no =", name, number, "write key=value")
            if current is None:
                raise _error(f"{line[:_SHOWN]!r} is outside every section", name, number, "begin with [partition]")
            key = _ESCAPES.sub(";", key)
            if key in current:
                raise _error(f"duplicate line for {key!r}", name, number, f"the first is line {current[key][1]}")
            current[key] = (value, number)
    return sections


def _error(message: str, name: str, line: int, hint: str) -> InvalidInputError:
    return InvalidInputError(message, location=f"{name}:{line}", hint=hint)


def format_part(part: PartFile) -> str:
    """Return the text of a `.part` file. Raises EditError for a name that the grammar cannot express."""
    for backend in part.backends:
        if not backend or re.search("[,/\r\n\0]", backend):
            raise EditError(f"a .part file cannot express a backend named {backend!r}", hint="rename the device")
    lines = ["[partition]", f"backends={','.join(part.backends)}", f"default={part.default}", f"comply={part.comply}"]
    for section, rules in (("OPCODE", part.opcodes), ("OPNAME", part.opnames)):
        if rules:
            lines += ["", f"[{section}]", *(f"{_escaped(key)}={backend}" for key, (backend, _) in rules.items())]
    return "\n".join(lines) + "\n"


def _escaped(key: str) -> str:
    """Return a key with escapes. Raises EditError if the grammar cannot express the key."""
    if key in ("", _DEFAULT) or key[0] in "[#" or re.search("[=\r\n\0]", key) or "\\;" in key:
        raise EditError(f"a .part file cannot express an operator named {key!r}", hint="rename its output tensor")
    return f"\\{key}" if key[0] == ";" else key
