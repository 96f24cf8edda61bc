"""What is wrong with the origins of a model, as findings."""

from __future__ import annotations

from circletools.errors import TableFormatError
from circletools.findings import Finding
from circletools.model import Model
from circletools.origin.read import check_freshness, read_origins
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE, decode_op_table, decode_source_table


def origin_findings(model: Model) -> list[Finding]:
    """Return what is wrong with the tables; nothing where the model has none."""
    broken = _malformed(model)
    if broken:
        return broken
    try:
        origins = read_origins(model)
        if origins is None:
            return []
        freshness = check_freshness(model, origins)
    except TableFormatError as error:
        return [_from_error("MALFORMED_ORIGIN_TABLE", error)]
    if freshness.state == "stale":
        message = f"the tables no longer fit: {freshness.reason}"
        return [Finding("STALE_ORIGIN", "warning", freshness.place, message)]
    findings = []
    for subgraph, operators in zip(model.subgraphs, origins.operators, strict=True):
        missing = [index for index in range(len(subgraph.operators)) if index not in operators]
        if operators and missing and origins.scope != "shared":
            message = f"{len(missing)} of {len(subgraph.operators)} operators have no origin"
            place = f"subgraphs[{subgraph.index}].operators[{missing[0]}]"
            findings.append(Finding("PARTIAL_OP_TABLE", "info", place, message))
    return findings


def _malformed(model: Model) -> list[Finding]:
    source_table, op_table = model.metadata_value(SOURCE_TABLE), model.metadata_value(OP_TABLE)
    try:
        sources = {} if source_table is None else decode_source_table(source_table)
        if op_table is not None:
            decode_op_table(op_table)
    except TableFormatError as error:
        return [_from_error("MALFORMED_ORIGIN_TABLE", error)]
    try:
        if op_table is not None:
            decode_op_table(op_table, sources)
    except TableFormatError as error:
        return [_from_error("UNKNOWN_SOURCE_ID", error)]
    return []


def _from_error(code: str, error: TableFormatError) -> Finding:
    return Finding(code, "error", f"metadata {error.location}", error.message)
