"""The plan of a split: the parts in the order they run, and their inputs and outputs with their names.

Parts are linked by the names of tensors, as in circle-partitioner, so these names must be unique. Tensors between
parts that share a name, or have none, are renamed in the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from circletools.affinity.exports.placement import current_affinity
from circletools.affinity.findings import affinity_findings
from circletools.affinity.partition.groups import gathered
from circletools.affinity.read import Affinity
from circletools.errors import EditError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.dag import Dag
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.split.state import Numbers, State, read_state
from circletools.split.together import Placement, partitions_with_state

_HINT = "run annotate-affinity anew"


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part: its device by id and by name, its operators, ascending, and its input and output tensors."""

    device_id: int
    device: str
    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The parts of a subgraph in an order in which they can run.

    `inputs` and `outputs` are those of the subgraph, `names` the names of all inputs and outputs of parts, `renamed`
    those of them that differ from the model.
    """

    subgraph: int
    affinity: Affinity
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parts: tuple[PlannedPart, ...]
    names: Mapping[int, bytes]
    renamed: Mapping[int, bytes]


def plan_split(model: Model, subgraph: int = 0) -> SplitPlan:
    """Return the split by the partitions that the model's affinity has.

    Raises EditError where the model has no current and complete affinity, or where operators that share a state are
    in several partitions; TableFormatError for a broken table, UsageError for a subgraph that does not exist.
    """
    affinity = current_affinity(model_graph(model))
    if subgraph >= len(model.subgraphs):
        raise UsageError(f"subgraph {subgraph} does not exist; there are {len(model.subgraphs)}")
    _check_affinity(model, affinity, subgraph)
    ids = affinity.subgraphs[subgraph]
    number_of = ids.partitions.astype(np.int64)
    facts, state = graph_of(model, subgraph), read_state(model, subgraph)
    work = np.ones(len(number_of), np.bool_)
    work[[*facts.dag.constants, *state.copied]] = False
    if not work.any():
        raise EditError("the operators only name what others would use", location=facts.place())
    number_of[~work] = -1  # each part that needs it has its own
    number_of = partitions_with_state(
        facts, state, Placement(number_of, ids.devices.astype(np.int64), affinity.devices)
    )
    _, number_of[work] = np.unique(number_of[work], return_inverse=True)
    members = _members(facts.dag, state, number_of)
    view = model.subgraphs[subgraph]
    ends = tuple(view.inputs.tolist()), tuple(view.outputs.tolist())
    taken, given = _flow(facts, number_of, *ends)
    devices = [int(ids.devices[next(operator for operator in row if work[operator])]) for row in members]
    parts = tuple(
        PlannedPart(device, affinity.devices[device], *map(tuple, tensors))
        for device, *tensors in zip(devices, members, taken, given, strict=True)
    )
    crossing = {*ends[0], *ends[1], *(tensor for part in parts for tensor in (*part.inputs, *part.outputs))}
    raw = facts.values.names
    names = _unique_names({tensor: raw[tensor] for tensor in sorted(crossing)}, raw)
    renamed = {tensor: name for tensor, name in names.items() if name != raw[tensor]}
    return SplitPlan(subgraph, affinity, *ends, parts, names, renamed)


def _check_affinity(model: Model, affinity: Affinity, subgraph: int) -> None:
    place = f"subgraphs[{subgraph}]"
    if not len(model.subgraphs[subgraph].operators):
        raise EditError("there are no operators to split", location=place)
    if subgraph not in affinity.subgraphs:
        raise EditError("the operators have no device", location=place, hint=_HINT)
    for finding in affinity_findings(model):
        telling = finding.severity == "error" or finding.code in ("UNASSIGNED_OPERATOR", "MISNUMBERED_PARTITION")
        if telling and (finding.location + ".").startswith((f"{place}.", "metadata")):
            raise EditError(finding.message, location=finding.location, hint=_HINT)


def _members(graph: Dag, state: State, number_of: Numbers) -> list[list[int]]:
    """Return the operators of each part; what has no partition is in each part that needs it, else in the first."""
    parts = [{int(number)} for number in number_of]
    for operator in reversed(graph.order):
        if number_of[operator] < 0:
            readers = state.copied.get(operator, graph.successors[operator])
            parts[operator] = set().union(*(parts[reader] for reader in readers)) or {0}
    pairs = [(number, operator) for operator, its in enumerate(parts) for number in its]
    return gathered(int(number_of.max()) + 1, *zip(*pairs, strict=True))


def _flow(
    facts: Graph, number_of: Numbers, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the inputs and the outputs of each part: those of the subgraph first, in its order."""
    (makers, made), (readers, read) = (
        (uses.operators[is_work], uses.values[is_work])
        for uses in (facts.definitions, facts.uses)
        for is_work in (number_of[uses.operators] >= 0,)
    )
    maker = dict(zip(made.tolist(), number_of[makers].tolist(), strict=True))
    last = int(number_of.max())
    taken: list[set[int]] = [set() for _ in range(last + 1)]
    given: list[set[int]] = [set() for _ in range(last + 1)]
    fed, first_reader = set(inputs).difference(maker), dict[int, int]()
    for number, tensor in sorted(set(zip(number_of[readers].tolist(), read.tolist(), strict=True))):
        first_reader.setdefault(tensor, number)
        if tensor in fed:
            taken[number].add(tensor)
        elif maker.get(tensor, number) != number:
            taken[number].add(tensor)
            given[maker[tensor]].add(tensor)
    for tensor in fed - first_reader.keys():
        taken[0].add(tensor)  # unused, but still an input of the whole
    for tensor in outputs:  # without a producer: from the first part that reads it, else the last
        number = maker.get(tensor, first_reader.get(tensor, 0 if tensor in fed else last))
        given[number].add(tensor)
    for tensor, number in maker.items():
        if not given[number] and tensor not in first_reader:
            given[number].add(tensor)  # a part whose results are unused still needs an output
    return _ordered(taken, inputs), _ordered(given, outputs)


def _ordered(rows: Iterable[set[int]], first: Sequence[int]) -> list[list[int]]:
    rank = {tensor: index for index, tensor in enumerate(dict.fromkeys(first))}
    return [sorted(row, key=lambda tensor: (rank.get(tensor, len(rank)), tensor)) for row in rows]


def _unique_names(names: Mapping[int, bytes], taken: Iterable[bytes]) -> dict[int, bytes]:
    """Return names that differ: of equal ones the first stays, the others and empty ones get the tensor's index."""
    used, seen, result = set(taken), set[bytes](), dict[int, bytes]()
    for tensor, given in names.items():
        name = given
        if not name or name in seen:
            name = next(free for more in count() if (free := b"%b#%d%b" % (given, tensor, b"_" * more)) not in used)
            used.add(name)
        seen.add(name)
        result[tensor] = name
    return result
