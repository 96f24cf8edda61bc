"""Shape and data of a tensor in an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from circletools.errors import EditError, UsageError
from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.model.model import Model


def number(table: NewTable, name: str) -> int:
    """Return a numeric field of a new table, 0 if absent."""
    value = table[name] or b""
    assert isinstance(value, bytes)
    return int.from_bytes(value, "little", signed=True)


def original_tensor(original: Model, overlay: Overlay, subgraph: int, index: int) -> NewTable | None:
    """Return the table of a tensor in the original file, or None if it is new."""
    columns = original.tensor_columns
    if subgraph >= len(columns.splits) - 1 or index >= len(columns.rows_of(subgraph)):
        return None
    return overlay.copy("Tensor", int(columns.tables.at[columns.rows_of(subgraph)[index]]) + overlay.base)


def resize(
    table: NewTable, before: NewTable | None, shape: Sequence[int], shape_signature: Sequence[int] | None
) -> None:
    """Set the shape of a tensor, and its shape signature, if any.

    `before` is the tensor in the original file, which decides whether an empty vector is present or absent.
    """
    shape, shape_signature = list(shape), None if shape_signature is None else list(shape_signature)
    table.set("shape", None if before is not None and not shape and before["shape"] is None else shape)
    kept = bool(shape_signature) or (before is not None and before["shape_signature"] is not None)
    table.set("shape_signature", shape_signature if kept else None)


def change_quantized_dimension(overlay: Overlay, table: NewTable, axis: int) -> None:
    """Set the quantized dimension of a tensor. Raises UsageError if the tensor is not quantized."""
    quantization = overlay.below(table, "quantization", "QuantizationParameters")
    if quantization is None:
        raise UsageError("the tensor is not quantized")
    quantization.set("quantized_dimension", axis or None)
    table.set("quantization", quantization)


def constant_bytes(table: NewTable, data: bytes | NDArray[Any], types: Mapping[int, str]) -> bytes:
    """Return data of a tensor as encoded in a buffer.

    Raises UsageError if the array has another type, EditError if the tensor's data is in another file.
    """
    if "external_buffer" in table.type.by_name and number(table, "external_buffer"):
        raise EditError("the values are in another file (external_buffer)", hint="change that file")
    if isinstance(data, bytes):
        return data
    kind = types.get(number(table, "type"), "")
    if data.dtype.name.upper() != kind:
        raise UsageError(f"the tensor is {kind}, the array {data.dtype.name.upper()}", hint="convert the array")
    return data.astype(data.dtype.newbyteorder("<")).tobytes()
