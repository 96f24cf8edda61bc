"""What is learned of a model before any plan is measured, and what costs predict of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circletools.affinity.costs.costfile import Defaults
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.times import Costs, make_problems
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import Model
from circletools.parts.plan import PlannedPart, SplitPlan
from circletools.runtimes.protocol import Chain
from circletools.split.measuring.bench import Bench, Failure
from circletools.split.measuring.known import Known, known_of
from circletools.split.measuring.results import PartTime, PlanTime, wall_us


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of devices, and by their numbers the plans that need no split: all on one device.

    `notes` tell why a device does not run the whole model.
    """

    known: Known
    whole: dict[int, Chain]
    notes: tuple[Finding, ...]


def learn(bench: Bench) -> Learned:
    """Measure the operators of a model alone, and the model whole on each device."""
    alone, done = bench.alone()
    chains = [bench.whole(device, done.connections.source) for device in bench.devices]
    found = bench.times(chains)
    walls = [None if isinstance(one, Failure) else wall_us(one) for one in found]
    return Learned(
        known_of(bench.model, bench.devices, alone, walls),
        {number: chain for number, chain in enumerate(chains) if walls[number] is not None},
        tuple(
            Finding("DEVICE_NOT_MEASURED", "info", device.name, f"does not run the whole model: {one.words}")
            for device, one in zip(bench.devices, found, strict=True)
            if isinstance(one, Failure)
        ),
    )


def whole_time(known: Known, device: int) -> PlanTime:
    """Return the plan that has all operators on one device, as it is predicted."""
    operators = tuple(range(len(known.times_us)))
    name, us = known.devices[device].name, known.segment_us(device, operators)
    return PlanTime(f"all on {name}", (PartTime(name, operators, us),), us)


def plan_time(name: str, known: Known, parts: Sequence[PlannedPart], predicted_us: float) -> PlanTime:
    """Return a plan in parts, as it is predicted."""
    number = {device.name: place for place, device in enumerate(known.devices)}
    times = [
        PartTime(part.device, part.operators, known.segment_us(number[part.device], part.operators)) for part in parts
    ]
    return PlanTime(name, tuple(times), predicted_us)


def predict(model: Model, known: Known, plan: SplitPlan) -> float:
    """Return the microseconds that costs predict of a split."""
    names = [device.name for device in known.devices]
    given = plan.affinity.subgraphs[plan.subgraph].devices.tolist()
    numbers = [names.index(plan.affinity.devices[device]) for device in given]
    problem = make_problems(Chooser(model_graph(model)), names, Costs(known.document(), {}, Defaults()))[
        plan.subgraph
    ]
    return evaluate(problem, numbers, [names.index(part.device) for part in plan.parts]).total_us
