"""Pair events in time order: begins with ends (a stack), puts with takes (a queue)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.names import Numbers, by_thread

NONE = -1
"""The place of what is not there."""

Flags = npt.NDArray[np.bool_]


def levels(threads: Numbers, begins: Flags) -> Numbers:
    """Return how deep each event's pair of begin and end is on its thread, from 1 on."""
    order = by_thread(threads)
    opens = begins[order]
    steps = np.where(opens, 1, -1)
    new = np.diff(threads[order], prepend=-1) != 0
    sums = np.cumsum(steps)
    found = np.empty_like(sums)
    found[order] = sums - (sums - steps)[new][np.cumsum(new) - 1] + ~opens
    return found


def nested(threads: Numbers, begins: Flags) -> Numbers:
    """Return for each end the place of the begin on its thread that it ends, NONE for a begin.

    There is a begin for each end.
    """
    order = np.lexsort((levels(threads, begins), threads))
    ends = np.flatnonzero(~begins[order])
    found = np.full(len(order), NONE)
    found[order[ends]] = order[ends - 1]
    return found


def queued(queues: Numbers, puts: Flags) -> Numbers:
    """Return for each event that takes from a queue the place of the put that it takes, first in, first out.

    NONE is the place for a put, and for what finds its queue empty.
    """
    count = len(queues)
    found = np.full(count, NONE)
    order = np.argsort(queues, kind="stable")
    opens, sorted_queues = puts[order], queues[order]
    new = np.append(True, sorted_queues[1:] != sorted_queues[:-1])[:count]
    firsts, index = np.flatnonzero(new), np.cumsum(new) - 1
    steps = np.where(opens, 1, -1)
    sums = np.cumsum(steps)
    # How much more was put than taken, if an empty queue could be owed; each queue lies far below those before it.
    ground = index * -2 * count
    debts = sums - (sums - steps)[firsts][index] + ground
    least = np.minimum(np.append(0, np.minimum.accumulate(debts))[:count], ground)
    takes = np.flatnonzero(~opens & (debts >= least))
    gives, starts = np.flatnonzero(opens), firsts[index[takes]]
    ranks = np.arange(len(takes)) - np.searchsorted(takes, starts)
    found[order[takes]] = order[gives[np.searchsorted(gives, starts) + ranks]]
    return found


def left(opens: Flags, found: Numbers) -> Flags:
    """Return which begins no end was found for, or which puts nothing has taken."""
    still = opens.copy()
    still[found[found != NONE]] = False
    return still
