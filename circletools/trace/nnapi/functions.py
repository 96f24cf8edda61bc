"""Time by function: a mark's name together with its layer and phase."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from circletools.trace.nnapi.automaton import Path


@dataclass(slots=True)
class Function:
    """A function. Its self time excludes the functions it calls; recursive calls count once in `inclusive_ns`.

    `inclusive_ns` is the time from begin to end; unlike times of layers, it includes pauses.
    """

    layer: str
    phase: str
    name: str
    calls: int = 0
    self_ns: int = 0
    inclusive_ns: int = 0


def functions(paths: list[Path]) -> list[Function]:
    """Return all functions, those with the most self time first."""
    own, whole = [path.self_ns for path in paths], [0] * len(paths)
    callees: dict[int, list[int]] = defaultdict(list)
    for number in range(len(paths) - 1, 0, -1):  # a path comes after those it refers to
        path = paths[number]
        if path.live:
            whole[number] += own[number]
            whole[path.home] += whole[number]
            callees[path.home].append(number)
        else:
            own[path.home] += own[number]
    found: dict[tuple[str, str, str], Function] = {}
    active: dict[int, int] = defaultdict(int)
    stack = [(number, False) for number in callees[0]]
    while stack:
        number, leaving = stack.pop()
        mark = paths[number].mark
        function = found.setdefault((mark.layer, mark.phase, mark.name), Function(mark.layer, mark.phase, mark.name))
        if leaving:
            active[id(function)] -= 1
            continue
        function.calls += paths[number].calls
        function.self_ns += own[number]
        if not active[id(function)]:
            function.inclusive_ns += whole[number]
        active[id(function)] += 1
        stack.append((number, True))
        stack += [(callee, False) for callee in callees.get(number, ())]
    return sorted(found.values(), key=lambda one: (-one.self_ns, one.layer, one.phase, one.name))
