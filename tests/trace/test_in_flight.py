"""Runs, executions and times of NNAPI traces where events fall together, and where many are in flight."""

from __future__ import annotations

import numpy as np
import pytest

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.automaton import Contexts
from circletools.trace.nnapi.statistics import Table
from circletools.trace.nnapi.wall_clock import OWN_PROCESS, Windows, wall_clocks
from circletools.trace.sources.wire import field_bytes, field_number
from tests.kit.trace_support import US, Ev, inclusive, own, read

START, WAIT = "[NN_LR_PE]ANeuralNetworksExecution_startCompute", "[NN_LR_PE]ANeuralNetworksEvent_wait"
COMPUTE = "[NN_LR_PE]ANeuralNetworksExecution_compute"
SERVER = "HIDL::IPreparedModel::execute::server"


def times(found: Analysis) -> list[tuple[int, int]]:
    return [(one.start_ns // US, one.elapsed_ns // US) for one in found.executions]


def shares(found: Analysis, place: int) -> dict[str, int]:
    """Return the microseconds of an execution by layer, phase, and driver."""
    return {
        f"{one.layer}_{one.phase}" + (f" {one.process}" if one.process != OWN_PROCESS else ""): one.self_ns // US
        for one in found.wall_clock.shares([place])
        if one.self_ns
    }


# --- reading --------------------------------------------------------------------------------------------------


def test_a_thread_whose_marks_take_no_time_is_in_no_table() -> None:
    found = read("0 T1 B [NN_LR_PP]p\n5 T2 B [NN_LC_PP]q\n5 T2 E\n9 T1 E")
    assert (found.threads, own(found)) == (frozenset({100001}), {"LR_PP": 9})
    assert Table().covered_ns == 0


def test_calls_and_times_of_functions() -> None:
    found = read(
        """0 T1 B [NN_LR_PP]f
           2 T1 B [NN_LR_PP]g
           3 T1 B [NN_LR_PP]f
           5 T1 E
           9 T1 E
           10 T1 E
           10 T1 B [NN_LR_PP]g
           10 T1 E"""
    )
    assert [(one.name, one.calls, one.self_ns // US, one.inclusive_ns // US) for one in found.functions] == [
        ("f", 2, 5, 10), ("g", 2, 5, 7)
    ]  # fmt: skip


def test_a_process_number_of_64_bits_is_none() -> None:
    def process(number: int) -> int:
        tree = field_bytes(1, field_bytes(2, field_bytes(2, field_number(1, 5) + field_number(3, number))))
        text = field_bytes(3, field_bytes(2, b"B|x|[NN_LA_PO]run"))
        event = field_bytes(2, field_number(1, 10) + field_number(2, 5) + text)
        (run,) = read(tree + field_bytes(1, field_bytes(1, event))).runs
        return run.process

    assert [process(number) for number in (7, 2**63 - 1, 2**63, 2**64 - 1)] == [7, 2**63 - 1, -1, -1]


# --- executions -----------------------------------------------------------------------------------------------


def test_the_runtimes_clock_runs_until_the_last_wait() -> None:
    start = "{0} T1 B " + START + "\n{1} T1 E\n"
    found = read(
        start.format(0, 1) + start.format(2, 3) + f"10 T1 B {WAIT}\n20 T1 E\n30 T1 B {WAIT}\n40 T1 E\n50 T1 E"
    )
    assert (times(found), own(found), inclusive(found)) == ([(0, 20), (2, 38)], {"LR_PE": 40}, {"LR_PE": 40})
    found = read(start.format(0, 1) + f"5 T2 B {WAIT}\n9 T2 E\n" + start.format(20, 21) + f"25 T2 B {WAIT}\n28 T2 E")
    assert (times(found), inclusive(found)) == ([(0, 9), (20, 8)], {"LR_PE": 9 + 8 + 4 + 3})


def test_driver_calls_by_the_process_that_records_them() -> None:
    found = read(
        f"""1 D1 B {SERVER}
            2 D1 B [NN_LD_PE]inside
            3 D1 E
            4 D1 E
            5 D1 B HIDL::IPreparedModel::executeSynchronously::server
            7 D1 E
            8 D2 B HIDL::IExecutionCallback::notify::server
            9 D2 E
            10 D2 B HIDL::IExecutionCallback::notify::client
            11 D2 E
            12 D2 B HIDL::IExecutionCallback::notify::client
            13 D2 E
            14 D2 B [NN_LD_PCO]part
            15 D2 E
            16 D2 B [NN_LD_PE]own
            19 D2 E"""
    )
    spans = [list(zip(*one, strict=True)) for one in found.driver.of_driver().values()]
    assert [[(start // US, end // US) for start, end in some] for some in spans] == [
        [(1, 4), (5, 7)], [(16, 19)], [(1, 10)]
    ]  # fmt: skip


# --- what is in flight at once ---------------------------------------------------------------------------------


def flying(*ends: int) -> list[Ev]:
    """Return executions that one thread starts at 0, 2, 4, ... and waits for until these times, which rise."""
    starts = [Ev(2 * at + after, 100001, None if after else START) for at in range(len(ends)) for after in (0, 1)]
    begins = (2 * len(ends), *ends)
    waits = [ev for at, end in enumerate(ends) for ev in (Ev(begins[at], 100001, WAIT), Ev(end, 100001, None))]
    return starts + waits


def work(start: int, end: int, tid: int, text: str = "[NN_LC_PE]w") -> list[Ev]:
    return [Ev(start, tid, text), Ev(end, tid, None)]


def at_once(*threads: list[Ev]) -> Analysis:
    return read(sorted((event for thread in threads for event in thread), key=lambda event: event.at))


def test_simultaneous_calls_are_not_distinguished() -> None:
    found = at_once(flying(100, 200, 300), work(10, 250, 100002))
    assert [shares(found, place) for place in range(3)] == [
        {"_": 98, "LR_PE": 2},
        {"_": 198},
        {"_": 196, "LC_PE": 50, "LR_PE": 50},
    ]
    synchronous = [[Ev(0, tid, COMPUTE), *work(10, 60, tid), Ev(100, tid, None)] for tid in (100001, 300001)]
    apart = at_once(*synchronous)  # two processes without a driver
    assert [shares(apart, place) for place in (0, 1)] == [{"LC_PE": 50, "LR_PE": 50}] * 2
    served = at_once(*synchronous, work(500, 600, 200001, SERVER))
    assert [shares(served, place) for place in (0, 1)] == [{"_": 100}] * 2


def test_the_first_thirty_two_drivers_are_distinguished() -> None:
    calls = [work(10 + 2 * at, 11 + 2 * at, 100 * process, SERVER) for at, process in enumerate(range(50, 83))]
    main = [Ev(0, 100001, COMPUTE), Ev(100, 100001, None)]
    found = at_once(main, *calls)
    shown = {one.process: one.self_ns // US for one in found.wall_clock.shares([0]) if one.layer == "LD"}
    assert shown == dict.fromkeys(range(50, 82), 1) | {OWN_PROCESS: 1}


def test_what_shows_executions_where_the_runtime_has_no_marks() -> None:
    call = "HIDL::IPreparedModel::{}::client".format
    main = [Ev(0, 100001, "[NN_LA_PE]e"), *work(10, 20, 100001, call("execute")), Ev(90, 100001, None)]
    back = work(60, 61, 100002, "HIDL::IExecutionCallback::notify::server")
    found = at_once(main, back, work(15, 58, 200001, SERVER))
    assert [(one.kind, one.start_ns // US, one.elapsed_ns // US) for one in found.executions] == [
        ("HAL call", 10, 50)
    ]
    assert shares(found, 0) == {"LD_PE 2000": 43, "LI_PE": 7}
    found = at_once(work(10, 20, 100001, call("executeSynchronously")), work(30, 44, 100001, call("execute")))
    assert times(found) == [(10, 10), (30, 14)]  # the callback is missing
    found = at_once([Ev(0, 100001, "[NN_LA_PE]e"), *work(10, 20, 100001), Ev(90, 100001, None)])
    assert ([one.kind for one in found.executions], shares(found, 0)) == (["application"], {"LA_PE": 80, "LC_PE": 10})


def test_how_long_executions_may_take_together() -> None:
    def shown(*ends: int) -> list[tuple[str, int, int]]:
        starts, stops = np.full(len(ends), 7), np.array([7 + end for end in ends], np.int64)
        windows = Windows(starts, stops, np.arange(len(ends)), "LR", "PE")
        found = wall_clocks([], Contexts(), [windows], [1], "name")[0].shares()
        return [(one.layer, one.self_ns, one.inclusive_ns) for one in found]

    half = 1 << 61
    assert shown(half, half - 1) == [("LR", 2 * half - 1, 2 * half - 1)]
    assert shown() == shown(0) == []
    with pytest.raises(InvalidInputError, match="name: executions take too long"):
        shown(half, half)
