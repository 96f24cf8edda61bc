"""Rules that assign operators to devices, from a file or the command line.

    {"schema_version": 1, "default": "cpu", "rules": [{"select": "op:CONV_2D", "device": "npu"}, ...]}

The `.part` files of the ONE compiler's circle-partitioner are read too. If several entries select an operator, the
most specific one applies: index precedes name, then origin, then op; a whole name precedes a glob, which precedes
`*`; an entry for one subgraph precedes an entry for all; the command line precedes a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from circletools.affinity.assign.documents import (
    objects_of,
    parse_part,
    read_document,
    selector_from,
    selector_of,
    text_of,
)
from circletools.errors import UsageError, shortened
from circletools.findings import Finding
from circletools.graph.selectors import KINDS, Chooser, Selector
from circletools.wording import suggestion


class Entry(Protocol):
    """A setting for the operators that a selector chooses; error messages name its location, `place`."""

    @property
    def selector(self) -> Selector:
        """Return the selector of the operators."""

    @property
    def place(self) -> str:
        """Return the location of the entry."""

    @property
    def from_command(self) -> bool:
        """Return whether the entry is from the command line."""

    @property
    def says(self) -> str:
        """Return the entry's value in words; entries with equal values do not contradict each other."""


E = TypeVar("E", bound=Entry)


def by_precedence(chooser: Chooser, entries: Sequence[E], *, any_code: bool = False) -> list[list[E | None]]:
    """Return the entry that applies to each operator of each subgraph.

    With `any_code`, an entry may name an operator code of the format that the model does not use. Raises
    UsageError if an entry selects nothing, or two entries of equal rank contradict each other.
    """
    found: list[list[E | None]] = [[None] * len(subgraph) for subgraph in chooser.model.graphs]
    for entry in sorted(entries, key=_rank):
        for subgraph, operators in _choose(chooser, entry, any_code).items():
            row = found[subgraph]
            for operator in operators:
                other = row[operator]
                if other is None:
                    row[operator] = entry
                elif other.says != entry.says and _rank(other) == _rank(entry):
                    raise UsageError(
                        f"{entry.selector} assigns {entry.says} to subgraphs[{subgraph}].operators[{operator}], but "
                        f"{other.selector} ({other.place}) assigns {other.says}",
                        location=entry.place,
                        hint="the more specific rule wins: index, then name, origin, op; a full name precedes a glob",
                    )
    return found


def _rank(entry: Entry) -> tuple[int, int, bool, bool]:
    selector = entry.selector
    breadth = 0 if selector.is_exact else 2 if selector.pattern == "*" else 1
    return KINDS.index(selector.kind), breadth, selector.subgraph is None, not entry.from_command


def _choose(chooser: Chooser, entry: Entry, any_code: bool) -> dict[int, list[int]]:
    selector = entry.selector
    try:
        return chooser.choose(selector)
    except UsageError as error:
        codes = chooser.model.schema.enums["BuiltinOperator"].values()
        if any_code and selector.kind == "op" and (selector.subgraph or 0) < len(chooser.model.graphs):
            if not selector.is_exact or selector.pattern in codes or selector.pattern.startswith("CUSTOM:"):
                return {}
            message, hint = f"{selector}: unknown operator code", suggestion(selector.pattern, codes)
            raise UsageError(message, location=entry.place, hint=hint) from None
        raise UsageError(error.message, location=entry.place, hint=error.hint) from None


_MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class Rule:
    """A selector and the device of its operators. In messages, `place` is its location, such as `npu.json:12`.

    With `may_miss`, the rule may match nothing, as rules of `.part` files may.
    """

    selector: Selector
    device: str
    place: str
    from_command: bool = False
    may_miss: bool = False

    @property
    def says(self) -> str:
        """Return the device; rules for the same device do not contradict each other."""
        return self.device


