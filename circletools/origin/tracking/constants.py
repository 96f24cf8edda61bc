"""Finds constants of two models that hold the same data.

    EXACT     the same bytes, by digest
    CLOSE     equal values up to rounding, in another quantization, type or order of dimensions
    SCALED    each channel is a multiple of the other model's, as after folding a batch normalization

Close and scaled constants are found by the correlation of samples of 256 elements (Pearson; cosine for scaled
channels): two match if they correlate, each is the other's best match, and no second one comes close (mutual nearest
neighbours with a margin, as in the matching of image features).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.graph.graph import Graph
from circletools.model.sizes import element_count
from circletools.origin.tracking.samples import CHANNELS, PER_CHANNEL, Payload, Reader, Samples, places

EXACT, CLOSE, SCALED = 0, 1, 2
TELLING_BYTES = 32  # smaller constants may be equal by chance: shapes, axes, scalars
_SIMILAR, _APART = 0.97, 0.01
_FEWEST = 16  # elements needed for a significant correlation
_MOST_PAIRS, _MOST_SAMPLES, _MOST_SHAPES = 1 << 22, 1 << 13, 16

Payloads = dict[int, Payload]
"""The data of one constant of each class."""


@dataclass(frozen=True, slots=True)
class Constants:
    """For each class of constants: whether both models have it, by which comparison, and whether by chance."""

    shared: Mask
    how: NDArray[np.int8]
    distinctive: Mask


def classify(before: Sequence[Graph], after: Sequence[Graph]) -> tuple[list[Indices], list[Indices], Constants]:
    """Return the class of each value, graph by graph, -1 if it is not a constant; and the description of the classes.

    Raises ModelFormatError for data outside the file.
    """
    numbers: dict[bytes, int] = {}
    old_values, olds = _by_content(before, numbers)
    new_values, news = _by_content(after, numbers)
    all_ = olds | news
    how = np.zeros(len(numbers), np.int8)
    shared = np.array([number in olds and number in news for number in range(len(numbers))], np.bool_)
    distinctive = np.array([_is_distinctive(all_[number].data) for number in range(len(numbers))], np.bool_)
    same = np.append(np.arange(len(numbers)), -1)
    left = [{n: c for n, c in one.items() if n not in other} for one, other in ((olds, news), (news, olds))]
    for new, old, kind in _close(*left):
        same[new], shared[old], how[old] = old, True, kind
    return old_values, [same[values] for values in new_values], Constants(shared, how, distinctive)


def _is_distinctive(data: memoryview) -> bool:
    return len(data) >= TELLING_BYTES and (len(set(data[:64])) > 4 or len(set(data[:4096])) > 4)


def _by_content(graphs: Sequence[Graph], numbers: dict[bytes, int]) -> tuple[list[Indices], Payloads]:
    """Return the class of each value, and the payloads; data that several buffers share is read once."""
    known: dict[tuple[int, int], int] = {}
    payloads: Payloads = {}
    found: list[Indices] = []
    for graph in graphs:
        values, reader = graph.values, Reader(graph.values)
        classes = np.full(len(values), -1, np.int64)
        rows = np.flatnonzero(values.is_constant & (graph.producer < 0))
        spots = values.model_buffers.places(values.buffers[rows])
        memory = values.tables.wire.memory
        for row, spot in zip(rows.tolist(), spots, strict=True):
            if spot not in known:
                data = memory[spot[0] : sum(spot)]
                known[spot] = numbers.setdefault(blake2b(data).digest(), len(numbers))
                payloads.setdefault(known[spot], Payload(reader, row, data))
        classes[rows] = [known[spot] for spot in spots]
        found.append(classes)
    return found, payloads


def _close(olds: Payloads, news: Payloads) -> Iterator[tuple[int, int, int]]:
    """Yield AFTER's class, BEFORE's class and the kind of similarity, for similar but unequal constants."""
    groups: dict[int, tuple[Payloads, Payloads]] = defaultdict(lambda: ({}, {}))
    for side, payloads in enumerate((olds, news)):
        for number, payload in payloads.items():
            count = element_count(payload.shape)
            if count >= _FEWEST and payload.is_readable:
                groups[count][side][number] = payload
    for old, new in groups.values():
        if old and new and len(old) * len(new) <= _MOST_PAIRS and len(old) + len(new) <= _MOST_SAMPLES:
            yield from _compare(old, new)


def _compare(olds: Payloads, news: Payloads) -> Iterator[tuple[int, int, int]]:
    """Compare constants with equal numbers of elements, for each pair of shapes and each order of dimensions."""
    by_shape: list[dict[tuple[int, ...], Payloads]] = [defaultdict(dict), defaultdict(dict)]
    for side, payloads in enumerate((olds, news)):
        for number, payload in payloads.items():
            by_shape[side][payload.squeezed][number] = payload
    for new_shape, new in by_shape[1].items():
        # Unpermuted shapes first: a square matrix equals itself more often than its transpose.
        nearest = sorted(by_shape[0].items(), key=lambda item: item[0] != new_shape)
        for old_shape, old in nearest[:_MOST_SHAPES]:
            for order in _orders(old_shape, new_shape):
                rows, columns = list(new), list(old)
                if rows and columns:
                    samples = _sample_both(list(old.values()), list(new.values()), order)
                    for row, column, kind in list(_best_pairs(*samples, len(new_shape) > 1)):
                        del new[rows[row]], old[columns[column]]
                        yield rows[row], columns[column], kind


def _orders(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[int, ...] | None]:
    """Return the permutations of the old dimensions that give the new ones; None compares both in memory order."""
    if sorted(old) != sorted(new) or len(old) > 4:
        return [None]
    fitting = [order for order in permutations(range(len(old))) if tuple(old[axis] for axis in order) == new]
    return [None if order == tuple(range(len(old))) else order for order in fitting]


def _sample_both(olds: list[Payload], news: list[Payload], order: tuple[int, ...] | None) -> tuple[Samples, Samples]:
    """Return samples of the same elements, [constant, grid, element]; positions refer to the new dimensions."""
    shape = news[0].squeezed
    grids = old_grids = np.stack([places(shape, axis) for axis in (None, 0, len(shape) - 1)])
    if order is not None:
        coordinates = np.unravel_index(grids, shape)
        old_grids = np.ravel_multi_index(
            [coordinates[order.index(axis)] for axis in range(len(shape))], olds[0].squeezed
        )
    return np.stack([payload.read(old_grids) for payload in olds]), np.stack(
        [payload.read(grids) for payload in news]
    )


def _best_pairs(old: Samples, new: Samples, channels: bool) -> Iterator[tuple[int, int, int]]:
    """Yield new, old and kind of the samples that match."""
    found: tuple[set[int], set[int]] = (set(), set())
    kinds = [(0, CLOSE, _centred), *((grid, SCALED, _by_channel) for grid in (1, 2) if channels)]
    for grid, kind, normal in kinds:
        for row, column in _mutual(normal(old[:, grid]), normal(new[:, grid])):
            if row not in found[0] and column not in found[1]:
                found[0].add(row)
                found[1].add(column)
                yield row, column, kind


def _centred(samples: Samples) -> Samples:
    return _unit(samples - samples.mean(axis=1, keepdims=True))


def _by_channel(samples: Samples) -> Samples:
    """Return samples with each channel scaled to unit length and fixed sign, so that its multiples become equal."""
    rows = _unit(samples.reshape(len(samples), CHANNELS, PER_CHANNEL))
    sign = np.sign((rows**3).sum(axis=-1, keepdims=True))
    spread = rows - rows.mean(axis=-1, keepdims=True)
    varies = (spread**2).sum(axis=-1, keepdims=True) > 1e-3
    return _unit((rows * sign * varies).reshape(len(samples), -1))


def _unit(samples: Samples) -> Samples:
    with np.errstate(all="ignore"):
        scaled: NDArray[Any] = samples / np.sqrt((samples**2).sum(axis=-1, keepdims=True))
    return np.where(np.isfinite(scaled), scaled, 0.0)


def _mutual(old: Samples, new: Samples) -> list[tuple[int, int]]:
    """Return new and old of the samples that are each other's best match, with no close second."""
    likeness = new @ old.T
    rows, best = np.arange(len(new)), likeness.argmax(axis=1)
    value = likeness[rows, best]
    near = (likeness > value[:, None] - _APART).sum(axis=1) + (likeness[:, best] > value - _APART).sum(axis=0)
    chosen = (value >= _SIMILAR) & (likeness.argmax(axis=0)[best] == rows) & (near == 2)
    return list(zip(rows[chosen].tolist(), best[chosen].tolist(), strict=True))
