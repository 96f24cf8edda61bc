"""Rules that put operators on devices, from a file or the command line.

    {"schema_version": 1, "default": "cpu", "rules": [{"select": "op:CONV_2D", "device": "npu"}, ...]}

or the `.part` file of the ONE compiler's circle-partitioner.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from circletools.affinity.partfile import parse_part
from circletools.errors import InvalidInputError, UsageError
from circletools.model.selectors import Selector, parse_selector

SCHEMA_VERSION = 1
_LINE, _TWICE = "\0line", "\0twice"


@dataclass(frozen=True, slots=True)
class Rule:
    """Operators and the device they go to. `place` says where the rule stands, for errors: `npu.json:12`."""

    selector: Selector
    device: str
    place: str
    from_command: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A device that no rule of its own names: the default, or what an operator had before.

    `words` say which of the two, for people; `place` where a default stands, for errors.
    """

    device: str
    words: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules, in the order they are written, a default, and the devices where the document lists them."""

    rules: tuple[Rule, ...] = ()
    default: Decision | None = None
    devices: tuple[str, ...] = ()

    def and_then(self, other: RuleSet) -> RuleSet:
        """Return both; the other's default counts where it has one."""
        return RuleSet(self.rules + other.rules, other.default or self.default, other.devices or self.devices)


def make_default(device: str, place: str) -> Decision:
    """Return the decision for operators that nothing else decides."""
    return Decision(device, f"default ({place})", place)


def parse_setting(words: str) -> Rule:
    """Read SELECTOR=DEVICE of the command line. Raises UsageError."""
    selector, equals, device = words.rpartition("=")
    if not equals or not device:
        raise UsageError(f"--set {words!r} names no device", hint="write --set op:CONV_2D=npu")
    place = f"--set {words}"
    return Rule(_selector(selector, place), device, place, from_command=True)


def _selector(words: str, place: str) -> Selector:
    try:
        return parse_selector(words)
    except UsageError as error:
        raise UsageError(error.message, location=place, hint=error.hint) from error


def parse_rules(words: str, name: str) -> RuleSet:
    """Read a document by the ending of its name, `.part` or JSON.

    Raises InvalidInputError where it is no such document, UsageError for a selector that is none; both with the line.
    """
    return _parse_part(words, name) if name.lower().endswith(".part") else _parse_json(words, name)


def _parse_json(words: str, name: str) -> RuleSet:
    try:
        document = json.JSONDecoder.decode(_Numbering(words), words)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"not JSON: {error}", location=f"{name}:{getattr(error, 'lineno', 1)}") from error
    if not isinstance(document, dict):
        raise InvalidInputError("the document must be an object with `rules`", location=f"{name}:1", hint=_SEE)
    version = document.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise InvalidInputError(f"schema_version {version!r} is not known", location=name)
    place = f"{name}:{document[_LINE]}"
    _check_keys(document, {"schema_version", "default", "rules"}, place)
    entries = document.get("rules", [])
    if not isinstance(entries, list):
        raise InvalidInputError("`rules` must be a list", location=place, hint=_SEE)
    default = make_default(_text(document, "default", place), place) if "default" in document else None
    return RuleSet(tuple(_rule(entry, name, index) for index, entry in enumerate(entries)), default)


_SEE = "see docs/affinity.md"


def _rule(entry: Any, name: str, index: int) -> Rule:
    if not isinstance(entry, dict):
        raise InvalidInputError("a rule must be an object", location=f"{name}: rules[{index}]", hint=_SEE)
    place = f"{name}:{entry[_LINE]}"
    _check_keys(entry, {"select", "device"}, place)
    return Rule(_selector(_text(entry, "select", place), place), _text(entry, "device", place), place)


def _check_keys(entry: dict[str, Any], known: set[str], place: str) -> None:
    if _TWICE in entry:
        raise InvalidInputError(f"`{entry[_TWICE]}` stands there twice", location=place)
    for key in sorted(entry.keys() - known - {_LINE}):
        raise InvalidInputError(f"`{key}` is not known; there are {', '.join(sorted(known))}", location=place)


def _text(entry: dict[str, Any], key: str, place: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{key}` must be a string that is not empty", location=place, hint=_SEE)
    return value


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


def _parse_part(words: str, name: str) -> RuleSet:
    part = parse_part(words, name)
    by_code = part.comply == "opcode"
    rules = (
        Rule(Selector("op" if by_code else "name", key, literal=True), backend, f"{name}:{line}")
        for key, (backend, line) in (part.opcodes if by_code else part.opnames).items()
    )
    return RuleSet(tuple(rules), make_default(part.default, name), part.backends)
