"""Assign a device to every operator, by rules, by capability tables, or by default.

Rules take precedence over capability tables, and tables over the default. Rules come from a file or the command line:

    {"schema_version": 1, "default": "cpu", "rules": [{"select": "op:CONV_2D", "device": "npu"}, ...]}

The `.part` files of the ONE compiler's circle-partitioner are read too. If several entries select an operator, the
most specific one applies: index precedes name, then origin, then op; a whole name precedes a glob, which precedes
`*`; an entry for one subgraph precedes an entry for all; the command line precedes a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from circletools.affinity.capability.table import Refusal
from circletools.affinity.documents import objects_of, parse_part, read_document, selector_from, selector_of, text_of
from circletools.affinity.problem import Placed
from circletools.affinity.solvers.groups import Units
from circletools.errors import EditError, UsageError, shortened
from circletools.findings import Finding
from circletools.graph.graph import ModelGraph
from circletools.graph.selectors import KINDS, Chooser, Selector
from circletools.wording import ranges, suggestion


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
    def label(self) -> str:
        """Return the entry's value as text; entries with equal values do not contradict each other."""


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
                elif other.label != entry.label and _rank(other) == _rank(entry):
                    raise UsageError(
                        f"{entry.selector} assigns {entry.label} to subgraphs[{subgraph}].operators[{operator}], but "
                        f"{other.selector} ({other.place}) assigns {other.label}",
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
        codes = chooser.model.source.schema.enums["BuiltinOperator"].values()
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
    def label(self) -> str:
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


Refusals = Mapping[str, Sequence[Sequence[Refusal | None]]]
"""For each device with a capability table: its refusal of each operator, or None, by subgraph and operator index."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints on the choice of devices.

    `before` holds the operators' earlier devices, by subgraph and operator; they take precedence over capabilities.
    """

    devices: tuple[str, ...]
    rules: RuleSet = field(default_factory=RuleSet)
    refusals: Refusals = field(default_factory=dict)
    before: Sequence[Mapping[int, Decision]] = ()

    def before_in(self, subgraph: int) -> Mapping[int, Decision]:
        """Return the earlier devices of a subgraph's operators."""
        return self.before[subgraph] if subgraph < len(self.before) else {}


@dataclass(frozen=True, slots=True)
class Assignment:
    """For each operator of each subgraph, its device (an index into `devices`) and the basis of the choice.

    `decided_by` holds the rule, the earlier device or the default; it is None if a capability table decided. If a
    solver chose the devices, `placed` holds its solution and `least_us` a lower bound on the time of any choice, by
    subgraph.
    """

    devices: tuple[str, ...]
    numbers: tuple[list[int], ...]
    decided_by: tuple[list[Rule | Decision | None], ...]
    refusals: Refusals
    least_us: tuple[float | None, ...] = ()
    placed: tuple[Placed | None, ...] = ()

    def why(self, subgraph: int, operator: int) -> str:
        """Return the reason why an operator is on its device, as text."""
        decision, number = self.decided_by[subgraph][operator], self.numbers[subgraph][operator]
        if isinstance(decision, Rule):
            named = decision.place if decision.from_command else f"{decision.selector} ({decision.place})"
            against = self.refusal(number, subgraph, operator)
            return f"rule {named}" + (f", although the device does not support it: {against}" if against else "")
        last = number if decision is None else len(self.devices)
        declined = [
            f"not {device}: {refusal}"
            for other, device in enumerate(self.devices[:last])
            if (refusal := self.refusal(other, subgraph, operator))
        ]
        chosen = "the first device that supports it" if decision is None else decision.words
        return "; ".join([chosen, *declined])

    def refusal(self, number: int, subgraph: int, operator: int) -> Refusal | None:
        """Return why a device refuses an operator, or None if the device accepts it or has no capability table."""
        device = self.devices[number]
        return self.refusals[device][subgraph][operator] if device in self.refusals else None

    def against_capability(self) -> list[tuple[int, int]]:
        """Return the operators (subgraph, index) that a rule or the default puts on a device that refuses them."""
        return [
            (subgraph, operator)
            for subgraph, decisions in enumerate(self.decided_by)
            for operator, decision in enumerate(decisions)
            if decision is not None and self.refusal(self.numbers[subgraph][operator], subgraph, operator)
        ]


_WITH_READERS = Decision("", "depends only on constants, so it has the device of its first reader")


def assign(chooser: Chooser, given: Constraints) -> Assignment:
    """Assign a device to every operator of a model.

    Raises UsageError if a rule matches nothing, a device is unknown, or rules of equal rank contradict each other;
    and EditError if an operator is left without a device.
    """
    devices, rules, refusals = given.devices, given.rules, given.refusals
    _check_devices(given)
    numbers: list[list[int]] = [[] for _ in chooser.model.graphs]
    deciders: list[list[Rule | Decision | None]] = [[] for _ in numbers]
    constants = [frozenset(facts.dag.constants) for facts in chooser.model.graphs]
    for subgraph, ruled in enumerate(by_precedence(chooser, rules.rules)):
        tables = [(number, refusals[device][subgraph]) for number, device in enumerate(devices) if device in refusals]
        had = given.before_in(subgraph)
        for operator, rule in enumerate(ruled):
            if operator in constants[subgraph]:
                numbers[subgraph].append(-1)
                deciders[subgraph].append(_WITH_READERS)
                continue
            taker = next((number for number, refused in tables if refused[operator] is None), None)
            decision = rule or had.get(operator) or (None if taker is not None else rules.default)
            number = taker if decision is None else devices.index(decision.device)
            if number is None:
                raise _unassigned(chooser.model, subgraph, operator, tables[-1][1][operator] if tables else None)
            numbers[subgraph].append(number)
            deciders[subgraph].append(decision)
    for facts, row in zip(chooser.model.graphs, numbers, strict=True):
        for operator in reversed(facts.dag.order):
            if row[operator] < 0:
                row[operator] = row[facts.dag.successors[operator][0]]
    return Assignment(devices, tuple(numbers), tuple(deciders), refusals)


def _check_devices(given: Constraints) -> None:
    rules = given.rules
    named = [(rule.device, rule.place) for rule in rules.rules]
    named += [(rules.default.device, rules.default.place)] if rules.default else []
    named += [(device, "`capabilities=`") for device in given.refusals]
    named += [(decision.device, decision.words) for known in given.before for decision in known.values()]
    for device, place in named:
        if device not in given.devices:
            hint = f"add it to `devices=`; {suggestion(device, given.devices)}"
            if place == "`capabilities=`" and (free := [one for one in given.devices if one not in given.refusals]):
                hint = f"a table applies to the device that it names; for another device, write {free[0]}={device}"
            raise UsageError(f"device {device!r} is not among `devices=`", location=place, hint=hint)


def _unassigned(model: ModelGraph, subgraph: int, operator: int, refused: Refusal | None) -> EditError:
    code = model.graphs[subgraph].operators.code_names[operator]
    reason = "no rule matches it" + (f", and no table supports it: {refused}" if refused else "")
    place = f"subgraphs[{subgraph}].operators[{operator}]"
    hint = "`default=DEVICE` assigns the remaining operators"
    return EditError(f"{code} is left without a device: {reason}", location=place, hint=hint)


def colocated(assignment: Assignment, units: Sequence[Units]) -> Assignment:
    """Return the assignment with each unit on one device: that of a rule, or the first to accept the whole unit.

    Raises EditError if rules put a unit on two devices, or if no device accepts a whole unit.
    """
    numbers = tuple(list(row) for row in assignment.numbers)
    deciders = tuple(list(row) for row in assignment.decided_by)
    for subgraph, of_subgraph in enumerate(units):
        for members in of_subgraph.members:
            row = numbers[subgraph]
            if len(members) > 1 and len({row[operator] for operator in members}) > 1:
                number, words = _device_of(assignment, subgraph, members)
                for operator in members:
                    if row[operator] != number:
                        row[operator] = number
                        deciders[subgraph][operator] = Decision(assignment.devices[number], words)
    return replace(assignment, numbers=numbers, decided_by=deciders)


def _device_of(assignment: Assignment, subgraph: int, members: Sequence[int]) -> tuple[int, str]:
    """Return the device of a unit, and the reason for the choice."""
    deciders, numbers = assignment.decided_by[subgraph], assignment.numbers[subgraph]
    ruled = {numbers[operator]: rule.place for operator in members if isinstance(rule := deciders[operator], Rule)}
    named = f"operators {ranges(sorted(members))} must stay together"
    place = f"subgraphs[{subgraph}].operators[{min(members)}]"
    if len(ruled) > 1:
        places = " and ".join(sorted(ruled.values()))
        raise EditError(f"{named}, but rules put them on different devices: {places}", location=place)
    known = (number for number, device in enumerate(assignment.devices) if device in assignment.refusals)
    wanted: Iterable[int] = ruled or dict.fromkeys([*sorted({numbers[one] for one in members}), *known])
    for number in wanted:
        if all(assignment.refusal(number, subgraph, operator) is None for operator in members):
            return number, named
    kept = "".join(f"; rule {rule} keeps them on {assignment.devices[number]}" for number, rule in ruled.items())
    raise EditError(f"{named}, but no device supports all of them{kept}", location=place)
