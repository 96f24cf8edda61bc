"""The affinity tables as bytes: u32 little endian.

    CIRCLETOOLS_devices     [n] ([id][length][name: length bytes])*     length counts the final NUL
    CIRCLETOOLS_affinity    [version = 1][subgraph count]
                            ([subgraph index][operator count n][device id * n][partition id * n])*

0xFFFFFFFF stands for no device or no partition. The partition ids of a subgraph count from 0 in an order in which the
partitions can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from circletools.metadata.codec import TableReader
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
        """Compare by value."""
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
        raw = reader.take(8 * operators, f"the ids of {operators} operators are truncated")
        if index in subgraphs:
            raise reader.error(f"a second entry for subgraph {index}", at)
        ids = np.frombuffer(raw, "<u4").astype(np.uint32)
        subgraphs[index] = SubgraphAffinity(ids[:operators], ids[operators:])
    reader.finish()
    return subgraphs
