"""Executions and drivers by columns, beside what takes an event at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from circletools.trace.nnapi.executions import DriverExecutions, Executions, kind_of
from circletools.trace.nnapi.machine import Told
from circletools.trace.nnapi.marks import Mark, Role, classify
from tests.kit.slow_executions import SlowDriver, SlowExecutions

START, FENCED, WAIT, COMPUTE = (
    classify(f"[NN_LR_PE]{name}".encode())
    for name in (
        "ANeuralNetworksExecution_startCompute", "ANeuralNetworksExecution_startComputeWithDependencies",
        "ANeuralNetworksEvent_wait", "ANeuralNetworksExecution_compute",
    )
)  # fmt: skip
DRIVER = tuple(
    classify(text)
    for text in (
        b"[NN_LD_PE]run", b"HIDL::IPreparedModel::execute_1_2::server",
        b"HIDL::IPreparedModel::executeSynchronously::server", b"HIDL::IExecutionCallback::notify::client",
        b"HIDL::IExecutionCallback::notify::server", b"AIDL::ndk::IPreparedModel::configureExecutionBurst::server",
    )
)  # fmt: skip
Row = tuple[int, Mark, bool, int, int, int]
"""Place in the batch, mark, whether it begins, time, thread, place in the trace."""


def told(rows: list[Row]) -> tuple[Told, Any]:
    columns = [np.array([row[column] for row in rows], np.int64) for column in (0, 3, 4, 5)]
    begins = np.array([row[2] for row in rows], np.bool_)
    at, times, threads, wheres = columns
    return Told(at, at, begins, times, threads, wheres), np.array([kind_of(row[1]) for row in rows], np.int64)


def batches(seed: int, marks: tuple[Mark, ...], silent: tuple[Role, ...], most: int) -> list[list[Row]]:
    """Return batches of begins and ends, of which those of `silent` roles are not told."""
    made = random.Random(seed)  # noqa: S311 - no secret
    stacks: list[list[Mark]] = [[] for _ in range(4)]
    found, t_ns, where = list[list[Row]](), 0, 0
    for _ in range(5):
        rows: list[Row] = []
        for at in range(made.choice((0, 1, 4, 40))):
            thread, t_ns, where = made.randrange(4), t_ns + made.randrange(3), where + 1
            stack = stacks[thread]
            begins = not stack or (len(stack) < most and made.random() < 0.5)
            mark = made.choice(marks) if begins else stack.pop()
            if begins:
                stack.append(mark)
            if begins or mark.role not in silent:
                rows.append((at * 2, mark, begins, t_ns, thread, where))
        found.append(rows)
    return found


@pytest.mark.parametrize("seed", range(120))
def test_executions_are_followed_as_events_are(seed: int) -> None:
    processes = [(70, 70, 70, 70), (70, 1 << 62, 70, -1), (1, 2, 3, 4)][seed % 3]
    marks = (START, WAIT, COMPUTE, FENCED) if seed % 2 else (START, START, WAIT)
    ignored = frozenset({2, 3, 7}) if seed % 5 == 0 else frozenset[int]()
    wanted: list[tuple[int, int, int, int]] = []
    now = 0

    def fly(thread: int, flying: bool, t_ns: int, current: int) -> None:
        wanted.append((now, t_ns, thread, current))

    slow = SlowExecutions(ignored, list(processes), fly, lambda process: process % 7 + now)
    fast = Executions(ignored, list(processes), lambda at, process: process % 7 + at)
    for rows in batches(seed, marks, (Role.START,), 1 + seed % 4):
        wanted.clear()
        for row in rows:
            now, mark, begins, t_ns, thread, where = row
            if begins:
                slow.begin(mark.role, t_ns, thread, where)
            else:
                slow.end(mark.role, t_ns, thread)
        turns = fast.take(*told(rows))
        columns = (turns.at, turns.times, turns.threads, turns.current)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted
        assert fast.unpaired() == slow.unpaired()
        assert fast.lone_waits == slow.lone_waits
        found = [
            (one.number, one.process, one.thread, one.kind, one.start_ns, one.segment, one.where, one.end_ns)
            for one in fast.all()
        ]
        assert found == [tuple(vars(one).values()) for one in slow.all if one.end >= 0]
    if len(slow.all) >= 7:
        known = [one for one in slow.all if one.number in ignored]
        assert [(one.number, one.where) for one in fast.ignored()] == [(one.number, one.line) for one in known]


@pytest.mark.parametrize("seed", range(120))
def test_drivers_are_followed_as_events_are(seed: int) -> None:
    processes = [(70, 70, 70, 70), (70, 1 << 62, 70, -1), (1, 2, 3, 4)][seed % 3]
    slow, fast = SlowDriver(list(processes)), DriverExecutions(list(processes))
    for rows in batches(seed, DRIVER, (Role.CALLBACK,), 1 + seed % 4):
        for _, mark, begins, t_ns, thread, _ in rows:
            if begins:
                slow.begin(mark, t_ns, thread)
            else:
                slow.end(t_ns, thread)
        fast.take(*told(rows))
        assert [
            list(zip(spans.starts, spans.ends, strict=True)) for spans in (fast.calls, fast.marks, fast.callbacks)
        ] == [slow.calls, slow.marks, slow.callbacks]


def test_both_take_their_own() -> None:
    rows = [(0, START, True, 1, 0, 1), (1, DRIVER[0], True, 2, 0, 2), (2, DRIVER[0], False, 3, 0, 3)]
    executions = Executions(frozenset(), [5], lambda at, processes: at)
    driver = DriverExecutions([5])
    assert executions.take(*told(rows)).at.tolist() == [0]
    driver.take(*told(rows))
    assert (list(driver.marks.starts), list(driver.marks.ends), list(driver.calls.starts)) == ([2], [3], [])
    assert (executions.unpaired(), executions.all()) == ({1}, [])
