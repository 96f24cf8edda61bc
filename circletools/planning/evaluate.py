"""What partitions cost: what crosses between them, estimated times, makespan, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.affinity.costs.constants import constants_us
from circletools.affinity.costs.evaluate import Estimate, evaluate
from circletools.affinity.costs.memory import Footprint, contents, footprints
from circletools.affinity.costs.parallel import Bounds, bounds, confined, heft, partitions_makespan
from circletools.affinity.costs.problem import Problem
from circletools.affinity.costs.times import Costs, make_problems
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning
from circletools.affinity.read import Affinity
from circletools.affinity.tables import NONE
from circletools.affinity.transfers import Transfers, transfers
from circletools.errors import EditError
from circletools.graph.dag import Dag
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser

_EXACT = 1e-6
"""The share to which the integer program is exact."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """The makespan with devices running in parallel, in microseconds.

    `makespan_us` where every operator is started by itself, `partitions_makespan_us` where each partition runs in one
    go. No assignment at all is quicker than the bounds.
    """

    makespan_us: float
    partitions_makespan_us: float
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the partitions of a subgraph cost: times where they are known, the last two where they were asked for.

    `memory` goes by device number. `least_us` is what no choice of devices takes less than, where that is known.
    """

    transfers: Transfers
    estimate: Estimate | None = None
    parallel: Parallel | None = None
    memory: tuple[Footprint, ...] | None = None
    least_us: float | None = None

    @property
    def excess(self) -> float | None:
        """Return by which share of the least the estimate may be too long, 0 where it is optimal; None if unknown."""
        if self.estimate is None or self.least_us is None:
            return None
        over = self.estimate.total_us - self.least_us
        if over <= _EXACT * max(self.least_us, self.estimate.total_us):
            return 0.0
        return over / self.least_us if self.least_us > 0 else None


@dataclass(frozen=True, slots=True)
class Evaluator:
    """How the partitions of a model are evaluated; `problems` are those of its subgraphs, where costs are known.

    `least_us` is what no choice of devices takes less than, by subgraph.
    """

    facts: Sequence[Graph]
    problems: Sequence[Problem] | None = None
    parallel: bool = False
    memory: bool = False
    least_us: Sequence[float | None] = ()

    def evaluate(self, partitioning: Partitioning) -> tuple[Evaluation, ...]:
        """Return what each subgraph costs."""
        return tuple(
            self._subgraph(index, planned, len(partitioning.devices))
            for index, planned in enumerate(partitioning.subgraphs)
        )

    def _subgraph(self, index: int, planned: SubgraphPartitioning, devices: int) -> Evaluation:
        facts = self.facts[index]
        crossing = transfers(facts, planned.partition_of(), planned.numbers)
        used = footprints(contents(facts), facts.dag, planned.partitions, devices) if self.memory else None
        memory = None if used is None else tuple(used)
        if self.problems is None:
            return Evaluation(crossing, memory=memory)
        problem = self.problems[index]
        estimate = evaluate(problem, planned.numbers, [partition.device for partition in planned.partitions])
        if problem.links.constant_us_per_byte is not None:
            brought = constants_us(contents(facts), problem, planned.partition_of(), planned.numbers)
            estimate = replace(estimate, constants_us=brought)
        together = _in_parallel(problem, facts.dag, planned) if self.parallel else None
        return Evaluation(crossing, estimate, together, memory, self.least_us[index] if self.least_us else None)


def _in_parallel(problem: Problem, graph: Dag, planned: SubgraphPartitioning) -> Parallel:
    only = confined(problem, np.array(planned.numbers, np.int64))
    makespan = partitions_makespan(only, planned.partitions)
    return Parallel(heft(only, graph).makespan_us, makespan, bounds(problem, graph))


def affinity_estimates(chooser: Chooser, affinity: Affinity, costs: Costs) -> dict[int, Estimate]:
    """Return what the subgraphs that have an affinity cost, by index. Raises EditError for one without a device."""
    for index, subgraph in sorted(affinity.subgraphs.items()):
        unassigned = np.flatnonzero(subgraph.devices == NONE)
        if len(unassigned):
            place = f"subgraphs[{index}].operators[{unassigned[0]}]"
            raise EditError("an operator without a device takes no time", location=place, hint="annotate-affinity")
    if not affinity.devices:
        return {}
    number = {device: number for number, device in enumerate(sorted(affinity.devices))}
    problems = make_problems(chooser, [affinity.devices[device] for device in number], costs)
    found = {}
    for index, subgraph in sorted(affinity.subgraphs.items()):
        numbers = [number[device] for device in subgraph.devices.tolist()]
        # An operator in no partition runs by itself.
        launched = {
            (-1 - operator if partition == NONE else partition): numbers[operator]
            for operator, partition in enumerate(subgraph.partitions.tolist())
        }
        home = [-1 - at if row == NONE else row for at, row in enumerate(subgraph.partitions.tolist())]
        brought = constants_us(contents(chooser.facts[index]), problems[index], home, numbers)
        estimate = evaluate(problems[index], numbers, list(launched.values()))
        found[index] = replace(estimate, constants_us=brought)
    return found
