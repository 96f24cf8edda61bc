"""Keeping the tables true while another rewrite appends operators."""

from __future__ import annotations

from circletools.edit.edit import ModelEdit
from circletools.edit.results import IndexMap
from circletools.metadata.stamp import STAMP, check_stamp, stamp_after
from circletools.origin.algebra import Origin, inherit
from circletools.origin.read import EXACT_TABLE, Origins, encode_exact, merge, read_origins
from circletools.origin.tables import OP_TABLE, encode_op_table


def follow(edit: ModelEdit) -> None:
    """Have the model's origin tables, if it has any, brought up to date when `edit` is saved.

    An added operator inherits the origins of the operators whose work it continues. A stamp that was fresh stays
    fresh; one that was stale is left as it is, since the tables are no better than before.
    """
    edit.before_save(_update)


def remap(origins: Origins, index_map: IndexMap) -> Origins:
    """Return the origins after an edit."""
    operators: list[dict[int, Origin]] = [dict(subgraph) for subgraph in origins.operators]
    for added in index_map.added:
        origin = inherit(operators[added.subgraph], added.inherits)
        operators[added.subgraph].pop(added.index, None)  # a stale table may know the index
        if origin:
            operators[added.subgraph][added.index] = origin
    return Origins(origins.sources, tuple(operators), origins.scope)


def _update(edit: ModelEdit) -> None:
    model, index_map = edit.model, edit.index_map
    if not index_map.added:
        return
    origins = read_origins(model)
    if origins is None:
        return
    changed = remap(origins, index_map)
    edit.set_metadata(OP_TABLE, encode_op_table(merge(changed.operators)))
    if model.metadata_value(EXACT_TABLE) is not None and origins.scope == "exact":
        edit.set_metadata(EXACT_TABLE, encode_exact(changed.operators))
    if check_stamp(model).state == "fresh":
        edit.set_metadata(STAMP, stamp_after(edit))
