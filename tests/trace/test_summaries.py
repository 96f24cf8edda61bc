"""Sums, segments and summaries, beside the plainest ways to make them."""

from __future__ import annotations

import math
import random
import statistics as plain
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.trace.nnapi import statistics
from circletools.trace.nnapi.contexts import BUCKETS, NO_BUCKET, Contexts
from circletools.trace.nnapi.diagnostics import Collector
from circletools.trace.nnapi.executions import Execution, Spans
from circletools.trace.nnapi.marks import Mark, classify
from circletools.trace.nnapi.statistics import Busy, Intervals, Table, add_up, pieces, tables
from circletools.trace.nnapi.summaries import (
    WHOLE,
    ExecutionSummary,
    Summary,
    driver_summaries,
    most_at_once,
    run_summaries,
    summarise,
    summarise_executions,
    whole_table,
)
from circletools.trace.nnapi.timeline import APP_PHASES, Run, Runs, Timeline, run_of
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
        timeline, at, begins = Timeline(), 0, [(-1, 0)]
        for number, (_, step) in enumerate(steps):
            at += step
            timeline.add(at, number + 5)
            begins.append((at, number + 5))
        found: Counter[tuple[int, int, int]] = Counter()
        for part, segments in pieces(intervals(pairs), *timeline.arrays()):
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


def test_pieces_without_segments_are_the_intervals() -> None:
    some = intervals([(0, 3), (2, 5)])
    ((part, segments),) = pieces(some, *Timeline().arrays())
    assert (part is some, segments.tolist()) == (True, [0, 0])


def test_a_timeline() -> None:
    timeline = Timeline()
    least = np.iinfo(np.int64).min
    assert [column.tolist() for column in timeline.arrays()] == [[least], [0]]
    timeline.forget()
    timeline.add(5, 7)
    timeline.add(9, 8)
    assert [column.tolist() for column in timeline.arrays()] == [[least, 5, 9], [0, 7, 8]]
    timeline.forget()
    assert [column.tolist() for column in timeline.arrays()] == [[least], [8]]
    timeline.add(11, 3)
    timeline.forget()
    assert [column.tolist() for column in timeline.arrays()] == [[least], [3]]


def test_segments_of_runs() -> None:
    assert [run_of(segment) for segment in range(8)] == [
        (-1, "overall"), (0, "overall"), (0, "warm-up"), (0, "benchmark"), (1, "overall"), (1, "warm-up"),
        (1, "benchmark"), (2, "overall"),
    ]  # fmt: skip
    assert [Run(index, 0, "", 0, 0).first_segment for index in range(3)] == [1, 4, 7]
    assert Run(0, 0, "", 0, 0).partial is False
    runs = Runs(Collector())
    none = np.zeros(0, np.int64)
    assert (runs.segments(np.array([0]), np.array([5])).tolist(), runs.latest(5)) == ([0], None)
    assert runs.segments(none, none).tolist() == []


@pytest.mark.parametrize("seed", range(40))
def test_segments_of_processes_within_batches(seed: int) -> None:
    made = random.Random(seed)  # noqa: S311 - no secret
    runs, own, common = Runs(Collector()), dict[int, int](), 0
    for _ in range(4):
        wanted, asked = [], []
        for runs.now in range(made.choice((1, 5, 30))):
            process = made.choice((-1, 0, 4, 1 << 62))
            if made.random() < 0.3:
                before = runs.all[-1:]
                if made.random() < 0.5 or not own:
                    runs.began(classify(b"[NN_LA_PO]x"), 9, 0, process, 1)
                else:
                    runs.began(classify(b"[NN_LA_PBM]x"), 9, 0, process, 1)
                run = runs.latest(process)
                assert run is not None
                own[process] = run.first_segment + 2 * (run in before or bool(run.seen))
                common = own[process] if run is runs.all[-1] else common
            else:
                wanted.append(own.get(process, common))
                asked.append((runs.now, process))
        at, processes = np.array(asked, np.int64).reshape(-1, 2).T
        order = np.array(made.sample(range(len(asked)), len(asked)), np.int64)
        assert runs.segments(at[order], processes[order]).tolist() == [wanted[place] for place in order.tolist()]
        runs.forget()


def test_totals_by_segment_and_code() -> None:
    totals: dict[int, int] = defaultdict(int)
    add_up(totals, intervals([]), np.array([], np.int64))
    assert totals == {}
    spans, codes = [(0, 3), (1, 4), (2, 5), (0, 7), (9, 1)], [0, 2, 2, 1, 0]
    add_up(totals, intervals(spans, codes), np.array([4, 9, 9, 4, 5]))
    shift = statistics._CODE_BITS
    assert totals == {4 << shift: 3, (9 << shift) + 2: 9, (4 << shift) + 1: 7, 5 << shift: 1}
    add_up(totals, intervals([(0, 2)], [1]), np.array([4]))
    assert totals[(4 << shift) + 1] == 9


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.sampled_from("DIL")), max_size=10))
def test_when_the_driver_was_busy(rows: list[tuple[int, int, str]]) -> None:
    contexts = Contexts()
    code = {"L": 2 * contexts.enter(contexts.all[0], Mark("LR", "PE"))[0].number}
    code["I"] = 2 * contexts.enter(contexts.all[0], Mark("LI", "PE"))[0].number
    code["D"] = 2 * contexts.enter(contexts.all[0], Mark("LD", "PCO"))[0].number
    some = intervals([row[:2] for row in rows], [code[row[2]] for row in rows])
    segments = np.arange(len(rows), dtype=np.int64) + 1
    waiting: dict[int, int] = defaultdict(int)
    Busy(contexts, some).add_up(waiting, some, segments)
    driving = {time for start, length, kind in rows if kind == "D" for time in range(start, start + length)}
    wanted = {
        number: sum(time in driving for time in range(start, start + length))
        for number, (start, length, kind) in enumerate(rows, 1)
        if kind == "I"
    }
    assert {key >> 32: value for key, value in waiting.items() if value} == {
        number: value for number, value in wanted.items() if value
    }
    assert all(key & 0xFFFF == code["I"] for key in waiting)
    found = tables(contexts, {1 << 32 | code["D"]: 5, 3 << 32 | code["I"]: 2}, waiting, {})
    assert found[1].self_ns == {("LD", "PCO"): 5}
    assert found[1].inclusive_ns == {("LD", "PCO"): 5, ("LD", "PE"): 5}
    assert {number: dict(table.driver_busy_ns) for number, table in found.items() if table.driver_busy_ns} == {
        number: {("LI", "PE"): value} for number, value in wanted.items() if value
    }
    assert waiting == {}


