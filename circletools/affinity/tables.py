"""The affinity tables as bytes: u32 little endian.

    CIRCLETOOLS_devices     [n] ([id][length][name: length bytes])*     length counts the final NUL
    CIRCLETOOLS_affinity    [version = 1][subgraph count]
                            ([subgraph index][operator count n][device id * n][partition id * n])*

0xFFFFFFFF stands for no device and no partition. Partition ids of a subgraph count from 0 in an order in which the
partitions can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from circletools.errors import TableFormatError

DEVICE_TABLE = "CIRCLETOOLS_devices"
AFFINITY_TABLE = "CIRCLETOOLS_affinity"
AFFINITY_STAMP = "CIRCLETOOLS_affinity_stamp"
NONE = 0xFFFFFFFF
"""No device, no partition."""

Ids = NDArray[np.uint32]
_VERSION = 1
_PAIR = Struct("<II")


@dataclass(frozen=True, slots=True)
class SubgraphAffinity:
    """Device id and partition id of each operator of a subgraph, both of shape (operators,)."""

    devices: Ids
    partitions: Ids

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if not isinstance(other, SubgraphAffinity):
            return False
        return np.array_equal(self.devices, other.devices) and np.array_equal(self.partitions, other.partitions)

    __hash__ = None  # type: ignore[assignment] # arrays are mutable


def encode_affinity(subgraphs: Mapping[int, SubgraphAffinity]) -> bytes:
    """Encode subgraph index -> affinity."""
    parts = [_PAIR.pack(_VERSION, len(subgraphs))]
    for index, subgraph in sorted(subgraphs.items()):
        assert len(subgraph.devices) == len(subgraph.partitions)
        parts.append(_PAIR.pack(index, len(subgraph.devices)))
        parts += (subgraph.devices.astype("<u4").tobytes(), subgraph.partitions.astype("<u4").tobytes())
    return b"".join(parts)


def decode_affinity(data: bytes | memoryview) -> dict[int, SubgraphAffinity]:
    """Decode subgraph index -> affinity. Raises TableFormatError."""
    data = bytes(data)
    if len(data) < _PAIR.size:
        raise _error("shorter than its header (8 bytes)", 0)
    version, count = _PAIR.unpack_from(data)
    if version != _VERSION:
        raise _error(f"version {version} is not known", 0, "a newer circletools wrote it")
    at, subgraphs = _PAIR.size, dict[int, SubgraphAffinity]()
    for _ in range(count):
        if at + _PAIR.size > len(data):
            raise _error("a subgraph's entry is cut off", at)
        index, operators = _PAIR.unpack_from(data, at)
        start, size = at + _PAIR.size, 4 * operators
        if start + 2 * size > len(data):
            raise _error(f"the ids of {operators} operators are cut off", start)
        if index in subgraphs:
            raise _error(f"a second entry for subgraph {index}", at)
        ids = np.frombuffer(data, "<u4", 2 * operators, start).astype(np.uint32)
        subgraphs[index] = SubgraphAffinity(ids[:operators], ids[operators:])
        at = start + 2 * size
    if at != len(data):
        raise _error("bytes left over", at)
    return subgraphs


def _error(message: str, offset: int, hint: str | None = None) -> TableFormatError:
    return TableFormatError(message, offset=offset, location=AFFINITY_TABLE, hint=hint)
