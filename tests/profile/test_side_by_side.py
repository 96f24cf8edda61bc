"""Two traces side by side, in cases small enough to be counted by hand."""

from __future__ import annotations

from typing import Any

from circletools.profile.comparisons import ComparedProfile, ComparedTrace, compare_profiles, compare_traces
from circletools.trace.operators.profile import OperatorTrace
from tests.kit.profile_support import traced
from tests.kit.trace_support import read


def test_operators_of_two_traces() -> None:
    before = OperatorTrace("onert", traced({0: 100_000, 2: 50_000}, {0: 200_000}).runs, 2)
    after = OperatorTrace("onert", traced({0: 165_000, 1: 22_000}, {0: 165_000}).runs, 2)
    found = compare_profiles(before, after)
    assert found.threshold_percent == 10
    assert found.before == found.after == (ComparedProfile("onert", 2, averaged=False),)
    assert [
        (row.subgraph, row.operator_index, row.name, row.time.before_ns, row.time.after_ns, row.time.regressed)
        for row in found.rows
    ] == [
        (None, None, "all operators", 175_000, 176_000, False),
        (0, 0, "FullyConnected", 150_000, 165_000, False),
        (0, 1, "FullyConnected", 0, 11_000, False),
        (0, 2, "Softmax", 25_000, 0, False),
    ]
    assert (found.regressed, found.unpaired) == (False, 2)
    several = [compare_profiles([before] * 2, [after] * 2, percent).rows for percent in (9.9, 6.28, 6.29)]
    assert [row.time.regressed for row in several[0]] == [False, True, False, False]
    assert [rows[2].time.regressed for rows in several[1:]] == [True, False]  # 11 of 175


def phases(*spans: tuple[str, int]) -> str:
    """Return a trace of marks, one after the other: their names, and how many microseconds they take."""
    at, lines = 1000, list[str]()
    for name, length in spans:
        lines += [f"{at} T1 B {name}", f"{at + length} T1 E"]
        at += 1000
    return "\n".join(lines)


COMPUTE = "[NN_LR_PE]ANeuralNetworksExecution_compute"


def rows(before: str, after: str, threshold: float) -> list[tuple[Any, ...]]:
    return [
        (row.layer, row.phase, row.unit, row.time.before_ns, row.time.after_ns, row.time.ratio, row.time.regressed)
        for row in compare_traces([read(before)] * 2, [read(after)] * 2, threshold).rows
    ]


def test_layers_and_phases_of_two_traces() -> None:
    before = phases((COMPUTE, 100), ("[NN_LR_PC]compile", 40))
    after = phases((COMPUTE, 100), (COMPUTE, 120), ("[NN_LR_PP]prepare", 4))
    assert rows(before, after, 10) == [
        ("", "elapsed", "execution", 100_000, 110_000, 1.1, False),
        ("LR", "PE", "execution", 100_000, 110_000, 1.1, False),
        ("LR", "PC", "run", 40_000, 0, 0.0, False),
        ("LR", "PP", "run", 0, 4_000, None, False),
    ]
    assert [row[-1] for row in rows(before, after, 9.9)] == [True, True, False, True]
    found = compare_traces(read(before), read(after))
    assert found.threshold_percent == 10
    assert not found.regressed
    assert (found.before[0].runs, found.before[0].executions, found.after[0].executions) == (0, 1, 2)
    assert isinstance(found.before[0], ComparedTrace)


def test_a_phase_of_execution_that_one_trace_lacks() -> None:
    inputs = [f"{1010} T1 B [NN_LR_PIO]inputs", f"{1030} T1 E"]
    with_inputs = "\n".join([f"1000 T1 B {COMPUTE}", *inputs, "1100 T1 E"])
    without = phases((COMPUTE, 100))
    shown = {row[1]: row[3:] for row in rows(with_inputs, without, 20)}
    assert shown == {
        "elapsed": (100_000, 100_000, 1.0, False),
        "PE": (80_000, 100_000, 1.25, True),
        "PIO": (20_000, 0, 0.0, False),
    }
    shown = {row[1]: row[3:] for row in rows(without, with_inputs, 20)}
    assert shown["PIO"] == (0, 20_000, None, False)  # 20 of 100: the elapsed time is not counted again
    assert {row[1]: row[-1] for row in rows(without, with_inputs, 19.9)}["PIO"] is True


def test_times_of_several_runs_are_shared_out_among_them() -> None:
    two = phases(("[NN_LA_PO]a", 400), ("[NN_LA_PO]b", 600))
    assert len(read(two).runs) == 2
    assert rows(two, phases(("[NN_LA_PO]a", 600)), 20) == [("LA", "PO", "run", 500_000, 600_000, 1.2, False)]
