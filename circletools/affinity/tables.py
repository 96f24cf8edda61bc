"""The affinity tables as bytes, and findings about them; numbers are little-endian u32.

    CIRCLETOOLS_devices     [n] ([id][length][name: length bytes])*     length counts the final NUL
    CIRCLETOOLS_affinity    [version = 1][subgraph count]
                            ([subgraph index][operator count n][device id * n][partition id * n])*

0xFFFFFFFF stands for no device or no partition. The partitions of a subgraph are numbered from 0, in an order in
which they can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.solvers.groups import group_successors
from circletools.errors import ModelFormatError, TableFormatError
from circletools.findings import Finding
from circletools.graph.algorithms import strong_components
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.metadata.codec import TableReader, decode_names
from circletools.metadata.stamp import Freshness, compare_stamp
from circletools.model.model import Model
from circletools.model.views import text
from circletools.wording import Attributes

DEVICE_TABLE = "CIRCLETOOLS_devices"
AFFINITY_TABLE = "CIRCLETOOLS_affinity"
AFFINITY_STAMP = "CIRCLETOOLS_affinity_stamp"
NONE = 0xFFFFFFFF
"""The id that represents no device or no partition."""

Ids = NDArray[np.uint32]
_VERSION = 1
_PAIR = Struct("<II")


@dataclass(frozen=True, slots=True)
class SubgraphAffinity(Attributes):
    """The device id and partition id of each operator of a subgraph, both of shape (operators,)."""

    devices: Ids
    partitions: Ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SubgraphAffinity):
            return False
        return np.array_equal(self.devices, other.devices) and np.array_equal(self.partitions, other.partitions)

    __hash__ = None  # type: ignore[assignment] # arrays are mutable


def encode_affinity(subgraphs: Mapping[int, SubgraphAffinity]) -> bytes:
    """Encode the affinity of each subgraph, by index."""
    parts = [_PAIR.pack(_VERSION, len(subgraphs))]
    for index, subgraph in sorted(subgraphs.items()):
        assert len(subgraph.devices) == len(subgraph.partitions)
        parts.append(_PAIR.pack(index, len(subgraph.devices)))
        parts += (subgraph.devices.astype("<u4").tobytes(), subgraph.partitions.astype("<u4").tobytes())
    return b"".join(parts)


def decode_affinity(data: bytes | memoryview) -> dict[int, SubgraphAffinity]:
    """Decode the affinity of each subgraph, by index. Raises TableFormatError."""
    reader, subgraphs = TableReader(data, AFFINITY_TABLE), dict[int, SubgraphAffinity]()
    for _ in range(reader.header(_VERSION)):
        at = reader.position
        index, operators = _PAIR.unpack(reader.take(_PAIR.size, "a subgraph's entry is truncated"))
        raw = reader.take(8 * operators, f"the ids are truncated (operators: {operators})")
        if index in subgraphs:
            raise reader.error(f"duplicate entry for subgraph {index}", at)
        ids = np.frombuffer(raw, "<u4").astype(np.uint32)
        subgraphs[index] = SubgraphAffinity(ids[:operators], ids[operators:])
    reader.finish()
    return subgraphs


@dataclass(frozen=True, slots=True)
class Affinity(Attributes):
    """Device names by id, and the affinity of each subgraph that has one, by index."""

    devices: Mapping[int, str]
    subgraphs: Mapping[int, SubgraphAffinity]

    @property
    def names(self) -> tuple[str, ...]:
        """The device names in the order of their ids."""
        return tuple(self.devices[device] for device in sorted(self.devices))


def read_affinity(model: Model | ModelGraph) -> Affinity | None:
    """Return the affinity in a model, or None if it has none (`annotate` adds it).

    Raises TableFormatError for tables that cannot be decoded, or that name a device that does not exist.
    """
    return decode_affinity_tables(model.metadata_value)


def decode_affinity_tables(value_of: Callable[[str], bytes | memoryview | None]) -> Affinity | None:
    """Return the affinity stored in metadata entries, which `value_of` returns by name. Raises TableFormatError."""
    devices, table = value_of(DEVICE_TABLE), value_of(AFFINITY_TABLE)
    if table is None:
        return None
    names = {} if devices is None else decode_names(devices, DEVICE_TABLE)
    subgraphs = decode_affinity(table)
    for index, subgraph in subgraphs.items():
        unknown = set(np.unique(subgraph.devices).tolist()) - names.keys() - {NONE}
        if unknown:
            message = f"subgraph {index} refers to the missing device {min(unknown)}"
            raise TableFormatError(message, location=AFFINITY_TABLE, offset=0)
    return Affinity(names, subgraphs)


def check_freshness(model: Model | ModelGraph, affinity: Affinity) -> Freshness:
    """Return whether the tables still describe the model's operators. Raises TableFormatError."""
    return freshness_by_stamp(model_graph(model), affinity, model.metadata_value(AFFINITY_STAMP))


def freshness_by_stamp(model: ModelGraph, affinity: Affinity, stamp: bytes | memoryview | None) -> Freshness:
    """Return whether the tables describe the model's operators, according to this stamp. Raises TableFormatError."""
    freshness = compare_stamp(model, stamp, AFFINITY_STAMP)
    if freshness.state == "stale":
        return freshness
    for index, subgraph in affinity.subgraphs.items():
        if index >= len(model):
            return Freshness("stale", index, None, "the model has no such subgraph")
        count = len(model.graphs[index])
        if len(subgraph.devices) != count:
            reason = f"operators in the table: {len(subgraph.devices)}; in the model: {count}"
            return Freshness("stale", index, min(len(subgraph.devices), count), reason)
    return freshness


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
