"""The machine that follows threads by the batch, beside one that takes an event at a time."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from circletools.trace.nnapi import walk
from circletools.trace.nnapi.automaton import Automaton, Path
from circletools.trace.nnapi.executions import Executions, kind_of
from circletools.trace.nnapi.machine import Begin, End, Machine, Turns
from circletools.trace.nnapi.machine import Told as Columns
from circletools.trace.nnapi.marks import APPLICATION, FOREIGN, Mark, Role, classify
from tests.kit.slow_executions import SlowExecutions

TEXTS = (
    b"[NN_LR_PE]ANeuralNetworksExecution_startCompute", b"[NN_LR_PE]ANeuralNetworksEvent_wait",
    b"[NN_LR_PE]ANeuralNetworksExecution_compute", b"[NN_LA_PO]app", b"[NN_LA_PBM]loop", b"[SW][NN_LA_PWU]warm",
    b"[SW][NN_LC_PCO]conv", b"[NN_LC_PTR]quant", b"[SUB][NN_LR_PC]device", b"[NN_LI_PE]execute", b"[NN_LD_PE]driver",
    b"HIDL::IPreparedModel::execute::server", b"[NN_LX_PE]bad", b"[NN_LR_PU]detail",
)  # fmt: skip
FLYING = (Role.START, Role.WAIT, Role.COMPUTE)
Event = tuple[int, int, int, int]
"""Time, thread, symbol, place."""


class Told:
    """A watcher that keeps what it is told, one by one and as columns, and lets executions fly."""

    def __init__(self, threads: int) -> None:
        self.all: list[tuple[object, ...]] = []
        self.columns: list[tuple[object, ...]] = []
        self.executions: Executions = Executions(frozenset(), [0] * threads, lambda at, processes: at)
        self.machine: Machine | None = None
        self.at: dict[int, int] = {}

    def handlers(self, path: Path) -> tuple[Begin, End]:
        mark = path.mark
        assert mark.role in APPLICATION

        def began(t_ns: int, thread: int, where: int) -> None:
            assert self.machine is None or self.machine.now == self.at[where]
            self.all.append(("began", mark.text, t_ns, thread, where))

        return began, lambda t_ns, thread: self.all.append(("ended", mark.text, t_ns, thread))

    def take(self, told: Columns) -> Turns:
        assert self.machine is not None
        marks = [self.machine.automaton.paths[path].mark for path in told.paths.tolist()]
        rows = zip(told.begins, marks, told.times, told.threads, told.wheres, told.at, strict=True)
        self.columns += [
            ("began" if begins else "ended", mark.text, t_ns, thread, where, at)
            for begins, mark, t_ns, thread, where, at in rows
        ]
        return self.executions.take(told, np.array([kind_of(mark) for mark in marks], np.int64))

    def misplaced(self, code: str, mark: Mark, outer: Mark | None, where: int, find: Callable[[], int]) -> None:
        self.all.append((code, mark.text, outer.text if outer else "", where, find() if outer else -1))

    def unmatched(self, thread: int, where: int) -> None:
        self.all.append(("unmatched", thread, where))


class Slow:
    """Takes an event at a time."""

    def __init__(self, told: Told, threads: int) -> None:
        self.automaton, self.told = Automaton(), told
        self.executions = SlowExecutions(frozenset(), [0] * threads, self.set_flight)
        self.paths, self.flying = [0] * threads, [0] * threads
        self.places: list[list[int]] = [[] for _ in range(threads)]
        self.breaks: list[tuple[int, int, int, int]] = []
        self.count = 0

    def set_flight(self, thread: int, flying: bool, t_ns: int, current: int) -> None:
        if self.flying[thread] != flying and thread != current:
            self.breaks.append((self.count, t_ns, thread, self.paths[thread] << 1 | self.flying[thread]))
        self.flying[thread] = int(flying)

    def feed(self, events: list[Event]) -> list[int]:
        self.breaks, states = [], []
        for self.count, (t_ns, thread, symbol, where) in enumerate(events, 1):
            before, places = self.paths[thread], self.places[thread]
            states.append(before << 1 | self.flying[thread])
            after = self.automaton.paths[before].up if symbol < 0 else self.automaton.move(before, symbol)
            self.paths[thread] = after
            if symbol >= 0:
                self._begin(before, self.automaton.paths[after], places, (t_ns, thread, where))
            elif not before:
                self.told.unmatched(thread, where)
            else:
                places.pop()
                path = self.automaton.paths[before]
                if path.mark.role in (Role.WARM_UP, Role.BENCHMARK):
                    self.told.handlers(path)[1](t_ns, thread)
                elif path.watched and path.mark.role not in (Role.RUN, Role.START):
                    self.told.columns.append(("ended", path.mark.text, t_ns, thread, where, self.count - 1))
                    if path.mark.role in FLYING:
                        self.executions.end(path.mark.role, t_ns, thread)
        return states

    def _begin(self, before: int, path: Path, places: list[int], event: tuple[int, int, int]) -> None:
        paths, live, depth = self.automaton.paths, before, len(places) - 1
        around = paths[before].home_of(before)
        while live != around:
            live, depth = paths[live].up, depth - 1
        held = places.copy()
        places.append(event[2])
        for code in path.faults:
            outer = paths[around].mark if around else None
            self.told.misplaced(code, path.mark, outer, event[2], lambda: held[depth])
        if path.mark.role in APPLICATION:
            self.told.handlers(path)[0](*event)
        elif path.watched:
            self.told.columns.append(("began", path.mark.text, *event, self.count - 1))
            if path.mark.role in FLYING:
                self.executions.begin(path.mark.role, *event)


def batches(seed: int) -> tuple[int, list[list[Event]]]:
    made = random.Random(seed)  # noqa: S311 - no secret
    threads, depth = made.choice((1, 2, 3, 300)), [0] * 300
    most, t_ns, where = made.choice((2, 5, 30)), 0, 0
    found: list[list[Event]] = []
    for _ in range(6):
        some = made.sample(range(threads), made.randrange(1, min(threads, 4) + 1))
        events = []
        for _ in range(made.choice((1, 3, 60))):
            thread, t_ns, where = made.choice(some), t_ns + made.randrange(4), where + 1
            begins = depth[thread] < most and made.random() < 0.55
            depth[thread] = max(0, depth[thread] + (1 if begins else -1))
            events.append((t_ns, thread, made.randrange(len(TEXTS) + 1) if begins else -1, where))
        found.append(events)
    return threads, found


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("most_levels", [walk._MOST_LEVELS, 3])
def test_batches_are_followed_as_events_are(seed: int, most_levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_MOST_LEVELS", most_levels)
    threads, found = batches(seed)
    slow, fast = Told(threads), Told(threads)
    one, machine = Slow(slow, threads), Machine(fast)
    fast.machine = machine
    for automaton in (one.automaton, machine.automaton):
        assert [automaton.symbol(classify(text)) for text in TEXTS] == list(range(1, len(TEXTS) + 1))
    for _ in range(threads):
        machine.add_thread()
    for events in found:
        wanted = one.feed(events)
        fast.at = {event[3]: at for at, event in enumerate(events)}
        states = machine.feed(*(np.array(column, np.int64) for column in zip(*events, strict=True)))
        texts = [
            _texts(automaton, some) for automaton, some in ((one.automaton, wanted), (machine.automaton, states))
        ]
        assert texts[0] == texts[1]
        assert (fast.all, fast.columns) == (slow.all, slow.columns)
        assert _breaks(machine.automaton, [column.tolist() for column in machine.breaks]) == _breaks(
            one.automaton, [list(column) for column in zip(*one.breaks, strict=True)]
        )
        last = [path << 1 | flying for path, flying in zip(one.paths, one.flying, strict=True)]
        assert _texts(machine.automaton, machine.states()) == _texts(one.automaton, last)
        for thread in range(threads):
            open_marks = machine.open_marks(thread)
            assert [where for _, where in reversed(open_marks)] == one.places[thread]
            assert [mark.text for mark, _ in open_marks] == _path(one.automaton, one.paths[thread])


def _path(automaton: Automaton, number: int) -> list[str]:
    found = []
    while number:
        path = automaton.paths[number]
        found.append(path.mark.text)
        number = path.up
    return found


def _texts(automaton: Automaton, states: object) -> list[tuple[list[str], bool, int]]:
    """Return what states are, however their paths are numbered."""
    numbers = np.array(states, np.int64).tolist()
    return [(_path(automaton, one >> 1), automaton.paths[one >> 1].live, one & 1) for one in numbers]


def _breaks(automaton: Automaton, columns: list[list[int]]) -> list[object]:
    if not columns:
        return []
    at, times, threads, states = columns
    return list(zip(at, times, threads, _texts(automaton, states), strict=True))


def test_a_machine_without_events() -> None:
    machine = Machine(Told(1))
    machine.add_thread()
    assert (machine.states().tolist(), machine.open_marks(0), machine.automaton.marks) == ([0], [], [FOREIGN])


def test_only_marks_that_can_end_are_looked_up() -> None:
    automaton = Automaton()
    symbol, paths = automaton.symbol(classify(TEXTS[0])), [0]
    for _ in range(5):
        paths.append(automaton.move(paths[-1], symbol))
    assert walk._outer(automaton, paths[5], 2) == paths[3:]
    assert walk._outer(automaton, paths[2], 9) == paths[1:3]
    assert walk._outer(automaton, 0, 9) == []
