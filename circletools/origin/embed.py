"""Write, remove and extract origin tables; keep them valid in other rewrites; tag tensors with their operators."""

from __future__ import annotations

import os
import re
from dataclasses import replace as replaced

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import IndexMap, RewriteResult
from circletools.errors import EditError, InvalidInputError
from circletools.findings import Finding
from circletools.flatbuf.columns import places_in_rows
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.metadata.codec import encode_ascending
from circletools.metadata.entries import remove_entries, stamp_after, write_entries
from circletools.metadata.stamp import STAMP, compare_stamp, encode_stamp, stamp_model
from circletools.model.model import Model
from circletools.model.views import text
from circletools.origin.names import NameSource, name_operators
from circletools.origin.read import (
    EXACT_TABLE,
    OriginColumns,
    Origins,
    check_freshness,
    decode_origins,
    encode_exact,
    merge,
    pack_exact,
)
from circletools.origin.source import DETAILS_TABLE, NOTHING, UNKNOWN, Origin, encode_details
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    encode_op_table,
    encode_operator_keys,
)

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
    document in which most operators have other codes. If only some codes or outputs differ, a note warns of this.

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
    pairs = [(place, *recorded, *own.get(place, ("", ""))) for place, recorded in stated.items()]
    codes = [place for place, code, _, own_code, _ in pairs if code != own_code]
    names = [place for place, _, name, _, own_name in pairs if name and own_name and name != own_name]
    if 2 * len(codes) > len(stated):
        words = f"the origins belong to another model: {len(codes):,} of {len(stated):,} operator codes differ"
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


# --- keep the tables valid while another rewrite appends operators ---------------------------------------------


def follow(edit: ModelEdit) -> None:
    """Update the origin tables, existing or newly written, when `edit` is saved.

    An added operator inherits the origins of the operators whose work it continues. A fresh stamp stays fresh; a
    stale stamp is kept, since the tables remain stale.
    """
    written: list[bytes] = []  # the stamp that was written last, since an edit may be saved twice

    def update(edit: ModelEdit) -> None:
        if not edit.index_map.added and not edit.renamed:
            return
        origins = decode_origins(model_graph(edit.model), edit.metadata_value)
        if origins is None:
            return
        if edit.index_map.added:
            changed = remap(origins, edit.index_map)
            edit.set_metadata(OP_TABLE, encode_op_table(merge(changed.operators)))
            if edit.metadata_value(EXACT_TABLE) is not None and origins.scope == "exact":
                edit.set_metadata(EXACT_TABLE, encode_exact(changed.operators))
        stamp = edit.metadata_value(STAMP)
        known = _named(edit, origins) if stamp is None else bytes(stamp) in written
        if known or compare_stamp(model_graph(edit.model), stamp).state == "fresh":
            written[:] = [stamp_after(edit)]
            edit.set_metadata(STAMP, written[0])

    edit.before_save(update)


def remap(origins: Origins, index_map: IndexMap) -> Origins:
    """Return the origins after an edit."""
    operators: list[dict[int, Origin]] = [dict(subgraph) for subgraph in origins.operators]
    for added in index_map.added:
        origin = UNKNOWN.union(*(operators[added.subgraph].get(parent, UNKNOWN) for parent in added.inherits))
        operators[added.subgraph].pop(added.index, None)  # a stale table may contain the index
        if origin:
            operators[added.subgraph][added.index] = origin
    return Origins(origins.sources, tuple(operators), origins.scope, origins.details)


def _named(edit: ModelEdit, origins: Origins) -> bool:
    """Return whether an edit renames tensors without a stamp, so that only their names can identify sources."""
    unstamped = len(edit.model.subgraphs) == 1 and check_freshness(edit.model, origins).state == "unstamped"
    return bool(edit.renamed) and unstamped


# --- tags: tensor names that identify the operator that produces the tensor, for tools that preserve names -----
#
#     ct.origins.tag(edit)        # `conv/Relu` becomes `circletools:0:17:0`: subgraph, operator, index of the output
#     the tool                    # `circletools:0:17:0_dequant`, or `circletools:0:17:0;circletools:0:18:0`
#     ct.track_origins(...)       # operator 17 of subgraph 0
#     ct.origins.untag(edit, ..)  # `conv/Relu_dequant`


TAG = re.compile(rb"circletools:(\d{1,9}):(\d{1,9}):(\d{1,9})(?!\d)")


def tags_of(model: ModelGraph) -> list[dict[int, bytes]]:
    """Return, by subgraph, the tag of each tensor that an operator produces; if several do, the last one counts.

    Raises ModelFormatError for a tensor that does not exist.
    """
    tags: list[dict[int, bytes]] = []
    for graph in model.graphs:
        graph.check_values()
        operators, values = graph.definitions
        places = places_in_rows(np.bincount(operators, minlength=len(graph)))
        rows = zip(values.tolist(), operators.tolist(), places.tolist(), strict=True)
        tags.append(
            {value: b"circletools:%d:%d:%d" % (graph.index, operator, place) for value, operator, place in rows}
        )
    return tags


def tag(edit: ModelEdit) -> RewriteResult:
    """Name each tensor after the operator that produces it, to track origins through a tool that preserves names.

    Names in signatures are kept. Raises ModelFormatError for a broken model.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.origins.tag(edit)
    ...     edit.save("tagged.tflite")
    """
    tags = tags_of(model_graph(edit.model))
    for subgraph, own in enumerate(tags):
        for tensor in sorted(own):
            edit.rename_tensor(subgraph, tensor, own[tensor].decode())
    count = sum(map(len, tags))
    return RewriteResult((f"tensors named after the operators that produce them: {count}",) if count else ())


def untag(edit: ModelEdit, before: Model) -> RewriteResult:
    """Give tensors with tags the names that they have in `before`; text that a tool added to a tag is kept.

    Raises ModelFormatError for a broken model.
    """
    old_graph = model_graph(before)
    known = {
        tag: graph.values.names[value]
        for graph, own in zip(old_graph.graphs, tags_of(old_graph), strict=True)
        for value, tag in own.items()
    }
    renamed = 0
    for graph in model_graph(edit.model).graphs:
        for tensor, name in enumerate(graph.values.names):
            old = TAG.sub(lambda found: known.get(found[0], found[0]), name)
            if old and old != name:
                edit.rename_tensor(graph.index, tensor, text(old))
                renamed += 1
    return RewriteResult((f"tensors renamed back to their old names: {renamed}",) if renamed else ())


def only_tags(name: bytes, known: frozenset[bytes]) -> bytes:
    """Return the tags in a name, joined by `;` as TensorFlow joins names; the name itself if it has no tag."""
    found = [tag[0] for tag in TAG.finditer(name) if tag[0] in known]
    return b";".join(found) if found else name
