"""Turn a request into a plan.

request -> inputs                     files read
graph, inputs -> devices before       from the tables of the model or of an earlier one
graph, inputs -> chooser, costs       operators that rules select; times from documents and traces
these -> assignment -> partitions -> evaluation, summary, notes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from circletools.affinity.assign import Assignment, Constraints, Refusals, assign, colocated
from circletools.affinity.capability.table import why_not
from circletools.affinity.costs.table import CostTable
from circletools.affinity.costs.times import cost_tables
from circletools.affinity.partitioning import Partitioning, assign_by_cost, assign_by_memory, make_partitioning
from circletools.affinity.problem import Sizing, check_limits
from circletools.affinity.solvers.groups import Units, make_units
from circletools.affinity.solvers.seed import Step
from circletools.errors import EditError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.resources import Resources
from circletools.graph.selectors import Chooser
from circletools.model.model import Model
from circletools.parts.plan import Placement
from circletools.parts.plan import colocated as colocated_state
from circletools.planning.evaluate import evaluated
from circletools.planning.inputs import PlanInputs, costs_of, read_request
from circletools.planning.plan import Plan, summarize
from circletools.planning.reproject import devices_before, source_names
from circletools.planning.request import PlanRequest
from circletools.wording import counted, numbered


def plan(model: Model, request: PlanRequest | PlanInputs) -> Plan:
    """Return the device of every operator of a model, the resulting partitions, and their costs.

    The graphs of the model are not checked; `ct.planning.broken_graphs` reports their faults. Raises UsageError for a
    request that is not valid for this model (a rule that matches nothing, an unknown device, costs without devices);
    EditError if an operator is left without a device, the mode cannot partition the model or a memory limit cannot be
    met; and InvalidInputError for files that cannot be read.

    >>> request = ct.PlanRequest(devices=("npu", "cpu"), rules=("op:CONV_2D=npu",), default="cpu")
    >>> with ct.open("in.tflite") as model:
    ...     plan = ct.plan(model, request)
    >>> plan.devices
    ('npu', 'cpu')
    """
    inputs = read_request(request) if isinstance(request, PlanRequest) else request
    request, graph, by_cost = inputs.request, model_graph(model), inputs.costs is not None
    chosen = not inputs.earlier and (inputs.devices or (by_cost and not request.keep))
    before = None if chosen else devices_before(graph, inputs.earlier, needed=not by_cost)
    chooser = Chooser(graph, source_names(graph) if inputs.by_origin else ())
    devices = inputs.devices or (before.devices if before else ()) or (inputs.costs.devices if inputs.costs else ())
    known = None if inputs.costs is None else costs_of(graph, inputs.costs, devices)
    rules = inputs.rules.matching(chooser, allow_unmatched=request.allow_unmatched)
    refused = {device: [why_not(table, each) for each in graph.graphs] for device, table in inputs.tables.items()}
    notes = [*(before.conflicts if before else ()), *rules.notes, *_not_measured(refused)]
    given = Constraints(devices, rules, refused, before.before if before else ())
    caps, tables = inputs.caps(devices), None
    if known is not None:
        tables = cost_tables(chooser, devices, known[0])
        notes += known[1]
    check_limits(inputs.limits, devices, has_costs=tables is not None)
    sizing = Sizing(
        request.mode,
        request.min_size,
        inputs.rules.default.device if inputs.rules.default else None,
        inputs.limits,
        _units(graph, inputs, tables or ()),
        caps,
        request.solve_time,
    )
    if tables is not None:
        assignment = assign_by_cost(chooser, given, tables, sizing)
    else:
        assignment = assign_by_memory(chooser, given, sizing) if caps else assign(chooser, given)
    return _planned(inputs, chooser, colocated(assignment, sizing.units), tables, sizing, notes)


def _units(graph: ModelGraph, inputs: PlanInputs, tables: Sequence[CostTable]) -> list[Units]:
    brings = any(table.links.constant_us_per_byte is not None for table in tables)
    # Two partitions that read the same constants may be merged if loading constants costs time.
    join = "shared" if brings and inputs.request.join == "connected" else inputs.request.join
    resources, together = Resources(graph), inputs.colocation.state
    users = [resources.state(each.index).users.values() if together else () for each in graph.graphs]
    return [make_units(each, join, inputs.colocation, used) for each, used in zip(graph.graphs, users, strict=True)]


def _not_measured(refused: Refusals) -> Iterator[Finding]:
    """Yield notes about operators that count as refused only because a device's table does not cover them."""
    for device, found in refused.items():
        places = [
            f"subgraphs[{subgraph}].operators[{operator}]"
            for subgraph, of_subgraph in enumerate(found)
            for operator, refusal in enumerate(of_subgraph)
            if refusal is not None and not refusal.measured
        ]
        if places:
            number = counted(len(places), "operator")
            message = f"{device} was not tested with {number} (counted as refused); the first is {places[0]}"
            yield Finding("NOT_MEASURED", "info", "", message)


