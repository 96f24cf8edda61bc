"""Use a solver to choose devices for operators without a rule, and form the partitions of all subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.assign import Assignment, Constraints, Decision, Rule, assign, by_precedence
from circletools.affinity.costs.table import CostTable, Floats, Links, make_cost_table
from circletools.affinity.costs.times import with_times
from circletools.affinity.problem import Placed, Sizing, make_subgraph
from circletools.affinity.solvers.groups import DeviceIndex, Partition, Units, devices_of, group_of, of_operators
from circletools.affinity.solvers.partitions import Mode, make_partitions
from circletools.affinity.solvers.seed import Step
from circletools.affinity.solvers.solve import demoted, solve
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser
from circletools.wording import counted


def assign_by_memory(chooser: Chooser, given: Constraints, sizing: Sizing) -> Assignment:
    """Assign to every operator without a rule the first device that accepts it and has enough memory.

    A device without a capability table accepts all operators. Raises the errors of `assign` and `solve`.
    """
    # The later a device comes in the order, the more an operator costs there.
    order, free = np.arange(float(len(given.devices))), _links(len(given.devices), 0.0)
    tables = [make_cost_table(facts, np.tile(order, (len(facts), 1)), free) for facts in chooser.model.graphs]
    return replace(assign_by_cost(chooser, given, tables, sizing, "the first device with enough memory"), least_us=())


def place_within_limits(facts: Graph, assignment: Assignment, sizing: Sizing, fallback: int) -> Placed:
    """Return partitions within the limits, with the fewest moved operators and, if tied, the fewest partitions."""
    devices, index = assignment.devices, facts.index
    count, assigned = len(devices), np.array(assignment.numbers[index], np.int64)
    able = np.zeros((len(assigned), count), np.bool_)
    for operator, decision in enumerate(assignment.decided_by[index]):
        for device in range(count) if not isinstance(decision, Rule) else ():
            is_known = device == fallback or devices[device] in assignment.refusals
            able[operator, device] = is_known and assignment.refusal(device, index, operator) is None
    rows = np.arange(len(assigned))
    able[rows, assigned] = True
    # Moving one operator costs more than all partitions; a partition costs more than the order of devices.
    times = np.full((len(rows), count), float(len(rows) + 1))
    times += (np.arange(count) != fallback) * np.arange(1, count + 1) / (count * (len(rows) + 1))
    times[rows, assigned] = 0
    table = make_cost_table(facts, np.where(able, times, np.inf), _links(count, 1.0))
    whole = make_subgraph(facts, table, sizing, devices)
    if sizing.limits:
        return whole, solve(whole.problem, sizing.seconds).candidate
    numbers = [int(assigned[row[0]]) for row in whole.members]  # no operator has to move
    return whole, make_partitions(whole.problem.graph, numbers)


def _links(devices: int, launch_us: float) -> Links:
    """Return links where only launches cost time, and copies are free."""
    return Links(np.zeros((devices, devices)), np.zeros((devices, devices)), np.full(devices, launch_us))


def assign_by_cost(
    chooser: Chooser, given: Constraints, tables: Sequence[CostTable], sizing: Sizing, words: str = "least total time"
) -> Assignment:
    """Assign devices to the operators without a rule so that the total time is minimal; `words` give the reason.

    Rules and earlier devices take precedence; devices that refuse an operator, or whose time for it is unknown, are
    excluded. Operators that no device can run go to the default. Raises the errors of `assign` and `solve`.
    """
    given = replace(given, refusals=with_times(tables, given.devices, given.refusals))
    chosen: list[dict[int, Decision]] = []
    least: list[float | None] = []
    placed: list[Placed] = []
    seconds, operators = sizing.seconds, sum(len(table.times_us) for table in tables)
    for subgraph, ruled in enumerate(by_precedence(chooser, given.rules.rules)):
        table, had = tables[subgraph], given.before_in(subgraph)
        decided = [rule or had.get(operator) for operator, rule in enumerate(ruled)]
        times, is_open = _open_times(table, given, subgraph, decided)
        count, begins, facts = len(times), process_time(), chooser.model.graphs[subgraph]
        whole = make_subgraph(facts, replace(table, times_us=times), sizing, given.devices)
        try:
            found = solve(whole.problem, seconds * count / max(operators, 1))
        except EditError as error:
            raise EditError(error.message, location=facts.place(), hint=error.hint) from error
        seconds, operators = max(0.0, seconds - (process_time() - begins)), operators - count
        least.append(found.least_us if is_open.any() else None)
        placed.append((whole, found.candidate))
        devices = devices_of(count, whole.partitions(found.candidate))
        opened = np.flatnonzero(is_open).tolist()
        chosen.append({**had, **{one: Decision(given.devices[devices[one]], words) for one in opened}})
    made = assign(chooser, replace(given, before=chosen))
    return replace(made, least_us=tuple(least), placed=tuple(placed))


def _open_times(
    table: CostTable, given: Constraints, subgraph: int, decided: Sequence[Rule | Decision | None]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the times on the devices that may still be chosen, and the undecided operators."""
    devices = given.devices
    refused = np.array([[reason is not None for reason in given.refusals[device][subgraph]] for device in devices]).T
    times = np.where(refused.reshape(table.times_us.shape), np.inf, table.times_us)
    is_open = np.isfinite(times).any(axis=1) & np.array([one is None for one in decided], np.bool_)
    for operator in np.flatnonzero(~is_open).tolist():
        decision = decided[operator] or given.rules.default
        if decision is not None and decision.device in devices:
            number = devices.index(decision.device)
            known = table.times_us[operator, number]
            times[operator] = np.inf
            times[operator, number] = known if np.isfinite(known) else 0  # unknown times count as 0
        else:  # `assign` reports the missing device
            times[operator] = 0
    return times, is_open


