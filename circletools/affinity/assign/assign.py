"""Assign a device to every operator, by rules, by capability tables, or by default.

Rules take precedence over capability tables, and tables over the default. `rules` ranks the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from circletools.affinity.assign.rules import Decision, Rule, RuleSet, by_precedence
from circletools.affinity.capability.table import Refusal
from circletools.affinity.problem import Placed
from circletools.affinity.units import Units
from circletools.errors import EditError, UsageError
from circletools.graph.graph import ModelGraph
from circletools.graph.selectors import Chooser
from circletools.wording import ranges, suggestion

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
        """Return the reason why an operator is on its device, in words."""
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
        said = "the first device that supports it" if decision is None else decision.words
        return "; ".join([said, *declined])

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
    said = "no rule matches it" + (f", and no table supports it: {refused}" if refused else "")
    place = f"subgraphs[{subgraph}].operators[{operator}]"
    hint = "`default=DEVICE` assigns the remaining operators"
    return EditError(f"{code} is left without a device: {said}", location=place, hint=hint)


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
