"""Planning by measuring: plan, split, measure, correct the costs, until the plan does not change.

What operators take together is not what they take alone, and no costs tell that before it ran. So the plan that is
returned is the fastest of those that were run, and all on one device is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from circletools.affinity.assign.rules import Decision
from circletools.affinity.costs.costfile import Defaults
from circletools.asking import as_file
from circletools.errors import CircleToolsError, EditError, UsageError
from circletools.findings import Finding
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.planning.inputs import CostInputs, PlanInputs, read_request
from circletools.planning.plan import Plan
from circletools.planning.planner import plan, plan_as
from circletools.planning.request import PlanRequest
from circletools.runtimes.protocol import Chain
from circletools.runtimes.worker import Worker
from circletools.split.measuring.bench import Bench, Failure
from circletools.split.measuring.fitting import Segment
from circletools.split.measuring.known import Known, segments_of
from circletools.split.measuring.learning import Learned, learn, plan_time, whole_time
from circletools.split.measuring.request import MeasureRequest, measured_devices
from circletools.split.measuring.results import Measurement, PlanTime, fastest, is_faster, steps_us
from circletools.wording import Tabular

_DEFAULT = MeasureRequest()
_MOST_TURNS = 8
_WORDS = "as in the fastest plan of those that were measured"
_FINAL = 3
"""So many plans in parts are measured once more beside those on one device."""


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredPlan(Tabular):
    """The plan that is fastest, and what was measured to find it."""

    plan: Plan
    measurement: Measurement

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the plan; `measurement` has its own."""
        return self.plan.to_rows()


@dataclass(frozen=True, slots=True)
class _Trial:
    """A plan that ran: where it has operators, its parts, how to run them, and what they took."""

    where: tuple[Mapping[int, Decision], ...]
    time: PlanTime
    chain: Chain
    segments: tuple[Segment, ...]


def plan_by_measuring(
    model: Model, request: PlanRequest | PlanInputs, measuring: MeasureRequest = _DEFAULT
) -> MeasuredPlan:
    """Return the fastest plan for a model of those that were measured, with costs that predict it.

    Operators alone and the model whole on each device give the first costs. Then the plan of least time is split,
    run and its costs are corrected by what it took, until a plan comes back. At last the fastest are measured once
    more beside the model on each single device that rules and tables allow, which is chosen unless a plan in parts is
    faster beyond noise.

    Raises UsageError for a request with costs of its own, and what `plan` and `measure` raise.
    """
    inputs = read_request(request) if isinstance(request, PlanRequest) else request
    if inputs.costs is not None or inputs.request.parallel:
        message = "costs are measured here, one operator after the other"
        raise UsageError(message, hint="leave out `costs=`, `traces=` and `parallel=`")
    devices = measured_devices(inputs.request.devices, measuring)
    names = tuple(device.name for device in devices)
    inputs = replace(inputs, request=replace(inputs.request, devices=names))
    with (
        as_file(model) as path,
        open_model(path) as own,
        TemporaryDirectory() as folder,
        Worker(devices[0].program, measuring.timeout_s) as worker,
    ):
        bench = Bench(own, devices, worker, measuring, Path(folder))
        learned = learn(bench)
        loop = _Loop(bench, inputs, model, learned)
        try:
            loop.run()
        except EditError as error:
            words = [f"{note.location} {note.message}" for note in learned.notes]
            raise EditError(error.message, location=error.location, hint="; ".join(words) or error.hint) from error
        return loop.decide(learned)


