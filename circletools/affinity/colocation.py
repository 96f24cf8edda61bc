"""One device for each set of operators that must stay together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.assign.rules import Decision, Rule
from circletools.affinity.units import Units
from circletools.errors import EditError
from circletools.wording import ranges


def colocated(assignment: Assignment, units: Sequence[Units]) -> Assignment:
    """Return the assignment with each unit on one device: a rule's, or the first that accepts all its operators.

    Raises EditError if rules put a unit on two devices, or no device accepts all of a unit.
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
    named = f"operators {ranges(sorted(members))} stay together"
    place = f"subgraphs[{subgraph}].operators[{min(members)}]"
    if len(ruled) > 1:
        places = " and ".join(sorted(ruled.values()))
        raise EditError(f"{named}, and rules put them on different devices: {places}", location=place)
    wanted: Iterable[int] = ruled or dict.fromkeys([*sorted({numbers[one] for one in members}), *_known(assignment)])
    for number in wanted:
        if all(assignment.refusal(number, subgraph, operator) is None for operator in members):
            return number, named
    kept = "".join(f"; rule {rule} keeps them on {assignment.devices[number]}" for number, rule in ruled.items())
    raise EditError(f"{named}, and no device supports all of them{kept}", location=place)


def _known(assignment: Assignment) -> Iterable[int]:
    """Return the devices whose capabilities are known."""
    return (number for number, device in enumerate(assignment.devices) if device in assignment.refusals)
