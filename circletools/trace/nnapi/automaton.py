"""The automaton of open marks, and time by function: a mark's name together with its layer and phase.

A state is an interned path of marks from a thread's root; a move is a look-up.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from circletools.trace.nnapi.contexts import Context, Contexts
from circletools.trace.nnapi.marks import BEGIN_ONLY, FOREIGN, Mark, role_of

END = -1
"""The symbol of an end; the symbol of a begin is the number of its mark."""


@dataclass(slots=True)
class Path:
    """Open marks: the marks of path `up`, followed by `mark`.

    `outside` is the context around the mark. `home` is the path whose function is charged if the mark is not counted,
    and the caller of its function if it is. `live` is false for marks that add no time, and for a mark that a [SW]
    has ended.
    """

    up: int
    mark: Mark
    context: Context
    outside: Context
    home: int
    live: bool
    faults: tuple[str, ...] = ()
    ended: int = 0
    calls: int = 0
    self_ns: int = 0

    def home_of(self, number: int) -> int:
        """Return the path whose function is charged for time directly inside this path, which has number `number`."""
        return number if self.live else self.home


class Automaton:
    """All paths of a trace; 0 has no marks. An end moves from 0 to itself.

    By path: `moves` (the path after each symbol, as far as known), `context_numbers`, `depths` (how many marks it has),
    and `roles`, the roles of the begin and the end of its last mark.
    """

    def __init__(self) -> None:
        self.contexts: Contexts = Contexts()
        self.paths: list[Path] = []
        self.marks: list[Mark] = [FOREIGN]
        self.moves: list[dict[int, int]] = []
        self.context_numbers, self.depths = array("q"), array("q")
        self.roles = bytearray(), bytearray()
        root = self.contexts.all[0]
        self._add(Path(0, FOREIGN, root, root, 0, False), 0)

    def symbol(self, mark: Mark) -> int:
        """Return a number for a new mark."""
        self.marks.append(mark)
        return len(self.marks) - 1

    def follow(self, number: int, symbols: Iterable[int]) -> Iterator[int]:
        """Yield the path after each symbol, from path `number` on; make the paths after begins that are new."""
        for symbol in symbols:
            move = self.moves[number]
            number = move[symbol] if symbol in move else move.setdefault(symbol, self._enter(number, symbol))
            yield number

    def _enter(self, number: int, symbol: int) -> int:
        """Add the path of a mark inside path `number`; return its number."""
        mark, outer, depth = self.marks[symbol], self.paths[number], self.depths[number] + 1
        faults: tuple[str, ...] = (mark.fault,) if mark.fault else ()
        if not mark.layer:
            path = Path(number, mark, outer.context, outer.context, outer.home_of(number), False, faults)
            return self._add(path, depth)
        up, base, home = number, outer.context, outer.home_of(number)
        if mark.switch and outer.mark.layer:
            up = self._ended(number)
            base, home = outer.outside, outer.home
        elif mark.switch:
            faults += ("T012",)
        context, more = self.contexts.enter(base, mark)
        live = "T024" not in more
        return self._add(Path(up, mark, context, base, home, live, faults + more), depth)

    def _ended(self, number: int) -> int:
        """Return the path with the same marks, the innermost ended by a [SW]; a path without marks is unchanged."""
        path = self.paths[number]
        if not path.live:
            return number
        if not path.ended:
            ended = Path(path.up, path.mark, path.outside, path.outside, path.home, False)
            path.ended = self._add(ended, self.depths[number])
        return path.ended

    def _add(self, path: Path, depth: int) -> int:
        number = len(self.paths)
        self.paths.append(path)
        self.moves.append({END: path.up})
        self.context_numbers.append(path.context.number)
        self.depths.append(depth)
        role = role_of(path.mark)
        self.roles[0].append(role)
        self.roles[1].append(0 if role in BEGIN_ONLY else role)
        return number


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
