"""Keep the origin tables valid while another rewrite appends operators."""

from __future__ import annotations

from circletools.edit.edit import ModelEdit
from circletools.edit.results import IndexMap
from circletools.graph.build import model_graph
from circletools.metadata.entries import stamp_after
from circletools.metadata.stamp import STAMP, compare_stamp
from circletools.origin.read import EXACT_TABLE, Origins, check_freshness, decode_origins, encode_exact, merge
from circletools.origin.source import UNKNOWN, Origin
from circletools.origin.tables import OP_TABLE, encode_op_table


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
    """Return whether an edit renames tensors although, without a stamp, only their names may identify sources."""
    unstamped = len(edit.model.subgraphs) == 1 and check_freshness(edit.model, origins).state == "unstamped"
    return bool(edit.renamed) and unstamped
