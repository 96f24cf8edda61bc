"""The automaton of open marks. A state is an interned path of marks from a thread's root; a move is a look-up."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from circletools.trace.nnapi.contexts import Context, Contexts
from circletools.trace.nnapi.marks import APPLICATION, FOREIGN, HalSide, Mark, Role, is_call

END = -1
"""The symbol of an end; the symbol of a begin is the number of its mark."""

ALONE, BY_COLUMNS = 1, 2
"""How to report begins and ends that do more than change the path: one by one, as columns, or both."""

_WITH_AN_END = (Role.FENCED, Role.WAIT, Role.COMPUTE, *APPLICATION)


@dataclass(slots=True)
class Path:
    """Open marks: the marks of path `up`, followed by `mark`.

    `outside` is the context around the mark. `home` is the path whose function is charged if the mark is not counted,
    and the caller of its function if it is. `live` is false for marks that add no time, and for a mark that a [SW]
    has ended. The begin of a `watched` mark has effects besides time.
    """

    up: int
    mark: Mark
    context: Context
    outside: Context
    home: int
    live: bool
    faults: tuple[str, ...] = ()
    watched: bool = False
    ended: int = 0
    calls: int = 0
    self_ns: int = 0

    def home_of(self, number: int) -> int:
        """Return the path whose function is charged for time directly inside this path, which has number `number`."""
        return number if self.live else self.home


class Automaton:
    """All paths of a trace; 0 has no marks. An end moves from 0 to itself.

    By path: `context_numbers`, `depths` (how many marks it has), `ups` (the path after the end of its last mark), and
    `reporting`, how the end of its last mark is reported and, in row 1, its begin (0: not at all). By symbol:
    `switches`, the marks that end the mark around them.
    """

    def __init__(self) -> None:
        self.contexts: Contexts = Contexts()
        self.paths: list[Path] = []
        self.marks: list[Mark] = [FOREIGN]
        self._moves: dict[tuple[int, int], int] = {}
        self.switches = bytearray(1)
        self.context_numbers, self.depths, self.ups = array("q"), array("q"), array("q")
        self.reporting = bytearray(), bytearray()
        root = self.contexts.all[0]
        self._add(Path(0, FOREIGN, root, root, 0, False), 0)
        self.reporting[0][0] = ALONE

    def symbol(self, mark: Mark) -> int:
        """Return a number for a new mark."""
        self.marks.append(mark)
        self.switches.append(mark.switch)
        return len(self.marks) - 1

    def move(self, number: int, symbol: int) -> int:
        """Return the path that follows path `number` after a begin."""
        found = self._moves.get((number, symbol))
        if found is None:
            found = self._moves[number, symbol] = self._make(number, self.marks[symbol])
        return found

    def _make(self, number: int, mark: Mark) -> int:
        """Add the path of a mark inside path `number`; return its number."""
        outer, depth = self.paths[number], self.depths[number] + 1
        faults: tuple[str, ...] = (mark.fault,) if mark.fault else ()
        if not mark.layer:
            path = Path(number, mark, outer.context, outer.context, outer.home_of(number), False, faults)
            return self._add(path, depth)
        up, base, home = number, outer.context, outer.home_of(number)
        if mark.switch and outer.mark.layer:
            up = self.ended(number)
            base, home = outer.outside, outer.home
        elif mark.switch:
            faults += ("T012",)
        context, more = self.contexts.enter(base, mark)
        live = "T024" not in more
        return self._add(Path(up, mark, context, base, home, live, faults + more), depth)

    def ended(self, number: int) -> int:
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
        self.context_numbers.append(path.context.number)
        self.depths.append(depth)
        self.ups.append(path.up)
        mark = path.mark
        serves = mark.phase == "PE" and (mark.layer in ("LA", "LD") or mark.side is HalSide.SERVER or is_call(mark))
        path.watched = serves or mark.role is not Role.NONE
        way = ALONE if mark.role in APPLICATION else BY_COLUMNS
        self.reporting[0].append(way * (serves or mark.role in _WITH_AN_END))
        self.reporting[1].append(way * path.watched | ALONE * bool(path.faults))
        return number
