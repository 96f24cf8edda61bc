"""Check that the type, shape, data and quantization of every tensor are consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.flatbuf.columns import Tables
from circletools.model.arrays import sparse_elements
from circletools.model.model import Model
from circletools.model.sizes import bits_of, element_counts
from circletools.model.verify import findings_at
from circletools.soundness.graph_findings import CORRECT
from circletools.soundness.whole import Whole

_LARGEST_BYTES = 2.0**31
_SPARSE = ("FULLY_CONNECTED", "DENSIFY", "DEQUANTIZE")  # all that look at sparsity in LiteRT and its XNNPACK delegate
_UNSIZED = ("STRING", "RESOURCE", "VARIANT")


def tensor_findings(model: Model, whole: Whole) -> Iterator[Finding]:
    """Yield findings about tensors; all indices of the model must be in range."""
    columns = model.tensor_columns
    unknown = np.flatnonzero(~np.isin(columns.types, list(model.schema.enums["TensorType"])))
    yield from findings_at(
        "UNKNOWN_TENSOR_TYPE",
        unknown,
        whole.tensor,
        lambda row: f"the type {columns.types[row]} is unknown; {CORRECT}",
    )
    sizes = columns.shapes.flat()
    yield from _shapes(whole, sizes)
    yield from _data(model, whole, element_counts(columns.shapes, sizes))
    yield from _variables(model, whole)
    yield from _quantization(model, whole)


def _shapes(whole: Whole, sizes: NDArray[Any]) -> Iterator[Finding]:
    columns = whole.tensors
    shapes, signatures = columns.shapes, columns.shape_signatures
    negative = shapes.rows_where(sizes < 0)
    negative = negative[~whole.graph.values.is_type(*_UNSIZED)[negative]]  # LiteRT computes no size for these types
    yield from findings_at(
        "NEGATIVE_DIMENSION",
        negative,
        whole.tensor,
        lambda row: f"the shape is {shapes.row(row).tolist()}; write 1 in the shape, and -1 in the shape signature",
    )
    ranks, signed = shapes.count, signatures.count
    different = np.flatnonzero((signed > 0) & (signed != ranks))
    yield from findings_at(
        "SHAPE_SIGNATURE_MISMATCH",
        different,
        whole.tensor,
        lambda row: f"the shape has rank {ranks[row]}, but the shape signature has rank {signed[row]}; {CORRECT}",
    )


def _data(model: Model, whole: Whole, elements: NDArray[np.float64]) -> Iterator[Finding]:
    """Compare the sizes of constants with their shapes."""
    columns, buffers = model.tensor_columns, model.buffers
    bits = bits_of(columns.types, model.schema.enums["TensorType"])
    expected = np.ceil(elements * bits / 8)
    large, fixed = np.flatnonzero(expected >= _LARGEST_BYTES), whole.is_input | whole.graph.values.is_variable
    ends = ("; LiteRT computes the shape", "", "; LiteRT refuses the tensor")

    def size_of(row: int) -> str:
        end, shape = ends[max(2 * int(fixed[row]), int(whole.has_data[row]))], columns.shapes.row(row).tolist()
        return f"the shape {shape} takes {expected[row]:.4g} bytes; the limit is 2 GiB{end}"

    yield from findings_at("TENSOR_TOO_LARGE", large, whole.tensor, size_of)
    if not len(buffers):
        return
    indices = columns.buffers.astype(np.int64)
    inside = buffers.tables.has("data") if model.format == "tflite" else buffers.data.count > 0
    outside = np.where(buffers.external, buffers.sizes.astype(np.float64), 0)
    actual = np.where(inside, buffers.data.count, outside)[indices]
    sparse = columns.tables.has("sparsity")
    compared = (indices > 0) & (inside | buffers.external)[indices] & (bits > 0)
    readers, read = whole.graph.uses
    unpacked = read[whole.graph.operators.is_code(*_SPARSE)[readers]]
    for row in np.flatnonzero(compared & sparse).tolist():
        stored = sparse_elements(columns.tables.take(slice(row, row + 1)), model.schema)
        if isinstance(stored, str):
            is_dense = bool(actual[row] >= expected[row]) and row not in unpacked
            known = "LiteRT reads the values as dense ones; " * is_dense
            yield Finding("INVALID_SPARSITY", "warning", whole.tensor(row), f"{stored}; {known}{CORRECT}")
            compared[row] = False
        else:
            expected[row] = np.ceil(stored * bits[row] / 8)

    def message(row: int) -> str:
        size = f"the shape {columns.shapes.row(row).tolist()} takes {expected[row]:.15g} bytes"
        return f"{size}, but buffer {indices[row]} has {actual[row]:.15g}; {CORRECT}"

    short = np.flatnonzero(compared & (actual < expected))
    yield from findings_at("CONSTANT_TOO_SHORT", short, whole.tensor, message)
    long = np.flatnonzero(compared & (actual > expected))
    yield from findings_at("CONSTANT_TOO_LONG", long, whole.tensor, message, "info")


def _variables(model: Model, whole: Whole) -> Iterator[Finding]:
    values = whole.graph.values
    invalid = values.is_variable & (whole.has_data | values.is_type(*_UNSIZED))
    message = f"a variable has data, or a type of unknown size; LiteRT refuses both; {CORRECT}"
    yield from findings_at("INVALID_VARIABLE", np.flatnonzero(invalid), whole.tensor, lambda _: message)


# --- quantization -------------------------------------------------------------------------------------------


def _quantization(model: Model, whole: Whole) -> Iterator[Finding]:
    tables, rows = whole.graph.values.quantization
    if not len(tables):
        return
    scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
    axis = tables.scalars("quantized_dimension").astype(np.int64)
    shapes = model.tensor_columns.shapes.take(rows)
    some, ranked = scales.count > 0, shapes.count > 0
    inside = (axis >= 0) & ((axis < shapes.count) | ~ranked)
    sizes = np.ones(len(rows), np.int64)
    along = some & ranked & inside
    sizes[along] = shapes.wire.gather(shapes.start[along] + 4 * axis[along], shapes.dtype)
    values, wrong = scales.flat(), np.zeros(len(scales.count), np.bool_)
    wrong[scales.rows_where(~(np.isfinite(values) & (values > 0)))] = True
    texts: tuple[tuple[NDArray[np.bool_], Callable[[int], str]], ...] = (
        (
            some & (zeros.count != scales.count),
            lambda at: f"the numbers of scales and zero points differ: {scales.count[at]} and {zeros.count[at]}",
        ),
        (some & ~inside, lambda at: f"quantized_dimension is {axis[at]}, but the tensor has rank {shapes.count[at]}"),
        (
            along & (scales.count != 1) & (scales.count != sizes),
            lambda at: f"dimension {axis[at]} of size {sizes[at]} has {scales.count[at]} scales",
        ),
        (some & wrong, lambda _: "a scale is not a positive number"),
    )
    for broken, text in texts:

        def message(at: int, text: Callable[[int], str] = text) -> str:
            return f"{text(at)}; {CORRECT}"

        found = np.flatnonzero(broken)
        yield from findings_at("INVALID_QUANTIZATION", found, lambda at: whole.tensor(int(rows[at])), message)
    yield from _blocks(model, whole, tables, rows)


def _blocks(model: Model, whole: Whole, tables: Tables, rows: NDArray[np.int64]) -> Iterator[Finding]:
    """Compare the number of scales of blockwise quantization with the number of blocks."""
    field = tables.field("details")
    members = model.schema.unions[str(field.target)]
    blockwise = [code for code, member in members.items() if member == "BlockwiseQuantization"]
    found = np.flatnonzero(np.isin(tables.union_codes(field), blockwise))
    if not found.size:
        return
    targets = tables.targets("details")
    message = f"the sizes of its blocks are missing; {CORRECT}"
    yield from findings_at("INVALID_QUANTIZATION", rows[found[targets[found] == 0]], whole.tensor, lambda _: message)
    columns, int4 = model.tensor_columns, model.schema.enum_value("TensorType", "INT4")
    is_plain = whole.graph.values.is_type(*_UNSIZED, "FLOAT32", "FLOAT16")  # nothing reads their quantization
    for at in found[targets[found] != 0].tolist():
        row = int(rows[at])
        details = Tables(tables.wire, model.schema.tables["BlockwiseQuantization"], targets[at : at + 1])
        size, index = int(details.scalars("block_size")[0]), int(details.scalars("scales")[0])
        first, end = columns.splits[np.searchsorted(columns.splits, row, "right") - 1 :][:2].tolist()
        if not 0 <= index < end - first:
            continue
        shapes = columns.shapes.take(np.array([row, first + index]))
        counts = element_counts(shapes, shapes.flat())
        if size <= 0 or counts[0] != counts[1] * size:
            # LiteRT compares them in its XNNPACK delegate, which takes only INT4 in blocks of a multiple of 32.
            known = "LiteRT refuses the model; " if columns.types[row] == int4 and size % 32 == 0 else ""
            message = f"{counts[0]:.15g} elements in blocks of {size} have {counts[1]:.15g} scales; {known}{CORRECT}"
            yield Finding("INVALID_QUANTIZATION", "info" if is_plain[row] else "warning", whole.tensor(row), message)
