"""Delta debugging: find a minimal part of a list for which a test still fails.

`window` bisects to the shortest head that fails, then to the shortest failing tail of this head: one faulty operator
among n is found in 2 log2(n) trials. `minimal` leaves out halves, then quarters, and so on down to single items
(ddmin by Zeller and Hildebrandt, with complements only), until no single item can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Fails = Callable[[Sequence[Item]], bool]


def window(items: Sequence[Item], fails: Fails[Item]) -> Sequence[Item]:
    """Return a run of consecutive items that fails; the whole list must fail. Bisection finds both ends."""
    head = items[: _shortest(len(items), lambda size: fails(items[:size]))]
    return head[len(head) - _shortest(len(head), lambda size: fails(head[len(head) - size :])) :]


def _shortest(size: int, fails: Callable[[int], bool]) -> int:
    """Return the smallest size that fails, by bisection."""
    low = 0
    while size - low > 1:
        middle = (low + size) // 2
        low, size = (low, middle) if fails(middle) else (middle, size)
    return size


def minimal(items: Sequence[Item], fails: Fails[Item], *, least: int = 1) -> Sequence[Item]:
    """Return at least `least` items that fail together, none of which can be left out; the whole list must fail."""
    size = max(1, len(items) // 2)
    while True:
        place, is_changed = 0, False
        while place < len(items):
            rest = [*items[:place], *items[place + size :]]
            if least <= len(rest) < len(items) and fails(rest):
                items, is_changed = rest, True
            else:
                place += size
        if size == 1 and not is_changed:
            return items
        size = max(1, size // 2)
