"""Findings about the origins of a model."""

from __future__ import annotations

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.graph.graph import ModelGraph
from circletools.metadata.stamp import Freshness
from circletools.origin.read import Origins, origins_freshness, origins_in
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    decode_execution_plan,
    decode_op_table,
    decode_source_table,
)
from circletools.wording import numbered


def origin_findings(model: ModelGraph) -> list[Finding]:
    """Return findings about the origin tables; none if the model has no such tables."""
    return [*_of_origins(model), *_of_plan(model)]


def _of_plan(model: ModelGraph) -> list[Finding]:
    """Return findings about the execution plan that the ONE compiler stores with the origins."""
    plan = model.metadata_value(EXECUTION_PLAN_TABLE)
    try:
        if plan is not None:
            decode_execution_plan(plan)
    except TableFormatError as error:
        message = f"{error.message}; run `circletool metadata remove --name {EXECUTION_PLAN_TABLE}`"
        return [Finding("MALFORMED_EXECUTION_PLAN", "warning", f"metadata {error.location}", message)]
    return []


def _of_origins(model: ModelGraph) -> list[Finding]:
    source_table, op_table = model.metadata_value(SOURCE_TABLE), model.metadata_value(OP_TABLE)
    code = "MALFORMED_ORIGIN_TABLE"
    try:
        sources = {} if source_table is None else decode_source_table(source_table)
        if op_table is not None:
            decode_op_table(op_table)
            code = "UNKNOWN_SOURCE_ID"
            decode_op_table(op_table, sources)
            code = "MALFORMED_ORIGIN_TABLE"
        origins = origins_in(model)
        return [] if origins is None else table_findings(model, origins, origins_freshness(model, origins))
    except TableFormatError as error:
        message = f"{error.message}; run `circletool metadata remove --origins`"
        return [Finding(code, "error", f"metadata {error.location}", message)]


def table_findings(model: ModelGraph, origins: Origins, freshness: Freshness) -> list[Finding]:
    """Return findings where the decoded tables do not fit the model's operators, or omit some."""
    if freshness.state == "stale":
        message = f"the origins are stale: {freshness.reason}; embed new origins, or track those of the earlier model"
        return [Finding("STALE_ORIGIN", "warning", freshness.place, message)]
    if not any(origins.operators) and any(map(len, model.graphs)):
        message = "the tables name no operator; this is harmless outside the ONE compiler"
        return [Finding("PARTIAL_OP_TABLE", "info", f"metadata {OP_TABLE}", message)]
    if origins.scope == "shared":
        return []
    findings = []
    for subgraph, operators in zip(model.graphs, origins.operators, strict=True):
        count = len(subgraph)
        lost = [index for index in range(count) if index not in operators] if operators else []
        if lost:
            message = f"the table omits {len(lost)} of {count} operators; this is harmless outside the ONE compiler"
            place = subgraph.place(lost[0])
            findings.append(Finding("PARTIAL_OP_TABLE", "info", place, message))
    bare = [index for index in model.entries if not origins.operators[index] and len(model.graphs[index])]
    if bare and any(origins.operators):
        message = f"there are no origins in {numbered(bare, 'subgraph')}; `embed-origins --replace` adds them"
        findings.append(Finding("SUBGRAPH_WITHOUT_ORIGINS", "info", f"subgraphs[{bare[0]}]", message))
    return findings
