"""A small set of sources to change so that no refused operator is left (greedy hitting set)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from circletools.fit.naming import Source


def fewest_sources(origins: Sequence[Sequence[Source]]) -> list[tuple[Source, list[int]]]:
    """Return sources that are in all of these origins together, each with the places of those that it is in.

    The worst come first: those in most origins, of equal ones that which comes first. A source that is an origin all
    alone must be among them; of the others the one that is in most of what is left is taken first, which need not
    give the very fewest.
    """
    members: dict[Source, list[int]] = {}
    for place, origin in enumerate(origins):
        for source in origin:
            members.setdefault(source, []).append(place)
    needed = {origin[0] for origin in origins if len(origin) == 1}
    left = {place for place, origin in enumerate(origins) if needed.isdisjoint(origin)}
    chosen = needed.union(_greedy(members, left))
    ordered = (pair for pair in members.items() if pair[0] in chosen)  # by the first place
    return sorted(ordered, key=lambda pair: len(pair[1]), reverse=True)


def _greedy(members: Mapping[Source, Sequence[int]], left: set[int]) -> Iterable[Source]:
    """Yield sources until nothing is left, the one that is in most of it first."""
    named = list(members) if left else []
    waiting = [(-len(members[source]), number) for number, source in enumerate(named)]
    heapify(waiting)
    while left:
        _, number = heappop(waiting)
        now = (-len(left.intersection(members[named[number]])), number)
        if waiting and now > waiting[0]:  # another may be in more of it by now
            heappush(waiting, now)
        else:
            left.difference_update(members[named[number]])
            yield named[number]
