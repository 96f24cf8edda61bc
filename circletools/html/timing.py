"""The times in traces for the page: operator times joined with the model, and times of NNAPI's layers and phases."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from circletools.errors import InvalidInputError
from circletools.graph.graph import ModelGraph
from circletools.html.graph import Interned, short
from circletools.origin.modules import ModuleTree
from circletools.origin.read import Origins
from circletools.profile.attribution import attribute_to
from circletools.profile.shares import OperatorTime
from circletools.render.attribution import attribution_json
from circletools.render.traces import trace_json
from circletools.storage.files import open_source
from circletools.trace.nnapi.analysis import Analysis, analyse
from circletools.trace.operators.profile import OperatorTrace
from circletools.trace.operators.read import read_profile
from circletools.trace.sources import open_trace

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
    in_module = {group.name: group.share.time.total_ns for group in found.modules}
    known = {rows[group.source]: group.share.time.total_ns for group in found.sources if group.source is not None}
    whole = attribution_json(found, ())
    return {
        **{key: whole[key] for key in whole if key not in ("schema_version", "sources_from", "ambiguous")},
        "name": trace.title,
        "subgraphs": [_columns(by_subgraph[index], backends) for index in range(len(model))],
        "backends": [" ".join(names) for names in backends.values],
        "sources_ns": [known.get(row, 0) for row in range(len(rows))],
        "modules_ns": [in_module.get(path, 0) for path in modules.paths],
        "no_origin_ns": sum(group.share.time.total_ns for group in found.sources if group.source is None),
    }


def _columns(rows: Sequence[OperatorTime], backends: Interned) -> dict[str, list[int | None]]:
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
