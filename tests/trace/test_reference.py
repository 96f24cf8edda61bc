"""Whole traces beside a reader that looks at every microsecond of every thread."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.statistics import Table
from tests.kit.trace_reference import Part, Reading, reading
from tests.kit.trace_support import US, Ev, executing, read

START, FENCED, COMPUTE = (
    f"[NN_LR_PE]ANeuralNetworksExecution_{name}"
    for name in ("startCompute", "startComputeWithDependencies", "compute")
)
WAIT, CALLED = "[NN_LR_PE]ANeuralNetworksEvent_wait", "HIDL::IPreparedModel::execute::server"
OF_APPLICATIONS = (
    START, START, WAIT, WAIT, FENCED, COMPUTE, "[NN_LA_PO]m", "[NN_LA_PWU]w", "[NN_LA_PBM]b", "[SW][NN_LA_PBM]b",
    "[NN_LA_PE]a", "[NN_LR_PE]r", "[NN_LC_PCO]c", "[SUB][NN_LR_PC]s", "[NN_LI_PE]i", "foreign", "[NN_LR_PU]u",
    "HIDL::IPreparedModel::execute::client", "[NN_LR_PI]p", "[NN_LI_PI]p",
)  # fmt: skip
OF_DRIVERS = (
    CALLED, CALLED, "HIDL::IPreparedModel::executeSynchronously::server", "HIDL::IDevice::prepareModel::server",
    "[NN_LD_PE]d", "[NN_LD_PCO]d", "[NN_LC_PE]d", "HIDL::IExecutionCallback::notify::client", "[NN_LR_PP]r",
    "HIDL::IExecutionCallback::notify::server", "foreign",
)  # fmt: skip


@st.composite
def several_processes(draw: st.DrawFn) -> list[Ev]:
    """Draw what two applications and a driver do; most marks end."""
    at, found = draw(st.integers(0, 3)), []
    depths = dict.fromkeys((100001, 100002, 200001, 200002, 300001), 0)
    for _ in range(draw(st.integers(1, 50))):
        at += draw(st.sampled_from([0, 1, 1, 2, 3, 7]))
        tid = draw(st.sampled_from(list(depths)))
        ends = draw(st.integers(0, 9)) < (6 if depths[tid] else 1)
        depths[tid] = max(0, depths[tid] + (-1 if ends else 1))
        texts = OF_DRIVERS if tid // 100 == 2000 else OF_APPLICATIONS
        found.append(Ev(at, tid, None if ends else draw(st.sampled_from(texts))))
    return found


@given(several_processes())
def test_two_applications_and_a_driver(trace: list[Ev]) -> None:
    check(read(trace), reading(trace), trace)


@given(executing())
def test_marks_of_every_kind(trace: list[Ev]) -> None:
    check(read(trace), reading(trace), trace)


def check(found: Analysis, wanted: Reading, trace: list[Ev]) -> None:
    assert (found.name, found.encoding, found.events) == ("<bytes>", "ftrace text", len(trace))
    assert (found.last_ns, found.ordered, set(found.threads)) == (trace[-1].at * US, True, wanted.counted)
    assert times(found.tables) == (some(wanted.own), some(wanted.whole))
    check_wall_clock(found, wanted)
    assert [(run.process, run.name, run.start_ns // US, run.where) for run in found.runs] == wanted.runs
    assert [run.index for run in found.runs if run.partial] == sorted(wanted.partial)
    assert {run.index: run.seen for run in found.runs if run.seen} == wanted.phases
    threads = list(dict.fromkeys(event.tid for event in sorted_by_batch(trace)))
    shown = list(found.executions) if wanted.ended else []  # without the runtime's marks others stand for them
    assert [
        (one.number, one.process, threads[one.thread], one.kind, one.start_ns, one.segment, one.where, one.end_ns)
        for one in shown
    ] == [
        (one.number, one.process, one.thread, one.kind, one.start * US, one.segment, one.line, one.end * US)
        for one in wanted.ended
    ]
    assert [[*zip(*one, strict=True)] for one in found.driver.of_driver().values()] == [
        [(start * US, end * US) for start, end in spans] for spans in (wanted.calls, wanted.marks, wanted.callbacks)
    ]
    check_functions(found, wanted)
    check_diagnostics(found, wanted)


def check_wall_clock(found: Analysis, wanted: Reading) -> None:
    for place, one in enumerate(found.executions):
        shares = found.wall_clock.shares([place])
        assert sum(share.self_ns for share in shares) == one.elapsed_ns
        assert all(0 <= share.self_ns <= share.inclusive_ns <= one.elapsed_ns for share in shares)
        if wanted.ended:
            ours = {(share.layer, share.phase, share.process): share for share in shares}
            assert nonzero({part: share.self_ns for part, share in ours.items()}) == wanted.shares[one.number]
            assert {part: share.inclusive_ns for part, share in ours.items()} == nonzero(wanted.at_work[one.number])
    for run in found.runs:
        own = {(one.layer, one.phase, one.process): one.self_ns for one in found.run_clock.shares([run.index])}
        assert nonzero(own) == wanted.run_shares[run.index]


def nonzero(times: dict[Part, int]) -> dict[Part, int]:
    return {part: time for part, time in times.items() if time}


def times(tables: Mapping[int, Table]) -> tuple[dict[int, dict[tuple[str, str], int]], ...]:
    return tuple(
        some({number: getattr(table, name) for number, table in tables.items()})
        for name in ("self_ns", "inclusive_ns")
    )


def some(tables: dict[int, dict[tuple[str, str], int]]) -> dict[int, dict[tuple[str, str], int]]:
    """Leave out zeros and what has nothing else."""
    shown = {number: {bucket: ns for bucket, ns in table.items() if ns} for number, table in tables.items()}
    return {number: table for number, table in shown.items() if table}


def sorted_by_batch(trace: list[Ev]) -> list[Ev]:
    """Threads are numbered by batch, in the order of their ids; such a trace is one batch."""
    return sorted(trace, key=lambda event: event.tid)


def check_functions(found: Analysis, wanted: Reading) -> None:
    rows = ((-own, *key, calls, whole) for key, (calls, own, whole) in wanted.functions.items())
    assert [
        (-one.self_ns, one.layer, one.phase, one.name, one.calls, one.inclusive_ns) for one in found.functions
    ] == sorted(rows)


def check_diagnostics(found: Analysis, wanted: Reading) -> None:
    ours = [(one.code, one.location, one.count) for one in found.diagnostics if one.code in ("T010", "T011", "T040")]
    expected = [("T010", lines[0], len(lines)) for tid, lines in wanted.unmatched.items() if tid in wanted.counted]
    expected += [
        ("T011", lines[0], len(lines)) for tid, lines in wanted.unended.items() if lines and tid in wanted.counted
    ]
    ignored = [one.line for one in wanted.flights if one.kind == "asynchronous" and one.end < 0]
    expected += [("T040", lines[0], len(lines)) for lines in (ignored, wanted.lone_waits) if lines]
    assert sorted(ours) == sorted((code, f"<bytes>:{line}", count) for code, line, count in expected)
