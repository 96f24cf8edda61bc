"""Check whether a model can be edited, and find the start of the original file in it."""

from __future__ import annotations

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.overlay import find_base
from circletools.flatbuf.verify import walk
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.model.verify import check_model, is_dangling


def check_editable(model: Model) -> None:
    """Raise ModelFormatError for a broken structure, and EditError for an index or a file position out of range.

    New entries could make such an index valid, and moving the file could make such a position valid.
    """
    broken = next(filter(is_dangling, check_model(model)), None)
    if broken is not None:
        raise EditError(
            f"{broken.message}; new objects could make this reference valid",
            location=broken.location,
            hint="`circletool check --structure-only` lists all such places",
        )


def original_start(model: Model) -> int:
    """Return the length of the prefix that edits wrote; 0 if there is none or the original file depends on it."""
    base = find_base(model.wire, model.schema)
    if base:
        try:
            walk(Wire(model.wire.memory[base:]), model.schema)
        except ModelFormatError:
            return 0
        for tables in model.reachable.tables.values():
            if (tables.vtable[tables.at >= base] < base).any():
                return 0
        for data in external_data(model):
            tables = model.buffers.tables if data.kind == "Buffer" else model.operator_columns.tables
            if (tables.at[data.rows] >= base).any() or (data.offsets < base).any():
                return 0  # an edit would have written such a table into the prefix
    return base
