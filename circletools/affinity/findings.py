"""Findings about the affinity of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.affinity.solvers.groups import group_successors
from circletools.affinity.tables import NONE, Affinity, Ids, SubgraphAffinity, check_freshness, read_affinity
from circletools.errors import ModelFormatError, TableFormatError
from circletools.findings import Finding
from circletools.graph.algorithms import strong_components
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.model.views import text


def affinity_findings(model: Model | ModelGraph) -> list[Finding]:
    """Return the findings about a model's affinity tables; none if the model has no tables."""
    graph = model_graph(model)
    try:
        affinity = read_affinity(graph)
        if affinity is None:
            return []
        freshness = check_freshness(graph, affinity)
    except TableFormatError as error:
        return [Finding("MALFORMED_AFFINITY_TABLE", "error", f"metadata {error.location}", error.message)]
    if freshness.state == "stale":
        message = f"the tables no longer match the model: {freshness.reason}"
        return [Finding("STALE_AFFINITY", "warning", freshness.place, message)]
    return [one for index in sorted(affinity.subgraphs) for one in subgraph_findings(graph.graphs[index], affinity)]


def subgraph_findings(facts: Graph, affinity: Affinity) -> list[Finding]:
    """Return the findings about a subgraph's part of an affinity that is not stale."""
    subgraph, findings = affinity.subgraphs[facts.index], list[Finding]()
    nowhere = np.flatnonzero(subgraph.devices == NONE)
    if nowhere.size:
        message = f"no device is set for {nowhere.size} of {len(facts)} operators"
        findings.append(Finding("UNASSIGNED_OPERATOR", "warning", facts.place(int(nowhere[0])), message))
    return [*findings, *_partitions(facts, subgraph), *_taps(facts, subgraph, affinity)]


def _partitions(facts: Graph, subgraph: SubgraphAffinity) -> list[Finding]:
    """Report partitions that wait for each other, or that have operators on several devices."""
    inside, place = subgraph.partitions != NONE, facts.place()
    numbers, partition = np.unique(subgraph.partitions[inside], return_inverse=True)
    devices = subgraph.devices[inside]
    first = np.full(len(numbers), NONE, np.uint32)
    first[partition] = devices
    mixed = numbers[np.unique(partition[first[partition] != devices])].tolist()
    if mixed:
        message = f"partition {mixed[0]} has operators on several devices"
        return [Finding("MIXED_PARTITION", "error", place, message)]
    # An operator without a partition counts as a partition.
    count = len(numbers) + int((~inside).sum())
    group = np.empty(len(inside), np.int64)
    group[inside] = partition
    group[~inside] = np.arange(len(numbers), count)
    try:
        graph = facts.dag
    except ModelFormatError as error:
        return [Finding("UNSCHEDULABLE_OPERATORS", "error", error.location or place, error.message)]
    successors = group_successors(graph, group.tolist(), count)
    cycles = [component for component in strong_components(successors) if len(component) > 1]
    if not cycles:
        return _order(place, numbers, successors)
    named = (", ".join(str(numbers[group]) for group in cycle if group < len(numbers)) for cycle in cycles)
    return [Finding("CYCLIC_PARTITION", "error", place, f"partitions {names} wait for each other") for names in named]


def _order(place: str, numbers: Ids, successors: Sequence[Sequence[int]]) -> list[Finding]:
    """Report partitions that are not numbered from 0 in an order in which they can run."""
    backward = [(group, after) for group in range(len(numbers)) for after in successors[group] if after < group]
    if backward:
        maker, reader = backward[0]
        message = f"partition {numbers[reader]} reads outputs of partition {numbers[maker]}"
    elif numbers.size and int(numbers[-1]) != len(numbers) - 1:
        message = f"there are {len(numbers)} partitions, but the highest number is {numbers[-1]}"
    else:
        return []
    return [Finding("MISNUMBERED_PARTITION", "warning", place, message)]


def _taps(facts: Graph, subgraph: SubgraphAffinity, affinity: Affinity) -> list[Finding]:
    """Report model outputs that an operator on another device also reads."""
    slots = {tensor: slot for slot, tensor in reversed(list(enumerate(facts.outputs.tolist())))}
    makers = zip(*(each.tolist() for each in facts.definitions), strict=True)
    producer = {tensor: maker for maker, tensor in makers if tensor in slots}
    found: dict[int, Finding] = {}
    for reader, tensor in zip(*(each.tolist() for each in facts.uses), strict=True):
        if tensor not in producer or tensor in found:
            continue
        makes, reads = (int(subgraph.devices[operator]) for operator in (producer[tensor], reader))
        if makes != reads:
            ours, theirs = (affinity.devices.get(device, "no device") for device in (makes, reads))
            name = text(facts.values.names[tensor])
            message = f"{name!r} is produced on {ours}, and operator {reader} reads it on {theirs}"
            place = f"{facts.place()}.outputs[{slots[tensor]}]"
            found[tensor] = Finding("CROSS_DEVICE_TAP", "warning", place, message)
    return [found[tensor] for tensor in sorted(found, key=slots.__getitem__)]
