"""Devices by cost for the operators that rules leave open, ready to be assigned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.assign.assign import Assignment, Constraints, assign
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Decision, Rule
from circletools.affinity.costs.caps import least_time_within
from circletools.affinity.costs.constants import make_bringing, with_constants
from circletools.affinity.costs.memory import contents, excess_bytes, footprints
from circletools.affinity.costs.parallel import quickest
from circletools.affinity.costs.problem import Floats, Indices, Links, Problem, make_problem
from circletools.affinity.costs.proof import proven
from circletools.affinity.costs.search import least_time
from circletools.affinity.costs.times import with_times
from circletools.affinity.partition.partitions import Mode, Partition, make_partitions
from circletools.affinity.partitioning import Partitioning
from circletools.affinity.units import Units, contents_of, make_units
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser


@dataclass(frozen=True, slots=True)
class Goal:
    """The objective: the sum of all times, or with `parallel` the makespan.

    `caps` are the bytes of memory that a device has, by number; `mode` is how partitions are made to see if they fit.
    `units` are the operators that stay together, by subgraph; without it every operator is one. `seconds` is how long
    an integer program may look for better devices and a proof, for all subgraphs.
    """

    parallel: bool = False
    caps: Mapping[int, int] = field(default_factory=dict)
    mode: Mode = "min"
    units: Sequence[Units] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Best:
    """Devices; what none take less than, where that is known; better partitions of units than the mode makes."""

    devices: Indices
    least_us: float | None = None
    partitions: tuple[Partition, ...] | None = None


def assign_by_cost(chooser: Chooser, given: Constraints, problems: Sequence[Problem], goal: Goal) -> Assignment:
    """Give every operator a device so that all takes the least time, as far as rules leave it open.

    A rule, or what an operator had before, decides; a device that does not take an operator, or has no time for it,
    is left out. What no device can run goes to the default. Raises what `assign` does.
    """
    given = replace(given, refusals=with_times(problems, given.devices, given.refusals))
    return _assign(chooser, given, problems, goal, "all ends first" if goal.parallel else "least total time")


def assign_by_memory(chooser: Chooser, given: Constraints, goal: Goal) -> Assignment:
    """Give every operator that rules leave open the first device that takes it and has room.

    A device without a capability table takes all. Raises what `assign` does.
    """
    count = len(given.devices)
    free = Links(np.zeros((count, count)), np.zeros((count, count)), np.zeros(count))
    # An operator is the dearer the later its device comes.
    problems = [
        make_problem(facts, np.tile(np.arange(float(count)), (len(facts), 1)), free) for facts in chooser.facts
    ]
    given = replace(given, refusals=with_times(problems, given.devices, given.refusals))
    made = _assign(chooser, given, problems, replace(goal, seconds=0.0), "the first device with room")
    return replace(made, least_us=())


def _assign(chooser: Chooser, given: Constraints, problems: Sequence[Problem], goal: Goal, words: str) -> Assignment:
    ruled = by_precedence(chooser, given.rules.rules)
    chosen: list[dict[int, Decision]] = []
    least: list[float | None] = []
    partitions: list[tuple[Partition, ...] | None] = []
    seconds, operators = goal.seconds, sum(len(problem.times_us) for problem in problems)
    for subgraph, problem in enumerate(problems):
        had = given.before_in(subgraph)
        decided = [rule or had.get(operator) for operator, rule in enumerate(ruled[subgraph])]
        times, is_open = _open_times(problem, given, subgraph, decided)
        count, begins = len(times), monotonic()
        share = replace(goal, seconds=seconds * count / max(operators, 1))
        found = _best(chooser.facts[subgraph], replace(problem, times_us=times), share)
        seconds, operators = max(0.0, seconds - (monotonic() - begins)), operators - count
        least.append(found.least_us if is_open.any() else None)
        partitions.append(found.partitions)
        row = dict(had)
        for operator in np.flatnonzero(is_open).tolist():
            row[operator] = Decision(given.devices[int(found.devices[operator])], words)
        chosen.append(row)
    made = assign(chooser, replace(given, before=chosen))
    return replace(made, least_us=tuple(least), partitions=tuple(partitions))


def _open_times(
    problem: Problem, given: Constraints, subgraph: int, decided: Sequence[Rule | Decision | None]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the times that are left to choose from, and which operators are open to choice."""
    devices = given.devices
    refused = np.array([[said is not None for said in given.refusals[device][subgraph]] for device in devices]).T
    times = np.where(refused.reshape(problem.times_us.shape), np.inf, problem.times_us)
    is_open = np.isfinite(times).any(axis=1) & np.array([one is None for one in decided], np.bool_)
    for operator in np.flatnonzero(~is_open).tolist():
        decision = decided[operator] or given.rules.default
        if decision is not None and decision.device in devices:
            number = devices.index(decision.device)
            known = problem.times_us[operator, number]
            times[operator] = np.inf
            times[operator, number] = known if np.isfinite(known) else 0  # a time that is not known counts nothing
        else:  # `assign` tells what is missing
            times[operator] = 0
    return times, is_open


def _best(facts: Graph, problem: Problem, goal: Goal) -> _Best:
    """Return the devices of operators."""
    units = goal.units[facts.index] if goal.units else make_units(facts)
    found = _best_of_units(facts, units, problem, goal)
    return replace(found, devices=found.devices[np.array(units.home, np.int64)])


def _best_of_units(facts: Graph, units: Units, operators: Problem, goal: Goal) -> _Best:
    graph, problem, what = units.graph, units.problem(with_constants(facts, operators)), contents_of(facts, units)
    if goal.parallel:
        return _Best(quickest(problem, graph))
    tame: Mode = "safe" if goal.mode == "seed" else goal.mode  # whose partitions always have an order

    def partitions(devices: Indices) -> tuple[Partition, ...]:
        return make_partitions(graph, devices.tolist(), tame)

    bringing = make_bringing(what, units.problem(operators))
    best = proven(problem, graph, least_time(problem, graph, tame), tame, goal.seconds, bringing)
    made = best.partitions or partitions(best.devices) if goal.caps else ()
    if any(excess_bytes(what, graph, made, problem.times_us.shape[1], goal.caps).values()):
        return _Best(least_time_within(problem, graph, what, goal.caps, partitions).devices, best.least_us)
    return _Best(best.devices, best.least_us, best.partitions)


def check_caps(facts: Sequence[Graph], partitioning: Partitioning, caps: Mapping[int, int]) -> None:
    """Raise EditError where partitions do not keep to the memory of a device."""
    devices = partitioning.devices
    for subgraph, planned in zip(facts, partitioning.subgraphs, strict=True) if caps else ():
        used = footprints(contents(subgraph), subgraph.dag, planned.partitions, len(devices))
        for device, cap in sorted(caps.items()):
            found = used[device]
            if found.total_bytes > cap:
                raise EditError(
                    f"{devices[device]} has {cap} bytes and would need {found.total_bytes}: "
                    f"{found.constants_bytes} of constants, {found.activations_bytes} of tensors at once",
                    location=subgraph.place(),
                    hint="no assignment was found that fits; rules, or operators that only it takes, keep it there",
                )
