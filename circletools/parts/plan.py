"""The plan of a split: the parts in execution order, and the names of their inputs and outputs.

Parts are linked by tensor names, as in circle-partitioner, so these names must be unique. If tensors between parts
share a name, or have none, they are renamed in the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from circletools.affinity.exports.pictures import current_affinity
from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.tables import Affinity, subgraph_findings
from circletools.errors import EditError
from circletools.flatbuf.columns import OBJECT_BYTES
from circletools.graph.algorithms import (
    Indices,
    UnionFind,
    dag_from_edges,
    distinct_edges,
    renumbered,
    rows_by_key,
    strong_components,
)
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.resources import Resource, Resources, State
from circletools.model.model import Model
from circletools.parts.cut import ordered
from circletools.parts.names import graph_at

_HINT = "run annotate-affinity again"


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part: its device by id and by name, its operators in order, and its input and output tensors."""

    device_id: int
    device: str
    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The parts of a subgraph in an order in which they can run.

    `inputs` and `outputs` are those of the subgraph, `names` the names of all inputs and outputs of parts, and
    `renamed` the names that differ from the model's.
    """

    subgraph: int
    affinity: Affinity
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parts: tuple[PlannedPart, ...]
    names: Mapping[int, bytes]
    renamed: Mapping[int, bytes]


def plan_split(model: Model, subgraph: int = 0) -> SplitPlan:
    """Return the plan to split a model by its partitions. Raises the errors of `checked_affinity` and `planned`."""
    graphs = model_graph(model)
    affinity = checked_affinity(graphs, subgraph)
    return planned(graphs.graphs[subgraph], Resources(graphs).state(subgraph), affinity)


def checked_affinity(model: ModelGraph, subgraph: int) -> Affinity:
    """Return the affinity of a model, which must be up to date and cover a subgraph completely.

    Raises EditError otherwise, TableFormatError for a broken table, and UsageError for a missing subgraph.
    """
    affinity = current_affinity(model)
    graph = graph_at(model, subgraph)
    place = graph.place()
    if not len(graph):
        raise EditError("there are no operators to split", location=place)
    if subgraph not in affinity.subgraphs:
        raise EditError("the operators have no device", location=place, hint=_HINT)
    for finding in subgraph_findings(graph, affinity):
        if finding.severity == "error" or finding.code in ("UNASSIGNED_OPERATOR", "MISNUMBERED_PARTITION"):
            raise EditError(finding.message, location=finding.location, hint=_HINT)
    return affinity


def planned(graph: Graph, state: State, affinity: Affinity) -> SplitPlan:
    """Return the plan for splitting a graph by an affinity that covers it completely.

    Raises EditError if operators that share state are on several devices, and ModelFormatError for a cycle.
    """
    ids = affinity.subgraphs[graph.index]
    partition = ids.partitions.astype(np.int64)
    work = np.ones(len(partition), np.bool_)
    work[[*graph.dag.constants, *state.copied]] = False
    if not work.any():
        raise EditError("there is nothing to split: the operators only name resources", location=graph.place())
    partition[~work] = -1  # each part that needs the operator gets a copy
    partition = colocated(graph, state, Placement(partition, ids.devices.astype(np.int64), affinity.devices))
    _, partition[work] = np.unique(partition[work], return_inverse=True)
    members = _members(graph, state, partition)
    ends = tuple(graph.inputs.tolist()), tuple(graph.outputs.tolist())
    taken, given = _ends(graph, partition, *ends)
    devices = [int(ids.devices[next(operator for operator in row if work[operator])]) for row in members]
    parts = tuple(
        PlannedPart(device, affinity.devices[device], *map(tuple, tensors))
        for device, *tensors in zip(devices, members, taken, given, strict=True)
    )
    crossing = {*ends[0], *ends[1], *(tensor for part in parts for tensor in (*part.inputs, *part.outputs))}
    raw = graph.values.names
    names = _unique_names({tensor: raw[tensor] for tensor in sorted(crossing)}, raw)
    renamed = {tensor: name for tensor, name in names.items() if name != raw[tensor]}
    return SplitPlan(graph.index, affinity, *ends, parts, names, renamed)


def _members(graph: Graph, state: State, partition: Indices) -> list[list[int]]:
    """Return each part's operators; those without a partition are in all parts that need them, or in the first."""
    parts = [{int(number)} for number in partition]
    charge = graph.operators.model.wire.budget.tally("the operators of all parts")
    for operator in reversed(graph.dag.order):
        if partition[operator] < 0:
            readers = state.copied.get(operator, graph.dag.successors[operator])
            parts[operator] = set().union(*(parts[reader] for reader in readers)) or {0}
            charge(OBJECT_BYTES * len(parts[operator]))
    members: list[list[int]] = [[] for _ in range(int(partition.max()) + 1)]
    for operator, its in enumerate(parts):
        for number in its:
            members[number].append(operator)
    return members


