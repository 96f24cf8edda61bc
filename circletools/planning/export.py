"""The costs of a model in the form that onert's scheduler reads; the affinity itself goes by `affinity.exports`."""

from __future__ import annotations

from circletools.affinity.costs.times import cost_tables
from circletools.affinity.exports.export import Export
from circletools.affinity.exports.onert_exec_time import exec_times
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import Model
from circletools.planning.costs import costs_of, onert_names
from circletools.planning.inputs import CostInputs, read_request
from circletools.planning.reproject import source_names
from circletools.planning.request import CostRequest


def export_costs(model: Model, costs: CostRequest | CostInputs) -> Export:
    """Return the costs of a model as `exec_time.json` of onert.

    Raises EditError for an operator that no trace of onert has, or that no backend can run, and what reading costs
    raises.
    """
    inputs = read_request(costs) if isinstance(costs, CostRequest) else costs
    devices = inputs.devices
    graph = model_graph(model)
    known, notes = costs_of(graph, inputs, devices)
    chooser = Chooser(graph, source_names(graph) if inputs.by_origin else ())
    problems = cost_tables(chooser, devices, known)
    names = onert_names(graph, (trace for _, trace in inputs.traces.values()))
    return Export("onert-exec-time", exec_times(chooser.facts, problems, devices, names), tuple(notes))
