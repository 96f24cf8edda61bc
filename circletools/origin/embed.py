"""Writing the tables into a model, and taking them out."""

from __future__ import annotations

from dataclasses import replace as replaced

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.entries import remove_entries, write_entries
from circletools.metadata.stamp import STAMP, encode_stamp, stamp_model
from circletools.origin.details import DETAILS_TABLE, encode_details
from circletools.origin.names import NameSource, collect_and_tell
from circletools.origin.read import EXACT_TABLE, Origins, encode_exact, merge
from circletools.origin.source import SourceDetails
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE, encode_op_table, encode_source_table

ORIGIN_ENTRIES = (SOURCE_TABLE, OP_TABLE, EXACT_TABLE, DETAILS_TABLE, STAMP)
"""The metadata entries that `embed` writes and `strip` removes, in the order they are written."""


def embed(
    edit: ModelEdit,
    origins: Origins | None = None,
    *,
    names: NameSource = NameSource.AUTO,
    replace: bool = False,
    stamp: bool = True,
) -> RewriteResult:
    """Write origins as metadata entries; without `origins`, those that the model's own `names` give.

    A note says which these were. The `stamp` tells later whether the tables still describe the operators. Raises
    EditError when the model has tables and `replace` is not set, or has no such names; UsageError when `origins`
    names an operator, subgraph or source that does not exist.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     ct.origins.embed(edit)
    ...     edit.save("out.circle")
    """
    model = model_graph(edit.model)
    present = [name for name in (SOURCE_TABLE, OP_TABLE) if model.metadata_value(name) is not None]
    if present and not replace:
        raise EditError(
            f"the model has origins already ({', '.join(present)})",
            hint="`replace=True` writes new ones; they may be all that is left of an earlier compilation",
        )
    notes: tuple[Finding, ...] = ()
    if origins is None:
        origins, note = collect_and_tell(model, names)
        notes = (note,)
    _check(model, origins)
    known = [{index: origin for index, origin in operators.items() if origin} for operators in origins.operators]
    entries = {
        SOURCE_TABLE: encode_source_table(origins.sources),
        OP_TABLE: encode_op_table(merge(known)),
        EXACT_TABLE: encode_exact(known) if any(known[1:]) else None,
        DETAILS_TABLE: encode_details(origins.details, origins.sources) if _known(origins) else None,
        STAMP: encode_stamp(stamp_model(model)) if stamp else None,
    }
    return replaced(write_entries(edit, entries), notes=notes)


def _known(origins: Origins) -> bool:
    """Tell whether anything is known of sources beside their names."""
    return any(details != SourceDetails() for details in origins.details.values())


def _check(model: ModelGraph, origins: Origins) -> None:
    for subgraph, operators in enumerate(origins.operators):
        if not operators:
            continue
        if subgraph >= len(model):
            raise UsageError(f"subgraph {subgraph} does not exist; there are {len(model)}")
        count, known = len(model.graphs[subgraph]), origins.sources.keys()
        wrong = next((operator for operator in (min(operators), max(operators)) if not 0 <= operator < count), None)
        if wrong is not None:
            location = f"subgraphs[{subgraph}].operators[{wrong}]"
            raise UsageError(f"the operator does not exist; there are {count}", location=location)
        for operator, origin in operators.items():
            if not origin <= known:
                location = f"subgraphs[{subgraph}].operators[{operator}]"
                raise UsageError(f"source {min(origin - known)} does not exist", location=location)


def strip(edit: ModelEdit) -> RewriteResult:
    """Remove all that `embed` writes."""
    return remove_entries(edit, ORIGIN_ENTRIES)
