"""Executions by the clock: each instant belongs to the deepest layer at work, on whichever thread."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.traces import encoded, workload
from circletools.render.trace_runs import WHOLE, runs_json
from circletools.trace.nnapi.analysis import Analysis, read_trace
from circletools.trace.nnapi.wall_clock import OWN_PROCESS
from circletools.trace.sources import content
from tests.kit.trace_support import US, inclusive, read

START, WAIT = "[NN_LR_PE]ANeuralNetworksExecution_startCompute", "[NN_LR_PE]ANeuralNetworksEvent_wait"
CLIENT, SERVER = (f"HIDL::IPreparedModel::execute_1_2::{side}" for side in ("client", "server"))


def at_once(*threads: str) -> str:
    """Return the lines of several threads, each given as `TIME THREAD ...`, in the order of their times."""
    lines = [line.strip() for thread in threads for line in thread.strip().splitlines()]
    return "\n".join(sorted(lines, key=lambda line: int(line.split()[0])))


def asynchronous(worker: str, *others: str) -> Analysis:
    """Read an execution from 0 to 10,000 us on a thread of the application, with what a worker thread does."""
    main = f"0 T1 B {START}\n100 T1 E\n200 T1 B {WAIT}\n10000 T1 E"
    return read(at_once(main, worker, *others))


def shares(found: Analysis, *places: int) -> dict[str, tuple[int, int]]:
    """Return self and inclusive times in microseconds, drivers by their process."""
    return {
        f"{one.layer}_{one.phase}" + (f" {one.process}" if one.process != OWN_PROCESS else ""): (
            one.self_ns // US,
            one.inclusive_ns // US,
        )
        for one in found.wall_clock.shares(places or [0])
    }


WORKER = f"""50 T2 B [NN_LR_PE]asyncStartComputePartitioned
             300 T2 B [NN_LI_PE]execute
             400 T2 B {CLIENT}
             8600 T2 E
             8700 T2 E
             9900 T2 E"""
DRIVER = f"900 D1 B {SERVER}\n1000 D1 B [NN_LD_PCO]run\n8000 D1 E\n8100 D1 E"


def test_an_execution_with_a_worker_thread_takes_as_long_as_its_window() -> None:
    found = asynchronous(WORKER, DRIVER)
    assert shares(found) == {
        "LD_PCO 2000": (7000, 7000),
        "LD_PE 2000": (200, 7200),
        "LI_PE": (1200, 8400),
        "LR_PE": (1600, 10_000),  # runtime less IPC
    }
    assert inclusive(found)["LR_PE"] == 10_000 + 9850  # time of threads


# The rows of the contract that an execution can hold, on a worker thread: from 1000 to 2000 us.
ROWS = {
    "local call": ("1000 T2 B [NN_LR_PE]a\n1200 T2 B [NN_LC_PE]b\n1500 T2 E\n2000 T2 E", {"LC_PE": 300}),
    "switch": (
        "1000 T2 B [NN_LC_PTR]f\n1300 T2 B [SW][NN_LC_PCO]f\n1900 T2 E\n2000 T2 E",
        {"LC_PTR": 300, "LC_PCO": 600},
    ),
    "subphases": ("1000 T2 B [NN_LR_PE]a\n1200 T2 B [NN_LC_PCO]b\n1500 T2 E\n2000 T2 E", {"LC_PCO": 300}),
    "detail": ("1000 T2 B [NN_LR_PE]a\n1200 T2 B [NN_LR_PE]b\n1500 T2 E\n2000 T2 E", {}),
    "synchronous call": (f"1000 T2 B [NN_LI_PE]a\n1200 T2 B {CLIENT}\n1500 T2 E\n2000 T2 E", {"LI_PE": 1000}),
    "asynchronous call": (
        f"1000 T2 B [NN_LI_PE]a\n1100 T2 B {CLIENT}\n1200 D1 B {SERVER}\n1300 T2 E\n1700 D1 E\n2000 T2 E",
        {"LI_PE": 500, "LD_PE 2000": 500},
    ),
    "subtract": ("1000 T2 B [NN_LI_PE]a\n1200 T2 B [SUB][NN_LR_PE]b\n1500 T2 E\n2000 T2 E", {"LI_PE": 700}),
    "initialisation": ("1000 T2 B [NN_LI_PE]a\n1200 T2 B [NN_LI_PI]b\n1500 T2 E\n2000 T2 E", {"LI_PE": 700}),
    "utility": ("1000 T2 B [NN_LC_PE]a\n1200 T2 B [NN_LU_PU]b\n1500 T2 E\n2000 T2 E", {"LC_PE": 1000}),
}


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_the_contract_on_a_worker_thread(row: str) -> None:
    text, wanted = ROWS[row]
    shown = shares(asynchronous(text))
    own = {name: times[0] for name, times in shown.items() if times[0]}
    assert own == wanted | {"LR_PE": 10_000 - sum(wanted.values())}
    assert shown["LR_PE"][1] == 10_000


def test_drivers_are_distinguished_by_process() -> None:
    other = DRIVER.replace("D1", "A1").replace("900 ", "8200 ", 1).replace("1000 ", "8300 ").replace("8000", "8400")
    found = asynchronous(WORKER, DRIVER, other.replace("8100 A1", "8500 A1"))
    shown = shares(found)
    assert (shown["LD_PCO 2000"], shown["LD_PCO 3000"]) == ((7000, 7000), (100, 100))
    assert (shown["LD_PE 3000"], shown["LI_PE"]) == ((200, 300), (900, 8400))


def test_work_of_the_application_meanwhile_counts_as_the_runtime_s() -> None:
    found = read(f"0 T1 B {START}\n10 T1 E\n20 T1 B [NN_LA_PE]else\n80 T1 E\n90 T1 B {WAIT}\n100 T1 E")
    assert shares(found) == {"LR_PE": (100, 100)}


def test_shares_of_a_long_trace_sum_to_what_executions_take() -> None:
    found = read(encoded(workload(6000), "ftrace"))
    assert len(found.executions) > 200
    for run in runs_json(found):
        for part in run["parts"]:
            elapsed = part["executions"].get("total_ns", 0)
            assert sum(share["self_ns"] for share in part["wall_clock"]) == elapsed
            whole = {(share["layer"], share["phase"]): share["inclusive_ns"] for share in part["wall_clock"]}
            assert whole.get(("LR", "PE"), 0) == elapsed
    assert {part["app_phase"] for run in runs_json(found) for part in run["parts"] if part["wall_clock"]} >= {WHOLE}
    each = dict(found.wall_clock.each())
    assert np.array_equal(sum(each.values()), [one.elapsed_ns for one in found.executions])


def test_the_older_parsers_time_of_the_runtime(shared: Path) -> None:
    """Of a trace with one driver: the windows, and what the runtime does for executions outside them."""
    folder = shared / "traces"
    found = read((folder / "syn3000.ftrace").read_bytes())
    reference = json.loads((folder / "syn3000.reference.json").read_bytes())
    compared = 0
    for run in runs_json(found):
        if run["index"] >= 0:
            shown = {(one["layer"], one["phase"]): one["inclusive_ns"] for one in run["wall_clock"]}
            ours = shown["LR", "PE"] / 1e6
            assert ours == pytest.approx(reference[run["index"]]["times"]["PE"]["LR"], abs=1e-3)
            compared += 1
    assert compared > 1


@pytest.mark.parametrize("size", [300, 5000])
def test_shares_are_the_same_in_small_batches(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    trace = encoded(list(workload(2000)), "ftrace")
    whole = read_trace(trace).wall_clock
    monkeypatch.setattr(content, "PIECE_BYTES", size)
    found = read_trace(trace).wall_clock
    assert found.shares() == whole.shares()
    assert [(key, times.tolist()) for key, times in found.each()] == [
        (key, times.tolist()) for key, times in whole.each()
    ]
