"""Estimated times: of traces joined with a model, of plans and of what stands in a model; for people and programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from circletools.affinity.costs.evaluate import Estimate, evaluate
from circletools.affinity.costs.memory import Footprint, contents, footprints
from circletools.affinity.costs.parallel import bounds, confined, heft, subgraphs_makespan
from circletools.affinity.costs.problem import Problem
from circletools.affinity.costs.times import Costs, make_problems
from circletools.affinity.plan import Plan
from circletools.affinity.store import Affinity
from circletools.affinity.tables import NONE
from circletools.errors import EditError
from circletools.model import Model
from circletools.model.graph import operator_graph
from circletools.model.selectors import Chooser
from circletools.profile.joining import Join, time_of
from circletools.trace.operators.profile import OperatorTrace
from circletools.wording import counted


@dataclass(frozen=True, slots=True)
class TraceTimes:
    """Microseconds of operators in an inference, by subgraph and index: the median, the mean of an averaged trace.

    `elsewhere` has the operators that the trace says ran, wholly or in part, on other devices, and on which.
    """

    times_us: Mapping[tuple[int, int], float]
    elsewhere: Mapping[tuple[int, int], frozenset[str]]


def measured_times(model: Model, trace: OperatorTrace, others: Collection[str] = ()) -> TraceTimes:
    """Return the times of the operators that a trace has; none of those that ran on one of `others`.

    A backend is such a device if it has its name. Raises InvalidInputError for the trace of another model.
    """
    times, elsewhere = {}, {}
    for place, measured in Join(model, trace).operators.items():
        foreign = measured.backends.intersection(others)
        if foreign:
            elsewhere[place] = frozenset(foreign)
            continue
        time = time_of(measured, trace)
        median = time.median_ns if time.median_ns is not None else time.total_ns / max(trace.executions, 1)
        times[place] = median / 1000
    return TraceTimes(times, elsewhere)


def onert_names(model: Model, traces: Iterable[OperatorTrace]) -> dict[tuple[int, int], str]:
    """Return what onert calls the operators that its traces have. Raises InvalidInputError for another model's."""
    names: dict[tuple[int, int], str] = {}
    for trace in traces:
        if trace.runtime == "onert":
            operators = Join(model, trace).operators
            names |= {
                (run.subgraph, run.operator): run.name
                for run in trace.runs
                if (run.subgraph, run.operator) in operators
            }
    return names


@dataclass(frozen=True, slots=True)
class Parallel:
    """When all is done if devices run at the same time, in microseconds.

    `makespan_us` where every operator is started by itself, `subgraphs_makespan_us` where each partition runs in one
    go. No assignment at all is quicker than the two bounds.
    """

    makespan_us: float
    subgraphs_makespan_us: float
    critical_path_us: float
    shared_work_us: float


@dataclass(frozen=True, slots=True)
class SubgraphCosts:
    """What a subgraph costs; the last two where they were asked for. `memory` goes by device number."""

    estimate: Estimate
    parallel: Parallel | None = None
    memory: tuple[Footprint, ...] | None = None


def plan_costs(
    model: Model, plan: Plan, problems: Sequence[Problem], *, parallel: bool = False, memory: bool = False
) -> tuple[SubgraphCosts, ...]:
    """Return what every subgraph of a plan costs."""
    found = []
    for index, (planned, problem) in enumerate(zip(plan.subgraphs, problems, strict=True)):
        estimate = evaluate(problem, planned.numbers, [part.device for part in planned.parts])
        together, used = None, None
        graph = operator_graph(model, index) if parallel or memory else None
        if parallel and graph is not None:
            only = confined(problem, np.array(planned.numbers, np.int64))
            least = bounds(problem, graph)
            together = Parallel(
                heft(only, graph).makespan_us,
                subgraphs_makespan(only, planned.parts),
                least.critical_path_us,
                least.shared_work_us,
            )
        if memory and graph is not None:
            used = tuple(footprints(contents(model, index), graph, planned.parts, len(plan.devices)))
        found.append(SubgraphCosts(estimate, together, used))
    return tuple(found)


def affinity_costs(chooser: Chooser, affinity: Affinity, costs: Costs) -> dict[int, SubgraphCosts]:
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
            (-1 - operator if part == NONE else part): numbers[operator]
            for operator, part in enumerate(subgraph.partitions.tolist())
        }
        found[index] = SubgraphCosts(evaluate(problems[index], numbers, list(launched.values())))
    return found


def costs_json(costs: SubgraphCosts, devices: Sequence[str], caps: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields that costs add to a subgraph."""
    estimate = costs.estimate
    entry: dict[str, Any] = {"estimate": estimate_json(estimate)}
    if costs.parallel is not None:
        bound = max(costs.parallel.critical_path_us, costs.parallel.shared_work_us)
        entry["parallel"] = asdict(costs.parallel) | {"lower_bound_us": bound}
    if costs.memory is not None:
        entry["memory"] = [
            {
                "device": devices[number],
                **asdict(used),
                "total_bytes": used.total_bytes,
                "cap_bytes": caps.get(number),
            }
            for number, used in enumerate(costs.memory)
        ]
    return entry


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON."""
    return {
        "total_us": estimate.total_us,
        "operators_us": estimate.operators_us,
        "copies_us": estimate.copies_us,
        "launches_us": estimate.launches_us,
        "operators_without_time": estimate.untimed,
    }


def costs_text(costs: SubgraphCosts, devices: Sequence[str], caps: Mapping[int, int]) -> Iterator[str]:
    """Yield what a subgraph costs, in lines."""
    yield f"estimated time: {estimate_text(costs.estimate)}"
    if costs.parallel is not None:
        at_once = costs.parallel
        bound = max(at_once.critical_path_us, at_once.shared_work_us)
        yield (
            f"devices at the same time: {at_once.makespan_us:.3f} us by operators, "
            f"{at_once.subgraphs_makespan_us:.3f} us by subgraphs; at least {bound:.3f} us"
        )
    for number, used in enumerate(costs.memory or ()):
        of = f" of {caps[number]}" if number in caps else ""
        yield (
            f"memory of {devices[number]}: {used.total_bytes}{of} bytes "
            f"({used.constants_bytes} of constants, {used.activations_bytes} of tensors)"
        )


def estimate_text(estimate: Estimate) -> str:
    """Say what an assignment costs in one line."""
    untimed = f"; {counted(estimate.untimed, 'operator')} without a time" if estimate.untimed else ""
    return (
        f"{estimate.total_us:.3f} us (operators {estimate.operators_us:.3f}, copies {estimate.copies_us:.3f}, "
        f"launches {estimate.launches_us:.3f}{untimed})"
    )
