"""The automaton that follows the open marks of every thread.

A state is a path of open marks from a thread's root, interned: moving into a mark, or out of it, is a look-up. What
is more than a move (a new path, a diagnostic, an execution, an application phase) goes the slow way.

State 2n is path n; 2n + 1 is the same path while an execution that began on the thread is in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from circletools.trace.nnapi.contexts import Context, Contexts
from circletools.trace.nnapi.marks import FOREIGN, Mark, Role, Side

_SLOW = -1


class Watcher(Protocol):
    """Is told of what is more than time."""

    def began(self, mark: Mark, t_ns: int, thread: int, where: int) -> None:
        """Take the begin of a mark that has a role."""

    def ended(self, mark: Mark, t_ns: int, thread: int, where: int) -> None:
        """Take the end of such a mark."""

    def misplaced(self, code: str, mark: Mark, outer: Mark | None, where: int, find: Callable[[], int]) -> None:
        """Take a mark that is wrong where it is; `find` returns the place of the one around it."""

    def unmatched(self, thread: int, where: int) -> None:
        """Take an end without a begin."""


@dataclass(slots=True)
class Path:
    """Open marks: those of path `up`, and `mark`.

    `outside` is the context around the mark. `home` is the path whose function is charged when the mark is no
    counted one, and the caller of its function when it is. `live` is false for what adds no time, and for a mark
    that a [SW] has ended. `watched` marks are told to the watcher.
    """

    up: int
    mark: Mark
    context: Context
    outside: Context
    home: int
    live: bool
    faults: tuple[str, ...] = ()
    children: dict[int, int] = field(default_factory=dict)
    watched: bool = False
    ended: int = 0
    calls: int = 0
    self_ns: int = 0

    def home_of(self, number: int) -> int:
        """Return the path whose function is charged for what is directly inside this one, which is `number`."""
        return number if self.live else self.home


class Machine:
    """Follows threads; `feed` takes events and returns the state that each one ends.

    `breaks` then holds what ended states of other threads: position among the events, time, thread, state.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.contexts: Contexts = Contexts()
        root = self.contexts.all[0]
        self.paths: list[Path] = [Path(0, FOREIGN, root, root, 0, False)]
        self.context_numbers: list[int] = [0]
        self.marks: list[Mark] = [FOREIGN]
        self.states: list[int] = []
        self.places: list[list[int]] = []
        self._up = [_SLOW, _SLOW]
        self._into: dict[int, int] = {}
        self._watcher = watcher
        self._before: list[int] = []
        self.breaks: list[tuple[int, int, int, int]] = []

    def symbol(self, mark: Mark) -> int:
        """Return a number for a mark that was not known before."""
        self.marks.append(mark)
        return len(self.marks) - 1

    def add_thread(self) -> None:
        """Add a thread, with no marks open."""
        self.states.append(0)
        self.places.append([])

    def feed(self, times: list[int], threads: list[int], symbols: list[int], wheres: list[int]) -> list[int]:
        """Follow events; return the state of each event's thread before it."""
        states, places, into, up = self.states, self.places, self._into, self._up
        before: list[int] = []
        self._before, self.breaks = before, []
        note = before.append
        for t_ns, thread, symbol, where in zip(times, threads, symbols, wheres, strict=True):
            state = states[thread]
            note(state)
            if symbol < 0:
                after = up[state]
                if after < 0:
                    self._leave(state, t_ns, thread, where)
                else:
                    states[thread] = after
                    places[thread].pop()
            else:
                after = into.get(state << 32 | symbol, _SLOW)
                if after < 0:
                    self._enter(state, symbol, t_ns, thread, where)
                else:
                    states[thread] = after
                    places[thread].append(where)
        return before

    def open_marks(self, thread: int) -> list[tuple[Mark, int]]:
        """Return the marks that are open on a thread, the innermost first, each with its place."""
        path, found = self.states[thread] >> 1, []
        for where in reversed(self.places[thread]):
            found.append((self.paths[path].mark, where))
            path = self.paths[path].up
        return found

    def set_flight(self, thread: int, flying: bool, t_ns: int, current: int) -> None:
        """Say whether an execution of a thread is in flight, at an event of thread `current`."""
        state = self.states[thread]
        if state & 1 == flying:
            return
        if thread != current:
            self.breaks.append((len(self._before), t_ns, thread, state))
        self.states[thread] = state ^ 1

    def _leave(self, state: int, t_ns: int, thread: int, where: int) -> None:
        number = state >> 1
        if not number:
            self._watcher.unmatched(thread, where)
            return
        path = self.paths[number]
        self.states[thread] = path.up << 1 | state & 1
        self.places[thread].pop()
        if path.watched:
            self._watcher.ended(path.mark, t_ns, thread, where)

    def _enter(self, state: int, symbol: int, t_ns: int, thread: int, where: int) -> None:
        number, mark = state >> 1, self.marks[symbol]
        inner = self.paths[number].children.get(symbol, 0)
        if not inner:
            inner = self.paths[number].children[symbol] = self._make(number, mark)
        path = self.paths[inner]
        for code in path.faults:
            self._report(code, mark, number, thread, where)
        self.states[thread] = inner << 1 | state & 1
        self.places[thread].append(where)
        if path.watched:
            self._watcher.began(mark, t_ns, thread, where)
        elif not path.faults:
            self._into[state << 32 | symbol] = inner << 1 | state & 1

    def _report(self, code: str, mark: Mark, number: int, thread: int, where: int) -> None:
        """Report a mark together with the live one around it."""
        around = self.paths[number].home_of(number)

        def find() -> int:
            path, depth = number, len(self.places[thread]) - 1
            while path != around:
                path, depth = self.paths[path].up, depth - 1
            return self.places[thread][depth]

        self._watcher.misplaced(code, mark, self.paths[around].mark if around else None, where, find)

    def _make(self, number: int, mark: Mark) -> int:
        """Add the path of a mark inside path `number`; return its number."""
        outer = self.paths[number]
        faults: tuple[str, ...] = (mark.fault,) if mark.fault else ()
        if not mark.layer:
            return self._add(Path(number, mark, outer.context, outer.context, outer.home_of(number), False, faults))
        up, base, home = number, outer.context, outer.home_of(number)
        if mark.switch and outer.mark.layer:
            up = self._ended(number)
            base, home = outer.outside, outer.home
        elif mark.switch:
            faults += ("T012",)
        context, more = self.contexts.enter(base, mark)
        live = "T024" not in more
        return self._add(Path(up, mark, context, base, home, live, faults + more))

    def _ended(self, number: int) -> int:
        """Return the path with the same marks, the innermost of which a [SW] has ended."""
        path = self.paths[number]
        if not path.live:
            return number
        if not path.ended:
            path.ended = self._add(Path(path.up, path.mark, path.outside, path.outside, path.home, False))
        return path.ended

    def _add(self, path: Path) -> int:
        number = len(self.paths)
        self.paths.append(path)
        self.context_numbers.append(path.context.number)
        mark = path.mark
        # More than time: a run, an execution, the driver's part of one.
        path.watched = (
            mark.role is not Role.NONE or (mark.layer, mark.phase) == ("LD", "PE") or mark.side is Side.SERVER
        )
        self._up += (_SLOW, _SLOW) if path.watched else (path.up << 1, path.up << 1 | 1)
        return number
