"""The values of constants as NumPy arrays, including those of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError, UsageError
from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Schema
from circletools.model.sizes import MOST_DIMENSIONS, element_count
from circletools.model.views import Tensor
from circletools.wording import TensorIndex, refuse_index

_MOST_DENSE = 1 << 31  # the maximum number of elements; a small file can describe a sparse tensor of any size
DTYPES = {
    "BOOL": "?",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FLOAT16": "<f2",
    "FLOAT32": "<f4",
    "FLOAT64": "<f8",
    "COMPLEX64": "<c8",
    "COMPLEX128": "<c16",
}
"""The tensor types that a file and NumPy store in the same way."""
_WRITE = (
    "write values = values.copy() to change a copy, "
    "then with ct.edit(model) as edit: edit.set_constant(tensor.subgraph, tensor.index, values); edit.save(target)"
)
_PACKED_BITS = {"INT2": 2, "INT4": 4, "UINT4": 4}
_FLOATS = {"BFLOAT16": "<u2", "FLOAT8_E5M2": "u1", "FLOAT8_E4M3FN": "u1"}  # numpy lacks these types


class ReadOnly(np.ndarray[Any, np.dtype[Any]]):
    """Numbers in a file. Errors show how to change the numbers; results of computations are plain arrays."""

    if not TYPE_CHECKING:

        def __array_wrap__(self, array, *_context):
            return np.asarray(array)[()]

        def __repr__(self):
            return repr(np.asarray(self))


class Ends(ReadOnly):
    """The tensor indices of inputs or outputs."""

    @overload  # type: ignore[override]  # numpy's Any would hide the type of graph.tensors[graph.inputs[0]]
    def __getitem__(self, index: SupportsIndex) -> TensorIndex: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            refuse_index([*self], index)
        found = super().__getitem__(index)
        return TensorIndex(found) if isinstance(found, np.integer) else found

    def __iter__(self) -> Iterator[TensorIndex]:  # type: ignore[override]
        return map(TensorIndex, self.tolist())


def _changing(name: str) -> Callable[..., Any]:
    """Return an array method that explains how to change read-only arrays."""
    plain = getattr(np.ndarray, name)

    def run(self: Any, *given: Any, **named: Any) -> Any:
        if not self.flags.writeable:
            raise ValueError(f"the array is read-only ({_WRITE})")
        return plain(self, *given, **named)

    return run


for _name in ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"):
    setattr(ReadOnly, f"__{_name}__", _changing(f"__{_name}__"))
for _name in ("fill", "sort", "put"):
    setattr(ReadOnly, _name, _changing(_name))


def array_of(tensor: Tensor, data: memoryview, tables: Tables, schema: Schema) -> NDArray[Any]:
    """Return a tensor's values as a read-only array; `data` contains its bytes, and `tables` only its table.

    Raises UsageError if NumPy cannot represent the type, and ModelFormatError if data, shape and sparsity disagree.
    """
    place = f"subgraphs[{tensor.subgraph}].tensors[{tensor.index}]"
    compressed = "compression_type" in tables.type.by_name and tables.scalars("compression_type").any()
    if compressed or not (tensor.type in DTYPES or tensor.type in {"STRING", *_PACKED_BITS, *_FLOATS}):
        kind = f"compressed {tensor.type}" if compressed else tensor.type
        raise UsageError(f"{kind} has no NumPy type", location=place, hint="buffers[...].data has the bytes")
    if len(tensor.shape) > MOST_DIMENSIONS:
        raise ModelFormatError(f"{len(tensor.shape)} dimensions; NumPy supports {MOST_DIMENSIONS}", location=place)
    if min(tensor.shape, default=0) < 0:
        raise ModelFormatError("a constant has a dynamic dimension", location=place)
    sparse = bool(tables.has("sparsity")[0])
    count = sparse_elements(tables, schema) if sparse else element_count(tensor.shape)
    if isinstance(count, str):
        raise ModelFormatError(count, location=place)
    values = _values(tensor.type, data, count)
    if values is None:
        message = f"{len(data)} bytes are not {count} elements of {tensor.type}"
        raise ModelFormatError(message, location=place)
    if sparse:
        values = _dense(values, tensor.shape, sparse_coordinates(tables, schema), place)
    values = values.reshape(tensor.shape).view(ReadOnly)
    values.flags.writeable = False
    return values


def _values(kind: str, data: memoryview, count: int) -> NDArray[Any] | None:
    """Return the elements as a flat array, or None if `data` does not hold `count` elements."""
    if kind == "STRING":
        return _strings(bytes(data), count)
    if kind in _PACKED_BITS:
        return _unpacked(data, count, _PACKED_BITS[kind], signed=kind.startswith("I"))
    dtype = np.dtype(DTYPES.get(kind) or _FLOATS[kind])
    if len(data) != count * dtype.itemsize:
        return None
    raw = np.frombuffer(data, dtype)
    if kind == "BOOL":  # a byte other than 0 or 1 would become a bool that is neither True nor False
        numbers = raw.view(np.uint8)
        return raw if not (numbers > 1).any() else numbers != 0
    return _floats(kind, raw) if kind in _FLOATS else raw


def _floats(kind: str, raw: NDArray[Any]) -> NDArray[np.float32]:
    if kind == "BFLOAT16":
        return (raw.astype("<u4") << 16).view("<f4")
    if kind == "FLOAT8_E5M2":
        return (raw.astype("<u2") << 8).view("<f2").astype(np.float32)
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    size = np.where(exponent > 0, 8 + mantissa, mantissa) * np.exp2(np.maximum(exponent, 1) - 10.0)
    size[codes & 127 == 127] = np.nan
    values: NDArray[np.float32] = np.where(codes < 128, size, -size).astype(np.float32)[raw]
    return values


def _unpacked(data: memoryview, count: int, bits: int, *, signed: bool) -> NDArray[Any] | None:
    """Unpack numbers from bytes, in which the first number has the lowest bits."""
    each = 8 // bits
    if len(data) != -(-count // each):
        return None
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    numbers = (np.frombuffer(data, np.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return numbers
    return (numbers << np.uint8(8 - bits)).view(np.int8) >> np.int8(8 - bits)


def _strings(data: bytes, count: int) -> NDArray[Any] | None:
    """Return strings, stored as a count, the start of each, the end of the last, and all bytes (`string_util.h`)."""
    head = np.frombuffer(data, "<i4", min(len(data) // 4, count + 2)).astype(np.int64)
    if len(head) < count + 2 or head[0] != count or head[1] < 4 * len(head) or head[-1] > len(data):
        return None
    if (np.diff(head[1:]) < 0).any():
        return None
    texts = np.empty(count, object)
    texts[:] = [data[start:end] for start, end in zip(head[1:-1].tolist(), head[2:].tolist(), strict=True)]
    return texts


def _dense(
    values: NDArray[Any], shape: tuple[int, ...], coordinates: list[NDArray[np.int64]], place: str
) -> NDArray[Any]:
    if element_count(shape) > _MOST_DENSE:
        raise ModelFormatError(f"a sparse tensor of {element_count(shape)} elements", location=place)
    if any(((at < 0) | (at >= size)).any() for at, size in zip(coordinates, shape, strict=True)):
        raise ModelFormatError("the sparsity indices point outside the shape", location=place)
    dense = np.zeros(shape, values.dtype)
    dense[tuple(coordinates)] = values
    return dense


_DENSE, _SPARSE = 0, 1


def sparse_elements(tensor: Tables, schema: Schema) -> int | str:
    """Return the number of stored elements according to a tensor's sparsity, or a description of an error in it.

    The levels are processed in storage order: a dense level multiplies the number by its size; a sparse level has one
    element per index, and its segments divide the indices into groups.
    """
    sparsity, _ = tensor.child("sparsity", schema)
    order, levels = sparsity.vectors("traversal_order"), sparsity.children("dim_metadata", schema)[0]
    rank, blocks = int(tensor.vectors("shape").count[0]), int(sparsity.vectors("block_map").count[0])
    if len(levels) != int(order.count[0]) or len(levels) != rank + blocks:
        return f"levels ({len(levels)}), dimensions ({rank}) and block dimensions ({blocks}) of sparsity disagree"
    if sorted(order.row(0).tolist()) != list(range(len(levels))):
        return "the traversal order of sparsity repeats or omits dimensions"
    stored = 1
    sizes, formats = levels.scalars("dense_size").tolist(), levels.scalars("format").tolist()
    for at, (size, kind) in enumerate(zip(sizes, formats, strict=True)):
        if kind == _DENSE:
            if size <= 0:
                return f"level {at} of sparsity has the size {size}"
            stored *= size
            continue
        level = levels.take(slice(at, at + 1))
        segments, indices = (_numbers(level, name, schema) for name in ("array_segments", "array_indices"))
        if kind != _SPARSE or segments is None or indices is None:
            return f"level {at} of sparsity has no segments or indices"
        if len(segments) != stored + 1 or (np.diff(segments) < 0).any() or int(segments[-1]) != len(indices):
            return f"level {at} of sparsity: the segments do not divide {len(indices)} indices among {stored} entries"
        stored = len(indices)
    return stored


def sparse_coordinates(tensor: Tables, schema: Schema) -> list[NDArray[np.int64]]:
    """Return the coordinates of the stored elements of a sparse tensor, by dimension; its sparsity must be valid."""
    sparsity, _ = tensor.child("sparsity", schema)
    levels = sparsity.children("dim_metadata", schema)[0]
    sizes, rank = levels.scalars("dense_size").tolist(), int(tensor.vectors("shape").count[0])
    found: dict[int, NDArray[np.int64]] = {}
    stored = 1
    for at, dimension in enumerate(sparsity.vectors("traversal_order").row(0).tolist()):
        level = levels.take(slice(at, at + 1))
        segments, indices = (_numbers(level, name, schema) for name in ("array_segments", "array_indices"))
        if levels.scalars("format")[at] == _DENSE or segments is None or indices is None:
            repeats: NDArray[np.int64] = np.full(stored, sizes[at], np.int64)
            indices = np.tile(np.arange(sizes[at]), stored)
        else:
            repeats = np.diff(segments)
        found = {known: np.repeat(above, repeats) for known, above in found.items()} | {dimension: indices}
        stored = len(indices)
    for number, dimension in enumerate(sparsity.vectors("block_map").row(0).tolist()):
        block = sizes[sparsity.vectors("traversal_order").row(0).tolist().index(rank + number)]
        found[dimension] = found.get(dimension, np.zeros(stored, np.int64)) * block + found[rank + number]
    return [found[dimension] for dimension in range(rank)]


def _numbers(level: Tables, name: str, schema: Schema) -> NDArray[np.int64] | None:
    """Return a level's numbers, or None if there are none."""
    field = level.field(name)
    member = schema.unions[str(field.target)].get(int(level.union_codes(field)[0]))
    target = level.targets(name)
    if member is None or not target[0]:
        return None
    values: NDArray[np.int64] = Tables(level.wire, schema.tables[member], target).vectors("values").row(0)
    return values.astype(np.int64)
