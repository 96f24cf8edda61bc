"""Find constants of two models that hold the same data.

    EXACT     the same bytes, by digest
    CLOSE     equal values up to rounding, in another quantization or type, or with each channel scaled, as after
              folding a batch normalization

Close constants are found by the correlation of 256 stored elements (Pearson, of all or by channel): two match if they
correlate, each is the other's best match, and no other constant comes close (mutual nearest neighbors with a margin,
as in the matching of image features). Quantization parameters are not needed: correlation does not depend on scales
and zero points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.graph.graph import Graph
from circletools.model.arrays import DTYPES
from circletools.model.sizes import element_count

TELLING_BYTES = 32  # smaller constants may be equal by chance: shapes, axes, scalars
_SIMILAR, _APART = 0.97, 0.01
_FEWEST = 16  # elements needed for a significant correlation
_MOST_PAIRS, _MOST_PAIRS_AT_ONCE, _MOST_SAMPLES = 1 << 24, 1 << 22, 1 << 13
_HALVES = ("INT4", "UINT4")

Samples = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Payload:
    """The stored data of a constant, with its type and shape."""

    data: memoryview
    kind: str
    shape: tuple[int, ...]

    @property
    def is_readable(self) -> bool:
        """Whether the data is complete, numeric, and large enough for a significant correlation."""
        count = element_count(self.shape)
        if min(self.shape, default=1) < 1 or count < _FEWEST:
            return False
        if self.kind in _HALVES:
            return len(self.data) == (count + 1) // 2
        dtype = np.dtype(DTYPES.get(self.kind, "?"))
        return dtype.kind in "iuf" and len(self.data) == count * dtype.itemsize

    def read(self, positions: Indices) -> Samples:
        """Return the stored elements at flat positions."""
        if self.kind in _HALVES:
            halves = np.frombuffer(self.data, np.uint8)[positions // 2].astype(np.int64) >> 4 * (positions % 2) & 15
            signed: Indices = (halves ^ 8) - 8 if self.kind == "INT4" else halves
            return signed.astype(np.float64)
        with np.errstate(invalid="ignore"):  # signaling NaN
            stored = np.frombuffer(self.data, DTYPES[self.kind])[positions].astype(np.float64)
        return np.where(np.isfinite(stored) & (np.abs(stored) < 1e100), stored, 0.0)


Payloads = dict[int, Payload]
"""The data of one constant of each class."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Masks over the classes of constants: in both models; only similar in both; unlikely to be equal by chance."""

    shared: Mask
    close: Mask
    distinctive: Mask


def classify(before: Sequence[Graph], after: Sequence[Graph]) -> tuple[list[Indices], list[Indices], Constants]:
    """Return the class of each value (-1: not a constant) of both models, by graph, and a description of the classes.

    Raises ModelFormatError for data outside the file.
    """
    numbers: dict[bytes, int] = {}
    old_values, olds = _by_content(before, numbers)
    new_values, news = _by_content(after, numbers)
    all_ = olds | news
    close = np.zeros(len(numbers), np.bool_)
    shared = np.array([number in olds and number in news for number in range(len(numbers))], np.bool_)
    values = (all_[number].data for number in range(len(numbers)))
    various = [len(one) >= TELLING_BYTES and (len({*one[:64]}) > 4 or len({*one[:4096]}) > 4) for one in values]
    same = np.append(np.arange(len(numbers)), -1)
    left = [{n: c for n, c in one.items() if n not in other} for one, other in ((olds, news), (news, olds))]
    for new, old in _close(*left):
        same[new], shared[old], close[old] = old, True, True
    return old_values, [same[values] for values in new_values], Constants(shared, close, np.array(various, np.bool_))


