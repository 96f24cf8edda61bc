"""Runs and executions of NNAPI traces."""

from __future__ import annotations

import pytest

from circletools.render.trace_runs import summary
from circletools.trace.nnapi.timeline import run_of
from tests.kit.trace_support import US, codes, own, read


def test_summaries() -> None:
    assert summary([]) == {}
    assert list(summary(range(1, 11)).values()) == [10, 55, 1, 5, 9, 10]
    assert list(summary([7]).values()) == [1, 7, 7, 7, 7, 7]


def test_executions_of_a_process_are_paired_in_order() -> None:
    start, wait = "[NN_LR_PE]ANeuralNetworksExecution_startCompute", "[NN_LR_PE]ANeuralNetworksEvent_wait"
    found = read(
        f"10 T1 B {start}\n11 T1 E\n20 T2 B {start}\n21 T2 E\n25 A1 B {start}\n26 A1 E\n"
        f"30 T1 B {wait}\n50 T2 B {wait}\n60 T1 E\n70 T2 E\n80 A1 B {wait}\n90 A1 E"
    )
    assert [(one.process, one.elapsed_ns // US) for one in found.executions] == [(1000, 50), (1000, 50), (3000, 65)]
    assert own(found)["LR_PE"] == 50 + 50 + 65
    assert codes(found) == ["T041"]


def test_a_start_that_is_never_waited_for_does_not_fly_on() -> None:
    found = read(
        """10 T1 B [NN_LA_PE]run
           20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
           30 T1 E
           90 T1 E"""
    )
    assert own(found) == {"LA_PE": 70, "LR_PE": 10}
    assert (len(found.executions), codes(found)) == (0, ["T040"])


def test_a_wait_extends_a_fenced_execution() -> None:
    found = read(
        """20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startComputeWithDependencies
           30 T1 E
           40 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait
           70 T1 E"""
    )
    assert [(one.kind, one.elapsed_ns) for one in found.executions] == [("fenced", 50_000)]
    assert codes(found) == []


def test_driver_executions_by_request_and_callback() -> None:
    found = read(
        """10 D1 B HIDL::IPreparedModel::execute::server
           15 D1 E
           20 D2 B [NN_LD_PE]run
           40 D2 B HIDL::IExecutionCallback::notify::client
           45 D2 E
           50 D2 E"""
    )
    spans = [(list(starts), list(ends)) for starts, ends in found.driver.of_driver().values()]
    assert spans == [([10 * US], [15 * US]), ([20 * US], [50 * US]), ([10 * US], [40 * US])]


def test_runs_of_two_processes_are_distinguished() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]one
           20 A1 B [NN_LA_PO]two
           30 T1 B [NN_LR_PP]p
           40 A1 B [NN_LR_PP]p
           45 T1 E
           50 A1 E
           60 T1 E
           70 A1 E"""
    )
    tables = {run_of(segment)[0]: part.inclusive_ns for segment, part in found.tables.items()}
    assert [(run.name, run.process) for run in found.runs] == [("one", 1000), ("two", 3000)]
    assert tables == {
        0: {("LA", "PO"): 50_000, ("LR", "PP"): 15_000},
        1: {("LA", "PO"): 50_000, ("LR", "PP"): 10_000},
    }
    assert codes(found) == ["T041"]


def test_time_of_the_driver_belongs_to_the_run_begun_last() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]one
           20 A1 B [NN_LA_PO]two
           30 T1 B [NN_LA_PBM]b
           40 D1 B HIDL::IPreparedModel::execute::server
           60 D1 E
           70 T1 E
           80 T1 E
           90 A1 E"""
    )
    driver = {
        segment: part.self_ns["LD", "PE"] for segment, part in found.tables.items() if ("LD", "PE") in part.self_ns
    }
    assert driver == {found.runs[1].first_segment: 20 * US}


@pytest.mark.parametrize(("thread", "partial"), [("T1", ["one"]), ("A1", ["two"]), ("D1", ["two"])])
def test_the_run_that_is_cut_short(thread: str, partial: list[str]) -> None:
    found = read(
        f"""10 T1 B [NN_LA_PO]one
            20 A1 B [NN_LA_PO]two
            30 T1 E
            40 A1 E
            45 D1 B HIDL::IPreparedModel::execute::server
            50 {thread} B [NN_LC_PE]open
            55 D2 B foreign"""
        + "\n60 D1 E" * (thread != "D1")
    )
    assert [run.name for run in found.runs if run.partial] == partial


def test_a_switch_from_warm_up_to_benchmark() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]m
           20 T1 B [NN_LA_PWU]w
           30 T1 B [SW][NN_LA_PBM]b
           60 T1 E
           70 T1 E
           80 T1 E"""
    )
    (run,) = found.runs
    assert (codes(found), run.seen) == (["T002"], frozenset({1, 2}))
    phases = {segment - run.first_segment: part.self_ns for segment, part in found.tables.items()}
    assert phases[1] == {("LA", "PWU"): 10 * US}
    assert phases[2] == {("LA", "PBM"): 30 * US}


def test_ends_without_a_begin_are_counted() -> None:
    found = read("10 T1 E\n20 T1 E\n25 T1 B [NN_LR_PE]f\n30 T1 E\n40 A1 B [NN_LR_PE]g\n50 A1 E\n60 A1 E")
    assert [(one.code, one.count, one.location) for one in found.diagnostics if one.code == "T010"] == [
        ("T010", 2, "<bytes>:3"), ("T010", 1, "<bytes>:9")
    ]  # fmt: skip
