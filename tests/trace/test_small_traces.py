"""Small traces: order of times, batches, and the message of every diagnostic."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.analysis import analyse, read_trace
from circletools.trace.sources import content, open_trace
from tests.kit.trace_support import SIMPLE, US, codes, ftrace, inclusive, own, read, table

# --- the order of times ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(
    ("rows", "ordered"),
    [
        ("0 T1 B [NN_LR_PP]p\n0 T1 E", True),
        ("5 T1 B [NN_LR_PP]p\n5 T1 E\n5 T1 E\n6 T1 B x", True),
        ("5 T1 B [NN_LR_PP]p\n4 T1 E", False),
        ("5 T1 B [NN_LR_PP]p\n6 T1 E\n5 T1 B x", False),
        ("5 T1 B [NN_LR_PP]p\n7 T1 B x\n6 T1 E\n9 T1 E", False),
    ],
)
def test_whether_times_are_in_order(
    rows: str, ordered: bool, one_by_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if one_by_one:
        monkeypatch.setattr(content, "PIECE_BYTES", 1)
    found = read(rows)
    assert found.ordered is ordered
    assert (found.events, found.last_ns) == (rows.count("\n") + 1, max(event.at for event in table(rows)) * US)


def test_a_trace_that_is_out_of_order_is_sorted() -> None:
    found = read("50 T1 E\n10 T1 B [NN_LA_PE]a\n30 T1 E\n20 T1 B [NN_LR_PE]r\n")
    assert (own(found), inclusive(found)) == ({"LA_PE": 30, "LR_PE": 10}, {"LA_PE": 40, "LR_PE": 10})
    assert (found.events, found.last_ns, set(found.threads)) == (4, 50 * US, {100001})


def test_batches_of_one_line_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """10 T1 B [NN_LA_PO]m
              12 D1 B [NN_LC_PE]early
              14 D1 E
              20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
              25 T2 B [NN_LI_PE]call
              27 T1 E
              30 D1 B HIDL::IPreparedModel::execute::server
              35 A1 B [NN_LC_PCO]c
              40 D1 E
              42 T2 E
              50 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait
              60 T1 E
              70 T1 E
              80 A1 E"""
    whole = read(text)
    assert own(whole) == {"LA_PO": 20, "LD_PE": 12, "LR_PE": 40, "LI_PE": 17, "LC_PCO": 45}
    monkeypatch.setattr(content, "PIECE_BYTES", 1)
    found = read(text)
    assert found.threads == whole.threads == {100001, 100002, 200001, 300001}
    assert own(found) == own(whole)
    assert found.wall_clock.shares() == whole.wall_clock.shares()
    assert [(one.layer, one.process, one.self_ns // US) for one in found.wall_clock.shares()] == [
        ("LD", 2000, 10), ("LI", -1, 7), ("LR", -1, 23)
    ]  # fmt: skip
    assert [(one.thread, one.elapsed_ns) for one in found.executions] == [(0, 40 * US)]
    assert [(one.name, one.calls, one.self_ns, one.inclusive_ns) for one in found.functions] == [
        (one.name, one.calls, one.self_ns, one.inclusive_ns) for one in whole.functions
    ]


@pytest.mark.parametrize("phase", ["LC_PE", "LD_PE"])
def test_a_driver_recognized_in_the_second_batch(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 1)
    call = "HIDL::IPreparedModel::execute::server"
    found = read(f"10 D1 B [NN_{phase}]early\n20 D1 E\n30 D1 B {call}\n40 D1 E\n50 D2 B [NN_{phase}]x\n53 D2 E")
    assert own(found) == {"LD_PE": 23}
    assert list(zip(*found.driver.of_driver()["marks"], strict=True)) == [
        (10 * US, 20 * US), (50 * US, 53 * US)
    ]  # fmt: skip


def test_a_process_recognized_in_a_later_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 1)
    head = "  task-9 (-----) [003] ...1 5.00000"
    texts = ["1: tracing_mark_write: E", "2: tracing_mark_write: B|70|[NN_LA_PO]m", "3: tracing_mark_write: E|70"]
    found = read("".join(f"{head}{text}\n" for text in texts).encode())
    assert [(run.process, run.name) for run in found.runs] == [(70, "m")]


# --- what is remembered, what is checked ----------------------------------------------------------------------------


def test_errors_of_a_strict_reading() -> None:
    warned = "10 T1 B [NN_LR_PP]p\n20 T1 E\n30 T1 E"
    data = ftrace(table(f"{warned}\n40 T1 B [NN_LX_PP]p\n50 T1 E"))
    found = read_trace(data)
    assert codes(found) == ["T010", "T022"]
    assert codes(read_trace(ftrace(table(warned)), strict=True)) == ["T010"]
    with pytest.raises(InvalidInputError) as caught:
        read_trace(data, strict=True)
    assert (caught.value.location, caught.value.hint) == ("<bytes>:6", "correct the mark, which adds no time")
    assert "T022: an unknown layer or phase: [NN_LX_PP]p" in str(caught.value)


# --- diagnostics ----------------------------------------------------------------------------------------------------


def test_an_analysis_without_executions() -> None:
    found = analyse(open_trace(ftrace(table(SIMPLE))))
    assert (len(found.executions), found.wall_clock.shares(), found.runs) == (0, (), [])
    assert (found.events, found.last_ns, found.ordered, set(found.threads)) == (4, 40 * US, True, {100001})
    assert [len(one[0]) for one in found.driver.of_driver().values()][:2] == [0, 0]


def test_marks_of_others_alone_may_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circletools.trace.sources.content.PIECE_BYTES", 100)
    found = read("1 T1 B x\n2 T1 B y\n3 T1 B z\n4 T1 E\n5 T1 B z\n6 T1 E")
    assert [one.code for one in found.diagnostics] == ["T001"]
