"""Devices chosen by a solver, for operators without a rule: by cost, by available memory, and within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.assign.assign import Assignment, Constraints, assign
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Decision, Rule
from circletools.affinity.candidate import Placed
from circletools.affinity.costs.table import CostTable, Floats, Links, make_cost_table
from circletools.affinity.costs.times import with_times
from circletools.affinity.partition import devices_of
from circletools.affinity.problem import Sizing, make_subgraph
from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.solvers.solve import solve
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser


def assign_by_cost(chooser: Chooser, given: Constraints, tables: Sequence[CostTable], sizing: Sizing) -> Assignment:
    """Assign devices to the operators without a rule so that the total time is least.

    A rule, or an operator's earlier device, decides first; a device that refuses an operator or has no time for it is
    excluded. Operators that no device can run go to the default. Raises what `assign` and `solve` raise.
    """
    return _assign(chooser, given, tables, sizing, "least total time")


def assign_by_memory(chooser: Chooser, given: Constraints, sizing: Sizing) -> Assignment:
    """Assign to every operator without a rule the first device that accepts it and has enough memory.

    A device without a capability table accepts all operators. Raises what `assign` and `solve` raise.
    """
    # An operator costs more the later its device comes in the order.
    order, free = np.arange(float(len(given.devices))), _links(len(given.devices), 0.0)
    tables = [make_cost_table(facts, np.tile(order, (len(facts), 1)), free) for facts in chooser.model.graphs]
    return replace(_assign(chooser, given, tables, sizing, "the first device with room"), least_us=())


def place_within_limits(facts: Graph, assignment: Assignment, sizing: Sizing, fallback: int) -> Placed:
    """Return the partitions within the limits that move the fewest operators; of these, the fewest partitions."""
    devices, index = assignment.devices, facts.index
    count, assigned = len(devices), np.array(assignment.numbers[index], np.int64)
    able = np.zeros((len(assigned), count), np.bool_)
    for operator, decision in enumerate(assignment.decided_by[index]):
        for device in range(count) if not isinstance(decision, Rule) else ():
            is_known = device == fallback or devices[device] in assignment.refusals
            able[operator, device] = is_known and assignment.refusal(device, index, operator) is None
    rows = np.arange(len(assigned))
    able[rows, assigned] = True
    # Moving one operator costs more than all partitions; the order of devices matters less than a partition.
    times = np.full((len(rows), count), float(len(rows) + 1))
    times += (np.arange(count) != fallback) * np.arange(1, count + 1) / (count * (len(rows) + 1))
    times[rows, assigned] = 0
    table = make_cost_table(facts, np.where(able, times, np.inf), _links(count, 1.0))
    if sizing.limits:
        return _placed(facts, table, sizing, devices, sizing.seconds)[0]
    whole = make_subgraph(facts, table, sizing, devices)  # too large to search for the fewest moves
    numbers = [int(assigned[whole.units.members[unit][0]]) for unit in whole.working]
    return Placed(whole, make_partitions(whole.problem.graph, numbers))


def _links(devices: int, launch_us: float) -> Links:
    """Return the costs of launches, with copies free."""
    return Links(np.zeros((devices, devices)), np.zeros((devices, devices)), np.full(devices, launch_us))


def _placed(
    facts: Graph, table: CostTable, sizing: Sizing, devices: Sequence[str], seconds: float
) -> tuple[Placed, float]:
    """Return the solution of a subgraph and its lower bound. Errors name the subgraph."""
    whole = make_subgraph(facts, table, sizing, devices)
    try:
        found = solve(whole.problem, seconds)
    except EditError as error:
        raise EditError(error.message, location=facts.place(), hint=error.hint) from error
    return Placed(whole, found.candidate), found.least_us


def _assign(
    chooser: Chooser, given: Constraints, tables: Sequence[CostTable], sizing: Sizing, words: str
) -> Assignment:
    given = replace(given, refusals=with_times(tables, given.devices, given.refusals))
    chosen: list[dict[int, Decision]] = []
    least: list[float | None] = []
    placed: list[Placed] = []
    seconds, operators = sizing.seconds, sum(len(table.times_us) for table in tables)
    for subgraph, ruled in enumerate(by_precedence(chooser, given.rules.rules)):
        table, had = tables[subgraph], given.before_in(subgraph)
        decided = [rule or had.get(operator) for operator, rule in enumerate(ruled)]
        times, is_open = _open_times(table, given, subgraph, decided)
        count, begins = len(times), process_time()
        share = seconds * count / max(operators, 1)
        table = replace(table, times_us=times)
        found, bound = _placed(chooser.model.graphs[subgraph], table, sizing, given.devices, share)
        seconds, operators = max(0.0, seconds - (process_time() - begins)), operators - count
        least.append(bound if is_open.any() else None)
        placed.append(found)
        devices = devices_of(count, found.subgraph.partitions(found.candidate))
        opened = np.flatnonzero(is_open).tolist()
        chosen.append({**had, **{one: Decision(given.devices[devices[one]], words) for one in opened}})
    made = assign(chooser, replace(given, before=chosen))
    return replace(made, least_us=tuple(least), placed=tuple(placed))


def _open_times(
    table: CostTable, given: Constraints, subgraph: int, decided: Sequence[Rule | Decision | None]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the times on the devices that may still be chosen, and which operators are undecided."""
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
            times[operator, number] = known if np.isfinite(known) else 0  # an unknown time counts as 0
        else:  # `assign` reports what is missing
            times[operator] = 0
    return times, is_open
