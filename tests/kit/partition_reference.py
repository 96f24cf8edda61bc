"""The partition of the hetero plugin design, word for word: slow, and with nothing left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Edges = Sequence[tuple[int, int]]


def all_reached(step: Sequence[Iterable[int]]) -> list[set[int]]:
    """Return all that each operator gets to by these steps: in a cycle, itself too."""
    found: list[set[int]] = []
    for start in range(len(step)):
        seen: set[int] = set()
        pending = list(step[start])
        while pending:
            operator = pending.pop()
            if operator not in seen:
                seen.add(operator)
                pending += step[operator]
        found.append(seen)
    return found


class Reference:
    """A graph of operators 0..count-1, with all that each reaches."""

    def __init__(self, count: int, edges: Edges) -> None:
        self.count = count
        self.successors: list[list[int]] = [sorted({b for a, b in edges if a == v}) for v in range(count)]
        self.predecessors: list[list[int]] = [sorted({a for a, b in edges if b == v}) for v in range(count)]
        self.descendants, self.ancestors = all_reached(self.successors), all_reached(self.predecessors)

    def is_broken(self, members: list[int], rejected: set[int]) -> bool:
        below = set().union(*(self.descendants[m] for m in members))
        above = set().union(*(self.ancestors[m] for m in members))
        return bool(rejected & below & above)

    def grow(self, root: int, allowed: set[int]) -> list[int]:
        members, rejected = [root], set[int]()
        while True:
            found = None
            for member in reversed(members):
                for neighbor in self.successors[member] + self.predecessors[member]:
                    if neighbor not in members and neighbor not in rejected:
                        found = neighbor
                        break
                if found is not None:
                    break
            if found is None:
                return members
            if found in allowed:
                members.append(found)
            else:
                rejected.add(found)
            while self.is_broken(members, rejected):
                rejected.add(members.pop())

    def partition(self, devices: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the subgraphs in the order they are selected, members in the order they were accepted."""
        partitions = []
        for device in sorted(set(devices)):
            left = {v for v in range(self.count) if devices[v] == device}
            while left:
                candidates: list[list[int]] = []
                for root in sorted(left):
                    if not any(root in candidate for candidate in candidates):
                        candidates.append(self.grow(root, left))
                best = max(candidates, key=len)  # the first of equal ones
                partitions.append(tuple(best))
                left -= set(best)
        return partitions
