"""The metadata of a part: what is about operators by index is made anew, what is about the whole model stays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, SubgraphAffinity, encode_affinity
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.metadata.stamp import STAMP, encode_stamp, make_stamp, operator_record, operator_records
from circletools.model.model import Model
from circletools.origin.details import DETAILS_TABLE, encode_details
from circletools.origin.embed import ORIGIN_ENTRIES
from circletools.origin.read import EXACT_TABLE, Origins, check_freshness, encode_exact, merge, read_origins
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    encode_op_table,
    encode_source_table,
)
from circletools.split.plan import PlannedPart, SplitPlan

_WHOLE_MODEL = {
    EXECUTION_PLAN_TABLE: "it orders all operators and plans their memory",
    "TFLITE_METADATA": "it describes the inputs and outputs of the whole model",
}


Kept = Sequence[tuple[int, Sequence[int] | None]]
"""The subgraphs of a new model: the old one that each comes from, and its operators there; None is all of them."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What every part of a model gets: entries by index and name, origins if they are true, and why not others."""

    entries: Mapping[int, str]
    origins: Origins | None
    dropped: tuple[Finding, ...]


def read_annotations(model: Model) -> Annotations:
    """Look at what there is. Raises TableFormatError for origins that cannot be decoded."""
    last = {entry.name: entry.index for entry in model.metadata}  # of equal names the last counts
    dropped = [
        Finding("METADATA_LEFT_OUT", "info", "", f"metadata {name} is left out: {why}")
        for name, why in _WHOLE_MODEL.items()
        if name in last
    ]
    origins = read_origins(model)
    if origins is not None and check_freshness(model, origins).state == "stale":
        message = "the origins are left out of the parts: they are stale; run `circletool embed-origins --replace`"
        dropped.append(Finding("STALE_ORIGIN", "info", "", message))
        origins = None
    gone = {*_WHOLE_MODEL, *(() if origins is not None else ORIGIN_ENTRIES)}
    entries = {index: name for name, index in sorted(last.items(), key=lambda item: item[1]) if name not in gone}
    return Annotations(entries, origins, tuple(dropped))


def part_records(model: Model, plan: SplitPlan) -> list[list[bytes]]:
    """Return the records of all operators for stamps, with the names that their outputs have in the parts."""
    records = [operator_records(model_graph(model), subgraph) for subgraph in range(len(model.subgraphs))]
    renamed = plan.renamed
    names = model.code_names(plan.subgraph)
    for operator in model.subgraphs[plan.subgraph].operators if renamed else ():
        if not renamed.keys().isdisjoint(operator.outputs):
            old = model.output_names(plan.subgraph)[operator.index]
            new = [renamed.get(tensor, name) for tensor, name in zip(operator.outputs, old, strict=True)]
            records[plan.subgraph][operator.index] = operator_record(names[operator.index], new)
    return records


def part_metadata(
    annotations: Annotations,
    records: Sequence[Sequence[bytes]],
    plan: SplitPlan,
    part: PlannedPart,
    called: Sequence[int],
) -> dict[int, bytes | None]:
    """Return the entries of a part by their index in the model; None keeps the value."""
    own = [records[plan.subgraph][operator] for operator in part.operators]
    stamp = encode_stamp(make_stamp([own, *(records[subgraph] for subgraph in called)]))
    values = {STAMP: stamp, AFFINITY_STAMP: stamp, AFFINITY_TABLE: _affinity(plan, part, called)}
    if annotations.origins is not None:
        kept = [(plan.subgraph, part.operators), *((subgraph, None) for subgraph in called)]
        # Where one table stands for all subgraphs, as the ONE compiler has it, the operators of a part still are its.
        values |= origin_entries(annotations.origins, kept)
    return {index: values.get(name) for index, name in annotations.entries.items()}


def _affinity(plan: SplitPlan, part: PlannedPart, called: Sequence[int]) -> bytes:
    count = len(part.operators)
    ours = SubgraphAffinity(np.full(count, part.device_id, np.uint32), np.zeros(count, np.uint32))
    known = plan.affinity.subgraphs
    theirs = {index: known[subgraph] for index, subgraph in enumerate(called, 1) if subgraph in known}
    return encode_affinity({0: ours, **theirs})


def origin_entries(origins: Origins, kept: Kept, *, every_source: bool = False) -> dict[str, bytes]:
    """Return the tables of a model with these subgraphs: its operators under their new indices, and their sources.

    With `every_source`, the sources that none of them names stay too.
    """
    operators = [
        dict(origins.operators[subgraph])
        if chosen is None
        else {
            index: origins.operators[subgraph][operator]
            for index, operator in enumerate(chosen)
            if operator in origins.operators[subgraph]
        }
        for subgraph, chosen in kept
    ]
    used = {source for subgraph in operators for origin in subgraph.values() for source in origin}
    sources = {source: origins.sources[source] for source in sorted(origins.sources if every_source else used)}
    return {
        SOURCE_TABLE: encode_source_table(sources),
        OP_TABLE: encode_op_table(merge(operators)),
        EXACT_TABLE: encode_exact(operators),
        DETAILS_TABLE: encode_details(origins.details, sources),
    }
