"""Events brought into the order of their times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from circletools.trace.sources.batch import Batch

_BATCH_EVENTS = 1 << 15


def merged(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield all events in the order of their times; those of one time stay in the order they came in."""
    numbers: dict[bytes, int] = {}
    columns = []
    for batch in batches:
        shared = np.array([numbers.setdefault(name, len(numbers)) for name in batch.names] + [-1], np.int64)
        columns.append((batch.times, batch.threads, shared[batch.texts], batch.places))
    if not columns:
        return
    times, threads, texts, places = (np.concatenate(column) for column in zip(*columns, strict=True))
    columns.clear()
    order = np.argsort(times, kind="stable")
    names = list(numbers)
    for at in range(0, len(order), _BATCH_EVENTS):
        chosen = order[at : at + _BATCH_EVENTS]
        used, local = np.unique(texts[chosen], return_inverse=True)
        if used[0] < 0:
            used, local = used[1:], local - 1
        yield Batch(times[chosen], threads[chosen], local, places[chosen], [names[at] for at in used.tolist()])