def _planned(
    inputs: PlanInputs,
    chooser: Chooser,
    assignment: Assignment,
    tables: Sequence[CostTable] | None,
    sizing: Sizing,
    notes: Sequence[Finding],
) -> Plan:
    """Return the plan that an assignment gives."""
    facts, request = chooser.model.graphs, inputs.request
    steps: list[list[Step]] = [[] for _ in facts]
    grown = request.explain and request.mode == "seed"
    known: dict[Step, Step] = {}  # the same steps recur
    on_step = (lambda number, step: steps[number].append(known.setdefault(step, step))) if grown else None
    partitioning = make_partitioning(facts, assignment, sizing, on_step)
    has_caps, least_us = bool(sizing.caps), assignment.least_us
    evaluation = evaluated(facts, partitioning, tables, least_us, memory=has_caps)
    notes = [*notes, *_refused(assignment), *_left(partitioning, request.min_size)]
    notes += _not_split(chooser.model, partitioning)
    return Plan(
        chooser.model.source.format,
        [subgraph.operators.code_names for subgraph in facts],
        assignment,
        partitioning,
        evaluation,
        sizing.caps,
        tuple(map(tuple, steps)) if request.explain else None,
        summarize(facts, partitioning, assignment.refusals, inputs.tables),
        tuple(notes),
    )


def _left(partitioning: Partitioning, min_size: int) -> Iterator[Finding]:
    """Yield a note about each subgraph with partitions that remain too small."""
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.left:
            number = counted(len(subgraph.left), "partition")
            first = f"the first has {numbered(subgraph.left[0].operators, 'operator')}"
            kept = f"the plan keeps {number} of fewer than {min_size} operators ({first}): rules fix their devices,"
            message = f"{kept} or no other device supports them within the limits"
            yield Finding("PARTITION_TOO_SMALL", "warning", f"subgraphs[{index}]", message)


def _not_split(model: ModelGraph, partitioning: Partitioning) -> Iterator[Finding]:
    """Yield a note about each subgraph that cannot be split because of its variables or hash tables."""
    resources, names = Resources(model), dict(enumerate(partitioning.devices))
    for graph, subgraph in zip(model.graphs, partitioning.subgraphs, strict=True):
        state = resources.state(graph.index)
        if state.users:
            partitions, devices = np.array([subgraph.partition_of(), subgraph.numbers])
            partitions[[*graph.dag.constants, *state.copied]] = -1
            try:
                colocated_state(graph, state, Placement(partitions, devices, names))
            except EditError as error:
                message = f"`split` cannot separate these partitions: {error.message} (use --keep-together variables)"
                yield Finding("NOT_SPLIT", "info", graph.place(), message)


def _refused(assignment: Assignment) -> tuple[Finding, ...]:
    """Return a note about operators on a device that refuses them."""
    against = assignment.against_capability()
    if not against:
        return ()
    subgraph, operator = against[0]
    first = f"subgraphs[{subgraph}].operators[{operator}]: {assignment.why(subgraph, operator)}"
    number, them = counted(len(against), "operator"), "it" if len(against) == 1 else "them"
    message = f"the plan puts {number} on a device that does not support {them}; the first is {first}"
    return (Finding("REFUSED_OPERATOR", "warning", "", message),)
