"""The data of the page, as one JSON document that includes the verdicts of targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from circletools.affinity.exports.pictures import device_colors
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity, check_freshness, read_affinity
from circletools.check import check
from circletools.errors import ModelFormatError, TableFormatError
from circletools.fit.verdicts import Fit
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.html.graph import Columns, Interned, module_groups, module_layout, or_none, partition_layout, short
from circletools.html.html import NO_LINKS, SourceLinks
from circletools.html.timing import ReadTrace, layer_times, operator_times
from circletools.inspection import inspect_model
from circletools.metadata.stamp import Freshness
from circletools.model.external import buffer_sizes
from circletools.model.model import Model
from circletools.origin.modules import ModuleTree, module_tree
from circletools.origin.names import origins_by_output
from circletools.origin.read import Origins, origins_freshness, origins_in
from circletools.origin.source import SourceDetails
from circletools.planning.evaluate import transfers
from circletools.render.fit import fit_json
from circletools.render.inspection import inspection_json
from circletools.wording import SCHEMA_VERSION

MOST_FINDINGS = 500
"""The maximum number of refused operators, and of sources to change, on a page; counts include all of them."""


def fit_document(found: Fit, links: SourceLinks) -> list[dict[str, Any]]:
    """Return the page's document for each target, with the places of all refused or unmeasured operators."""
    documents: list[dict[str, Any]] = fit_json(found)["targets"]
    for target, verdict in zip(documents, found.targets, strict=True):
        target["refused_at"] = [one[:2] for one in verdict.misfits if one.measured]
        target["not_measured_at"] = [one[:2] for one in verdict.misfits if not one.measured]
        target["findings"] = target["findings"][:MOST_FINDINGS]
        target["source_count"] = len(target["sources"])
        target["sources"] = target["sources"][:MOST_FINDINGS]
        for source in target["sources"]:
            source["operator_count"] = len(source["operators"])
            source["operators"] = source["operators"][:MOST_FINDINGS]
        details = [one for finding in target["findings"] for one in finding.get("origin_details", ())]
        for one in (*details, *target["sources"]):
            if url := links.of(SourceDetails(file=one.get("file", ""), line=one.get("line", 0))):
                one["url"] = url
    return documents


MOST_CUTS = 1000


def page_document(
    model: Model,
    name: str,
    traces: Sequence[ReadTrace] = (),
    *,
    fitted: Fit | None = None,
    links: SourceLinks = NO_LINKS,
    version: str = "",
) -> dict[str, Any]:
    """Return the page's document for the model `name`; `version` is the version of circletools.

    `fitted` holds the verdicts of targets, if requested; `links` gives the addresses of source lines.

    Broken indices and tables become findings, and what they refer to is left out. Raises ModelFormatError if the
    structure is broken, and InvalidInputError if a trace belongs to another model.
    """
    findings, whole = check(model), model_graph(model)
    affinity, affinity_state = _affinity(whole)
    origins, origins_state = origins_shown(whole)
    columns, modules = Columns(buffer_sizes(model)), module_tree(origins)
    subgraphs = [_graph(graph, columns, affinity, origins, modules) for graph in whole.graphs]
    parts = origin_columns(subgraphs, origins, modules, links)
    parts["origins"] |= origins_state
    return {
        "schema_version": SCHEMA_VERSION,
        "circletools": version,
        "name": name,
        "model": shortened(inspection_json(inspect_model(model))),
        "findings": [shortened(asdict(finding)) for finding in findings],
        "codes": [short(code.name) for code in whole.operator_codes],
        "types": columns.types.values,
        "shapes": columns.shapes.values,
        "subgraphs": subgraphs,
        "affinity": affinity_state,
        **parts,
        "operator_traces": [
            shortened(operator_times(whole, trace, times, origins, modules))
            for trace in traces
            if (times := trace.operators) is not None
        ],
        "traces": [shortened(layer_times(trace, found)) for trace in traces if (found := trace.layers) is not None],
        **({} if fitted is None else {"fit": shortened(fit_document(fitted, links))}),
    }


def _graph(
    graph: Graph, columns: Columns, affinity: Affinity | None, origins: Origins, modules: ModuleTree
) -> dict[str, Any]:
    """Return the document of a subgraph, with layouts by partition and by module."""
    given = _fitting(affinity, graph.index, len(graph))
    (groups,) = module_groups([graph], origins, modules)
    layouts = [partition_layout(graph, given), module_layout(graph, groups)]
    devices = None if given is None else [or_none(device) for device in given.devices.tolist()]
    return {
        "operators": columns.operators(graph) | {"device": devices},
        "tensors": columns.tensors(graph.values),
        "layouts": layouts,
        "transfers": None if given is None else _transfers_json(graph, given),
    }


