"""Which constants of the two models hold the same data.

    exact       the same bytes
    close       the same values after dequantizing, but for rounding; also in another order of dimensions
    scaled      each channel is a multiple of the other model's, as a folded batch normalization leaves it

Close and scaled constants are found by comparing samples of 256 elements: two belong together where their samples
correlate by 0.97 or more, each is the other's best, and no second one comes near. Data is read through the mapping.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors
from circletools.origin.tracking.side import NONE, Indices, Side

EXACT, CLOSE, SCALED = 0, 1, 2
DISTINCTIVE_BYTES = 32  # less may be equal by chance: shapes, axes, scalars
_SIMILAR, _APART = 0.97, 0.01
_CHANNELS, _PER_CHANNEL = 16, 16
_FEWEST = 16  # elements that say something when they correlate
_MOST_PAIRS, _MOST_SAMPLES, _MOST_SHAPES = 1 << 22, 1 << 13, 16
_DTYPES = {
    "FLOAT32": "<f4", "FLOAT16": "<f2", "FLOAT64": "<f8", "INT8": "i1", "UINT8": "u1", "INT16": "<i2",
    "UINT16": "<u2", "INT32": "<i4", "UINT32": "<u4", "INT64": "<i8",
}  # fmt: skip

Samples = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Classes:
    """The class of each tensor of both models, -1 for what is no constant, and of each class what it is.

    `shared`: both models have it, `how` says by which comparison; `distinctive`: it is hardly equal by chance.
    """

    numbers: tuple[Indices, Indices]
    shared: NDArray[np.bool_]
    how: NDArray[np.int8]
    distinctive: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Constant:
    """A distinct payload: one tensor that has it, and its data."""

    tensor: int
    data: memoryview
    shapes: Vectors

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of that tensor."""
        return tuple(self.shapes.row(self.tensor).tolist())


def classify(before: Side, after: Side) -> Classes:
    """Compare all constants of two models. Raises ModelFormatError for data outside the file."""
    numbers: dict[bytes, int] = {}
    old_tensors, olds = _by_content(before, numbers)
    new_tensors, news = _by_content(after, numbers)
    all_ = olds | news
    how = np.zeros(len(numbers), np.int8)
    shared = np.array([number in olds and number in news for number in range(len(numbers))], np.bool_)
    distinctive = np.array([_is_distinctive(all_[number].data) for number in range(len(numbers))], np.bool_)
    same = np.append(np.arange(len(numbers)), NONE)
    for new, (old, kind) in _close(before, after, _without(olds, news), _without(news, olds)).items():
        same[new], shared[old], how[old] = old, True, kind
    return Classes((old_tensors, same[new_tensors]), shared, how, distinctive)


def _without(constants: dict[int, _Constant], others: dict[int, _Constant]) -> dict[int, _Constant]:
    return {number: constant for number, constant in constants.items() if number not in others}


def _is_distinctive(data: memoryview) -> bool:
    return len(data) >= DISTINCTIVE_BYTES and (len(set(data[:64])) > 4 or len(set(data[:4096])) > 4)


def _by_content(side: Side, numbers: dict[bytes, int]) -> tuple[Indices, dict[int, _Constant]]:
    classes = np.full(len(side.producer), NONE, np.int64)
    rows = np.flatnonzero(side.is_constant)
    buffers = side.model.buffers
    shapes = side.model.tensor_columns.shapes
    memory = side.model.wire.memory
    of_rows = side.model.tensor_columns.buffers[rows].astype(np.int64)
    places = buffers.places(of_rows)
    first = dict(zip(reversed(places), reversed(rows.tolist()), strict=True))  # by place: buffers may share it
    side.model.wire.budget.charge("constants", sum(size for _, size in first))
    number_of: dict[tuple[int, int], int] = {}
    distinct: dict[int, _Constant] = {}
    for place in dict.fromkeys(places):
        data = memory[place[0] : sum(place)]
        number = number_of[place] = numbers.setdefault(blake2b(data).digest(), len(numbers))
        if number not in distinct:
            distinct[number] = _Constant(first[place], data, shapes)
    classes[rows] = [number_of[place] for place in places]
    return classes, distinct


