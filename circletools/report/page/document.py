"""All that the page shows of a model, as one JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from circletools.affinity.exports.palette import device_colors
from circletools.affinity.store import Affinity, read_affinity
from circletools.affinity.store import check_freshness as check_affinity
from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.affinity.transfers import Transfers, transfers
from circletools.errors import ModelFormatError, TableFormatError
from circletools.model import Model
from circletools.model.stamp import Freshness
from circletools.origin.read import Origins, check_freshness, read_origins
from circletools.report import SCHEMA_VERSION
from circletools.report.attribution import own_names
from circletools.report.check import check
from circletools.report.inspection import inspect_model
from circletools.report.page.graph import Columns, Interned, layout_json, or_none, picture, short
from circletools.report.page.modules import module_tree, operators_below
from circletools.report.page.timing import ReadTrace, layer_times, operator_times

MOST_CUTS = 1000


def page_document(model: Model, name: str, traces: Sequence[ReadTrace] = (), *, version: str = "") -> dict[str, Any]:
    """Return the document of a model that is called `name`; `version` is that of circletools, for who looks at it.

    Broken indices and tables are findings, and what they name is left out. Raises ModelFormatError when the
    structure is broken, InvalidInputError for a trace that is not of this model.
    """
    findings = check(model)
    columns = Columns(model)
    affinity, affinity_state = _affinity(model)
    own, origins_state = _origins(model)
    origins = Origins({}, ({},) * len(model.subgraphs)) if own is None else own
    places = {source: row for row, source in enumerate(sorted(origins.sources))}
    sets, uses = Interned(), Counter[int]()
    subgraphs = []
    for subgraph in model.subgraphs:
        given = _fitting(affinity, subgraph.index, len(subgraph.operators))
        layout, edges, parts = picture(model, subgraph.index, given)
        origin = [sets(origins.of(subgraph.index, index)) for index in range(len(subgraph.operators))]
        uses.update(origin)
        operators = columns.operators(subgraph.index) | {"origin": origin, "device": _device_column(given)}
        subgraphs.append(
            {
                "operators": operators,
                "tensors": columns.tensors(subgraph.index),
                "layout": layout_json(layout, edges, parts),
                "transfers": None if given is None else _transfers_json(model, subgraph.index, given),
            }
        )
    modules = module_tree(short(origins.sources[source]) for source in places)
    rows_of_sets = [sorted(places[source] for source in members) for members in sets.values]
    return {
        "schema_version": SCHEMA_VERSION,
        "circletools": version,
        "name": name,
        "model": shortened(inspect_model(model)),
        "findings": [shortened(asdict(finding)) for finding in findings],
        "codes": [short(code.name) for code in model.operator_codes],
        "types": columns.types.values,
        "shapes": columns.shapes.values,
        "subgraphs": subgraphs,
        "affinity": affinity_state,
        "origins": origins_state
        | {
            "source_ids": list(places),
            "source_names": [short(origins.sources[source]) for source in places],
            "sets": rows_of_sets,
        },
        "modules": {
            "parent": modules.parents,
            "label": modules.labels,
            "sources": modules.sources,
            "operators": operators_below(modules, rows_of_sets, [uses[number] for number in range(len(sets.values))]),
        },
        "operator_traces": [
            shortened(operator_times(model, trace, trace.operators, origins, modules))
            for trace in traces
            if trace.operators is not None
        ],
        "traces": [shortened(layer_times(trace, trace.layers)) for trace in traces if trace.layers is not None],
    }


def shortened(value: Any) -> Any:
    """Return a document with very long texts cut."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, dict):
        return {short(key): shortened(item) for key, item in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [shortened(item) for item in value]
    return value


def _origins(model: Model) -> tuple[Origins | None, dict[str, Any]]:
    """Return the origins that a model has, else its operators' own names; and where they come from."""
    state: dict[str, Any] = {"from": "output_names", "scope": "exact", "state": "absent", "reason": ""}
    try:
        found = read_origins(model)
        if found is not None:
            return found, {"from": "tables", "scope": found.scope} | _state(check_freshness(model, found))
    except TableFormatError as error:
        state |= {"state": "malformed", "reason": short(str(error))}
    try:
        return own_names(model), state
    except ModelFormatError:  # an operator's output does not exist, which is a finding
        return None, state


def _affinity(model: Model) -> tuple[Affinity | None, dict[str, Any] | None]:
    """Return the affinity that a model has, and its devices with their colours."""
    try:
        found = read_affinity(model)
        if found is None:
            return None, None
        state = _state(check_affinity(model, found))
    except TableFormatError as error:
        return None, {"state": "malformed", "reason": short(str(error)), "devices": []}
    colors = device_colors(found)
    devices = [{"name": short(name), "color": colors[name]} for _, name in sorted(found.devices.items())]
    return found, state | {"devices": devices}


def _state(freshness: Freshness) -> dict[str, Any]:
    stale = freshness.state == "stale"
    return {"state": freshness.state, "reason": f"{freshness.place}: {freshness.reason}" if stale else ""}


def _fitting(affinity: Affinity | None, subgraph: int, count: int) -> SubgraphAffinity | None:
    """Return the affinity of a subgraph, its devices numbered in order of their ids; None where it does not fit."""
    known = None if affinity is None else affinity.subgraphs.get(subgraph)
    if affinity is None or known is None or len(known.devices) != count:
        return None
    rows = {device: row for row, device in enumerate(sorted(affinity.devices))}
    devices = [rows.get(device, NONE) for device in known.devices.tolist()]
    return SubgraphAffinity(np.array(devices, np.uint32), known.partitions)


def _device_column(affinity: SubgraphAffinity | None) -> list[int | None] | None:
    if affinity is None:
        return None
    return [or_none(device) for device in affinity.devices.tolist()]


def _transfers_json(model: Model, subgraph: int, affinity: SubgraphAffinity) -> dict[str, Any] | None:
    try:
        sums: Transfers = transfers(model, subgraph, affinity.partitions.tolist(), affinity.devices.tolist())
    except IndexError:  # a tensor does not exist, which is a finding
        return None
    return {
        "launches": sums.launches,
        "copies": sums.copies,
        "copied_bytes": sums.copied_bytes,
        "copies_of_unknown_size": sums.unsized,
        "cut_count": len(sums.cuts),
        "cuts": [
            {
                "tensor": cut.tensor,
                "producer": or_none(cut.producer),
                "consumers": [or_none(part) for part in cut.consumers[:MOST_CUTS]],
                "copies": cut.devices,
                "size_bytes": cut.size_bytes,
            }
            for cut in sums.cuts[:MOST_CUTS]
        ],
    }
