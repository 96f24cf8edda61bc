"""What others make of a graph: the fewest partitions by trying all, and clusters as XLA makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from circletools.graph.algorithms import Dag


def fewest_by_trying(graph: Dag, devices: Sequence[int]) -> int:
    """Return the fewest connected partitions of one device that do not wait for each other, of a small graph.

    Every set of edges between operators of one device can be what holds partitions together.
    """
    inner = [(a, b) for a, row in enumerate(graph.successors) for b in row if devices[a] == devices[b]]
    best = len(graph)
    seen: set[tuple[int, ...]] = set()

    def look(home: tuple[int, ...], rest: int) -> None:
        nonlocal best
        if home in seen:
            return
        seen.add(home)
        if can_run(graph, home):
            best = min(best, len(set(home)))
        for number in range(rest, len(inner)):
            a, b = inner[number]
            if home[a] != home[b]:
                low, high = sorted((home[a], home[b]))
                look(tuple(low if its == high else its for its in home), 0)

    look(tuple(range(len(graph))), 0)
    return best


def can_run(graph: Dag, home: Sequence[int]) -> bool:
    """Say whether groups, by operator, do not wait for each other."""
    left = {a: {home[b] for b in row if home[b] != home[a]} for a, row in enumerate(graph.predecessors)}
    waiting: dict[int, set[int]] = {}
    for a, row in left.items():
        waiting.setdefault(home[a], set()).update(row)
    while ready := [group for group, row in waiting.items() if not row]:
        for group in ready:
            del waiting[group]
        for row in waiting.values():
            row.difference_update(ready)
    return not waiting


def xla_clusters(graph: Dag, devices: Sequence[int]) -> int:
    """Return how many clusters contracting edges in post order leaves (MarkForCompilation, with GraphCycles).

    Each node, after all that it feeds, is contracted with what it feeds, where no other path leads there.
    """
    home = list(range(len(graph)))
    successors = [set(row) for row in graph.successors]
    for node in _post_order(graph):
        changed = True
        while changed:
            changed = False
            source = home[node]
            for target in sorted(successors[source]):
                if devices[target] == devices[source] and not _leads(successors, source, target):
                    _contract(successors, home, source, target)
                    changed = True
                    break
    return len(set(home))


def _post_order(graph: Dag) -> Iterable[int]:
    return reversed(graph.order)


def _leads(successors: Sequence[set[int]], source: int, target: int) -> bool:
    """Say whether a path other than the edge leads from source to target."""
    pending = [node for node in successors[source] if node != target]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if target in successors[node]:
            return True
        new = successors[node] - seen
        seen |= new
        pending += new
    return False


def _contract(successors: list[set[int]], home: list[int], source: int, target: int) -> None:
    for row in successors:
        if target in row:
            row.remove(target)
            row.add(source)
    successors[source] |= successors[target]
    successors[source].discard(source)
    successors[target] = set()
    for node, its in enumerate(home):
        if its == target:
            home[node] = source
