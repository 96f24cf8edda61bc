"""What belongs together among events, beside a stack and a queue."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import numpy as np
import pytest

from circletools.trace.nnapi.pairing import NONE, left, levels, nested, queued


@pytest.mark.parametrize("seed", range(60))
def test_ends_find_their_begins(seed: int) -> None:
    made = random.Random(seed)  # noqa: S311 - no secret
    stacks: defaultdict[int, list[int]] = defaultdict(list)
    threads, begins, wanted, depths = [], [], [], []
    for place in range(made.choice((0, 1, 2, 50, 400))):
        thread = made.choice((0, 1, 7, 300))
        stack = stacks[thread]
        opens = not stack or made.random() < 0.55
        threads.append(thread)
        begins.append(opens)
        depths.append(len(stack) + opens)
        wanted.append(NONE if opens else stack.pop())
        if opens:
            stack.append(place)
    columns = np.array(threads, np.int64), np.array(begins, np.bool_)
    found = nested(*columns)
    assert found.tolist() == wanted
    assert levels(*columns).tolist() == depths
    still = sorted(place for stack in stacks.values() for place in stack)
    assert np.flatnonzero(left(columns[1], found)).tolist() == still
    assert columns[1].tolist() == begins


@pytest.mark.parametrize("seed", range(80))
def test_what_is_taken_was_put_first(seed: int) -> None:
    made = random.Random(seed)  # noqa: S311 - no secret
    queues: defaultdict[int, deque[int]] = defaultdict(deque)
    share = made.choice((0.2, 0.5, 0.8))
    numbers, puts, wanted = [], [], []
    for place in range(made.choice((0, 1, 2, 3, 50, 400))):
        number = made.choice((-1, 0, 5, 1 << 62)[: made.choice((1, 4))])
        put = made.random() < share
        queue = queues[number]
        numbers.append(number)
        puts.append(put)
        wanted.append(NONE if put or not queue else queue.popleft())
        if put:
            queue.append(place)
    opens = np.array(puts, np.bool_)
    found = queued(np.array(numbers, np.int64), opens)
    assert found.tolist() == wanted
    still = sorted(place for queue in queues.values() for place in queue)
    assert np.flatnonzero(left(opens, found)).tolist() == still
