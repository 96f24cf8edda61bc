"""The data of the page, as one JSON document that includes the verdicts of targets."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from circletools.affinity.exports.pictures import device_colors
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity, check_freshness, read_affinity
from circletools.check import check
from circletools.errors import InvalidInputError, ModelFormatError, TableFormatError
from circletools.fit.verdicts import Fit
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.html.graph import Columns, Interned, module_groups, module_layout, or_none, partition_layout, short
from circletools.html.html import NO_LINKS, SourceLinks
from circletools.inspection import inspect_model
from circletools.metadata.stamp import Freshness
from circletools.model.external import buffer_sizes
from circletools.model.model import Model
from circletools.model.views import OperatorCode
from circletools.origin.modules import ModuleTree, module_tree
from circletools.origin.names import origins_by_output
from circletools.origin.read import Origins, origins_freshness, origins_in
from circletools.origin.source import SourceDetails
from circletools.planning.evaluate import transfers
from circletools.profile.attribution import attribute_to
from circletools.profile.shares import OperatorTime
from circletools.render.attribution import attribution_json
from circletools.render.fit import fit_json
from circletools.render.inspection import inspection_json
from circletools.render.traces import trace_json
from circletools.storage.files import open_source
from circletools.trace.nnapi.analysis import Analysis, analyse
from circletools.trace.operators.profile import OperatorTrace
from circletools.trace.operators.read import read_profile
from circletools.trace.sources import open_trace
from circletools.version import __version__
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
) -> dict[str, Any]:
    """Return the page's document for the model `name`.

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
    return whole_document(name, whole.source.operator_codes, columns, subgraphs, parts) | {
        "model": shortened(inspection_json(inspect_model(model))),
        "findings": [shortened(asdict(finding)) for finding in findings],
        "affinity": affinity_state,
        "operator_traces": [
            shortened(operator_times(whole, trace, times, origins, modules))
            for trace in traces
            if (times := trace.operators) is not None
        ],
        "traces": [shortened(layer_times(trace, found)) for trace in traces if (found := trace.layers) is not None],
        **({} if fitted is None else {"fit": shortened(fit_document(fitted, links))}),
    }


def whole_document(
    name: str,
    codes: Iterable[OperatorCode],
    columns: Columns,
    subgraphs: list[dict[str, Any]],
    parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document of a page without findings, devices or traces; `subgraphs` were made with `columns`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "circletools": __version__,
        "name": name,
        "findings": [],
        "codes": [short(code.name) for code in codes],
        "types": columns.types.values,
        "shapes": columns.shapes.values,
        "subgraphs": subgraphs,
        "affinity": None,
        "operator_traces": [],
        "traces": [],
        **parts,
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
    """Return a model's origins, or sources named after its operators' outputs, and a note about the choice."""
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
    """Return a model's affinity, and its devices with their colors."""
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


# --- the times in traces: operator times joined with the model, and times of NNAPI's layers and phases ----------

MOST_RUNS = 100
MOST_FUNCTIONS = 500
"""The maximum number of runs, and of functions, that a page lists for a trace; sums include all of them."""


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """A trace with the times of operators, of NNAPI's layers and phases, or both."""

    name: str
    operators: OperatorTrace | None
    layers: Analysis | None

    @property
    def title(self) -> str:
        """The name of the file without its folder, which a shared page should not reveal."""
        return os.path.basename(self.name)


def read_times(source: str, skip: int = 0) -> ReadTrace:
    """Read a trace of either kind without its first `skip` executions of operators; `-` means standard input.

    Raises InvalidInputError if the trace cannot be read or is of neither kind, and UsageError for too few executions.
    """
    content = bytes(open_source(source).octets) if source == "-" else source
    name = "<standard input>" if source == "-" else source
    operators = layers = None
    try:
        operators = read_profile(content, skip=skip)
    except InvalidInputError as error:
        refused = error
    with suppress(InvalidInputError):  # the other reader knows more formats, so its error is more helpful
        layers = analyse(open_trace(content))  # unlike `read_trace`, this does not warn
    if layers is not None and any(diagnostic.code == "T001" for diagnostic in layers.diagnostics):
        layers = None
    if operators is None and layers is None:
        message = f"the trace has neither operator times nor NNAPI marks: {refused.message}"
        raise InvalidInputError(message, location=name, hint="docs/trace.md shows how to record them")
    return ReadTrace(name, operators, layers)


def operator_times(
    model: ModelGraph, trace: ReadTrace, times: OperatorTrace, origins: Origins, modules: ModuleTree
) -> dict[str, Any]:
    """Return the times of a trace's operators, by operator, source and module.

    Raises InvalidInputError if the trace belongs to another model.
    """
    try:
        found = attribute_to(model, times, origins)
    except InvalidInputError as error:
        error.location = trace.name
        raise
    backends = Interned()
    by_subgraph: dict[int, list[OperatorTime]] = defaultdict(list)
    for row in found.operators:
        by_subgraph[row.subgraph].append(row)
    rows = {source: row for row, source in enumerate(sorted(origins.sources))}
    in_module = {group.name: group.time.total_ns for group in found.modules}
    known = {rows[group.source]: group.time.total_ns for group in found.sources if group.source is not None}
    whole = attribution_json(found, ())
    return {
        **{key: whole[key] for key in whole if key not in ("schema_version", "sources_from", "ambiguous")},
        "name": trace.title,
        "subgraphs": [_times(by_subgraph[index], backends) for index in range(len(model))],
        "backends": [" ".join(names) for names in backends.values],
        "sources_ns": [known.get(row, 0) for row in range(len(rows))],
        "modules_ns": [in_module.get(path, 0) for path in modules.paths],
        "no_origin_ns": sum(group.time.total_ns for group in found.sources if group.source is None),
    }


def _times(rows: Sequence[OperatorTime], backends: Interned) -> dict[str, list[int | None]]:
    """Return the times of a subgraph's operators; null for operators missing from the trace."""
    return {
        "runs": [row.time.runs if row.time else None for row in rows],
        "total_ns": [row.time.total_ns if row.time else None for row in rows],
        "median_ns": [row.time.median_ns if row.time else None for row in rows],
        "backend": [backends(row.backends) for row in rows],
    }


def layer_times(trace: ReadTrace, analysis: Analysis) -> dict[str, Any]:
    """Return the times of NNAPI's layers and phases, for all runs together and for each of the first hundred runs."""
    document = trace_json(analysis)
    functions = document["functions"]
    return {
        "name": trace.title,
        "trace": document["trace"] | {"name": trace.title},
        "buckets": analysis.tables.total(analysis.tables).to_rows(),
        "runs": document["runs"][:MOST_RUNS],
        "run_count": len(document["runs"]),
        "driver_executions": document["driver_executions"],
        "functions": [function | {"name": short(function["name"])} for function in functions[:MOST_FUNCTIONS]],
        "function_count": len(functions),
        "diagnostics": [
            diagnostic | {"location": diagnostic["location"].replace(trace.name, trace.title, 1)}
            for diagnostic in document["diagnostics"]
        ],
    }