def test_contexts_of_threads() -> None:
    contexts = Contexts()
    (root,) = contexts.all
    assert (root.number, root.running, root.owner, root.nearest) == (0, 0, NO_BUCKET, (0, 0, 0, 0, 0))
    execution = BUCKETS.index(("LR", "PE"))
    app, faults = contexts.enter(root, Mark("LA", "PE"))
    assert (app.number, app.running, app.owner, app.nearest, faults) == (
        1, 1 << BUCKETS.index(("LA", "PE")), BUCKETS.index(("LA", "PE")), (1, 0, 0, 0, 0), ()
    )  # fmt: skip
    cpu, faults = contexts.enter(app, Mark("LC", "PTR"))
    bits = sum(1 << BUCKETS.index(pair) for pair in (("LA", "PE"), ("LC", "PTR"), ("LC", "PE")))
    assert (cpu.number, cpu.running, cpu.owner, cpu.nearest, faults) == (
        2, bits, BUCKETS.index(("LC", "PTR")), (1, 0, 0, 0, 2), ("T021",)
    )  # fmt: skip
    assert contexts.enter(app, Mark("LA", "PE"))[0] is app
    assert contexts.enter(app, Mark("LA", "PU"))[0] is app
    assert contexts.enter(root, Mark("LA", "PU")) == (root, ("T024",))
    assert contexts.owners == [NO_BUCKET, execution, app.owner, execution, cpu.owner, cpu.owner]
    assert contexts.running == [
        0, 1 << execution, app.running, app.running | 1 << execution, cpu.running, cpu.running | 1 << execution
    ]  # fmt: skip
    assert contexts.enter(cpu, Mark("LD", "PTR"))[1] == ("T021",)
    ipc, _ = contexts.enter(root, Mark("LI", "PE"))
    assert contexts.enter(ipc, Mark("LC", "PE"))[1] == ("T021",)
    assert contexts.enter(ipc, Mark("LC", "PE", in_process=True))[1] == ()
    assert contexts.enter(app, Mark("LC", "PE", in_process=True))[1] == ("T021",)


# --- summaries ------------------------------------------------------------------------------------------------------


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


def executions(pairs: Pairs) -> list[Execution]:
    return [
        Execution(at, 1, 1, "synchronous", start, 0, 0, start + length) for at, (start, length) in enumerate(pairs)
    ]


@given(PAIRS)
def test_executions_at_once(pairs: Pairs) -> None:
    together = Counter(time for start, length in pairs for time in range(start, start + length))
    assert most_at_once(executions(pairs)) == max(together.values(), default=1)


def test_summaries_of_executions() -> None:
    assert summarise_executions([]) is None
    times = Summary(1, 3, 3, 3, 3, 3)
    assert summarise_executions(executions([(0, 3)])) == ExecutionSummary(times, 3, None, 1)
    times = Summary(3, 13, 2, 3, 8, 8)
    assert summarise_executions(executions([(0, 8), (1, 3), (5, 2)])) == ExecutionSummary(times, 8, 2, 2)


def test_tables_are_added() -> None:
    one, two = Table(), Table()
    one.self_ns["LA", "PO"], one.inclusive_ns["LA", "PO"], one.driver_busy_ns["LI", "PE"] = 1, 2, 3
    two.self_ns["LA", "PO"], two.self_ns["LR", "PE"], two.driver_busy_ns["LI", "PE"] = 10, 20, 30
    found = whole_table([one, two])
    assert (found.self_ns, found.inclusive_ns) == ({("LA", "PO"): 11, ("LR", "PE"): 20}, {("LA", "PO"): 2})
    assert (found.driver_busy_ns, found.covered_ns, whole_table([]).covered_ns) == ({("LI", "PE"): 33}, 31, 0)


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
    found = read("10 T1 B [NN_LR_PP]p\n20 T1 E")
    assert driver_summaries(found) == []
    found.driver.marks.add(np.array([5]), np.array([7]))
    found.driver.callbacks.add(np.array([1, 2]), np.array([9, 4]))
    assert driver_summaries(found) == [
        ("marks", Summary(1, 2, 2, 2, 2, 2)), ("requests and callbacks", Summary(2, 10, 2, 5, 8, 8))
    ]  # fmt: skip
    found.driver.calls = Spans()
    found.driver.calls.add(np.array([3]), np.array([4]))
    assert driver_summaries(found)[0] == ("server calls", Summary(1, 1, 1, 1, 1, 1))
