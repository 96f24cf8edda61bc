"""From a request to a plan: request -> problem -> assignment -> partitions -> evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from circletools.affinity.assign.assign import Assignment, Constraints, assign
from circletools.affinity.capability.table import Refusal, why_not
from circletools.affinity.colocation import colocated
from circletools.affinity.costs.choose import Goal, assign_by_cost, assign_by_memory
from circletools.affinity.costs.table import CostTable
from circletools.affinity.costs.times import cost_tables
from circletools.affinity.limits import check_limits
from circletools.affinity.partitioning import Partitioning, Sizing, make_partitioning
from circletools.affinity.solvers.growth import Step
from circletools.affinity.tables import AFFINITY_TABLE
from circletools.affinity.units import Units, make_units
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.selectors import Chooser
from circletools.model.model import Model
from circletools.planning.costs import costs_of
from circletools.planning.evaluate import Evaluator
from circletools.planning.inputs import PlanInputs, read_request
from circletools.planning.plan import Plan
from circletools.planning.reproject import Reprojection, kept, reproject, source_names
from circletools.planning.request import PlanRequest
from circletools.planning.summary import summarize
from circletools.planning.what_if import compare, moved
from circletools.soundness.soundness import broken_graphs
from circletools.wording import counted, ranges


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """The placement problem of one model; `costs` are those of its subgraphs, where costs are known.

    `units` are what stays together and what may be one partition, by subgraph.
    """

    chooser: Chooser
    given: Constraints
    costs: Sequence[CostTable] | None
    caps: Mapping[int, int]
    units: Sequence[Units]
    notes: tuple[Finding, ...]


def plan(model: Model, request: PlanRequest | PlanInputs) -> Plan:
    """Return the device of every operator of a model, the partitions that follow, and what they cost.

    Raises UsageError for a request that makes no sense for this model (a rule that matches nothing, a device that is
    not among the devices, costs of no device), EditError where an operator is left without a device, a mode cannot
    partition the model or a memory limit cannot be kept, InvalidInputError for files that cannot be read.

    >>> request = ct.PlanRequest(devices=("npu", "cpu"), rules=("op:CONV_2D=npu",), default="cpu")
    >>> with ct.open("in.tflite") as model:
    ...     plan = ct.plan(model, request)
    >>> plan.devices
    ('npu', 'cpu')
    """
    inputs = read_request(request) if isinstance(request, PlanRequest) else request
    problem = make_plan_problem(model_graph(model), inputs, broken_graphs(model))
    return _evaluated(inputs, problem, _assignment(inputs, problem))


def make_plan_problem(model: ModelGraph, inputs: PlanInputs, broken: Sequence[Finding] = ()) -> PlanProblem:
    """Return the problem: operators, devices, rules, refusals and costs.

    `broken` is what is wrong with the graphs of the model.
    """
    notes = list(broken)
    before = _before(model, inputs)
    notes += [] if before is None else before.conflicts
    devices = inputs.devices or (before.devices if before else ())
    if not devices and inputs.costs is not None:
        devices = inputs.costs.devices
    chooser = Chooser(model, source_names(model) if inputs.by_origin else ())
    rules = inputs.rules.matching(chooser, allow_unmatched=inputs.request.allow_unmatched)
    notes += rules.notes
    refused = {device: [why_not(table, facts) for facts in chooser.facts] for device, table in inputs.tables.items()}
    notes += [note for device, found in refused.items() for note in _not_measured(device, found)]
    refusals = {
        device: [[None if refusal is None else str(refusal) for refusal in of_subgraph] for of_subgraph in found]
        for device, found in refused.items()
    }
    given = Constraints(devices, rules, refusals, before.before if before else ())
    caps, tables = inputs.caps(devices), None
    if inputs.costs is not None:
        costs, gaps = costs_of(model, inputs.costs, devices)
        tables = cost_tables(chooser, devices, costs)
        notes += gaps
    check_limits(inputs.limits, devices, has_costs=tables is not None)
    brings = any(table.links.constant_us_per_byte is not None for table in tables or ())
    # Two partitions that read the same constants may be one where bringing them is dear.
    join = "shared" if brings and inputs.request.join == "connected" else inputs.request.join
    units = [make_units(facts, join, inputs.colocation) for facts in chooser.facts]
    return PlanProblem(chooser, given, tables, caps, units, tuple(notes))


def _not_measured(device: str, refused: Sequence[Sequence[Refusal | None]]) -> Iterator[Finding]:
    """Yield a note about operators that count as refused only because the table does not cover them."""
    places = [
        f"subgraphs[{subgraph}].operators[{operator}]"
        for subgraph, of_subgraph in enumerate(refused)
        for operator, refusal in enumerate(of_subgraph)
        if refusal is not None and not refusal.measured
    ]
    if places:
        number = counted(len(places), "operator")
        message = f"{number} that {device} was never asked about, the first {places[0]}: counted as refused"
        yield Finding("NOT_MEASURED", "info", "", message)


def _before(model: ModelGraph, inputs: PlanInputs) -> Reprojection | None:
    """Return the devices that operators had, if they are to count."""
    if inputs.earlier is not None:
        return reproject(model, inputs.earlier)
    keep = inputs.request.keep and model.metadata_value(AFFINITY_TABLE) is not None
    chosen_by_cost = inputs.costs is not None and not keep
    return None if inputs.devices or chosen_by_cost else kept(model)


def _assignment(inputs: PlanInputs, problem: PlanProblem) -> Assignment:
    """Return the devices of all operators."""
    devices = problem.given.devices
    limits = [(devices.index(limit.device), limit) for limit in inputs.limits]
    goal = Goal(problem.caps, limits, problem.units, inputs.request.solve_time)
    if problem.costs is not None:
        assignment = assign_by_cost(problem.chooser, problem.given, problem.costs, goal)
    elif problem.caps:
        assignment = assign_by_memory(problem.chooser, problem.given, goal)
    else:
        assignment = assign(problem.chooser, problem.given)
    return colocated(assignment, problem.units) if inputs.colocation else assignment


def _evaluated(inputs: PlanInputs, problem: PlanProblem, assignment: Assignment) -> Plan:
    request, facts = inputs.request, problem.chooser.facts
    notes = (*problem.notes, *_refused(assignment))
    steps: list[tuple[int, Step]] = []
    default = inputs.rules.default
    fallback = default.device if default else None
    sizing = Sizing(
        request.mode, request.min_size, fallback, inputs.limits, problem.units, problem.caps, request.solve_time
    )
    grown = request.explain and request.mode == "seed"
    on_step = (lambda number, step: steps.append((number, step))) if grown else None
    partitioning = make_partitioning(facts, assignment, sizing, on_step)
    notes += tuple(_left(partitioning, request.min_size))
    evaluator = Evaluator(facts, problem.costs, bool(problem.caps), assignment.least_us)
    evaluation = evaluator.evaluate(partitioning)
    what_if = None
    if inputs.what_if:
        changed = moved(problem.chooser, partitioning, inputs.what_if, sizing)
        what_if = compare(assignment, (partitioning, evaluation), (changed, evaluator.evaluate(changed)))
        notes += what_if.refused
    return Plan(
        problem.chooser.model.format,
        [subgraph.operators.code_names for subgraph in facts],
        assignment,
        partitioning,
        evaluation,
        problem.caps,
        tuple(steps) if request.explain else None,
        what_if,
        summarize(facts, partitioning.devices, _placed(partitioning), _refusals(assignment)),
        notes,
    )


def _refusals(assignment: Assignment) -> dict[str, list[list[str | None]]]:
    """Return why each device with a table does not take an operator, by subgraph; None where it does."""
    return {
        device: [
            [
                assignment.refusal(assignment.devices.index(device), subgraph, operator)
                for operator in range(len(numbers))
            ]
            for subgraph, numbers in enumerate(assignment.numbers)
        ]
        for device in assignment.refusals
    }


def _placed(partitioning: Partitioning) -> dict[int, tuple[Sequence[int], Sequence[int]]]:
    """Return the device numbers of the operators and of the partitions, by subgraph."""
    return {
        index: (one.numbers, [partition.device for partition in one.partitions])
        for index, one in enumerate(partitioning.subgraphs)
    }


def _left(partitioning: Partitioning, min_size: int) -> Iterator[Finding]:
    """Yield a note about each subgraph with partitions that are too small, and stay."""
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.left:
            number = counted(len(subgraph.left), "partition")
            first = f"operators {ranges(subgraph.left[0].operators)} first"
            fewer = f"{number} of fewer than {min_size} operators"
            message = f"{fewer} stay, {first}: by rule, or no other device takes it or has room"
            yield Finding("PARTITION_TOO_SMALL", "warning", f"subgraphs[{index}]", message)


def _refused(assignment: Assignment) -> tuple[Finding, ...]:
    """Return a note about operators on a device that does not take them."""
    against = assignment.against_capability()
    if not against:
        return ()
    subgraph, operator = against[0]
    place = f"subgraphs[{subgraph}].operators[{operator}]"
    number = counted(len(against), "operator")
    message = f"{number} on a device that does not take it, the first {place}: {assignment.why(subgraph, operator)}"
    return (Finding("REFUSED_OPERATOR", "warning", "", message),)
