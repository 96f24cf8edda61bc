"""Merge events in time order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.batch import Batch

Numbers = npt.NDArray[Any]

_BATCH_EVENTS = 1 << 15


def merged(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield all events sorted by time; the sort is stable."""
    numbers: dict[bytes, int] = {}
    columns: tuple[list[Numbers], ...] = ([], [], [], [])
    for batch in batches:
        shared = np.array([numbers.setdefault(name, len(numbers)) for name in batch.names] + [-1], np.int64)
        threads, texts = batch.threads.astype(np.uint32), shared[batch.texts].astype(np.int32)
        parts: tuple[Numbers, ...] = (batch.times, threads, texts, batch.places)
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
    if not columns[0]:
        return
    times, tids, codes, places = map(_joined, columns)
    order = np.argsort(times, kind="stable")
    names = list(numbers)
    for at in range(0, len(order), _BATCH_EVENTS):
        chosen = order[at : at + _BATCH_EVENTS]
        used, local = np.unique(codes[chosen], return_inverse=True)
        if used[0] < 0:
            used, local = used[1:], local - 1
        some = [names[at] for at in used.tolist()]
        yield Batch(times[chosen], tids[chosen].astype(np.int64), local, places[chosen], some)


def _joined(parts: list[Numbers]) -> Numbers:
    whole = np.concatenate(parts)
    parts.clear()  # one column at a time, to avoid two copies of all data
    return whole
