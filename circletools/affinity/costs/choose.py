"""Devices by cost for the operators that rules leave open, ready to be assigned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from circletools.affinity.assign.assign import Assignment, Refusals, assign
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Decision, RuleSet
from circletools.affinity.costs.caps import least_time_within
from circletools.affinity.costs.memory import contents, footprints
from circletools.affinity.costs.parallel import quickest
from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.affinity.costs.search import least_time
from circletools.affinity.costs.times import with_times
from circletools.affinity.partition.partition import Mode, Part, partition
from circletools.affinity.plan import Plan
from circletools.errors import EditError
from circletools.model import Model
from circletools.model.graph import operator_graph
from circletools.model.selectors import Chooser


@dataclass(frozen=True, slots=True)
class Goal:
    """What to make small: the sum of all times, or with `parallel` the time until all is done.

    `caps` are the bytes of memory that a device has, by number; `mode` is how partitions are made to see if they fit.
    """

    parallel: bool = False
    caps: Mapping[int, int] = field(default_factory=dict)
    mode: Mode = "safe"


def assign_by_cost(
    chooser: Chooser,
    devices: Sequence[str],
    rules: RuleSet,
    refusals: Refusals,
    before: Sequence[Mapping[int, Decision]],
    problems: Sequence[Problem],
    goal: Goal,
) -> Assignment:
    """Give every operator a device so that all takes the least time, as far as rules leave it open.

    A rule, or what an operator had before, decides; a device that does not take an operator, or has no time for it,
    is left out. What no device can run goes to the default. Raises what `assign` does.
    """
    refusals = with_times(problems, devices, refusals)
    ruled = by_precedence(chooser, rules.rules)
    chosen: list[dict[int, Decision]] = []
    words = "all ends first" if goal.parallel else "least total time"
    for subgraph, problem in enumerate(problems):
        had = before[subgraph] if subgraph < len(before) else {}
        decided = [rule or had.get(operator) for operator, rule in enumerate(ruled[subgraph])]
        refused = np.array([[said is not None for said in refusals[device][subgraph]] for device in devices]).T
        times = np.where(refused.reshape(problem.times_us.shape), np.inf, problem.times_us)
        open_to_choice = np.isfinite(times).any(axis=1) & np.array([one is None for one in decided], np.bool_)
        for operator in np.flatnonzero(~open_to_choice).tolist():
            decision = decided[operator] or rules.default
            if decision is not None and decision.device in devices:
                times[operator] = _only(problem.times_us[operator], devices.index(decision.device))
            else:  # `assign` tells what is missing
                times[operator] = 0
        found = _best(chooser.model, subgraph, replace(problem, times_us=times), goal)
        row = dict(had)
        for operator in np.flatnonzero(open_to_choice).tolist():
            row[operator] = Decision(devices[int(found[operator])], words)
        chosen.append(row)
    return assign(chooser, devices, rules, refusals, chosen)


def _only(times: Floats, device: int) -> Floats:
    """Return the times with all devices but one left out; a time that is not known counts nothing."""
    only = np.full_like(times, np.inf)
    only[device] = times[device] if np.isfinite(times[device]) else 0
    return only


def _best(model: Model, subgraph: int, problem: Problem, goal: Goal) -> Indices:
    graph = operator_graph(model, subgraph)
    if not len(graph):
        return np.empty(0, np.int64)
    if goal.parallel:
        return quickest(problem, graph)
    tame: Mode = "safe" if goal.mode == "seed" else goal.mode  # whose parts always have an order
    if not goal.caps:
        return least_time(problem, graph, tame)

    def parts(found: Indices) -> tuple[Part, ...]:
        return partition(graph, found.tolist(), tame)

    return least_time_within(problem, graph, contents(model, subgraph), goal.caps, parts).devices


def check_caps(model: Model, plan: Plan, caps: Mapping[int, int]) -> None:
    """Raise EditError where a plan does not keep to the memory of a device."""
    for subgraph, planned in enumerate(plan.subgraphs if caps else ()):
        graph = operator_graph(model, subgraph)
        used = footprints(contents(model, subgraph), graph, planned.parts, len(plan.devices))
        for device, cap in sorted(caps.items()):
            found = used[device]
            if found.total_bytes > cap:
                raise EditError(
                    f"{plan.devices[device]} has {cap} bytes and would need {found.total_bytes}: "
                    f"{found.constants_bytes} of constants, {found.activations_bytes} of tensors at once",
                    location=f"subgraphs[{subgraph}]",
                    hint="no assignment was found that fits; rules, or operators that only it takes, keep it there",
                )
