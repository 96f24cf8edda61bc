"""Devices by cost for the operators that rules leave open, ready to be assigned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import process_time

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.assign.assign import Assignment, Constraints, assign
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Decision, Rule
from circletools.affinity.candidate import Placed
from circletools.affinity.costs.table import CostTable, Floats, Links, make_cost_table
from circletools.affinity.costs.times import with_times
from circletools.affinity.limits import Limit
from circletools.affinity.problem import make_subgraph
from circletools.affinity.solvers.solve import solve
from circletools.affinity.units import Units, make_units
from circletools.errors import EditError
from circletools.graph.selectors import Chooser


@dataclass(frozen=True, slots=True)
class Goal:
    """What the choice keeps to, and how long it may take.

    `caps` are the bytes of memory that a device has, by number; `limits` go with the number of their device. `units`
    are the operators that stay together, by subgraph; without it every operator is one. `seconds` is how long the
    integer program may look for better devices and a proof, for all subgraphs.
    """

    caps: Mapping[int, int] = field(default_factory=dict)
    limits: Sequence[tuple[int, Limit]] = ()
    units: Sequence[Units] = ()
    seconds: float = 0.0


def assign_by_cost(chooser: Chooser, given: Constraints, tables: Sequence[CostTable], goal: Goal) -> Assignment:
    """Give every operator a device so that all takes the least time, as far as rules leave it open.

    A rule, or what an operator had before, decides; a device that does not take an operator, or has no time for it,
    is left out. What no device can run goes to the default. Raises what `assign` and `solve` do.
    """
    given = replace(given, refusals=with_times(tables, given.devices, given.refusals))
    return _assign(chooser, given, tables, goal, "least total time")


def assign_by_memory(chooser: Chooser, given: Constraints, goal: Goal) -> Assignment:
    """Give every operator that rules leave open the first device that takes it and has room.

    A device without a capability table takes all. Raises what `assign` and `solve` do.
    """
    count = len(given.devices)
    free = Links(np.zeros((count, count)), np.zeros((count, count)), np.zeros(count))
    # An operator is the dearer the later its device comes.
    tables = [
        make_cost_table(facts, np.tile(np.arange(float(count)), (len(facts), 1)), free) for facts in chooser.facts
    ]
    given = replace(given, refusals=with_times(tables, given.devices, given.refusals))
    made = _assign(chooser, given, tables, goal, "the first device with room")
    return replace(made, least_us=())


def _assign(chooser: Chooser, given: Constraints, tables: Sequence[CostTable], goal: Goal, words: str) -> Assignment:
    ruled = by_precedence(chooser, given.rules.rules)
    chosen: list[dict[int, Decision]] = []
    least: list[float | None] = []
    placed: list[Placed | None] = []
    seconds, operators = goal.seconds, sum(len(table.times_us) for table in tables)
    for subgraph, table in enumerate(tables):
        had = given.before_in(subgraph)
        decided = [rule or had.get(operator) for operator, rule in enumerate(ruled[subgraph])]
        times, is_open = _open_times(table, given, subgraph, decided)
        count, begins, facts = len(times), process_time(), chooser.facts[subgraph]
        units = goal.units[subgraph] if goal.units else make_units(facts)
        whole = make_subgraph(facts, units, replace(table, times_us=times), goal.limits, goal.caps, given.devices)
        try:
            found = solve(whole.problem, seconds * count / max(operators, 1))
        except EditError as error:
            raise EditError(error.message, location=facts.place(), hint=error.hint) from error
        seconds, operators = max(0.0, seconds - (process_time() - begins)), operators - count
        least.append(found.least_us if is_open.any() else None)
        placed.append(Placed(whole, found.candidate))
        devices = {unit: part.device for part in whole.partitions(found.candidate) for unit in part.operators}
        row = dict(had)
        for operator in np.flatnonzero(is_open).tolist():
            row[operator] = Decision(given.devices[devices[operator]], words)
        chosen.append(row)
    made = assign(chooser, replace(given, before=chosen))
    return replace(made, least_us=tuple(least), placed=tuple(placed))


def _open_times(
    table: CostTable, given: Constraints, subgraph: int, decided: Sequence[Rule | Decision | None]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the times that are left to choose from, and which operators are open to choice."""
    devices = given.devices
    refused = np.array([[said is not None for said in given.refusals[device][subgraph]] for device in devices]).T
    times = np.where(refused.reshape(table.times_us.shape), np.inf, table.times_us)
    is_open = np.isfinite(times).any(axis=1) & np.array([one is None for one in decided], np.bool_)
    for operator in np.flatnonzero(~is_open).tolist():
        decision = decided[operator] or given.rules.default
        if decision is not None and decision.device in devices:
            number = devices.index(decision.device)
            known = table.times_us[operator, number]
            times[operator] = np.inf
            times[operator, number] = known if np.isfinite(known) else 0  # a time that is not known counts nothing
        else:  # `assign` tells what is missing
            times[operator] = 0
    return times, is_open
