"""Write the origin tables into a model, remove them, or extract them without decoding them."""

from __future__ import annotations

import os
from dataclasses import replace as replaced

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, InvalidInputError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import encode_ascending
from circletools.metadata.entries import remove_entries, write_entries
from circletools.metadata.stamp import STAMP, encode_stamp, stamp_model
from circletools.model.model import Model
from circletools.origin.names import NameSource, name_operators
from circletools.origin.numbering import OriginColumns
from circletools.origin.read import EXACT_TABLE, Origins, pack_exact
from circletools.origin.source import DETAILS_TABLE, NOTHING, encode_details
from circletools.origin.tables import EXECUTION_PLAN_TABLE, OP_TABLE, SOURCE_TABLE, encode_operator_keys

ORIGIN_ENTRIES = (SOURCE_TABLE, OP_TABLE, EXACT_TABLE, DETAILS_TABLE, STAMP)
"""The metadata entries that `embed` writes and `strip` removes, in the order in which they are written."""


def embed(
    edit: ModelEdit,
    origins: Origins | None = None,
    *,
    names: NameSource = NameSource.AUTO,
    replace: bool = False,
    stamp: bool = True,
    absolute_paths: bool = False,
) -> RewriteResult:
    """Write origins as metadata entries; without `origins`, derive them from the model's names, selected by `names`.

    A note states which names were used. The `stamp` makes it possible to detect later that the operators have
    changed. File names are relative to the working directory, or begin with their package, unless `absolute_paths` is
    set. Raises EditError if the model has tables and `replace` is not set, or if it lacks the selected names; and
    InvalidInputError if `origins` refers to an operator, subgraph or source that does not exist, or comes from a
    document that gives most operators other codes. If it gives only some other codes or outputs, a note warns.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     ct.origins.embed(edit)
    ...     edit.save("out.circle")
    """
    model = model_graph(edit.model)
    present = [name for name in (SOURCE_TABLE, OP_TABLE) if model.metadata_value(name) is not None]
    if present and not replace:
        raise EditError(
            f"the model already has origins ({', '.join(present)})",
            hint="`replace=True` writes new ones; the old ones may be the only record of an earlier compilation",
        )
    notes: tuple[Finding, ...] = ()
    if origins is None:
        columns, notes = name_operators(model, names)
    else:
        notes = _check(model, origins)
        columns = OriginColumns.of(origins)
    described = {subgraph: keys for subgraph, keys in columns.keys.items() if len(keys)}
    tables = {subgraph: encode_operator_keys(keys) for subgraph, keys in described.items()}
    details = {source: one for source, one in columns.details.items() if one != NOTHING}
    if not absolute_paths:
        root = os.getcwd()
        details = {source: one.relative(root) for source, one in details.items()}
    name_of = dict(zip(columns.numbers, columns.names, strict=True)) if details else {}
    united = [np.empty(0, np.uint64), *described.values()]  # the ONE compiler merges entries with equal indices
    entries = {
        SOURCE_TABLE: encode_ascending(columns.numbers, columns.names),
        OP_TABLE: tables[0] if [*tables] == [0] else encode_operator_keys(np.concatenate(united)),
        EXACT_TABLE: pack_exact(tables) if any(tables) else None,
        DETAILS_TABLE: encode_details(details, name_of) if details else None,
        STAMP: encode_stamp(stamp_model(model)) if stamp else None,
    }
    return replaced(write_entries(edit, entries), notes=notes)


def _check(model: ModelGraph, origins: Origins) -> tuple[Finding, ...]:
    """Reject origins that do not belong to this model; return a note if some may not belong to it."""
    known, stated = origins.sources.keys(), origins.stated
    for subgraph, operators in enumerate(origins.operators):
        if operators and subgraph >= len(model):
            raise _refusal(origins, f"subgraph {subgraph} does not exist; the count is {len(model)}")
        count = len(model.graphs[subgraph]) if operators else 0
        for operator in (min(operators), max(operators)) if operators else ():
            if not 0 <= operator < count:
                raise _refusal(origins, f"the operator does not exist; the count is {count}", subgraph, operator)
        for operator, origin in operators.items():
            if not origin <= known:
                raise _refusal(origins, f"source {min(origin - known)} does not exist", subgraph, operator)
    own = {
        (one.index, row): found
        for one in (model.graphs if stated else ())
        for row, found in enumerate(zip(one.operators.code_names, one.operators.first_result_names, strict=True))
    }
    pairs = [(place, *said, *own.get(place, ("", ""))) for place, said in stated.items()]
    codes = [place for place, code, _, own_code, _ in pairs if code != own_code]
    names = [place for place, _, name, _, own_name in pairs if name and own_name and name != own_name]
    if 2 * len(codes) > len(stated):
        words = f"the origins are of another model: {len(codes):,} of {len(stated):,} operator codes differ"
        raise _refusal(origins, words)
    if not (wrong := {*codes, *names}):
        return ()
    words = f"{len(wrong):,} of {len(stated):,} operators differ from the origins in code or output"
    return (Finding("STALE_ORIGIN", "warning", "subgraphs[{}].operators[{}]".format(*min(wrong)), words),)


def _refusal(origins: Origins, message: str, *place: int) -> InvalidInputError:
    location = "subgraphs[{}].operators[{}]".format(*place) if place else None
    error = InvalidInputError(message, location=location)
    if origins.document:
        error.name_file(origins.document)
    return error


def strip(edit: ModelEdit) -> RewriteResult:
    """Remove everything that `embed` writes."""
    return remove_entries(edit, ORIGIN_ENTRIES)


def extract(model: Model) -> dict[str, bytes]:
    """Return the metadata entries of the origins and the execution plan, by name; empty if there are no origins.

    The values are not decoded, so malformed tables are returned too.
    """
    tables = {name: model.metadata_value(name) for name in (*ORIGIN_ENTRIES, EXECUTION_PLAN_TABLE)}
    if tables[SOURCE_TABLE] is None and tables[OP_TABLE] is None:
        return {}
    return {name: bytes(value) for name, value in tables.items() if value is not None}
