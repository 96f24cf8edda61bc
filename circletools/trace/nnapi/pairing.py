"""Pair events in time order: begins with ends (a stack), puts with takes (a queue)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.names import Numbers, by_thread

NONE = -1
"""Stands for a missing place."""

Flags = npt.NDArray[np.bool_]


def levels(threads: Numbers, begins: Flags) -> Numbers:
    """Return the nesting depth of each event's begin and end on its thread, from 1."""
    order = by_thread(threads)
    opens = begins[order]
    steps = np.where(opens, 1, -1)
    new = np.diff(threads[order], prepend=-1) != 0
    sums = np.cumsum(steps)
    found = np.empty_like(sums)
    found[order] = sums - (sums - steps)[new][np.cumsum(new) - 1] + ~opens
    return found


def nested(threads: Numbers, begins: Flags) -> Numbers:
    """Return for each end the place of the begin that it ends, NONE for a begin.

    Every end must have a begin.
    """
    order = np.lexsort((levels(threads, begins), threads))
    ends = np.flatnonzero(~begins[order])
    found = np.full(len(order), NONE)
    found[order[ends]] = order[ends - 1]
    return found


def queued(queues: Numbers, puts: Flags) -> Numbers:
    """Return for each event that takes from a queue the place of its put, first in, first out.

    NONE is returned for puts, and for takes from an empty queue.
    """
    count = len(queues)
    found = np.full(count, NONE)
    order = np.argsort(queues, kind="stable")
    opens, sorted_queues = puts[order], queues[order]
    new = np.append(True, sorted_queues[1:] != sorted_queues[:-1])[:count]
    firsts, index = np.flatnonzero(new), np.cumsum(new) - 1
    steps = np.where(opens, 1, -1)
    sums = np.cumsum(steps)
    # The balance of puts and takes, with empty queues going negative; each queue lies far below those before it.
    ground = index * -2 * count
    debts = sums - (sums - steps)[firsts][index] + ground
    least = np.minimum(np.append(0, np.minimum.accumulate(debts))[:count], ground)
    takes = np.flatnonzero(~opens & (debts >= least))
    gives, starts = np.flatnonzero(opens), firsts[index[takes]]
    ranks = np.arange(len(takes)) - np.searchsorted(takes, starts)
    found[order[takes]] = order[gives[np.searchsorted(gives, starts) + ranks]]
    return found


def left(opens: Flags, found: Numbers) -> Flags:
    """Return which begins have no end, or which puts nothing has taken."""
    still = opens.copy()
    still[found[found != NONE]] = False
    return still


class Queue:
    """Puts of processes that nothing has taken so far, each with an item that is not negative."""

    def __init__(self) -> None:
        self._processes = self.items = np.zeros(0, np.int64)

    def match(self, processes: Numbers, items: Numbers, puts: Flags) -> Numbers:
        """Return the item that each event takes from its process, first in, first out; NONE for a put or if empty."""
        first = len(self.items)
        processes, items = np.append(self._processes, processes), np.append(self.items, items)
        puts = np.append(np.ones(first, np.bool_), puts)
        taken = queued(processes, puts)
        still = left(puts, taken)
        self._processes, self.items = processes[still], items[still]
        return np.where(taken == NONE, NONE, items[taken])[first:]
