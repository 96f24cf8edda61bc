"""Follow the events of threads through the automaton, one nesting level at a time.

A level consists of the begins at one nesting depth, and their ends. The paths of its begins follow from the level
around it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circletools.trace.nnapi.automaton import END, Automaton
from circletools.trace.sources.names import Numbers, each

_OPEN = -2
_MOST_LEVELS = 100


def follow(automaton: Automaton, symbols: Numbers, firsts: Numbers, paths: Sequence[int]) -> tuple[Numbers, Numbers]:
    """Return the paths before and after each event.

    The events are sorted by thread; `firsts` is the start of each thread, `paths` the previous path of each.
    """
    counts = np.diff(firsts, append=len(symbols))
    ends = np.add.reduceat(symbols == END, firsts, dtype=np.int64)
    held = [_outer(automaton, path, most) for path, most in zip(paths, ends.tolist(), strict=True)]
    more = np.array([len(one) for one in held], np.int64)
    # Marks that were open before come first, as extra begins.
    symbols = np.insert(symbols, np.repeat(firsts, more), _OPEN)
    given = np.zeros(len(symbols), np.int64)
    given[symbols == _OPEN] = [path for one in held for path in one]
    firsts, counts = firsts + np.cumsum(more) - more, counts + more
    outside = np.array(automaton.depths)[[one[0] if one else 0 for one in held]] - (more > 0)
    levels = _levels(symbols != END, firsts, np.repeat(outside, counts), counts)
    if levels.max() > _MOST_LEVELS:
        after = _one_by_one(automaton, symbols, firsts, given)
    else:
        after = _by_level(automaton, symbols, levels, given)
    before = np.append(0, after[:-1])
    before[firsts] = 0
    real = symbols != _OPEN
    return before[real], after[real]


def _outer(automaton: Automaton, path: int, most: int) -> list[int]:
    """Return a path and at most `most` of its enclosing paths, the outermost first, without the root."""
    found = []
    while path and most >= 0:
        found.append(path)
        path, most = automaton.paths[path].up, most - 1
    return found[::-1]


def _levels(begins: npt.NDArray[np.bool_], firsts: Numbers, outside: Numbers, counts: Numbers) -> Numbers:
    """Return how many marks are open after a begin and before an end; `outside` is how many stay open throughout."""
    sums = np.cumsum(np.where(begins, 1, -1))
    depths = sums + outside
    depths -= np.repeat(sums[firsts] - np.where(begins[firsts], 1, -1), counts)
    if depths.min() < 0:  # ends without begins: the depth is relative to the minimum so far
        ground = np.repeat(np.arange(len(firsts)), counts) * (-2 * len(begins))
        depths -= np.minimum(np.minimum.accumulate(depths + ground) - ground, 0)
        before = np.roll(depths, 1)
        before[firsts] = outside[firsts]
        return np.where(begins, depths, before)
    return depths + ~begins


def _by_level(automaton: Automaton, symbols: Numbers, levels: Numbers, given: Numbers) -> Numbers:
    """Return the path after each event, level by level; `given` are the paths that were open before."""
    after = np.zeros(len(symbols), np.int64)
    order = np.argsort(levels.astype(np.uint8), kind="stable")
    bounds = np.cumsum(np.bincount(levels))
    outer, outer_paths = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if low == high:
            continue
        at = order[low:high]
        begins = symbols[at] != END
        opens = at[begins]
        around = np.maximum(np.searchsorted(outer, opens, "right") - 1, 0)
        parents = _after_switches(automaton, symbols[opens], around, outer_paths[around])
        paths = _moves(automaton, symbols[opens], parents, given[opens])
        after[opens] = paths
        after[at[~begins]] = np.array(automaton.ups)[paths[(np.cumsum(begins) - 1)[~begins]]]
        outer, outer_paths = opens, paths
    return after


def _after_switches(automaton: Automaton, symbols: Numbers, around: Numbers, parents: Numbers) -> Numbers:
    """Return the paths around begins, marked as ended if a [SW] occurred inside before."""
    switches = np.array(automaton.switches, np.bool_)[np.maximum(symbols, 0)] & (symbols != _OPEN)
    if not switches.any():
        return parents
    passed: Numbers = np.cumsum(switches) - switches
    inside = np.maximum.accumulate(np.where(np.diff(around, prepend=around[:1]) != 0, passed, 0))
    some = np.flatnonzero(passed > inside)
    parents = parents.copy()
    parents[some] = each(parents[some], automaton.ended)
    return parents


def _moves(automaton: Automaton, symbols: Numbers, parents: Numbers, given: Numbers) -> Numbers:
    """Return the path after each begin; marks that were open before keep their path."""
    width, paths = len(automaton.marks), given.copy()
    new = np.flatnonzero(symbols != _OPEN)
    paths[new] = each(parents[new] * width + symbols[new], lambda key: automaton.move(*divmod(key, width)))
    return paths


def _one_by_one(automaton: Automaton, symbols: Numbers, firsts: Numbers, given: Numbers) -> Numbers:
    """Return the path after each event, one event at a time, for very many levels."""
    new = np.zeros(len(symbols), np.bool_)
    new[firsts] = True
    after, path = [], 0
    for symbol, open_path, first in zip(symbols.tolist(), given.tolist(), new.tolist(), strict=True):
        path = 0 if first else path
        if symbol == END:
            path = automaton.paths[path].up
        else:
            path = open_path if symbol == _OPEN else automaton.move(path, symbol)
        after.append(path)
    return np.array(after, np.int64)
