"""The quantization of tensors as values."""

from __future__ import annotations

from typing import Any

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Schema
from circletools.model.options import named_fields, union_tables
from circletools.model.views import Quantization


def quantizations(tensors: Tables, schema: Schema) -> dict[int, Quantization]:
    """Return the quantization of each quantized tensor, by its row in `tensors`."""
    tables, owners = tensors.child("quantization", schema)
    details: dict[int, tuple[str, dict[str, Any]]] = {}
    for rows, some in union_tables(tables, "details", schema):
        values = [(some.type.name, fields) for fields in named_fields(some, schema)]
        details |= dict(zip(rows.tolist(), values, strict=True))
    scales, zeros, lowest, highest = (tables.vectors(name) for name in ("scale", "zero_point", "min", "max"))
    axes = tables.scalars("quantized_dimension").tolist()
    found = {}
    for row, owner in enumerate(owners.tolist()):
        quantization = Quantization(
            tuple(scales.row(row).tolist()),
            tuple(zeros.row(row).tolist()),
            axes[row],
            tuple(lowest.row(row).tolist()),
            tuple(highest.row(row).tolist()),
            *details.get(row, ("", {})),
        )
        if quantization.scale or quantization.minimum or quantization.kind:  # converters write empty tables too
            found[owner] = quantization
    return found
