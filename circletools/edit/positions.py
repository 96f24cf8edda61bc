"""Rewrite tables that contain positions in the file, which an edit moves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.model.external import external_data
from circletools.model.model import Model


def open_file_offsets(model: Model, overlay: Overlay, root: NewTable, put_back: Iterable[int]) -> None:
    """Open each table that contains a position in the file for changes, since the file is about to move.

    `put_back` are buffers of the original file that the model lacks and the edit restored.
    """
    splits = model.operator_columns.splits
    buffers = set(put_back)
    operators: list[int] = []
    for data in external_data(model):
        (buffers.update if data.kind == "Buffer" else operators.extend)(data.rows.tolist())
    for row in sorted(buffers):
        references = overlay.references(root, "buffers")
        if row < len(references):  # an edit may have dropped it
            overlay.element(references, "Buffer", row)
    for row in operators:
        index = int(np.searchsorted(splits, row, "right")) - 1
        subgraph = overlay.element(overlay.references(root, "subgraphs"), "SubGraph", index)
        overlay.element(overlay.references(subgraph, "operators"), "Operator", row - int(splits[index]))