def _ends(
    graph: Graph, partition: Indices, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the inputs and the outputs of each part: those of the graph come first, in the graph's order."""
    (makers, made), (readers, read) = (
        (uses.operators[is_work], uses.values[is_work])
        for uses in (graph.definitions, graph.uses)
        for is_work in (partition[uses.operators] >= 0,)
    )
    maker = dict(zip(made.tolist(), partition[makers].tolist(), strict=True))
    last = int(partition.max())
    taken: list[set[int]] = [set() for _ in range(last + 1)]
    given: list[set[int]] = [set() for _ in range(last + 1)]
    fed, first_reader = set(inputs).difference(maker), dict[int, int]()
    for number, tensor in sorted(set(zip(partition[readers].tolist(), read.tolist(), strict=True))):
        first_reader.setdefault(tensor, number)
        if tensor in fed:
            taken[number].add(tensor)
        elif maker.get(tensor, number) != number:
            taken[number].add(tensor)
            given[maker[tensor]].add(tensor)
    for tensor in fed - first_reader.keys():
        taken[0].add(tensor)  # unused, but still an input of the model
    for tensor in outputs:  # if no part produces it, its first reader or the last part returns it
        number = maker.get(tensor, first_reader.get(tensor, 0 if tensor in fed else last))
        given[number].add(tensor)
    for tensor, number in maker.items():
        if not given[number] and tensor not in first_reader:
            given[number].add(tensor)  # a part whose results are unused still needs an output
    return [ordered(row, inputs) for row in taken], [ordered(row, outputs) for row in given]


def _unique_names(names: Mapping[int, bytes], taken: Iterable[bytes]) -> dict[int, bytes]:
    """Return unique names: the first of equal names stays; the others, and empty names, get the tensor's index."""
    used, seen, result = set(taken), set[bytes](), dict[int, bytes]()
    for tensor, given in names.items():
        name = given
        if not name or name in seen:
            name = next(free for more in count() if (free := b"%b#%d%b" % (given, tensor, b"_" * more)) not in used)
            used.add(name)
        seen.add(name)
        result[tensor] = name
    return result


@dataclass(frozen=True, slots=True)
class Placement:
    """The partition of each operator of a graph (-1: none); the operators' devices; and the devices' names."""

    partitions: Indices
    devices: Indices
    names: Mapping[int, str]

    def operator(self, operator: int) -> str:
        """Return words that describe an operator and its device."""
        return f"operator {operator} on {self.device(operator)}"

    def device(self, operator: int) -> str:
        """Return the name of an operator's device."""
        return self.names[int(self.devices[operator])]


def colocated(graph: Graph, state: State, placed: Placement) -> Indices:
    """Return the given partitions if they keep the users of each resource together, otherwise new ones that do.

    Operators between two users join their partition. Raises EditError if these operators have different devices.
    """
    if all((placed.partitions[users] == placed.partitions[users[0]]).all() for users in state.users.values()):
        return placed.partitions
    operators = np.flatnonzero(placed.partitions >= 0)
    position = np.full(len(graph) + 1, -1, np.int64)  # the last element is for values without a producer
    position[operators] = np.arange(len(operators))
    sources, targets = position[graph.producer[graph.uses.values]], position[graph.uses.operators]
    fed = (sources >= 0) & (targets >= 0)
    sources, targets = sources[fed], targets[fed]
    home = _sets(len(operators), sources, targets, [position[users].tolist() for users in state.users.values()])
    members = rows_by_key(int(home.max()) + 1, home, operators)
    _check_devices(graph, state, placed, members)
    between = home[sources] != home[targets]
    dag = dag_from_edges(len(members), home[sources[between]], home[targets[between]])
    partitions = placed.partitions.copy()
    for number, made in enumerate(make_partitions(dag, [int(placed.devices[row[0]]) for row in members])):
        partitions[[operator for one in made.operators for operator in members[one]]] = number
    return partitions


def _sets(count: int, sources: Indices, targets: Indices, users: Sequence[Sequence[int]]) -> Indices:
    """Return the number of each operator's set: the users of a resource and the operators between them form a set.

    The users of a resource are contracted to one node, then the nodes of each cycle (strongly connected component).
    """
    together = UnionFind(count)
    for some in users:
        for operator in some[1:]:
            together.join(operator, some[0])
    labels = np.array(together.labels(), np.int64)
    successors = rows_by_key(count, *distinct_edges(count, labels[sources], labels[targets]))
    component = {label: number for number, some in enumerate(strong_components(successors)) for label in some}
    return np.array(renumbered(component[label] for label in labels.tolist()), np.int64)


def _check_devices(graph: Graph, state: State, placed: Placement, sets: Sequence[Sequence[int]]) -> None:
    torn = [members for members in sets if len(set(placed.devices[members].tolist())) > 1]
    if torn:
        hint = "put these operators on one device, as `annotate-affinity --keep-together variables` does"
        raise EditError(next(_contradictions(state.users, torn[0], placed)), location=graph.place(), hint=hint)


def _contradictions(
    users: Mapping[Resource, Sequence[int]], members: Sequence[int], placed: Placement
) -> Iterator[str]:
    """Yield the reasons why operators that must run together cannot do so."""
    here = {resource: some for resource, some in users.items() if some[0] in set(members)}
    for resource, some in here.items():
        other = next((one for one in some if placed.devices[one] != placed.devices[some[0]]), None)
        if other is not None:
            used = f"{placed.operator(some[0])} and by {placed.operator(other)}"
            yield f"{resource} is used by {used}, but only one part can contain it"
    for resource, some in here.items():
        other = next((one for one in members if placed.devices[one] != placed.devices[some[0]]), None)
        if other is not None:
            yield f"{placed.operator(other)} lies between operators on {placed.device(some[0])} that use {resource}"
