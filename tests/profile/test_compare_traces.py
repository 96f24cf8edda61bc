"""Two NNAPI traces side by side."""

from __future__ import annotations

from typing import Any

import pytest

from circletools.profile.compare_traces import compare_traces
from circletools.render.comparison import comparison_json
from circletools.trace.nnapi.analysis import Analysis
from tests.kit.trace_support import (
    EXAMPLE,
    read,
)


def compared(before: Analysis, after: Analysis, threshold: float) -> dict[str, Any]:
    return comparison_json(compare_traces(before, after, threshold))


def test_a_trace_compared_with_itself_is_the_same() -> None:
    analysis = read(EXAMPLE.read_bytes())
    found = compared(analysis, analysis, 0)
    assert not found["regressed"]
    assert found["rows"]
    for row in found["rows"]:
        assert (row["delta_ns"], row["ratio"]) == (0, 1.0)
        assert row["unit"] == "run" or row["low"] is None or row["low"] <= 1 <= row["high"]


def _slower(times: int, count: int) -> str:
    at, found = 0, []
    for number in range(count):
        spans = (10, 20 + (50 + number) * times, 30 + (50 + number) * times)
        found += [f"{at} T1 B [NN_LA_PE]e", f"{at + 10} T1 B [NN_LR_PE]ANeuralNetworksExecution_compute"]
        found += [f"{at + spans[1]} T1 E", f"{at + spans[2]} T1 E"]
        at += 1000
    return "\n".join(found)


@pytest.mark.parametrize(("count", "bounded"), [(4, False), (5, True), (40, True)])
def test_what_became_slower_is_found(count: int, bounded: bool) -> None:
    before, after = read(_slower(1, count)), read(_slower(3, count))
    found = compared(before, after, 10)
    (row,) = [row for row in found["rows"] if (row["layer"], row["phase"]) == ("LR", "PE")]
    assert (row["unit"], row["regressed"], found["regressed"]) == ("execution", True, True)
    assert (row["low"] is not None) == bounded
    assert not bounded or 1 < row["low"] < row["ratio"] < row["high"]
    assert not compared(after, before, 10)["regressed"]
    assert not compared(before, after, 500)["regressed"]


def _preparing(*executions: int) -> str:
    """Return executions that spend time on inputs in those that have a 1."""
    found = []
    for at, prepares in enumerate(executions):
        found.append(f"{at * 100} T1 B [NN_LR_PE]ANeuralNetworksExecution_compute")
        found += [f"{at * 100 + 1} T1 B [NN_LR_PIO]inputs", f"{at * 100 + 11} T1 E"] * prepares
        found.append(f"{at * 100 + 90} T1 E")
    return "\n".join(found)


def test_a_phase_that_few_executions_have_is_within_bounds() -> None:
    document_ = compared(read(_preparing(1, 0, 0, 0, 0)), read(_preparing(1, 1, 0, 0, 0)), 10)
    (row,) = [row for row in document_["rows"] if row["phase"] == "PIO"]
    assert (row["ratio"], row["high"], row["regressed"]) == (2.0, None, False)
    assert 0 <= row["low"] <= 1
    every = compared(read(_preparing(1, 0, 0, 0, 0, 0, 0, 0)), read(_preparing(*[1] * 8)), 10)
    (row,) = [row for row in every["rows"] if row["phase"] == "PIO"]
    assert (row["low"] > 1, row["high"], row["regressed"]) == (True, None, True)


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
        (row.layer, row.phase, row.unit, row.time.before_ns, row.time.after_ns, row.time.regressed)
        for row in compare_traces(read(before), read(after), threshold).rows
    ]


def test_times_per_run_and_per_execution() -> None:
    assert _rows(_RUNS, _RUNS) == [
        ("LA", "PO", "run", 200_000, 200_000, False),
        ("LR", "PC", "run", 300_000, 300_000, False),
    ]
    assert _rows(_RUNS, _EXECUTED) == [
        ("LA", "PO", "run", 200_000, 0, False),
        ("LR", "PC", "run", 300_000, 0, False),
        ("LR", "PE", "run", 0, 600_000, True),
        ("LR", "PP", "run", 0, 100_000, True),
    ]
    assert _rows(_EXECUTED, _TWICE) == [
        ("", "elapsed", "execution", 600_000, 700_000, True),
        ("LR", "PE", "execution", 600_000, 700_000, True),
        ("LR", "PP", "run", 100_000, 100_000, False),
    ]


def test_what_is_new_is_measured_against_all_time_of_its_unit() -> None:
    new = _EXECUTED.replace("[NN_LR_PP]prepare", "[NN_LR_PC]compile")
    assert _rows(_EXECUTED, new, 99)[2:] == [
        ("LR", "PC", "run", 0, 100_000, True),
        ("LR", "PP", "run", 100_000, 0, False),
    ]
    assert not any(row[-1] for row in _rows(_EXECUTED, new, 100))
