"""Sums, segments and summaries, beside the plainest ways to make them."""

from __future__ import annotations

import math
import statistics as plain
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.render.trace_runs import WHOLE, executions_json, runs_json, summary
from circletools.render.traces import trace_json
from circletools.trace.nnapi import statistics
from circletools.trace.nnapi.executions import ExecutionColumns
from circletools.trace.nnapi.machine import Intervals
from circletools.trace.nnapi.statistics import pieces
from circletools.trace.nnapi.timeline import APP_PHASES
from tests.kit.trace_support import US, read

Pairs = list[tuple[int, int]]
PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=12)


def intervals(pairs: Pairs, codes: list[int] | None = None) -> Intervals:
    """Return intervals of a start and a length each."""
    starts = np.array([start for start, _ in pairs], np.int64)
    ends = np.array([start + length for start, length in pairs], np.int64)
    numbers = np.arange(len(pairs), dtype=np.int64)
    return Intervals(starts, ends, numbers, numbers, numbers if codes is None else np.array(codes, np.int64))


@pytest.mark.parametrize("most", [1, 3, 1 << 22])
def test_pieces_of_intervals(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_MOST_PIECES", most)

    @given(PAIRS, PAIRS)
    def check(pairs: Pairs, steps: Pairs) -> None:
        pairs = [(start, length + 1) for start, length in pairs]
        at, begins = 0, [(-1, 0)]
        for number, (_, step) in enumerate(steps):
            at += step
            begins.append((at, number + 5))
        found: Counter[tuple[int, int, int]] = Counter()
        starts, names = np.array(begins).T
        for part, segments in pieces(intervals(pairs), starts, names, "t"):
            assert len(part.starts) == len(segments) == len(part.codes)
            assert len(part.starts) <= max(most, 0) + len(pairs) + len(steps)
            columns = (part.starts, part.ends, segments, part.paths, part.threads)
            for start, end, segment, path, thread in zip(*(column.tolist() for column in columns), strict=True):
                assert path == thread
                found.update((time, segment, path) for time in range(start, end))
        assert found == Counter(
            (time, [segment for begun, segment in begins if begun <= time][-1], number)
            for number, (start, length) in enumerate(pairs)
            for time in range(start, start + length)
        )

    check()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_summaries_of_times(times: list[int]) -> None:
    ordered = sorted(times)
    assert summary(iter(times)) == {
        "count": len(times),
        "total_ns": sum(times),
        "min_ns": min(times),
        "median_ns": math.floor(plain.median(times)),
        "p90_ns": next(time for at, time in enumerate(ordered, 1) if 10 * at >= 9 * len(times)),
        "max_ns": max(times),
    }


def executions(pairs: Pairs) -> ExecutionColumns:
    starts, lengths = np.array(pairs, np.int64).reshape(len(pairs), 2).T
    zeros = np.zeros_like(starts)
    return ExecutionColumns(zeros, zeros, zeros, zeros, starts, zeros, zeros, starts + lengths)


@given(PAIRS)
def test_executions_at_once(pairs: Pairs) -> None:
    together = Counter(time for start, length in pairs for time in range(start, start + length))
    found = executions_json(executions(pairs))
    assert found.get("most_at_once", 1) == max(together.values(), default=1)


def test_summaries_of_executions() -> None:
    assert executions_json(executions([])) == {"count": 0}
    assert list(executions_json(executions([(0, 3)])).values()) == [1, 3, 3, 3, 3, 3, 1]
    assert list(executions_json(executions([(0, 8), (1, 3), (5, 2)])).values()) == [3, 13, 2, 3, 8, 8, 8, 2, 2]


COMPUTE = "[NN_LR_PE]ANeuralNetworksExecution_compute"


def test_summaries_of_runs() -> None:
    found = read(f"""1 T1 B {COMPUTE}
                     4 T1 E
                     10 T1 B [NN_LA_PO]m
                     20 T1 B [NN_LA_PWU]w
                     22 T1 B {COMPUTE}
                     29 T1 E
                     30 T1 E
                     40 T1 B [NN_LA_PBM]b
                     41 T1 B {COMPUTE}
                     43 T1 E
                     44 T1 B {COMPUTE}
                     49 T1 E
                     50 T1 E
                     60 T1 E
                     70 T1 B [NN_LA_PO]n
                     75 T1 E""")
    outside, first, second = runs_json(found)
    assert [(each["index"], each["name"]) for each in (outside, first, second)] == [(-1, ""), (0, "m"), (1, "n")]
    assert [part for each in (outside, first, second) for part in parts(each)] == [
        (WHOLE, 3, 3), (WHOLE, 50, 14), ("overall", 30, 0), ("warm-up", 10, 7), ("benchmark", 10, 7), (WHOLE, 5, 0),
    ]  # fmt: skip
    whole = first["parts"][0]["executions"]
    assert (whole["first_ns"] // US, whole["rest_median_ns"], whole["most_at_once"]) == (7, 3500, 1)
    (only,) = runs_json(read("10 T1 B [NN_LA_PO]n\n15 T1 E"))
    assert [part["app_phase"] for part in only["parts"]] == [WHOLE]


def parts(run: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return each part's phase, its time in marks, and that of its executions."""
    return [
        (one["app_phase"], one["covered_ns"] // US, one["executions"].get("total_ns", 0) // US)
        for one in run["parts"]
    ]


def test_time_outside_runs_is_reported_if_there_is_any() -> None:
    zero = read(f"5 T1 B {COMPUTE}\n5 T1 E\n10 T1 B [NN_LA_PO]n\n15 T1 E")
    assert [(each["index"], parts(each)) for each in runs_json(zero)] == [(-1, [(WHOLE, 0, 0)]), (0, [(WHOLE, 5, 0)])]
    assert list(runs_json(read("5 T1 B x\n6 T1 E"))) == []


def test_two_phases_of_a_run_are_shown() -> None:
    (only,) = runs_json(read("10 T1 B [NN_LA_PO]n\n12 T1 B [NN_LA_PBM]b\n15 T1 E\n15 T1 E"))
    assert parts(only) == [(WHOLE, 5, 0), (APP_PHASES[0], 2, 0), (APP_PHASES[2], 3, 0)]


def test_summaries_of_drivers() -> None:
    assert trace_json(read("10 T1 B [NN_LR_PP]p\n20 T1 E"))["driver_executions"] == []
    found = trace_json(read("10 D1 B HIDL::IDevice::getType::server\n11 D1 E\n20 D1 B [NN_LD_PE]p\n22 D1 E"))
    assert found["driver_executions"] == [{"by": "marks", **summary([2 * US])}]