@dataclass(frozen=True, slots=True)
class SubgraphPartitioning:
    """The device number of each operator, and the partitions in an order in which they can run.

    `moved` holds the reasons why operators left their devices, and `left` the partitions that remain too small.
    """

    numbers: list[int]
    partitions: tuple[Partition, ...]
    moved: Mapping[int, str] = field(default_factory=dict)
    left: tuple[Partition, ...] = ()

    def partition_of(self) -> list[int]:
        """Return the number of the partition of each operator."""
        return group_of(len(self.numbers), [partition.operators for partition in self.partitions])


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitions of every subgraph; `devices` are names by number."""

    devices: tuple[str, ...]
    subgraphs: tuple[SubgraphPartitioning, ...]


def make_partitioning(
    facts: Sequence[Graph], assignment: Assignment, sizing: Sizing, on_step: Callable[[int, Step], None] | None = None
) -> Partitioning:
    """Partition every subgraph according to its assignment.

    `on_step` is called with a subgraph and each step of growth. Raises EditError if the mode cannot partition the
    graph or a limit cannot be met, and ModelFormatError for a graph with cycles.
    """
    found = []
    for index, subgraph in enumerate(facts):
        report = None if on_step is None else partial(on_step, index)
        try:
            found.append(_partitioned(subgraph, assignment, sizing, report))
        except EditError as error:
            raise EditError(error.message, location=subgraph.place(), hint=error.hint) from error
    return Partitioning(assignment.devices, tuple(found))


def _partitioned(
    facts: Graph, assignment: Assignment, sizing: Sizing, report: Callable[[Step], None] | None
) -> SubgraphPartitioning:
    units, assigned = sizing.units_of(facts), assignment.numbers[facts.index]
    placed = assignment.placed[facts.index] if assignment.placed else None
    if sizing.mode == "seed" or (placed is None and sizing.min_size < 2 and not sizing.limits):
        return partitioned(units, assigned, sizing.mode, report)
    devices = assignment.devices
    fallback = devices.index(sizing.fallback) if sizing.fallback else len(devices) - 1
    if placed is None:
        placed = place_within_limits(facts, assignment, sizing, fallback)
    (subgraph, candidate), small = placed, list[Partition]()
    if sizing.min_size > 1:
        candidate, small = demoted(subgraph.problem, candidate, sizing.min_size, fallback)
    made, before = (_numbered(subgraph.partitions(some)) for some in (candidate, placed[1]))
    few = f"fewer than {counted(sizing.min_size, 'operator')}"
    moved = {
        operator: f"its partition was too small on {devices[then]}: {few}"
        if now != then
        else f"not {devices[number]}, to stay within {', '.join(map(str, sizing.limits))}"
        for operator, (number, then, now) in enumerate(zip(assigned, before.numbers, made.numbers, strict=True))
        if now != number
    }
    return replace(made, moved=moved, left=subgraph.named(small))


def partitioned(
    units: Units, numbers: Sequence[int], mode: Mode, on_step: Callable[[Step], None] | None = None
) -> SubgraphPartitioning:
    """Return the partitions of a subgraph; an operator that reads only constants joins its first reader.

    Steps name the first operator of a unit. Raises EditError if the mode cannot partition the graph.
    """
    of_units = [numbers[row[0]] for row in units.members]
    report = on_step and (lambda step: on_step(Step(step.action, units.members[step.operator][0])))
    return _numbered(of_operators(units.members, make_partitions(units.graph, of_units, mode, report)))


def _numbered(partitions: tuple[Partition, ...]) -> SubgraphPartitioning:
    count = sum(len(partition.operators) for partition in partitions)
    return SubgraphPartitioning(devices_of(count, partitions), partitions)


def to_affinity(partitioning: Partitioning) -> Affinity:
    """Return the tables to write; subgraphs without operators are omitted."""
    subgraphs = {}
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.numbers:
            devices, partitions = np.array([subgraph.numbers, subgraph.partition_of()], np.uint32)
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(dict(enumerate(partitioning.devices)), subgraphs)


def from_affinity(affinity: Affinity, subgraphs: int) -> Partitioning:
    """Return the partitions stored in a model; subgraphs without an affinity have none.

    An operator in no partition becomes a partition; an operator without a device gets device -1.
    """
    number = {device: at for at, device in enumerate(sorted(affinity.devices))}
    found = [SubgraphPartitioning([], ()) for _ in range(subgraphs)]
    for index, subgraph in affinity.subgraphs.items():
        numbers: list[int] = [DeviceIndex(number.get(device, -1)) for device in subgraph.devices.tolist()]
        rows: dict[int, list[int]] = {}
        for operator, partition in enumerate(subgraph.partitions.tolist()):
            rows.setdefault(-1 - operator if partition == NONE else partition, []).append(operator)
        partitions = tuple(Partition(numbers[row[-1]], tuple(row)) for row in rows.values())
        found[index] = SubgraphPartitioning(numbers, partitions)
    return Partitioning(affinity.names, tuple(found))