def _close(
    before: Side, after: Side, olds: dict[int, _Constant], news: dict[int, _Constant]
) -> dict[int, tuple[int, int]]:
    """Return AFTER's class -> (BEFORE's class, kind) for constants that are alike but not equal."""
    groups: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    readers = (_Reader(before), _Reader(after))
    for side, constants in enumerate((olds, news)):
        for number, constant in constants.items():
            if math.prod(constant.shape) >= _FEWEST and readers[side].readable(constant):
                groups[math.prod(constant.shape)][side].append(number)
    merged: dict[int, tuple[int, int]] = {}
    for old, new in groups.values():
        if old and new and len(old) * len(new) <= _MOST_PAIRS and len(old) + len(new) <= _MOST_SAMPLES:
            merged |= _compare(readers, {n: olds[n] for n in old}, {n: news[n] for n in new})
    return merged


def _compare(
    readers: tuple[_Reader, _Reader], olds: dict[int, _Constant], news: dict[int, _Constant]
) -> dict[int, tuple[int, int]]:
    """Compare constants of equally many elements, shape by shape and order of dimensions by order."""
    by_shape: tuple[dict[tuple[int, ...], list[int]], ...] = (defaultdict(list), defaultdict(list))
    for side, constants in enumerate((olds, news)):
        for number, constant in constants.items():
            by_shape[side][_squeezed(constant.shape)].append(number)
    merged: dict[int, tuple[int, int]] = {}
    taken: set[int] = set()
    for new_shape, new in by_shape[1].items():
        # The same shape first: a square matrix is more often itself than its transpose.
        nearest = sorted(by_shape[0].items(), key=lambda item: item[0] != new_shape)
        for old_shape, old in nearest[:_MOST_SHAPES]:
            for order in _orders(old_shape, new_shape):
                rows = [number for number in new if number not in merged]
                columns = [number for number in old if number not in taken]
                if rows and columns:
                    samples = _sample_both(readers, [olds[n] for n in columns], [news[n] for n in rows], order)
                    for row, column, kind in _best_pairs(*samples, len(new_shape) > 1):
                        merged[rows[row]] = (columns[column], kind)
                        taken.add(columns[column])
    return merged


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _orders(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[int, ...] | None]:
    """Return the orders of the old dimensions that give the new ones; None reads both as they lie in memory."""
    if sorted(old) != sorted(new) or len(old) > 4:
        return [None]
    fitting = [order for order in permutations(range(len(old))) if tuple(old[axis] for axis in order) == new]
    return [None if order == tuple(range(len(old))) else order for order in fitting]


def _sample_both(
    readers: tuple[_Reader, _Reader], olds: list[_Constant], news: list[_Constant], order: tuple[int, ...] | None
) -> tuple[Samples, Samples]:
    """Return samples of the same elements, [constant, grid, element]; positions are those of the new dimensions."""
    shape = _squeezed(news[0].shape)
    places = np.stack([_grid(shape, axis) for axis in (None, 0, len(shape) - 1)])
    old_places = places
    if order is not None:
        old_shape = _squeezed(olds[0].shape)
        coordinates = np.unravel_index(places, shape)
        old_places = np.ravel_multi_index([coordinates[order.index(axis)] for axis in range(len(shape))], old_shape)
    old = np.stack([readers[0].read(constant, old_places) for constant in olds])
    return old, np.stack([readers[1].read(constant, places) for constant in news])


