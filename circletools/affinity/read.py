"""The affinity in a model: device names, and the device and partition of each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    DEVICE_TABLE,
    NONE,
    SubgraphAffinity,
    decode_affinity,
)
from circletools.errors import TableFormatError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import decode_names
from circletools.metadata.stamp import Freshness, compare_stamp
from circletools.model.model import Model
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class Affinity(Attributes):
    """Device names by id, and the affinity of each subgraph that has one, by index."""

    devices: Mapping[int, str]
    subgraphs: Mapping[int, SubgraphAffinity]

    @property
    def names(self) -> tuple[str, ...]:
        """The device names in the order of their ids."""
        return tuple(self.devices[device] for device in sorted(self.devices))


def read_affinity(model: Model) -> Affinity | None:
    """Return the affinity in a model; None if it has none.

    Raises TableFormatError for tables that cannot be decoded or that name a device that does not exist.
    """
    return decode_affinity_tables(model.metadata_value)


def affinity_in(model: ModelGraph) -> Affinity | None:
    """Return the affinity of a graph, as `read_affinity` does."""
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
            message = f"subgraph {index} names device {min(unknown)}, which does not exist"
            raise TableFormatError(message, location=AFFINITY_TABLE, offset=0)
    return Affinity(names, subgraphs)


def check_freshness(model: Model, affinity: Affinity) -> Freshness:
    """Return whether the tables still describe the model's operators. Raises TableFormatError."""
    return affinity_freshness(model_graph(model), affinity)


def affinity_freshness(model: ModelGraph, affinity: Affinity) -> Freshness:
    """Return the freshness of a graph's affinity; see `check_freshness`."""
    return freshness_by_stamp(model, affinity, model.metadata_value(AFFINITY_STAMP))


def freshness_by_stamp(model: ModelGraph, affinity: Affinity, stamp: bytes | memoryview | None) -> Freshness:
    """Return whether tables describe the model's operators, according to this stamp. Raises TableFormatError."""
    freshness = compare_stamp(model, stamp, AFFINITY_STAMP)
    if freshness.state == "stale":
        return freshness
    for index, subgraph in affinity.subgraphs.items():
        if index >= len(model):
            return Freshness("stale", index, None, "the model has no such subgraph")
        count = len(model.graphs[index])
        if len(subgraph.devices) != count:
            reason = f"the table has {len(subgraph.devices)} operators, the model {count}"
            return Freshness("stale", index, min(len(subgraph.devices), count), reason)
    return freshness