class _Loop:
    """What is known by now, and the plans that were tried."""

    def __init__(self, bench: Bench, inputs: PlanInputs, model: Model, learned: Learned) -> None:
        self._bench, self._inputs, self._model, self._known = bench, inputs, model, learned.known
        self._facts = graph_of(model, 0)
        self._trials: list[_Trial] = []
        self._failed: list[PlanTime] = []
        self._notes = list(learned.notes)

    def run(self) -> None:
        """Plan and measure until a plan comes back, or has all on one device: that was measured before."""
        seen: list[tuple[list[int], ...]] = []
        for _ in range(_MOST_TURNS):
            made = plan(self._model, self._with_costs(self._known))
            numbers = tuple(subgraph.numbers for subgraph in made.subgraphs)
            if numbers in seen or len(set(numbers[0])) == 1:
                return
            seen.append(numbers)
            try:
                self._try(made, f"plan {len(seen)}")
            except EditError as error:  # operators of one variable on two devices
                self._notes.append(Finding("NOT_SPLIT", "info", error.location or "", error.message))
                return

    def _try(self, made: Plan, name: str) -> None:
        done, directory = self._bench.split(made.to_affinity(), name)
        parts = done.plan.parts
        time = plan_time(name, self._known, parts, _total_us(made))
        chain = self._bench.chain(done.plan, done.connections, directory)
        found = self._bench.times([chain])[0]
        if isinstance(found, Failure):
            self._failed.append(time.with_times(found))
            part = parts[found.step]
            self._known = self._known.without(made.devices.index(part.device), part.operators)
            return
        segments = segments_of(self._known, self._facts, parts, steps_us(found))
        self._known = self._known.corrected(segments)
        self._trials.append(_Trial(_where(made), time.with_times(found), chain, segments))

    def decide(self, learned: Learned) -> MeasuredPlan:
        """Measure the fastest plans and those on one device side by side; return the fastest."""
        best = sorted(self._trials, key=lambda trial: trial.time.measured_us or 0)[:_FINAL]
        finals = [*self._on_one_device(learned), *best]
        if not finals:
            words = "; ".join([one.failure for one in self._failed] or [note.message for note in self._notes])
            raise EditError(f"no plan runs: {words}")
        found = self._bench.times([trial.chain for trial in finals])
        ones = [number for number, trial in enumerate(finals) if trial not in best]
        parted = [number for number, trial in enumerate(finals) if trial in best]
        one, several = fastest(found, ones), fastest(found, parted)
        chosen = several if one is None else one
        if one is not None and several is not None and is_faster(found[several], found[one]):
            chosen = several
        if chosen is None:
            raise EditError(f"no plan runs: {'; '.join(one.words for one in found if isinstance(one, Failure))}")
        known = self._known.corrected(finals[chosen].segments)
        plans = []
        for number, (trial, times) in enumerate(zip(finals, found, strict=True)):
            costs = self._with_costs(self._known.corrected(trial.segments))
            predicted = _total_us(plan_as(self._model, costs, trial.where))
            time = replace(trial.time, predicted_us=predicted, is_chosen=number == chosen)
            plans.append(time.with_times(times))
        made = plan_as(self._model, self._with_costs(known), finals[chosen].where)
        tried = (*(trial.time for trial in self._trials), *self._failed)
        return MeasuredPlan(made, Measurement(known, tuple(plans), tuple(self._notes), tried))

    def _on_one_device(self, learned: Learned) -> list[_Trial]:
        """Return the plans with all operators on one device, as far as rules and tables allow them."""
        trials = []
        for number, chain in learned.whole.items():
            decision = Decision(self._bench.devices[number].name, _WORDS)
            where = tuple(dict.fromkeys(range(len(graph.operators)), decision) for graph in self._model.subgraphs)
            try:
                made = plan_as(self._model, self._with_costs(self._known), where)
            except CircleToolsError:  # no room for all of it
                continue
            if set(made.subgraphs[0].numbers) == {number} and not made.assignment.against_capability():
                segment = next(one for one in learned.known.segments if one.device == number)
                trials.append(_Trial(where, whole_time(learned.known, number), chain, (segment,)))
        return trials

    def _with_costs(self, known: Known) -> PlanInputs:
        return replace(self._inputs, costs=CostInputs(known.document(), {}, Defaults()))


def _where(made: Plan) -> tuple[Mapping[int, Decision], ...]:
    return tuple(
        {operator: Decision(made.devices[number], _WORDS) for operator, number in enumerate(subgraph.numbers)}
        for subgraph in made.subgraphs
    )


def _total_us(made: Plan) -> float:
    """Return what costs predict of subgraph 0, which is what runs."""
    estimate = made.evaluation[0].estimate
    assert estimate is not None
    return estimate.total_us