def _grid(shape: tuple[int, ...], axis: int | None) -> Indices:
    """Return 256 flat positions spread over a constant; with an axis, 16 in each of 16 channels along it.

    Small constants and axes have some of them several times.
    """
    size = math.prod(shape)
    if axis is None:
        return _spread(size, _CHANNELS * _PER_CHANNEL)
    channels = shape[axis]
    channel, inside = _spread(channels, _CHANNELS)[:, None], _spread(size // channels, _PER_CHANNEL)
    return np.ravel(channel * (size // channels) + inside if axis == 0 else inside * channels + channel)


def _spread(size: int, count: int) -> Indices:
    return np.linspace(0, size - 1, count).astype(np.int64)


def _best_pairs(old: Samples, new: Samples, channels: bool) -> list[tuple[int, int, int]]:
    """Return (new, old, kind) of the samples that belong together."""
    found = _mutual(_centred(old[:, 0]), _centred(new[:, 0]), CLOSE)
    for grid in (1, 2) if channels else ():
        rows, columns = ({pair[side] for pair in found} for side in (0, 1))
        more = _mutual(_by_channel(old[:, grid]), _by_channel(new[:, grid]), SCALED)
        found += [pair for pair in more if pair[0] not in rows and pair[1] not in columns]
    return found


def _centred(samples: Samples) -> Samples:
    return _unit(samples - samples.mean(axis=1, keepdims=True))


def _by_channel(samples: Samples) -> Samples:
    """Return samples with each channel scaled to one length and sign, so that multiples of a channel are equal."""
    rows = samples.reshape(len(samples), -1, _PER_CHANNEL)
    rows = _unit(rows)
    sign = np.sign((rows**3).sum(axis=-1, keepdims=True))
    spread = rows - rows.mean(axis=-1, keepdims=True)
    varies = (spread**2).sum(axis=-1, keepdims=True) > 1e-3
    return _unit((rows * sign * varies).reshape(len(samples), -1))


def _unit(samples: Samples) -> Samples:
    with np.errstate(all="ignore"):
        length = np.sqrt((samples**2).sum(axis=-1, keepdims=True))
        scaled = samples / length
    return np.where(np.isfinite(scaled), scaled, 0.0)


def _mutual(old: Samples, new: Samples, kind: int) -> list[tuple[int, int, int]]:
    """Return (new, old, kind) of the samples of which each is the other's best, with none that comes near."""
    likeness = new @ old.T
    rows, best = np.arange(len(new)), likeness.argmax(axis=1)
    value = likeness[rows, best]
    near = (likeness > value[:, None] - _APART).sum(axis=1) + (likeness[:, best] > value - _APART).sum(axis=0)
    chosen = (value >= _SIMILAR) & (likeness.argmax(axis=0)[best] == rows) & (near == 2)
    return [(row, column, kind) for row, column in zip(rows[chosen].tolist(), best[chosen].tolist(), strict=True)]


class _Reader:
    """Reads elements of constants as numbers, dequantized where the tensor says how."""

    def __init__(self, side: Side) -> None:
        self.side = side
        columns = side.model.tensor_columns
        names = side.model.schema.enums["TensorType"]
        self.types = [names.get(kind, "") for kind in columns.types.tolist()]
        tables, rows = columns.tables.child("quantization", side.model.schema)
        self.row_of = {row: index for index, row in enumerate(rows.tolist())}
        self.scales, self.zeros = tables.vectors("scale"), tables.vectors("zero_point")
        self.axes = tables.scalars("quantized_dimension").tolist()

    def readable(self, constant: _Constant) -> bool:
        """Say whether the data is numbers, all of them there."""
        kind, count = self.types[constant.tensor], math.prod(constant.shape)
        if min(constant.shape, default=1) < 1:
            return False
        if kind in ("INT4", "UINT4"):
            return len(constant.data) == (count + 1) // 2
        return kind in _DTYPES and len(constant.data) == count * np.dtype(_DTYPES[kind]).itemsize

    def read(self, constant: _Constant, places: Indices) -> Samples:
        """Return the elements at flat positions, as float64."""
        kind = self.types[constant.tensor]
        if kind in ("INT4", "UINT4"):
            packed = np.frombuffer(constant.data, np.uint8)[places // 2]
            values = ((packed >> (4 * (places % 2)).astype(np.uint8)) & 15).astype(np.float64)
            if kind == "INT4":
                values = np.where(values > 7, values - 16, values)
        else:
            dtype: np.dtype[Any] = np.dtype(_DTYPES[kind])
            with np.errstate(invalid="ignore"):  # signalling NaN
                values = np.frombuffer(constant.data, dtype)[places].astype(np.float64)
        values = self._dequantized(constant, places, values)
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(values) & (np.abs(values) < 1e100), values, 0.0)

    def _dequantized(self, constant: _Constant, places: Indices, values: Samples) -> Samples:
        index = self.row_of.get(constant.tensor)
        if index is None:
            return values
        scale = self.scales.row(index).astype(np.float64)
        zero = self.zeros.row(index).astype(np.float64)
        channel = np.zeros(places.shape, np.int64)
        axis = self.axes[index]
        if len(scale) > 1:
            if not 0 <= axis < len(constant.shape) or constant.shape[axis] != len(scale):
                return values
            channel = places // math.prod(constant.shape[axis + 1 :]) % constant.shape[axis]
        if not len(scale):
            return values
        offset = zero[channel] if len(zero) == len(scale) else 0.0
        with np.errstate(all="ignore"):
            return (values - offset) * scale[channel]
