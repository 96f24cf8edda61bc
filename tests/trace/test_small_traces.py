"""Small traces: order of times, batches, and the message of every diagnostic."""

from __future__ import annotations

import pytest

from circletools.codes import explain
from circletools.errors import InvalidInputError
from circletools.trace.nnapi.analysis import analyse, read_trace
from circletools.trace.sources import content, open_trace
from circletools.trace.sources.batch import FaultKind
from tests.kit.trace_support import SIMPLE, US, codes, ftrace, inclusive, lines, own, read, table

Told = list[tuple[str, str, str, int]]


def told(trace: str | bytes) -> Told:
    """Return code, place, message and count of each diagnostic, the places as lines of `<bytes>`."""
    found = read(trace).diagnostics
    assert all((one.severity, one.hint) == (explain(one.code).severity, explain(one.code).remedy) for one in found)
    return [(one.code, one.location.removeprefix("<bytes>"), one.message, one.count) for one in found]


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


def test_batches_of_one_line_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_driver_that_its_second_batch_tells(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 1)
    call = "HIDL::IPreparedModel::execute::server"
    found = read(f"10 D1 B [NN_{phase}]early\n20 D1 E\n30 D1 B {call}\n40 D1 E\n50 D2 B [NN_{phase}]x\n53 D2 E")
    assert own(found) == {"LD_PE": 23}
    assert list(zip(found.driver.marks.starts, found.driver.marks.ends, strict=True)) == [
        (10 * US, 20 * US), (50 * US, 53 * US)
    ]  # fmt: skip


def test_a_process_that_a_later_batch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (caught.value.location, caught.value.hint) == ("<bytes>:6", "the mark adds no time")
    assert "T022: an unknown layer or phase: [NN_LX_PP]p" in str(caught.value)


def test_of_many_faults_a_thousand_are_kept() -> None:
    trace = open_trace(ftrace(table(SIMPLE)))
    for where in range(1002):
        trace.fault(FaultKind.LOST, where, b"x" * 300)
    trace.fault(FaultKind.MALFORMED, 5, b"\xff" + b"y" * 198 + b"z!")
    assert [fault.where for fault in trace.faults] == [*range(1000), 5]
    assert {len(fault.text) for fault in trace.faults[:1000]} == {200}
    assert trace.faults[-1].text == "\\xff" + "y" * 198 + "z"
    assert trace.fault_counts == {FaultKind.LOST: 1002, FaultKind.MALFORMED: 1}
    assert len(list(trace.batches())) == 1
    assert (trace.faults, trace.fault_counts) == ([], {})


# --- diagnostics ----------------------------------------------------------------------------------------------------


def test_messages_of_nesting() -> None:
    rows = """10 T1 B [NN_LR_PP]outer
              11 T1 B foreign
              12 T1 B [NN_LC_PC]inner
              13 T1 E
              14 T1 B [NN_LC_PC]other
              15 T1 B [NN_LR_PC]deep
              16 T1 E
              17 T1 E
              18 T1 B [NN_LX_PC]x
              19 T1 E
              20 T1 E
              21 T1 E
              22 T1 B [NN_LX_PC]x
              23 T1 E
              24 T1 B [NN_LR_]y
              25 T1 E
              26 T1 B [SW][NN_LR_PP]z
              27 T1 E"""
    assert told(rows) == [
        ("T012", ":19", "[SW] with nothing to switch: [LR_PP]z", 1),
        ("T020", ":5", "a phase inside one that does not hold it: [LC_PC]inner inside [LR_PP]outer (<bytes>:3)", 2),
        ("T021", ":8", "a layer inside one that does not hold it: [LR_PC]deep inside [LC_PC]other (<bytes>:7)", 1),
        ("T022", ":11", "an unknown layer or phase: [NN_LX_PC]x inside [LR_PP]outer (<bytes>:3)", 1),
        ("T022", ":15", "an unknown layer or phase: [NN_LX_PC]x", 1),
        ("T023", ":17", "a malformed tag: [NN_LR_]y", 1),
    ]


def test_messages_of_runs() -> None:
    rows = """10 T1 B [NN_LA_PWU]w
              11 T1 B [NN_LA_PBM]b
              12 T1 B [NN_LA_PO]m
              13 T1 B [NN_LR_PP]r
              14 T1 E
              15 T1 E
              16 T1 E
              17 T1 E
              18 T1 B [NN_LA_PO]n
              19 T1 B [NN_LA_PWU]w
              20 T1 E
              21 T1 E
              22 T1 B [NN_LA_PO]o
              23 T1 B [NN_LA_PBM]b
              24 T1 E
              25 T1 E"""
    assert told(rows) == [
        ("T020", ":4", "a phase inside one that does not hold it: [LA_PBM]b inside [LA_PWU]w (<bytes>:3)", 1),
        ("T020", ":5", "a phase inside one that does not hold it: [LA_PO]m inside [LA_PBM]b (<bytes>:4)", 1),
        ("T031", ":3", "warm-up begins outside a run, and begins one", 3),
        ("T032", ":11", "run 2 has warm-up but no benchmark", 2),
    ]
    assert told("\n".join(rows.split("\n")[12:]))[-1] == ("T032", ":3", "run 0 has benchmark but no warm-up", 1)
    begun = ("T031", ":3", "benchmark begins outside a run, and begins one", 2)
    assert begun in told(rows.partition("\n")[2])
    assert ("T031", ":5", "benchmark begins before warm-up ends", 2) in told("9 T1 B [NN_LA_PO]m\n" + rows)
    assert ("T031", ":5", "a run begins while warm-up or benchmark is open", 1) in told(
        "7 T1 B [NN_LA_PO]m\n8 T1 B [NN_LA_PBM]b\n9 T1 B [NN_LA_PO]m"
    )


