"""Executions are numbered in the order of their begins, and told apart by how they end."""

from __future__ import annotations

from circletools.trace.nnapi.executions import Executions
from circletools.trace.nnapi.marks import classify

START, FENCED, WAIT, COMPUTE = (
    classify(f"[NN_LR_PE]{name}".encode())
    for name in (
        "ANeuralNetworksExecution_startCompute", "ANeuralNetworksExecution_startComputeWithDependencies",
        "ANeuralNetworksEvent_wait", "ANeuralNetworksExecution_compute",
    )
)  # fmt: skip


def test_numbers_and_what_has_no_wait() -> None:
    flights: list[tuple[int, bool, int, int]] = []
    some = Executions(frozenset({3}), lambda *told: flights.append(told), [70, 70], lambda process: process + 1)
    for t_ns, mark in enumerate((START, FENCED, START, COMPUTE, START)):
        some.handlers(mark)[0](t_ns, 0, 100 + t_ns)
    assert [one.number for one in some.ignored] == [3]
    assert some.unpaired() == {1, 5}
    some.handlers(COMPUTE)[1](10, 0)
    some.handlers(FENCED)[1](11, 0)
    for t_ns, wait in ((20, 1), (30, 1), (40, 1)):
        some.handlers(WAIT)[0](t_ns, wait, 200 + t_ns)
        assert some.unpaired() == ({1, 5} if t_ns == 20 else {5} if t_ns == 30 else set())
        some.handlers(WAIT)[1](t_ns + 5, wait)
    found = sorted(some.all, key=lambda one: one.number)
    assert [(one.number, one.kind, one.start_ns, one.end_ns, one.segment, one.where) for one in found] == [
        (1, "asynchronous", 0, 25, 71, 100), (2, "fenced", 1, 45, 71, 101), (4, "synchronous", 3, 10, 71, 103),
        (5, "asynchronous", 4, 35, 71, 104),
    ]  # fmt: skip
    assert flights == [(0, True, 0, 0), (0, True, 4, 0), (0, False, 35, 1)]
    assert some.lone_waits == []
    some.handlers(WAIT)[0](50, 1, 250)
    some.handlers(WAIT)[1](51, 1)
    assert (some.lone_waits, len(some.all)) == ([250], 4)
