"""Sums, segments and summaries, beside the plainest ways to make them."""

from __future__ import annotations

import math
import statistics as plain
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.trace.nnapi import statistics
from circletools.trace.nnapi.executions import ExecutionColumns
from circletools.trace.nnapi.statistics import Intervals, pieces
from circletools.trace.nnapi.summaries import (
    WHOLE,
    ExecutionSummary,
    Summary,
    driver_summaries,
    most_at_once,
    run_summaries,
    summarise,
    summarise_executions,
)
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

    @settings(max_examples=60)
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
    assert summarise(iter(times)) == Summary(
        count=len(times),
        total_ns=sum(times),
        min_ns=min(times),
        median_ns=math.floor(plain.median(times)),
        p90_ns=next(time for at, time in enumerate(ordered, 1) if 10 * at >= 9 * len(times)),
        max_ns=max(times),
    )


def executions(pairs: Pairs) -> ExecutionColumns:
    starts, lengths = np.array(pairs, np.int64).reshape(len(pairs), 2).T
    zeros = np.zeros_like(starts)
    return ExecutionColumns(zeros, zeros, zeros, zeros, starts, zeros, zeros, starts + lengths)


@given(PAIRS)
def test_executions_at_once(pairs: Pairs) -> None:
    together = Counter(time for start, length in pairs for time in range(start, start + length))
    found = executions(pairs)
    assert most_at_once(found.starts, found.ends) == max(together.values(), default=1)


def test_summaries_of_executions() -> None:
    assert summarise_executions(executions([])) is None
    times = Summary(1, 3, 3, 3, 3, 3)
    assert summarise_executions(executions([(0, 3)])) == ExecutionSummary(times, 3, None, 1)
    times = Summary(3, 13, 2, 3, 8, 8)
    assert summarise_executions(executions([(0, 8), (1, 3), (5, 2)])) == ExecutionSummary(times, 8, 2, 2)


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
    outside, first, second = run_summaries(found)
    assert [each.run and each.run.name for each in (outside, first, second)] == [None, "m", "n"]
    parts = [
        (part.app_phase, part.table.covered_ns // US, part.executions and part.executions.times.total_ns // US)
        for each in (outside, first, second)
        for part in each.parts
    ]
    assert parts == [
        (WHOLE, 3, 3), (WHOLE, 50, 14), ("overall", 30, None), ("warm-up", 10, 7), ("benchmark", 10, 7),
        (WHOLE, 5, None),
    ]  # fmt: skip
    whole = first.parts[0].executions
    assert whole is not None
    assert (whole.first_ns // US, whole.rest_median_ns, whole.most_at_once) == (7, 3500, 1)
    (only,) = run_summaries(read("10 T1 B [NN_LA_PO]n\n15 T1 E"))
    assert [part.app_phase for part in only.parts] == [WHOLE]


def test_time_outside_of_runs_is_told_if_there_is_some() -> None:
    zero = read(f"5 T1 B {COMPUTE}\n5 T1 E\n10 T1 B [NN_LA_PO]n\n15 T1 E")
    assert [(each.run is None, [part.table.covered_ns for part in each.parts]) for each in run_summaries(zero)] == [
        (True, [0]), (False, [5 * US])
    ]  # fmt: skip
    assert list(run_summaries(read("5 T1 B x\n6 T1 E"))) == []


def test_two_phases_of_a_run_are_shown() -> None:
    found = read("10 T1 B [NN_LA_PO]n\n12 T1 B [NN_LA_PBM]b\n15 T1 E\n15 T1 E")
    (only,) = run_summaries(found)
    assert [(part.app_phase, part.table.covered_ns) for part in only.parts] == [
        (WHOLE, 5 * US), (APP_PHASES[0], 2 * US), (APP_PHASES[2], 3 * US)
    ]  # fmt: skip


def test_summaries_of_drivers() -> None:
    assert driver_summaries(read("10 T1 B [NN_LR_PP]p\n20 T1 E")) == []
    found = read("10 D1 B HIDL::IDevice::getType::server\n11 D1 E\n20 D1 B [NN_LD_PE]p\n22 D1 E")
    assert driver_summaries(found) == [("marks", Summary(1, 2 * US, 2 * US, 2 * US, 2 * US, 2 * US))]