def test_sixteen_phases_may_be_open() -> None:
    begins = "".join(f"{10 + at} T{at} B [NN_LA_P{'WU' if at % 2 else 'BM'}]x\n" for at in range(1, 18))
    ends = "".join(f"{60 + at} T{18 - at} E\n" for at in range(1, 18))
    found = read(f"5 T1 B [NN_LA_PO]m\n{begins}50 T20 B [NN_LR_PP]r\n{ends}90 T20 E")
    first = found.runs[0].first_segment
    spent = {segment - first: part.inclusive_ns["LR", "PP"] // US for segment, part in found.tables.items()}
    # The 17th is not remembered: its end leaves the phase as it was. The end of the 16th leaves that of the 15th.
    assert spent == {0: 90 - 77, 1: 20, 2: 7}


def test_messages_of_waits_and_ends() -> None:
    wait, start = "[NN_LR_PE]ANeuralNetworksEvent_wait", "[NN_LR_PE]ANeuralNetworksExecution_startCompute"
    rows = f"""10 T1 B {wait}
               11 T1 E
               12 T1 B {wait}
               13 T1 E
               14 T1 E
               15 T1 E
               16 T1 B {start}
               17 T1 E
               18 T2 B [NN_LA_PE]cut
               19 T2 B foreign
               20 T2 B [NN_LR_PE]deep
               21 T1 B x"""
    assert told(rows) == [
        ("T010", ":7", "an end without a begin on thread 100001", 2),
        ("T011", ":11", "[LA_PE]cut on thread 100002 has no end", 2),
        ("T040", ":3", "a wait without a start", 2),
        ("T040", ":9", "a start without a wait", 1),
    ]


def test_messages_of_processes() -> None:
    rows = [f" a-{pid} ({pid}) [000] ...1 1.{pid:06}: tracing_mark_write: " for pid in range(1, 12)]
    data = "".join(f"{row}B|{at}|[NN_LR_PP]p\n{row}E|{at}\n" for at, row in enumerate(rows, 1))
    assert told(data.encode()) == [("T041", "", "11 client processes: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10", 1)]
    apps = "1 T1 B [NN_LA_PP]p\n2 T1 E\n3 A1 B [NN_LA_PP]p\n4 A1 E"
    several = ("T041", "", "2 client processes: 1000, 3000", 1)
    assert told(apps) == [("T002", "", explain("T002").meaning, 1), several]
    assert told(f"{apps}\n5 T1 B [NN_LR_PP]p\n6 T1 E") == []
    assert told(f"{apps}\n5 T1 B [NN_LI_PP]p\n6 T1 E") == [("T002", "", explain("T002").meaning, 1), several]
    call = "HIDL::IDevice::prepareModel"
    unheard = ("T050", "", "calls of the HAL but no driver process", 1)
    assert told(f"1 T1 B {call}::client\n2 T1 E") == [unheard]
    assert told(f"1 T1 B {call}::client\n2 T1 E\n3 T1 B {call}::passthrough\n4 T1 E") == []
    assert told(f"1 T1 B {call}::client\n2 T1 E\n3 D1 B {call}::server\n4 D1 E") == []
    assert told(f"3 D1 B {call}::server\n4 D1 E\n5 D1 B [NN_LR_PP]p\n6 D1 E\n7 A1 B [NN_LR_PP]p\n8 A1 E") == []
    assert told("1 T1 B x\n2 T1 E") == [("T001", "", "no NN marks", 1)]


def test_layers_without_a_runtime_between_them() -> None:
    assert told("1 T1 B [NN_LA_PP]a\n2 T1 B [NN_LC_PP]c\n3 T1 B [NN_LA_PP]a\n4 T1 E\n5 T1 E\n6 T1 E") == [
        ("T002", "", explain("T002").meaning, 1),
        ("T021", ":5", "a layer inside one that does not hold it: [LA_PP]a inside [LC_PP]c (<bytes>:4)", 1),
    ]


def test_faults_of_the_recording() -> None:
    lost, broken = b"CPU:%d [LOST 3 EVENTS]\n", b"  task-9 (    9) [003] ...1 5.000001: tracing_mark_write: B|%d\n"
    data = b"".join(lines(table(SIMPLE))) + lost % 1 + broken % 1 + lost % 2 + broken % 2
    assert told(data) == [
        ("T003", ":5", "events were lost: CPU:1 [LOST 3 EVENTS]", 2),
        ("T004", ":6", f"a mark that does not parse: {(broken % 1).decode().strip()}", 2),
    ]


def test_an_analysis_without_executions() -> None:
    found = analyse(open_trace(ftrace(table(SIMPLE))))
    assert (found.executions, found.wall_clock.shares(), found.runs) == ([], (), [])
    assert (found.events, found.last_ns, found.ordered, set(found.threads)) == (4, 40 * US, True, {100001})
    assert [list(found.driver.calls.starts), list(found.driver.marks.starts)] == [[], []]