@dataclass(frozen=True, slots=True)
class Decision:
    """A device chosen without a specific rule: the default, or the operator's earlier device.

    `words` is the human-readable description; `place` is the location of a default in messages.
    """

    device: str
    words: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in document order, a default, and the devices if the document lists them."""

    rules: tuple[Rule, ...] = ()
    default: Decision | None = None
    devices: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()

    def and_then(self, other: RuleSet) -> RuleSet:
        """Return the rules of both sets; the default of `other`, if any, takes precedence."""
        default, devices = other.default or self.default, other.devices or self.devices
        return RuleSet(self.rules + other.rules, default, devices, self.notes + other.notes)

    def matching(self, chooser: Chooser, *, allow_unmatched: bool) -> RuleSet:
        """Return the rules that match something in a model, with notes on the first few rules that do not.

        Unless `allow_unmatched`, rules without `may_miss` are kept even if unmatched; `assign` then raises an error.
        """
        kept, notes = [], list[Finding]()
        for rule in self.rules:
            found = rule if not (rule.may_miss or allow_unmatched) else _matching(rule, chooser)
            if isinstance(found, Rule):
                kept.append(found)
            else:
                notes.append(Finding("UNMATCHED_RULE", "warning", rule.place, shortened(found.message)))
        if len(notes) > _MOST_NOTES:
            message = f"other rules that match nothing: {len(notes) - _MOST_NOTES}"
            notes[_MOST_NOTES:] = [Finding("UNMATCHED_RULE", "warning", "", message)]
        return replace(self, rules=tuple(kept), notes=(*self.notes, *notes))


def _matching(rule: Rule, chooser: Chooser) -> Rule | UsageError:
    """Return the rule, or an error if it matches nothing. Spaces around the pattern are removed if necessary."""
    try:
        chooser.choose(rule.selector)
    except UsageError as error:
        name = rule.selector.pattern.strip(" \t")
        if not rule.selector.literal or name in ("", rule.selector.pattern):
            return error
        found = _matching(replace(rule, selector=replace(rule.selector, pattern=name)), chooser)
        return found if isinstance(found, Rule) else error
    return rule


def make_default(device: str, place: str = "") -> Decision:
    """Return the decision for operators without a rule; `place` is the line of a document that sets it, if any."""
    return Decision(device, f"default ({place})" if place else "default", place)


def parse_setting(words: str) -> Rule:
    """Parse SELECTOR=DEVICE. Raises UsageError."""
    selector, equals, device = words.rpartition("=")
    if not equals or not device:
        raise UsageError(f"the rule {words!r} names no device", hint="write, for example, op:CONV_2D=npu")
    if ":" in device and ":" not in selector:
        raise UsageError(f"the rule {words!r} names the device first", hint=f"write {device}={selector}")
    return Rule(selector_from(selector, words), device, words, from_command=True)


def parse_rules(words: str, name: str) -> RuleSet:
    """Parse a document as `.part` or JSON, depending on the extension of its name.

    Raises InvalidInputError for a malformed document and UsageError for an invalid selector, with the line number.
    """
    return _parse_part(words, name) if name.lower().endswith(".part") else _parse_json(words, name)


def _parse_json(words: str, name: str) -> RuleSet:
    document, place = read_document(words, name, {"default", "rules"}, "`rules`", _SEE)
    default = make_default(text_of(document, "default", place, _SEE), place) if "default" in document else None
    rules = (
        Rule(selector_of(entry, at, _SEE), text_of(entry, "device", at, _SEE), at)
        for entry, at in objects_of(document, "rules", name, {"select", "device"}, _SEE)
    )
    return RuleSet(tuple(rules), default)


_SEE = "see docs/affinity.md"


def _parse_part(words: str, name: str) -> RuleSet:
    part = parse_part(words, name)
    by_code = part.comply == "opcode"
    rules = (
        Rule(Selector("op" if by_code else "name", key, literal=True), backend, f"{name}:{line}", may_miss=True)
        for key, (backend, line) in (part.opcodes if by_code else part.opnames).items()
    )
    message = "the spaces around names were removed; circle-partitioner refuses the file"
    notes = (Finding("BLANKS_IN_PART_FILE", "warning", name, message),) if part.trimmed else ()
    return RuleSet(tuple(rules), make_default(part.default, name), part.backends, notes)
