"""The metadata of a part: entries about operators are adapted or, if that is impossible, dropped with a note."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.store import AFFINITY_ENTRIES
from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    NONE,
    Affinity,
    SubgraphAffinity,
    check_freshness,
    encode_affinity,
    read_affinity,
)
from circletools.findings import Finding
from circletools.graph.graph import ModelGraph
from circletools.metadata.stamp import STAMP, encode_stamp, make_stamp
from circletools.origin.embed import ORIGIN_ENTRIES
from circletools.origin.read import EXACT_TABLE, Origins, encode_exact, merge, origins_freshness, origins_in
from circletools.origin.source import DETAILS_TABLE, encode_details
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    encode_op_table,
    encode_source_table,
)

ENDS_TABLE = "TFLITE_METADATA"
"""The metadata entry that describes the inputs and outputs of subgraphs, by position."""

SubgraphSelection = Sequence[tuple[int, Sequence[int] | None]]
"""The subgraphs of a new model: the old subgraph of each, and the operators taken from it; None means all."""

Entries = Mapping[int, bytes | None]
"""The metadata entries to keep, by index, each with a new value or None for the old one."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """The tables of a model that refer to operators.

    `records` holds the data that stamps cover, by subgraph and operator. `stale` holds the names of entries whose
    tables are out of date; `notes` explain why they are dropped.
    """

    records: tuple[Sequence[bytes], ...]
    origins: Origins | None
    affinity: Affinity | None
    stale: frozenset[str]
    notes: tuple[Finding, ...]


def read_annotations(model: ModelGraph) -> Annotations:
    """Read the metadata tables of a model. Raises TableFormatError for tables that cannot be decoded."""
    origins, affinity = origins_in(model), read_affinity(model)
    stale, notes = set[str](), []
    if origins is not None and origins_freshness(model, origins).state == "stale":
        message = "the origins are left out: they are stale; run `circletool embed-origins --replace` on the model"
        notes.append(Finding("STALE_ORIGIN", "info", "", message))
        stale.update(ORIGIN_ENTRIES)
        origins = None
    if affinity is not None and check_freshness(model, affinity).state == "stale":
        message = "the affinity is left out: it is stale; run `circletool annotate-affinity` on the result"
        notes.append(Finding("STALE_AFFINITY", "info", "", message))
        stale.update(AFFINITY_ENTRIES)
        affinity = None
    records = tuple(graph.operators.records for graph in model.graphs)
    return Annotations(records, origins, affinity, frozenset(stale), tuple(notes))


def whole_model_notes(names: Collection[str], *, same_order: bool, same_ends: bool) -> dict[str, Finding]:
    """Return the entries that describe the model as a whole rather than a part, each with a note."""
    rows = (
        (ENDS_TABLE, same_ends, "it describes the inputs and outputs of the whole model"),
        (EXECUTION_PLAN_TABLE, same_order, "it orders all operators and plans their memory"),
    )
    return {
        name: Finding("METADATA_LEFT_OUT", "info", "", f"metadata {name} is left out: {why}")
        for name, same, why in rows
        if name in names and not same
    }


def new_values(
    annotations: Annotations, kept: SubgraphSelection, *, every_source: bool = True, device: int | None = None
) -> dict[str, bytes]:
    """Return the tables of a model with these subgraphs, by name.

    With `every_source`, sources without operators are kept. With a `device`, all operators of the first subgraph form
    one partition on it.
    """
    every = [(annotations.records[index], chosen) for index, chosen in kept]
    records = [rows if chosen is None else [rows[one] for one in chosen] for rows, chosen in every]
    stamp = encode_stamp(make_stamp(records))
    values: dict[str, bytes] = {STAMP: stamp, AFFINITY_STAMP: stamp}
    if annotations.origins is not None:
        values |= _origins(annotations.origins, kept, every_source=every_source)
    if annotations.affinity is not None:
        values[AFFINITY_TABLE] = encode_affinity(dict(_affinity(annotations.affinity, kept, device)))
    return values


def _origins(origins: Origins, kept: SubgraphSelection, *, every_source: bool) -> dict[str, bytes]:
    """Return the table of operators, with new indices, and the table of sources.

    If one table applies to all subgraphs, as in the ONE compiler, each operator keeps its entries in that table.
    """
    operators = []
    for subgraph, chosen in kept:
        old = origins.operators[subgraph]
        new = dict(old) if chosen is None else {at: old[one] for at, one in enumerate(chosen) if one in old}
        operators.append(new)
    used = {source for subgraph in operators for origin in subgraph.values() for source in origin}
    sources = {source: origins.sources[source] for source in sorted(origins.sources if every_source else used)}
    return {
        SOURCE_TABLE: encode_source_table(sources),
        OP_TABLE: encode_op_table(merge(operators)),
        EXACT_TABLE: encode_exact(operators),
        DETAILS_TABLE: encode_details(origins.details, sources),
    }


def _affinity(
    affinity: Affinity, kept: SubgraphSelection, device: int | None
) -> Iterator[tuple[int, SubgraphAffinity]]:
    """Yield the affinity of each new subgraph; the remaining partitions are renumbered from 0, in their old order."""
    for index, (subgraph, chosen) in enumerate(kept):
        known = affinity.subgraphs.get(subgraph)
        if known is None:
            continue
        rows = slice(None) if chosen is None else np.array(chosen, np.int64)
        devices, partitions = known.devices[rows].copy(), known.partitions[rows].copy()
        if index == 0 and device is not None:
            devices[:], partitions[:] = device, 0
        some = partitions != NONE
        partitions[some] = np.unique(partitions[some], return_inverse=True)[1]
        yield index, SubgraphAffinity(devices, partitions)
