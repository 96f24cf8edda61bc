"""Elements of constants as numbers, dequantized if the tensor is quantized."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Values
from circletools.model.arrays import DTYPES
from circletools.model.sizes import element_count

CHANNELS, PER_CHANNEL = 16, 16
_HALVES = ("INT4", "UINT4")

Samples = NDArray[np.float64]


def places(shape: tuple[int, ...], axis: int | None) -> Indices:
    """Return 256 flat positions spread over a constant; with an axis, 16 in each of 16 channels along it.

    Positions repeat in small constants and along short axes.
    """
    size = element_count(shape)
    if axis is None:
        return _spread(size, CHANNELS * PER_CHANNEL)
    channels = shape[axis]
    channel, inside = _spread(channels, CHANNELS)[:, None], _spread(size // channels, PER_CHANNEL)
    return np.ravel(channel * (size // channels) + inside if axis == 0 else inside * channels + channel)


def _spread(size: int, count: int) -> Indices:
    return np.linspace(0, size - 1, count).astype(np.int64)


class Reader:
    """The representation of a graph's constants: types and quantization."""

    def __init__(self, values: Values) -> None:
        """Read the values of a graph on demand."""
        self.values: Values = values

    @cached_property
    def quantization(self) -> tuple[dict[int, int], Vectors, Vectors, list[int]]:
        """The row of each quantized value; then scales, zero points and the quantized dimension, by row."""
        tables, rows = self.values.tables.child("quantization", self.values.schema)
        row_of = {row: index for index, row in enumerate(rows.tolist())}
        axes = tables.scalars("quantized_dimension").tolist()
        return row_of, tables.vectors("scale"), tables.vectors("zero_point"), axes


@dataclass(frozen=True, eq=False)
class Payload:
    """The data of a constant, and one value that has it."""

    reader: Reader
    value: int
    data: memoryview

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of that value."""
        return tuple(self.reader.values.shapes.row(self.value).tolist())

    @property
    def squeezed(self) -> tuple[int, ...]:
        """The shape without dimensions of 1."""
        return tuple(size for size in self.shape if size != 1)

    @property
    def kind(self) -> str:
        """The name of the type."""
        return self.reader.values.types[self.value]

    @property
    def is_readable(self) -> bool:
        """Whether the data is complete and numeric."""
        count = element_count(self.shape)
        if min(self.shape, default=1) < 1:
            return False
        if self.kind in _HALVES:
            return len(self.data) == (count + 1) // 2
        dtype = np.dtype(DTYPES.get(self.kind, "?"))
        return dtype.kind in "iuf" and len(self.data) == count * dtype.itemsize

    def read(self, positions: Indices) -> Samples:
        """Return the elements at flat positions."""
        if self.kind in _HALVES:
            packed = np.frombuffer(self.data, np.uint8)[positions // 2]
            values = ((packed >> (4 * (positions % 2)).astype(np.uint8)) & 15).astype(np.float64)
            if self.kind == "INT4":
                values = np.where(values > 7, values - 16, values)
        else:
            with np.errstate(invalid="ignore"):  # signalling NaN
                values = np.frombuffer(self.data, DTYPES[self.kind])[positions].astype(np.float64)
        with np.errstate(all="ignore"):
            values = self._dequantized(positions, values)
            return np.where(np.isfinite(values) & (np.abs(values) < 1e100), values, 0.0)

    def _dequantized(self, positions: Indices, values: Samples) -> Samples:
        row_of, *vectors, axes = self.reader.quantization
        index = row_of.get(self.value)
        if index is None:
            return values
        scale, zero = (vector.row(index).astype(np.float64) for vector in vectors)
        channel, axis = np.zeros(positions.shape, np.int64), axes[index]
        if len(scale) > 1:
            if not 0 <= axis < len(self.shape) or self.shape[axis] != len(scale):
                return values
            channel = positions // element_count(self.shape[axis + 1 :]) % self.shape[axis]
        if not len(scale):
            return values
        offset = zero[channel] if len(zero) == len(scale) else 0.0
        return (values - offset) * scale[channel]
