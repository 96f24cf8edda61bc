"""Write and remove the affinity of a model, and keep it valid when another rewrite appends operators."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    DEVICE_TABLE,
    NONE,
    Affinity,
    SubgraphAffinity,
    decode_affinity_tables,
    encode_affinity,
    freshness_by_stamp,
)
from circletools.edit.edit import ModelEdit
from circletools.edit.results import IndexMap, RewriteResult
from circletools.graph.build import model_graph
from circletools.metadata.codec import encode_names
from circletools.metadata.entries import remove_entries, stamp_after, write_entries
from circletools.metadata.stamp import encode_stamp, stamp_model

AFFINITY_ENTRIES = (DEVICE_TABLE, AFFINITY_TABLE, AFFINITY_STAMP)
"""The metadata entries that `annotate` writes and `strip` removes, in the order in which they are written."""


class Planned(Protocol):
    """A value that provides an affinity to write, such as a plan."""

    def to_affinity(self) -> Affinity:
        """Return the affinity."""


def annotate(edit: ModelEdit, what: Affinity | Planned) -> RewriteResult:
    """Write an affinity, or that of a plan, as metadata entries; an existing affinity is replaced."""
    affinity = what if isinstance(what, Affinity) else what.to_affinity()
    entries = {
        DEVICE_TABLE: encode_names(affinity.devices),
        AFFINITY_TABLE: encode_affinity(affinity.subgraphs),
        AFFINITY_STAMP: encode_stamp(stamp_model(model_graph(edit.model))),
    }
    return write_entries(edit, entries)


def follow(edit: ModelEdit) -> None:
    """Update the affinity, whether it exists or is being written, when `edit` is saved.

    An added operator gets the device of the first operator whose work it continues, or else the most common device.
    A fresh stamp stays fresh.
    """
    edit.before_save(_Follower())


def remap(affinity: Affinity, index_map: IndexMap) -> Affinity:
    """Return the affinity after an edit."""
    subgraphs = dict(affinity.subgraphs)
    for index, subgraph in subgraphs.items():
        added = [operator for operator in index_map.added if operator.subgraph == index]
        if added:
            count = max(operator.index for operator in added) + 1
            more = max(0, count - len(subgraph.devices))
            ids = np.stack([subgraph.devices, subgraph.partitions])
            devices, partitions = np.pad(ids, ((0, 0), (0, more)), constant_values=NONE)
            known, counts = np.unique(subgraph.devices[subgraph.devices != NONE], return_counts=True)
            most = int(known[counts.argmax()]) if known.size else NONE
            for operator in added:
                # No other partition reads a copy's result, so the copy closes no cycle in its source's partition.
                if operator.inherits:
                    devices[operator.index] = devices[operator.inherits[0]]
                    partitions[operator.index] = partitions[operator.inherits[0]]
                elif most != NONE:  # it reads inputs or constants: a new partition at the end
                    devices[operator.index] = most
                    last = partitions[partitions != NONE]
                    partitions[operator.index] = last.max() + 1 if last.size else 0
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(affinity.devices, subgraphs)


class _Follower:
    """Updates the tables, and keeps the table last written, because an edit may be saved twice."""

    def __init__(self) -> None:
        self._affinity: Affinity | None = None  # without the added operators
        self._written: bytes | None = None

    def __call__(self, edit: ModelEdit) -> None:
        if not edit.index_map.added and not edit.renamed:
            return
        table, stamp = edit.metadata_value(AFFINITY_TABLE), edit.metadata_value(AFFINITY_STAMP)
        if table is None:
            return
        if self._affinity is None or bytes(table) != self._written:
            affinity = decode_affinity_tables(edit.metadata_value)
            if affinity is None or freshness_by_stamp(model_graph(edit.model), affinity, stamp).state == "stale":
                return  # it was stale before
            self._affinity = affinity
        self._written = bytes(table)
        if edit.index_map.added:
            self._written = encode_affinity(remap(self._affinity, edit.index_map).subgraphs)
            edit.set_metadata(AFFINITY_TABLE, self._written)
        if stamp is not None:
            edit.set_metadata(AFFINITY_STAMP, stamp_after(edit))


def strip(edit: ModelEdit) -> RewriteResult:
    """Remove everything that `annotate` writes."""
    return remove_entries(edit, AFFINITY_ENTRIES)
