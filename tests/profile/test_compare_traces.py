"""Two NNAPI traces side by side."""

from __future__ import annotations

from typing import Any

from circletools.profile.comparisons import compare_traces
from circletools.render.comparison import comparison_json
from circletools.trace.nnapi.analysis import Analysis
from tests.kit.trace_support import EXAMPLE, read


def compared(before: Analysis, after: Analysis, threshold: float) -> dict[str, Any]:
    return comparison_json(compare_traces(before, after, threshold))


def test_a_trace_compared_with_itself_is_the_same() -> None:
    analysis = read(EXAMPLE.read_bytes())
    found = compared(analysis, analysis, 0)
    assert not found["regressed"]
    assert found["rows"]
    for row in found["rows"]:
        assert (row["delta_ns"], row["ratio"], row["verdict"]) == (0, 1.0, "cannot tell")
        assert row["low"] < 1 < row["high"]
    several = comparison_json(compare_traces([analysis] * 3, [analysis] * 3))
    assert {row["verdict"] for row in several["rows"]} == {"same"}
    assert [len(several[side]) for side in ("before", "after")] == [3, 3]


def _executing(*times: int, marks: str = "") -> str:
    """Return executions of so many microseconds, after these `marks`."""
    found = [marks] * bool(marks)
    for at, time in enumerate(times, 1):
        found.append(f"{at * 10_000} T1 B [NN_LR_PE]ANeuralNetworksExecution_compute")
        found.append(f"{at * 10_000 + time} T1 E")
    return "\n".join(found)


def test_what_became_slower_is_found_with_several_recordings() -> None:
    before = [read(_executing(time, time + 3, time - 3)) for time in (1000, 1010, 990)]
    after = [read(_executing(time, time + 3, time - 3)) for time in (1200, 1210, 1190)]
    verdicts = {(row.layer, row.phase): row.time.verdict for row in compare_traces(before, after).rows}
    assert verdicts == {("", "elapsed"): "slower", ("LR", "PE"): "slower"}
    assert compare_traces(before, after).regressed
    assert not compare_traces(after, before).regressed
    assert not compare_traces(before, after, 30).regressed
    assert not compare_traces(before[0], after[0]).regressed  # one of each: undecided


_PHASES = """1 T1 B [NN_LA_PO]m
10 T1 B [NN_LA_PWU]w
20 T1 B [NN_LR_PE]ANeuralNetworksExecution_compute
5000 T1 E
5100 T1 E
5200 T1 B [NN_LA_PBM]b"""


def test_warm_up_is_left_out() -> None:
    analysis = read(_executing(100, 200, marks=_PHASES) + "\n90000 T1 E\n90001 T1 E")
    found = compare_traces(analysis, analysis)
    assert found.before[0].executions == 2
    times = {(row.layer, row.phase, row.unit): row.time.before_ns for row in found.rows}
    assert times == {
        ("", "elapsed", "execution"): 150_000,
        ("LR", "PE", "execution"): 150_000,
        ("LA", "PBM", "execution"): (90_000 - 5200 - 300) * 1000 // 2,
        ("LA", "PO", "run"): (5200 - 5100 + 1 + 9) * 1000,
    }
    only = read(_PHASES.replace("5200 T1 B [NN_LA_PBM]b", "5200 T1 E"))
    assert compare_traces(only, only).before[0].executions == 1


def test_the_worker_thread_is_not_counted_twice() -> None:
    text = """0 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
5 T1 E
10 T2 B [NN_LR_PE]async
20 T2 B [NN_LI_PE]execute
30 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait
80 T2 E
90 T2 E
100 T1 E"""
    rows = compare_traces(read(text), read(text)).rows
    assert [(row.layer, row.time.before_ns) for row in rows] == [("", 100_000), ("LI", 60_000), ("LR", 40_000)]


_RUNS = """1000 T1 B [NN_LA_PO]a
1100 T1 B [NN_LR_PC]compile
1300 T1 E
1400 T1 E
2000 T1 B [NN_LA_PO]b
2100 T1 B [NN_LR_PC]compile
2500 T1 E
2600 T1 E"""
_EXECUTED = """3000 T1 B [NN_LR_PE]ANeuralNetworksExecution_compute
3600 T1 E
4000 T1 B [NN_LR_PP]prepare
4100 T1 E"""
_TWICE = f"""{_EXECUTED}
6000 T1 B [NN_LR_PE]ANeuralNetworksExecution_compute
6800 T1 E"""


def _rows(before: str, after: str, threshold: float = 10.0) -> list[tuple[object, ...]]:
    return [
        (row.layer, row.phase, row.unit, row.time.before_ns, row.time.after_ns, row.time.verdict)
        for row in compare_traces(read(before), read(after), threshold).rows
    ]


def test_times_per_run_and_per_execution() -> None:
    assert _rows(_RUNS, _RUNS) == [
        ("LA", "PO", "run", 200_000, 200_000, "cannot tell"),
        ("LR", "PC", "run", 300_000, 300_000, "cannot tell"),
    ]
    assert _rows(_RUNS, _EXECUTED) == [
        ("LA", "PO", "run", 200_000, 0, "faster"),
        ("LR", "PC", "run", 300_000, 0, "faster"),
        ("LR", "PE", "run", 0, 600_000, "slower"),
        ("LR", "PP", "run", 0, 100_000, "slower"),
    ]
    assert _rows(_EXECUTED, _TWICE) == [
        ("", "elapsed", "execution", 600_000, 700_000, "cannot tell"),
        ("LR", "PE", "execution", 600_000, 700_000, "cannot tell"),
        ("LR", "PP", "run", 100_000, 100_000, "cannot tell"),
    ]


def test_what_is_new_is_measured_against_all_time_of_its_unit() -> None:
    new = _EXECUTED.replace("[NN_LR_PP]prepare", "[NN_LR_PC]compile")
    assert _rows(_EXECUTED, new, 99)[2:] == [
        ("LR", "PC", "run", 0, 100_000, "slower"),
        ("LR", "PP", "run", 100_000, 0, "faster"),
    ]
    assert _rows(_EXECUTED, new, 100)[2][-1] == "cannot tell"