def _by_content(graphs: Sequence[Graph], numbers: dict[bytes, int]) -> tuple[list[Indices], Payloads]:
    """Return the class of each value, and the payloads; data that several buffers share is read once."""
    known: dict[tuple[int, int], int] = {}
    payloads: Payloads = {}
    found: list[Indices] = []
    for graph in graphs:
        values = graph.values
        classes = np.full(len(values), -1, np.int64)
        rows = np.flatnonzero(values.is_constant & (graph.producer < 0))
        spots = values.model.buffers.places(values.buffers[rows])
        memory = values.tables.wire.memory
        for row, spot in zip(rows.tolist(), spots, strict=True):
            if spot not in known:
                data = memory[spot[0] : sum(spot)]
                known[spot] = numbers.setdefault(blake2b(data).digest(), len(numbers))
                shape = tuple(values.shapes.row(row).tolist())
                payloads.setdefault(known[spot], Payload(data, values.types[row], shape))
        classes[rows] = [known[spot] for spot in spots]
        found.append(classes)
    return found, payloads


def _close(olds: Payloads, news: Payloads) -> Iterator[tuple[int, int]]:
    """Yield the classes (AFTER, BEFORE) of similar but unequal constants of equal shape, ignoring dimensions of 1."""
    groups: dict[tuple[int, ...], tuple[Payloads, Payloads]] = defaultdict(lambda: ({}, {}))
    for side, payloads in enumerate((olds, news)):
        for number, payload in payloads.items():
            if payload.is_readable:
                groups[tuple(size for size in payload.shape if size != 1)][side][number] = payload
    left = _MOST_PAIRS
    for shape, (old, new) in groups.items():
        for positions in _grids(shape):
            pairs = len(old) * len(new)
            if 0 < pairs <= min(left, _MOST_PAIRS_AT_ONCE) and len(old) + len(new) <= _MOST_SAMPLES:
                left -= pairs
                rows, columns = list(new), list(old)
                for row, column in _mutual(*(_normal(one.values(), positions) for one in (old, new))):
                    del new[rows[row]], old[columns[column]]
                    yield rows[row], columns[column]


def _grids(shape: tuple[int, ...]) -> Iterator[Indices]:
    """Yield 256 flat positions spread over a constant, then 16 in each of 16 channels of its first and last axis."""
    size = element_count(shape)
    yield _spread(size, 256)
    for axis in (0, -1) if len(shape) > 1 else ():
        channel, inside = _spread(shape[axis], 16)[:, None], _spread(size // shape[axis], 16)
        yield inside * shape[-1] + channel if axis else channel * (size // shape[0]) + inside


def _spread(size: int, count: int) -> Indices:
    return np.linspace(0, size - 1, count).astype(np.int64)


def _normal(payloads: Iterable[Payload], positions: Indices) -> Samples:
    """Return samples normalized to mean 0 and length 1; for channels, also to a fixed sign per channel."""
    samples = np.stack([payload.read(positions) for payload in payloads])
    rows = _unit(samples - samples.mean(axis=-1, keepdims=True))
    if positions.ndim == 1:
        return rows
    varies = _unit(samples).var(axis=-1, keepdims=True) * rows.shape[-1] > 1e-3
    return _unit((rows * np.sign((rows**3).sum(axis=-1, keepdims=True)) * varies).reshape(len(rows), -1))


def _unit(samples: Samples) -> Samples:
    with np.errstate(all="ignore"):
        scaled: NDArray[Any] = samples / np.sqrt((samples**2).sum(axis=-1, keepdims=True))
    return np.where(np.isfinite(scaled), scaled, 0.0)


def _mutual(old: Samples, new: Samples) -> list[tuple[int, int]]:
    """Return (new, old) for the samples that are each other's best match, with no close second."""
    likeness = new @ old.T
    best = likeness.argmax(axis=1)
    rows = np.flatnonzero(likeness.argmax(axis=0)[best] == np.arange(len(new)))
    best = best[rows]
    value = likeness[rows, best]
    near = (likeness[rows] > value[:, None] - _APART).sum(axis=1) + (likeness[:, best] > value - _APART).sum(axis=0)
    chosen = (value >= _SIMILAR) & (near == 2)
    return list(zip(rows[chosen].tolist(), best[chosen].tolist(), strict=True))
