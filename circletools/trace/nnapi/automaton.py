"""The automaton of open marks, and time by function (a mark's name together with its layer and phase).

A state is an interned path of marks from a thread's root; a move is a look-up. A context is a state without names:
the running (layer, phase) buckets and the innermost of them. A trace of a million lines has about thirty contexts.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from circletools.trace.nnapi.marks import BEGIN_ONLY, FOREIGN, LAYERS, PHASES, SUBPHASES, UNSPECIFIED, Mark, role_of

END = -1
"""The symbol of an end event; the symbol of a begin event is the number of its mark."""

BUCKETS = tuple((layer, phase) for layer in LAYERS for phase in PHASES)
BUCKET = {pair: number for number, pair in enumerate(BUCKETS)}
NO_BUCKET = -1
_SELDOM, _NO_MOVES = 2, dict[int, int]()

_EXECUTION = BUCKET["LR", "PE"]
# The layers and phases that may be directly inside each; the same layer or phase is always allowed.
_INNER_LAYERS = {"LA": ("LR",), "LR": ("LI", "LC"), "LI": ("LD",), "LD": (), "LC": ()}
_HOLDERS = {"LA": (), "LR": ("LA",), "LI": ("LR",), "LD": ("LI",), "LC": ("LR", "LI")}
_MAIN_PHASES = ("PP", "PC", "PE", "PT", *SUBPHASES)
_FAMILIES = (("PI",), ("PP",), ("PC",), ("PE", *SUBPHASES), ("PT",))
# The phases that pause while a phase runs: main phases that do not contain it. Only PI may legally be inside these.
_PAUSED = {
    phase: sum(1 << BUCKET[pair] for pair in BUCKETS if pair[1] in sum(_FAMILIES, ()) and pair[1] not in family)
    for family in _FAMILIES
    for phase in family
}
_INNER_PHASES = {
    "PO": ("PWU", "PBM", *_MAIN_PHASES),
    "PWU": ("PE", *SUBPHASES),
    "PBM": ("PE", *SUBPHASES),
    "PE": SUBPHASES,
}


@dataclass(frozen=True, slots=True)
class Context:
    """The clocks of a thread.

    In `running`, bit i is set if bucket i runs; `owner` is the innermost bucket, or -1 if no mark is open. `nearest`
    holds, for each layer, the number of the context of its innermost mark, or 0.
    """

    number: int
    running: int
    owner: int
    nearest: tuple[int, ...]


class Contexts:
    """All contexts of a trace, by number; context 0 is that of a thread without open marks.

    In `running` and `owners`, entry 2n + 1 is context n while an execution that began on the thread is in flight:
    the runtime's clock runs, and owns time that would otherwise be the application's.
    """

    def __init__(self) -> None:
        self.all: list[Context] = [Context(0, 0, NO_BUCKET, (0,) * len(LAYERS))]
        self.running: list[int] = [0, 1 << _EXECUTION]
        self.owners: list[int] = [NO_BUCKET, _EXECUTION]
        self._known: dict[tuple[int, str, str, bool, bool], tuple[Context, tuple[str, ...]]] = {}

    def enter(self, base: Context, mark: Mark) -> tuple[Context, tuple[str, ...]]:
        """Return the context inside a mark, and the diagnostic codes for a misplaced mark."""
        key = (base.number, mark.layer, mark.phase, mark.subtract, mark.in_process)
        if key not in self._known:
            self._known[key] = self._make(base, mark)
        return self._known[key]

    def _make(self, base: Context, mark: Mark) -> tuple[Context, tuple[str, ...]]:
        outer = BUCKETS[base.owner] if base.owner >= 0 else None
        layer, phase, faults = mark.layer, mark.phase, []
        if phase == UNSPECIFIED:
            if outer is None:
                return base, ("T024",)
            phase = outer[1]
        if mark.subtract:
            # Return to the context of the mark's own layer, else to one that may contain it.
            own = base.nearest[LAYERS.index(layer)]
            holder = own or max((base.nearest[LAYERS.index(other)] for other in _HOLDERS[layer]), default=0)
            if not own:
                faults.append("T030")
            running = self.all[holder].running
        else:
            running = base.running
            if outer is not None:
                # A driver in the client's process is called through the HAL.
                inner = "LD" if mark.in_process and outer[0] == "LI" else layer
                if phase not in ("PI", outer[1]) and phase not in _INNER_PHASES.get(outer[1], ()):
                    faults.append("T020")
                if inner != outer[0] and inner not in _INNER_LAYERS[outer[0]]:
                    faults.append("T021")
        running &= ~_PAUSED.get(phase, 0)
        bucket = BUCKET[layer, phase]
        running |= 1 << bucket
        if phase in SUBPHASES:
            running |= 1 << BUCKET[layer, "PE"]
        if (running, bucket) == (base.running, base.owner):
            return base, tuple(faults)  # more detail within the same bucket
        number, at = len(self.all), LAYERS.index(layer)
        context = Context(number, running, bucket, (*base.nearest[:at], number, *base.nearest[at + 1 :]))
        self.all.append(context)
        self.running += [running, running | 1 << _EXECUTION]
        self.owners += [bucket, _EXECUTION if layer == LAYERS[0] else bucket]
        return context, tuple(faults)


class Automaton:
    """All paths of a trace; path 0 has no marks, and an end event leads from it to itself.

    The columns by path are `ups` (the path around it), `symbols` (of its last mark), `context_numbers`, `depths`
    (numbers of marks), `calls`, `self_ns`, `roles` (of the begin and end events of the last mark), and `faults` (an
    index into `fault_codes`). `homes` are the paths whose functions are charged if the mark is not counted or, if it
    is, the callers of its function. `live` is false for marks that add no time, and for a mark that a [SW] has ended.
    For paths that are passed more than twice, `moves` holds the path after each symbol.
    """

    def __init__(self) -> None:
        self.contexts: Contexts = Contexts()
        self.marks: list[Mark] = [FOREIGN]
        self.moves: list[dict[int, int]] = []
        self.ups, self.symbols, self.context_numbers, self.homes, self.depths = (array("i") for _ in range(5))
        self.calls, self.self_ns = array("q"), array("q")
        self.live, self.roles = bytearray(), (bytearray(), bytearray())
        self.faults, self.fault_codes = array("i"), dict[tuple[str, ...], int]()
        # The context around the last mark, the path after a [SW] has ended it, and the first path inside: its symbol
        # and number. They are separate from `moves`, which would take most memory in a deep trace.
        self._outsides, self._ended, self._inner, self._passed = array("i"), array("i"), array("i"), bytearray()
        self._add(0, 0, 0, 0, 0, 0, ())

    def symbol(self, mark: Mark) -> int:
        """Return the number given to a new mark."""
        self.marks.append(mark)
        return len(self.marks) - 1

    def mark(self, number: int) -> Mark:
        """Return the last mark of a path."""
        return self.marks[self.symbols[number]]

    def home(self, number: int) -> int:
        """Return the path whose function is charged for time directly inside this path."""
        return number if self.live[number] else self.homes[number]

    def follow(self, number: int, symbols: Iterable[int]) -> Iterator[int]:
        """Yield the path after each symbol, starting from path `number`; new paths are made for begin events."""
        for symbol in symbols:
            move = self.moves[number]
            if not move:
                number = self._seldom(number, symbol)
            else:
                number = move[symbol] if symbol in move else move.setdefault(symbol, self._enter(number, symbol))
            yield number

    def _seldom(self, number: int, symbol: int) -> int:
        """Return the path after a symbol, from a path without moves."""
        inner, known = self._inner[2 * number : 2 * number + 2]
        self._passed[number] += 1
        if self._passed[number] > _SELDOM or (symbol != END and known and symbol != inner):
            self.moves[number] = {END: self.ups[number]} | ({inner: known} if known else {})
            return next(self.follow(number, (symbol,)))
        if symbol != END and not known:
            known = self._enter(number, symbol)
            self._inner[2 * number], self._inner[2 * number + 1] = symbol, known
        return self.ups[number] if symbol == END else known

    def _enter(self, number: int, symbol: int) -> int:
        """Add the path of a mark inside path `number`; return its number."""
        mark, up, base, home = self.marks[symbol], number, self.context_numbers[number], self.home(number)
        faults: tuple[str, ...] = (mark.fault,) if mark.fault else ()
        if not mark.layer:
            return self._add(up, symbol, base, base, home, 0, faults)
        if mark.switch and self.mark(number).layer:  # it replaces the mark around it
            up, base, home = self._end(number), self._outsides[number], self.homes[number]
        elif mark.switch:
            faults += ("T012",)
        context, more = self.contexts.enter(self.contexts.all[base], mark)
        return self._add(up, symbol, context.number, base, home, "T024" not in more, faults + more)

    def _end(self, number: int) -> int:
        """Return the path with the same marks, the innermost ended by a [SW]; a path without marks stays as it is."""
        if not self.live[number]:
            return number
        if not self._ended[number]:
            base = self._outsides[number]
            ended = self._add(self.ups[number], self.symbols[number], base, base, self.homes[number], 0, ())
            self._ended[number] = ended
        return self._ended[number]

    def _add(
        self, up: int, symbol: int, context: int, outside: int, home: int, live: int, faults: tuple[str, ...]
    ) -> int:
        number, role = len(self.ups), role_of(self.marks[symbol])
        if number == len(self.calls):  # these start with zeros
            for zeros in (self.calls, self.self_ns, self._ended, self._inner, self._inner, self._passed):
                zeros.extend([0] * (number + 64))
        columns = self.ups, self.symbols, self.context_numbers, self._outsides, self.homes, self.live
        for column, value in zip(columns, (up, symbol, context, outside, home, live), strict=True):
            column.append(value)
        self.depths.append(self.depths[up] + 1 if number else 0)
        self.faults.append(self.fault_codes.setdefault(faults, len(self.fault_codes)))
        self.moves.append(_NO_MOVES)
        self.roles[0].append(role)
        self.roles[1].append(0 if role in BEGIN_ONLY else role)
        return number


@dataclass(slots=True)
class Function:
    """A function. Its self time excludes the functions that it calls.

    `inclusive_ns` is the time from begin to end; unlike times of layers, it includes pauses. Recursion counts once.
    """

    layer: str
    phase: str
    name: str
    calls: int = 0
    self_ns: int = 0
    inclusive_ns: int = 0


def functions(automaton: Automaton) -> list[Function]:
    """Return all functions, those with the most self time first."""
    own, homes = automaton.self_ns[: len(automaton.ups)], automaton.homes
    # For each path: its inclusive time, its first callee, and the next callee of the same caller; 0 for none.
    whole, first, following = (array("q", bytes(8 * len(own))) for _ in range(3))
    for number in range(len(own) - 1, 0, -1):  # a path comes after the paths it refers to
        home = homes[number]
        if automaton.live[number]:
            whole[number] += own[number]
            whole[home] += whole[number]
            first[home], following[number] = number, first[home]
        else:
            own[home] += own[number]
    found: dict[tuple[str, str, str], Function] = {}
    active: dict[int, int] = defaultdict(int)

    def function_of(number: int) -> Function:
        mark = automaton.mark(number)
        key = mark.layer, mark.phase, mark.name
        return found[key] if key in found else found.setdefault(key, Function(*key))

    number = first[0]
    while number:
        function = function_of(number)
        function.calls += automaton.calls[number]
        function.self_ns += own[number]
        if not active[id(function)]:
            function.inclusive_ns += whole[number]
        active[id(function)] += 1
        inner = first[number]
        while number and not inner:  # all callees have been visited
            active[id(function_of(number))] -= 1
            number, inner = homes[number], following[number]
        number = inner
    return sorted(found.values(), key=lambda one: (-one.self_ns, one.layer, one.phase, one.name))
