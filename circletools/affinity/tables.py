"""The affinity tables as bytes; numbers are little-endian u32.

    CIRCLETOOLS_devices     [n] ([id][length][name: length bytes])*     length counts the final NUL
    CIRCLETOOLS_affinity    [version = 1][subgraph count]
                            ([subgraph index][operator count n][device id * n][partition id * n])*

0xFFFFFFFF stands for no device or no partition. The partitions of a subgraph are numbered from 0, in an order in
which they can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from circletools.errors import TableFormatError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import TableReader, decode_names
from circletools.metadata.stamp import Freshness, compare_stamp
from circletools.model.model import Model
from circletools.wording import Attributes

DEVICE_TABLE = "CIRCLETOOLS_devices"
AFFINITY_TABLE = "CIRCLETOOLS_affinity"
AFFINITY_STAMP = "CIRCLETOOLS_affinity_stamp"
NONE = 0xFFFFFFFF
"""Stands for no device or no partition."""

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