def origin_columns(
    subgraphs: Sequence[dict[str, Any]], origins: Origins, modules: ModuleTree, links: SourceLinks
) -> dict[str, Any]:
    """Return the sources, sets of sources, and modules; add to each operator the number of its set."""
    sets, used = Interned(), Counter[int]()
    for index, operators in enumerate(subgraph["operators"] for subgraph in subgraphs):
        operators["origin"] = [sets(origins.of(index, operator)) for operator in range(len(operators["code"]))]
        used.update(operators["origin"])
    ids = sorted(origins.sources)
    rows = {source: row for row, source in enumerate(ids)}
    return {
        "origins": {
            "source_ids": ids,
            "source_names": [short(origins.sources[source]) for source in ids],
            "sets": [sorted(rows[source] for source in members) for members in sets.values],
        }
        | _details(origins, ids, links),
        "modules": _modules(modules, rows, sets, used),
    }


def _modules(modules: ModuleTree, rows: Mapping[int, int], sets: Interned, used: Mapping[int, int]) -> dict[str, Any]:
    """Return the tree of modules, each with its sources and its number of operators."""
    sources: list[list[int]] = [[] for _ in modules.parents]
    for source, ends in modules.of_source.items():
        for module in ends:
            sources[module].append(rows[source])
    operators = [0] * len(sources)
    for number, members in enumerate(sets.values):
        for module in modules.around(members):
            operators[module] += used[number]
    labels = list(map(short, modules.labels))
    return {"parent": modules.parents, "label": labels, "sources": sources, "operators": operators}


def shortened(value: Any) -> Any:
    """Return a document with very long strings shortened."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, dict):
        return {short(key): shortened(item) for key, item in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [shortened(item) for item in value]
    return value


def origins_shown(model: ModelGraph) -> tuple[Origins, dict[str, Any]]:
    """Return a model's origins, or sources named after its operators' outputs, and a note that says which and why."""
    state: dict[str, Any] = {"from": "output_names", "scope": "exact", "state": "absent", "reason": ""}
    try:
        found = origins_in(model)
        if found is not None:
            return found, {"from": "tables", "scope": found.scope} | _state(origins_freshness(model, found))
    except TableFormatError as error:
        state |= {"state": "malformed", "reason": short(str(error))}
    try:
        return origins_by_output(model, range(len(model))), state
    except ModelFormatError:  # an operator's output tensor does not exist; there is a finding about it
        return Origins({}, ({},) * len(model)), state


def _details(origins: Origins, ids: Sequence[int], links: SourceLinks) -> dict[str, list[str]]:
    """Return the class, line and address of each source, if any are known."""
    if not origins.details:
        return {}
    details = [origins.details_of(source) for source in ids]
    return {
        "source_classes": [short(one.class_name) for one in details],
        "source_lines": [short(one.place) for one in details],
        **({"source_urls": list(map(links.of, details))} if links.template else {}),
    }


def _affinity(model: ModelGraph) -> tuple[Affinity | None, dict[str, Any] | None]:
    """Return a model's affinity, and its devices with their colours."""
    try:
        found = read_affinity(model)
        if found is None:
            return None, None
        state = _state(check_freshness(model, found))
    except TableFormatError as error:
        return None, {"state": "malformed", "reason": short(str(error)), "devices": []}
    colors = device_colors(found)
    devices = [{"name": short(name), "color": colors[name]} for _, name in sorted(found.devices.items())]
    return found, state | {"devices": devices}


def _state(freshness: Freshness) -> dict[str, Any]:
    stale = freshness.state == "stale"
    return {"state": freshness.state, "reason": f"{freshness.place}: {freshness.reason}" if stale else ""}


def _fitting(affinity: Affinity | None, subgraph: int, count: int) -> SubgraphAffinity | None:
    """Return the affinity of a subgraph, or None if it does not fit; devices are numbered by ascending id."""
    known = None if affinity is None else affinity.subgraphs.get(subgraph)
    if affinity is None or known is None or len(known.devices) != count:
        return None
    rows = {device: row for row, device in enumerate(sorted(affinity.devices))}
    devices = [rows.get(device, NONE) for device in known.devices.tolist()]
    return SubgraphAffinity(np.array(devices, np.uint32), known.partitions)


def _transfers_json(graph: Graph, affinity: SubgraphAffinity) -> dict[str, Any] | None:
    try:
        sums = transfers(graph, affinity.partitions.tolist(), affinity.devices.tolist())
    except IndexError:  # a tensor does not exist; there is a finding about it
        return None
    return {
        "launches": sums.launches,
        "copies": sums.copies,
        "copied_bytes": sums.copied_bytes,
        "copies_of_unknown_size": sums.copies_of_unknown_size,
        "cut_count": len(sums.cuts),
        "cuts": [
            {
                "tensor": cut.tensor_index,
                "producer": or_none(cut.producer_partition),
                "consumers": [or_none(part) for part in cut.consumer_partitions[:MOST_CUTS]],
                "copies": cut.copies,
                "size_bytes": cut.size_bytes,
            }
            for cut in sums.cuts[:MOST_CUTS]
        ],
    }
