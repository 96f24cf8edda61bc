"""The metadata of a model that keeps some of its operators: what names operators follows, or is left out and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.read import check_freshness as check_affinity
from circletools.affinity.read import read_affinity
from circletools.affinity.store import AFFINITY_ENTRIES
from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    NONE,
    SubgraphAffinity,
    encode_affinity,
)
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.metadata.stamp import STAMP, encode_stamp, make_stamp, operator_records
from circletools.model.model import Model
from circletools.origin.embed import ORIGIN_ENTRIES
from circletools.origin.read import check_freshness, read_origins
from circletools.origin.tables import EXECUTION_PLAN_TABLE
from circletools.split.annotations import Kept, origin_entries

ENDS_TABLE = "TFLITE_METADATA"
"""The metadata entry that describes the inputs and outputs of subgraphs, by their order."""

_ORDER = "it orders all operators and plans their memory"
_ENDS = "it describes the inputs and outputs of the whole model"


@dataclass(frozen=True, slots=True)
class Entries:
    """The metadata entries that stay, by index, with another value or, for None, their own; and why others do not."""

    values: dict[int, bytes | None]
    notes: tuple[Finding, ...]


def kept_entries(model: Model, kept: Kept, *, same_ends: bool) -> Entries:
    """Return the metadata of a model with these subgraphs.

    With `same_ends`, subgraphs have the inputs and outputs that they had. Raises TableFormatError for origins or an
    affinity that cannot be decoded.
    """
    counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    fewer = any(chosen is not None and len(chosen) < counts[subgraph] for subgraph, chosen in kept)
    moved = any(index != subgraph for index, (subgraph, _) in enumerate(kept))
    if not fewer and not moved and len(kept) == len(counts):
        return Entries(dict.fromkeys(range(len(model.metadata))), ())
    names = {entry.name for entry in model.metadata}
    values: dict[str, bytes | None] = {}
    notes: list[Finding] = []
    gone: set[str] = set()
    if ENDS_TABLE in names and (moved or not same_ends):
        gone.add(ENDS_TABLE)
        notes.append(_left_out(ENDS_TABLE, _ENDS))
    if EXECUTION_PLAN_TABLE in names and (fewer or moved):
        gone.add(EXECUTION_PLAN_TABLE)
        notes.append(_left_out(EXECUTION_PLAN_TABLE, _ORDER))
    stamp = encode_stamp(make_stamp(_records(model, kept)))
    for update in (_origins(model, kept), _affinity(model, kept)):
        values |= update.values
        gone |= update.gone
        notes += update.notes
    values = {name: stamp if name in (STAMP, AFFINITY_STAMP) else value for name, value in values.items()}
    entries = {entry.index: values.get(entry.name) for entry in model.metadata if entry.name not in gone}
    return Entries(entries, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Update:
    """What becomes of the entries of one kind, by name; the value of a stamp is not known here."""

    values: dict[str, bytes | None]
    gone: frozenset[str] = frozenset()
    notes: tuple[Finding, ...] = ()


def _left_out(name: str, why: str) -> Finding:
    return Finding("METADATA_LEFT_OUT", "info", "", f"metadata {name} is left out: {why}")


def _records(model: Model, kept: Kept) -> list[Sequence[bytes]]:
    found: list[Sequence[bytes]] = []
    for subgraph, chosen in kept:
        records = operator_records(model_graph(model), subgraph)
        found.append(records if chosen is None else [records[operator] for operator in chosen])
    return found


def _origins(model: Model, kept: Kept) -> _Update:
    origins = read_origins(model)
    if origins is None:
        return _Update({STAMP: None})
    if check_freshness(model, origins).state == "stale":
        message = "the origins are left out: they are stale; run `circletool embed-origins --replace` on the model"
        return _Update({}, frozenset(ORIGIN_ENTRIES), (Finding("STALE_ORIGIN", "info", "", message),))
    if origins.scope == "shared" and len(kept) > 1:
        why = (
            "one table is for the operators of every subgraph; run `circletool embed-origins --replace` on the model"
        )
        found = Finding("METADATA_LEFT_OUT", "info", "", f"the origins are left out: {why}")
        return _Update({}, frozenset(ORIGIN_ENTRIES), (found,))
    return _Update({**origin_entries(origins, kept, every_source=True), STAMP: None})


def _affinity(model: Model, kept: Kept) -> _Update:
    affinity = read_affinity(model)
    if affinity is None:
        return _Update({AFFINITY_STAMP: None})
    if check_affinity(model, affinity).state == "stale":
        message = "the affinity is left out: it is stale; run `circletool annotate-affinity` on the result"
        return _Update({}, frozenset(AFFINITY_ENTRIES), (Finding("STALE_AFFINITY", "info", "", message),))
    subgraphs = {}
    for index, (subgraph, chosen) in enumerate(kept):
        known = affinity.subgraphs.get(subgraph)
        if known is not None:
            rows = slice(None) if chosen is None else np.array(chosen, np.int64)
            subgraphs[index] = _numbered(known.devices[rows], known.partitions[rows])
    return _Update({AFFINITY_TABLE: encode_affinity(subgraphs), AFFINITY_STAMP: None})


def _numbered(devices: np.ndarray, partitions: np.ndarray) -> SubgraphAffinity:
    """Number the partitions that are left from 0 on, in their order."""
    new = partitions.copy()
    some = partitions != NONE
    new[some] = np.unique(partitions[some], return_inverse=True)[1]
    return SubgraphAffinity(devices.copy(), new)
