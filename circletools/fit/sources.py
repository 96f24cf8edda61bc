"""Find a small set of sources to change so that no refused operator is left (greedy hitting set)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from circletools.fit.naming import Source


def fewest_sources(origins: Sequence[Sequence[Source]]) -> list[tuple[Source, list[int]]]:
    """Return sources such that each origin contains one, each with the positions of the origins that contain it.

    The worst sources, those in the most origins, come first; ties keep their order. A source that is alone in an
    origin must be chosen; otherwise the source in most of the remaining origins is taken first (greedy, so not always
    the minimum).
    """
    members: dict[Source, list[int]] = {}
    for place, origin in enumerate(origins):
        for source in origin:
            members.setdefault(source, []).append(place)
    needed = {origin[0] for origin in origins if len(origin) == 1}
    left = {place for place, origin in enumerate(origins) if needed.isdisjoint(origin)}
    chosen = needed.union(_greedy(members, left))
    ordered = (pair for pair in members.items() if pair[0] in chosen)  # by first position
    return sorted(ordered, key=lambda pair: len(pair[1]), reverse=True)


def _greedy(members: Mapping[Source, Sequence[int]], left: set[int]) -> Iterable[Source]:
    """Yield sources until all origins are covered, each time the source that is in most of the remaining origins."""
    named = list(members) if left else []
    waiting = [(-len(members[source]), number) for number, source in enumerate(named)]
    heapify(waiting)
    while left:
        _, number = heappop(waiting)
        now = (-len(left.intersection(members[named[number]])), number)
        if waiting and now > waiting[0]:  # another source may now be in more of the remaining origins
            heappush(waiting, now)
        else:
            left.difference_update(members[named[number]])
            yield named[number]
