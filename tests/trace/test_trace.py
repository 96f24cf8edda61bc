"""Traces: encodings, invariants, cuts, executions, runs, diagnostics, exports."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.traces import encoded, workload
from circletools.errors import CircleToolsError, InvalidInputError
from circletools.profile.compare_traces import compare_traces
from circletools.render.comparison import comparison_json
from circletools.render.trace_tables import trace_csv, trace_markdown, trace_text
from circletools.render.traces import trace_json
from circletools.trace import sources
from circletools.trace.nnapi.analysis import Analysis, analyse
from circletools.trace.nnapi.diagnostics import KINDS
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.export import chrome_parts, perfetto_parts
from circletools.trace.nnapi.marks import LAYERS, PHASES
from circletools.trace.nnapi.summaries import Summary, most_at_once, summarise
from circletools.trace.nnapi.timeline import run_of
from circletools.trace.sources import Event, content, events, open_trace
from circletools.wording import counted, microseconds, milliseconds
from tests.kit.support import ROOT, TESTDATA
from tests.kit.trace_support import US, Ev, codes, ftrace, inclusive, lines, own, read, slow, table, total

EXAMPLE = TESTDATA / "trace" / "benchmark.html"
ENDINGS = ("html", "ftrace", "html.gz", "ftrace.gz", "ctrace", "pftrace", "z.pftrace", "pftrace.gz")
SIMPLE = "10 T1 B [NN_LR_PP]p\n20 D1 B foreign\n30 T1 E\n40 D1 E"
SIMPLE_EVENTS = [
    (10 * US, 100001, 1000, "B", b"[NN_LR_PP]p"),
    (20 * US, 200001, 2000, "B", b"foreign"),
    (30 * US, 100001, 1000, "E", b""),
    (40 * US, 200001, 2000, "E", b""),
]


def read_events(data: bytes) -> list[tuple[int, int, int, str, bytes]]:
    return [event[:5] for event in events(open_trace(data))]


def document(data: bytes) -> dict[str, object]:
    """Return all that is the same whatever the encoding."""
    found = trace_json(analyse(open_trace(data), per_execution=True), per_execution=True)
    for diagnostic in found["diagnostics"]:
        del diagnostic["location"]
    del found["trace"]["encoding"]
    return found


# --- encodings ------------------------------------------------------------------------------------------------------


def test_the_example_is_what_its_generator_makes() -> None:
    assert EXAMPLE.read_bytes() == encoded(workload(120, per_run=6), "html")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_encoding_says_the_same(ending: str) -> None:
    wanted = list(workload(300, per_run=5))
    expected = document(encoded(wanted, "ftrace"))
    assert expected["runs"]
    found = document(encoded(wanted, ending))
    assert found == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_pieces_of_any_size_say_the_same(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(workload(100, per_run=2), ending)
    expected = document(data)
    for size in (97, 1000, 4096):
        monkeypatch.setattr(content, "PIECE_BYTES", size)
        assert document(data) == expected


@pytest.mark.parametrize(
    "line",
    [
        "            task-100001 ( 1000) [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "            task-100001 (   1000) [003] ..... 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "            task-100001  (-----) [003] ...1     0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "            task-100001 [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "            task-100001 [003] 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        " task-100001 [003] 0.000010: print: tracing_mark_write: B|1000|[NN_LR_PP]p",
        " task-100001 [003]     0.000010: print:                0xffffffff81: B|1000|[NN_LR_PP]p",
        " task-100001 ( 1000) [003] .... 0.000010: 0: B|1000|[NN_LR_PP]p",
        " task-100001 ( 1000) [003] .... 0.000010000: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "a (b) [c] -7 x-100001 ( 1000) [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "            task-100001 ( 1000) [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p\r",
        "<...>-100001 ( 1000) [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
        "      Thread-5-100001 ( 1000) [003] ...1 0.000010: tracing_mark_write: B|1000|[NN_LR_PP]p",
    ],
)
def test_every_form_of_a_line(line: str) -> None:
    head = b"# tracer: nop\n"
    assert read_events(head + line.encode() + b"\n") == [(10 * US, 100001, 1000, "B", b"[NN_LR_PP]p")]


@pytest.mark.parametrize("end", ["E|1000", "E", "E|1000|", "E\r"])
def test_every_form_of_an_end(end: str) -> None:
    line = "            task-100001 ( 1000) [003] ...1 1034700.747177: tracing_mark_write: "
    assert read_events(f"{line}{end}\n".encode()) == [(1034700747177000, 100001, 1000, "E", b"")]


@pytest.mark.parametrize("seconds", ["0", "7", "99999999", "100000000", "1712345678"])
def test_seconds_of_any_length(seconds: str) -> None:
    line = f"            task-1001  ( 1000) [003] ...1 {seconds}.000001: tracing_mark_write: B|1000|x\n"
    assert read_events(line.encode())[0][0] == int(seconds) * 10**9 + 1000


@pytest.mark.parametrize("tid", [1, 23, 99999, 100000, 4194304, 12345678, 123456789])
def test_threads_of_any_length(tid: int) -> None:
    line = f"            task-{tid:<5} ({tid:5}) [003] ...1 5.000001: tracing_mark_write: B|7|x\n"
    assert read_events(line.encode()) == [(5_000_001_000, tid, tid, "B", b"x")]


def test_what_is_no_mark_is_left_out() -> None:
    other = (
        b"            task-1001  ( 1000) [003] ...1 5.0: sched_switch: prev_comm=B|1|x ==> next\n"
        b"            task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: C|1|counter|7\n"
        b"            task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: trace_event_clock_sync: E|1\n"
        b"            task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: S|1|async|7\n"
    )
    assert read_events(b"# tracer: nop\n" + other + b"".join(lines(table(SIMPLE)))) == SIMPLE_EVENTS


def test_a_page_in_which_the_trace_is_a_string() -> None:
    body = b"".join(line[:-1] + b"\\n\\\n" for line in lines(table(SIMPLE)))
    page = b'<html>\n<script>\n var linuxPerfData = "\\\n# tracer: nop\\n\\\n' + body + b'\\n";\n</script>\n</html>\n'
    assert read_events(page) == SIMPLE_EVENTS


def test_a_page_with_several_scripts() -> None:
    first, second = table(SIMPLE)[:2], table(SIMPLE)[2:]
    script = b'<script class="trace-data" type="application/text">\n'
    page = b"<html>\n" + script + b"PROCESS DUMP\nroot 1 0\n</script>\n"
    page += script + ftrace(first) + b"</script>\n<p>B|1|\n" + script + ftrace(second) + b"</script>\n</html>\n"
    assert read_events(page) == SIMPLE_EVENTS
    assert [event.where for event in events(open_trace(page))] == [9, 10, 16, 17]


def test_a_page_whose_scripts_end_within_a_line() -> None:
    first, second = table(SIMPLE)[:2], table(SIMPLE)[2:]
    page = b"<html>\n<script class='trace-data' type='application/text'>\n" + ftrace(first)[:-1] + b"</script><p>\n"
    page += b'<script class="trace-data">\n' + ftrace(second)[:-1] + b"</script>"
    found = list(events(open_trace(page)))
    assert [event[:5] for event in found] == SIMPLE_EVENTS
    texts = page.split(b"\n")
    assert all(b"0.0000%d0:" % (number + 1) in texts[event.where - 1] for number, event in enumerate(found))


def test_atrace_that_says_what_it_does_first() -> None:
    data = ftrace(table(SIMPLE))
    for start in (b"capturing trace... done\nTRACE:\n", b"TRACE:\r\n", b"TRACE:\n"):
        assert read_events(start + zlib.compress(data)) == SIMPLE_EVENTS
        assert read_events(start + data) == SIMPLE_EVENTS


def test_gzip_in_several_members() -> None:
    data = ftrace(table(SIMPLE))
    assert read_events(gzip.compress(data[:100]) + gzip.compress(data[100:])) == SIMPLE_EVENTS


def test_names_need_not_be_text() -> None:
    trace = table(SIMPLE)
    trace[0] = trace[0]._replace(text="[NN_LR_PP]\udcff\x01\udcfe|x")
    found = read(trace)
    assert inclusive(found) == {"LR_PP": 20}
    assert found.functions[0].name == "\\xff\x01\\xfe|x"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\x28\xb5\x2f\xfd rest", "zstd -dc"),
        (b"PK\x03\x04 rest", "ZIP"),
        (b"\x89PNG\r\n\0\0", "kind"),
        (b'{"a": 1}', "JSON"),
        (b'{"a": ', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"hello\nworld\n", "no line of it"),
        (b"<html><body>no trace</body></html>", "no line of it"),
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "twice"),
        (gzip.compress(b"x" * 1000, mtime=0)[:20] + b"\xff" * 20, "broken"),
        (b"\x0a\x05\x01\x02\x03\x04\x05\x99\x99\x99\x00\x00", "packet"),
        (b"\x0a\x07\xaa\x08\x03\x28\xb5\x2f\xfd", "zstd"),
    ],
)
def test_what_is_no_trace(data: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(said)) as caught:
        read(data)
    assert caught.value.location is not None
    assert caught.value.hint is not None


def test_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ftrace(table(SIMPLE)))))
    assert inclusive(analyse(open_trace("-"))) == {"LR_PP": 20}


def test_perfetto_fields_in_any_order() -> None:
    from circletools.trace.sources.wire import field_bytes, field_number  # noqa: PLC0415

    parts = [
        field_number(1, 10 * US),
        field_number(2, 100001),
        field_bytes(3, field_bytes(2, b"B|1000|[NN_LR_PP]p\n") + field_number(1, 7)),
        field_number(5, 9),
    ]
    for order in permutations(parts):
        event = field_bytes(2, b"".join(order))
        packet = field_bytes(1, field_bytes(1, field_number(1, 3) + event))
        assert read_events(packet) == [(10 * US, 100001, 1000, "B", b"[NN_LR_PP]p")]


# --- invariants -----------------------------------------------------------------------------------------------------

_TEXTS = [
    *(f"[NN_{layer}_{phase}]f" for layer in LAYERS for phase in (*PHASES, "PU") if (layer, phase) != ("LA", "PO")),
    *(f"[SW][NN_{layer}_{phase}]f" for layer in ("LR", "LC", "LD") for phase in ("PIO", "PTR", "PCO", "PE")),
    *(f"[SUB][NN_{layer}_{phase}]f" for layer in ("LA", "LR", "LI") for phase in ("PC", "PE", "PP")),
    "HIDL::IPreparedModel::execute::client", "AIDL::ndk::IDevice::prepareModel::client",
    "[NN_LU_PU]u", "[NN_LO_PO]o", "foreign", "[NN_LR_PX]unknown", "[NN_LR", "",
]  # fmt: skip
_CALL = "HIDL::IPreparedModel::execute::server"


@st.composite
def traces(draw: st.DrawFn) -> list[Ev]:
    """Draw events of a few threads, the last of them in a driver."""
    at, found = 0, []
    for _ in range(draw(st.integers(1, 60))):
        at += draw(st.integers(0, 5))
        tid = draw(st.sampled_from([100001, 100002, 200001]))
        ends = draw(st.integers(0, 9)) < 4
        found.append(Ev(at, tid, None if ends else draw(st.sampled_from([*_TEXTS, _CALL] if tid > 2e5 else _TEXTS))))
    return found


@settings(max_examples=200)
@given(traces())
def test_times_are_those_of_a_slow_reading(trace: list[Ev]) -> None:
    found = total(read(trace))
    driver = 2000 if any(event.text == _CALL for event in trace) else 0
    own_times, whole = slow(trace, driver)
    assert found.own == {bucket: ns for bucket, ns in own_times.items() if ns}
    assert found.inclusive == {bucket: ns for bucket, ns in whole.items() if ns}


_EXECUTIONS = [
    "[NN_LA_PO]m", "[NN_LA_PWU]w", "[NN_LA_PBM]b", "[NN_LA_PE]e",
    *(f"[NN_LR_PE]ANeuralNetworksExecution_{name}"
      for name in ("startCompute", "compute", "startComputeWithDependencies")),
    "[NN_LR_PE]ANeuralNetworksEvent_wait", "HIDL::IExecutionCallback::notify::client", _CALL,
]  # fmt: skip


@st.composite
def executing(draw: st.DrawFn) -> list[Ev]:
    """Draw traces of the same kind with runs, phases and executions."""
    trace = draw(traces())
    texts = [draw(st.sampled_from(_EXECUTIONS)) if draw(st.booleans()) else event.text for event in trace]
    return [
        event if event.text is None else event._replace(text=text) for event, text in zip(trace, texts, strict=True)
    ]


@settings(max_examples=150)
@given(executing())
def test_self_times_sum_to_covered_time_and_nothing_is_negative(trace: list[Ev]) -> None:
    found = read(trace)
    for part in [*found.tables.values(), *found.execution_tables.values()]:
        assert sum(part.own.values()) == part.covered_ns
        assert min([*part.own.values(), *part.inclusive.values(), *part.waiting.values()], default=0) >= 0
        assert all(part.inclusive[bucket] >= ns for bucket, ns in part.own.items())
        assert all(part.own[bucket] >= ns for bucket, ns in part.waiting.items())
    assert all(one.elapsed_ns >= 0 for one in found.executions)
    span = (trace[-1].at - trace[0].at) * US
    assert total(found).covered_ns <= span * len({event.tid for event in trace})
    assert sum(one.own_ns for one in found.functions) <= total(found).covered_ns


@settings(max_examples=150)
@given(executing(), st.randoms(use_true_random=False))
def test_the_order_of_lines_of_unrelated_threads_does_not_matter(trace: list[Ev], random: object) -> None:
    threads = sorted({event.tid for event in trace})
    alone = [event._replace(at=event.at * 3 + threads.index(event.tid)) for event in trace]
    shuffled = sorted(alone, key=lambda event: threads.index(event.tid))
    assert _without_places(alone) == _without_places(shuffled)


def _without_places(trace: list[Ev]) -> dict[str, object]:
    found = trace_json(read(trace), per_execution=True)
    return {key: found[key] for key in ("runs", "executions", "functions", "driver_executions")} | {
        "codes": sorted((one["code"], one["count"]) for one in found["diagnostics"])
    }


@pytest.mark.parametrize(
    "ending", ["ftrace", "html", "pftrace", "z.pftrace", "ctrace", "ftrace.gz", "chrome", "track"]
)
def test_a_cut_anywhere_gives_a_value_or_one_error(ending: str) -> None:
    if ending in ("chrome", "track"):
        trace = open_trace(ftrace(table(SIMPLE)))
        parts = chrome_parts if ending == "chrome" else perfetto_parts
        data = b"".join(parts(trace, analyse(trace)))
    else:
        data = encoded(workload(20, per_run=1), ending)
    values = 0
    for cut in range(0, len(data), max(1, len(data) // 250)):
        try:
            found = read(data[:cut])
        except CircleToolsError:
            continue
        values += 1
        list(trace_text(trace_json(found)))
    assert ending == "chrome" or values > 50


def test_a_cut_at_any_line_keeps_what_was_before() -> None:
    whole = list(workload(40, per_run=1))
    covered = [total(read(encoded(whole[:cut], "ftrace"))).covered_ns for cut in range(1, len(whole) + 1)]
    assert covered == sorted(covered)


@settings(max_examples=150)
@given(st.sampled_from(["ftrace", "html", "pftrace", "z.pftrace", "ctrace"]), st.data())
def test_damage_gives_a_value_or_one_error(ending: str, data: st.DataObject) -> None:
    trace = bytearray(encoded(workload(20, per_run=1), ending))
    for _ in range(data.draw(st.integers(1, 8))):
        trace[data.draw(st.integers(0, len(trace) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(trace))
    except CircleToolsError:
        return
    document_ = trace_json(found, per_execution=True)
    list(trace_text(document_))
    list(trace_markdown(document_))
    trace_csv(document_, per_execution=True)


def test_times_that_cannot_be_true() -> None:
    far = [Ev(0, 100001, "[NN_LR_PP]p"), Ev(10**15, 100001, None)]
    many = [Ev(0, 100001 + at, "[NN_LR_PP]p") for at in range(90)]
    assert inclusive(read(far)) == {"LR_PP": 10**15}
    with pytest.raises(InvalidInputError, match="<bytes>: its times span 11574 days"):
        read([*many, Ev(10**15, 100001, None)])


# --- runs, executions -----------------------------------------------------------------------------------------------


def _execution(start: int, end: int) -> Execution:
    return Execution(1, 1, 1, "asynchronous", start, 0, 0, end)


def test_summaries() -> None:
    assert summarise([]) is None
    assert summarise(range(1, 11)) == Summary(count=10, total_ns=55, min_ns=1, median_ns=5, p90_ns=9, max_ns=10)
    assert summarise([7]) == Summary(count=1, total_ns=7, min_ns=7, median_ns=7, p90_ns=7, max_ns=7)
    assert most_at_once([_execution(0, 10), _execution(10, 20), _execution(20, 30)]) == 1
    assert most_at_once([_execution(0, 10), _execution(9, 20), _execution(9, 30)]) == 3


def test_executions_of_a_process_are_paired_in_order() -> None:
    start, wait = "[NN_LR_PE]ANeuralNetworksExecution_startCompute", "[NN_LR_PE]ANeuralNetworksEvent_wait"
    found = read(
        f"10 T1 B {start}\n11 T1 E\n20 T2 B {start}\n21 T2 E\n25 A1 B {start}\n26 A1 E\n"
        f"30 T1 B {wait}\n50 T2 B {wait}\n60 T1 E\n70 T2 E\n80 A1 B {wait}\n90 A1 E"
    )
    assert [(one.process, one.elapsed_ns // US) for one in found.executions] == [(1000, 50), (1000, 50), (3000, 65)]
    assert own(found)["LR_PE"] == 50 + 50 + 65
    assert codes(found) == ["T041"]


def test_a_start_that_is_never_waited_for_does_not_fly_on() -> None:
    found = read(
        """10 T1 B [NN_LA_PE]run
           20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
           30 T1 E
           90 T1 E"""
    )
    assert own(found) == {"LA_PE": 70, "LR_PE": 10}
    assert (found.executions, codes(found)) == ([], ["T040"])


def test_a_wait_extends_a_fenced_execution() -> None:
    found = read(
        """20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startComputeWithDependencies
           30 T1 E
           40 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait
           70 T1 E"""
    )
    assert [(one.kind, one.elapsed_ns) for one in found.executions] == [("fenced", 50_000)]
    assert codes(found) == []


def test_driver_executions_by_request_and_callback() -> None:
    found = read(
        """10 D1 B HIDL::IPreparedModel::execute::server
           15 D1 E
           20 D2 B [NN_LD_PE]run
           40 D2 B HIDL::IExecutionCallback::notify::client
           45 D2 E
           50 D2 E"""
    )
    calls, marks, callbacks = (found.driver.calls, found.driver.marks, found.driver.callbacks)
    spans = [(list(some.starts), list(some.ends)) for some in (calls, marks, callbacks)]
    assert spans == [([10 * US], [15 * US]), ([20 * US], [50 * US]), ([10 * US], [40 * US])]


def test_runs_of_two_processes_are_told_apart() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]one
           20 A1 B [NN_LA_PO]two
           30 T1 B [NN_LR_PP]p
           40 A1 B [NN_LR_PP]p
           45 T1 E
           50 A1 E
           60 T1 E
           70 A1 E"""
    )
    tables = {run_of(segment)[0]: part.inclusive for segment, part in found.tables.items()}
    assert [(run.name, run.process) for run in found.runs] == [("one", 1000), ("two", 3000)]
    assert tables == {
        0: {("LA", "PO"): 50_000, ("LR", "PP"): 15_000},
        1: {("LA", "PO"): 50_000, ("LR", "PP"): 10_000},
    }
    assert codes(found) == ["T041"]


def test_time_of_the_driver_belongs_to_the_run_begun_last() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]one
           20 A1 B [NN_LA_PO]two
           30 T1 B [NN_LA_PBM]b
           40 D1 B HIDL::IPreparedModel::execute::server
           60 D1 E
           70 T1 E
           80 T1 E
           90 A1 E"""
    )
    driver = {segment: part.own["LD", "PE"] for segment, part in found.tables.items() if ("LD", "PE") in part.own}
    assert driver == {found.runs[1].first_segment: 20 * US}


@pytest.mark.parametrize(("thread", "partial"), [("T1", ["one"]), ("A1", ["two"]), ("D1", ["two"])])
def test_the_run_that_is_cut_short(thread: str, partial: list[str]) -> None:
    found = read(
        f"""10 T1 B [NN_LA_PO]one
            20 A1 B [NN_LA_PO]two
            30 T1 E
            40 A1 E
            45 D1 B HIDL::IPreparedModel::execute::server
            50 {thread} B [NN_LC_PE]open
            55 D2 B foreign"""
        + "\n60 D1 E" * (thread != "D1")
    )
    assert [run.name for run in found.runs if run.partial] == partial


def test_a_switch_from_warm_up_to_benchmark() -> None:
    found = read(
        """10 T1 B [NN_LA_PO]m
           20 T1 B [NN_LA_PWU]w
           30 T1 B [SW][NN_LA_PBM]b
           60 T1 E
           70 T1 E
           80 T1 E"""
    )
    (run,) = found.runs
    assert (codes(found), run.seen) == (["T002"], {1, 2})
    phases = {segment - run.first_segment: part.own for segment, part in found.tables.items()}
    assert phases[1] == {("LA", "PWU"): 10 * US}
    assert phases[2] == {("LA", "PBM"): 30 * US}


# --- diagnostics ----------------------------------------------------------------------------------------------------

CASES = {
    "T001": "10 T1 B x\n20 T1 E",
    "T002": "10 T1 B [NN_LA_PO]m\n20 T1 E",
    "T010": "10 T1 E\n20 T1 B [NN_LR_PP]p\n30 T1 E",
    "T011": "10 T1 B [NN_LR_PP]p\n30 T2 B x",
    "T012": "10 T1 B [SW][NN_LC_PCO]p\n30 T1 E",
    "T020": "10 T1 B [NN_LR_PP]p\n20 T1 B [NN_LR_PC]p\n30 T1 E\n40 T1 E",
    "T021": "10 T1 B [NN_LC_PP]p\n20 T1 B [NN_LR_PP]p\n30 T1 E\n40 T1 E",
    "T022": "10 T1 B [NN_LX_PP]p\n20 T1 E",
    "T023": "10 T1 B [NN_LR]p\n20 T1 E",
    "T024": "10 T1 B [NN_LR_PU]p\n20 T1 E",
    "T030": "10 T1 B [NN_LI_PC]p\n20 T1 B [SUB][NN_LR_PC]p\n30 T1 E\n40 T1 E",
    "T031": "10 T1 B [NN_LA_PBM]p\n20 T1 E",
    "T032": "10 T1 B [NN_LA_PO]p\n15 T1 B [NN_LA_PBM]p\n20 T1 E\n30 T1 E",
    "T040": "10 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait\n20 T1 E",
    "T041": "10 T1 B [NN_LR_PP]p\n20 T1 E\n30 A1 B [NN_LR_PP]p\n40 A1 E",
    "T050": "10 T1 B HIDL::IDevice::prepareModel::client\n20 T1 E",
}


@pytest.mark.parametrize("code", CASES)
def test_every_diagnostic(code: str) -> None:
    found = read(CASES[code])
    assert code in codes(found)
    assert all(one.location.startswith("<bytes>") and one.hint and one.count for one in found.diagnostics)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"CPU:3 [LOST 39 EVENTS]\n", "T003"),
        (b"# entries-in-buffer/entries-written: 10/20   #P:8\n", "T003"),
        (b"CPU:1 [7 EVENTS DROPPED]\n", "T003"),
        (b"            task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: B|10\n", "T004"),
        (b"            task-1001  ( 1000) [003] ...1 5.x: tracing_mark_write: B|10|x\n", "T004"),
    ],
)
def test_diagnostics_of_the_recording(line: bytes, code: str) -> None:
    found = read(b"#\n" + line + b"".join(lines(table(SIMPLE))))
    (diagnostic,) = [one for one in found.diagnostics if one.code == code]
    assert (diagnostic.location, diagnostic.severity) == ("<bytes>:2", "error")


def test_a_loss_that_the_head_of_atrace_tells() -> None:
    data = b"TRACE:\n# tracer: nop\n# entries-in-buffer/entries-written: 10/20   #P:8\n"
    assert codes(read(data + b"".join(lines(table(SIMPLE))))) == ["T003"]


def test_every_code_has_a_case() -> None:
    assert CASES.keys() | {"T003", "T004"} == KINDS.keys()


def test_cases_that_are_alike_become_one() -> None:
    found = read("\n".join(f"{at} T1 B [NN_LX_PP]p\n{at} T1 E" for at in range(5)) + "\n9 T1 B [NN_LR_PP]p\n10 T1 E")
    assert [(one.code, one.count, one.location) for one in found.diagnostics] == [("T022", 5, "<bytes>:3")]


# --- exports and comparison -----------------------------------------------------------------------------------------


def exported(data: bytes, target: str) -> bytes:
    trace = open_trace(data)
    parts = chrome_parts if target == "chrome" else perfetto_parts
    return b"".join(parts(trace, analyse(trace)))


@pytest.mark.parametrize("target", ["chrome", "perfetto"])
@pytest.mark.parametrize("ending", ["ftrace", "pftrace"])
def test_an_export_says_the_same(target: str, ending: str) -> None:
    data = encoded(workload(300, per_run=5), ending)
    before, after = document(data), document(exported(data, target))
    for key in ("runs", "executions", "functions", "driver_executions", "diagnostics"):
        assert before[key] == after[key], key


@settings(max_examples=100)
@given(executing(), st.sampled_from(["chrome", "perfetto"]))
def test_slices_of_an_export_are_strictly_nested(trace: list[Ev], target: str) -> None:
    out = exported(ftrace(trace), target)
    depths: dict[int, int] = {}
    for event in events(open_trace(out)) if b"NN marks" in out or target == "chrome" else ():
        depths[event.tid] = depths.get(event.tid, 0) + (1 if event.kind == sources.BEGIN else -1)
        assert depths[event.tid] >= 0
    assert set(depths.values()) <= {0}


def test_what_a_chrome_export_holds() -> None:
    found = json.loads(exported(EXAMPLE.read_bytes(), "chrome"))["traceEvents"]
    begin = next(one for one in found if one.get("name") == "ANeuralNetworksCompilation_finish")
    assert begin["args"] == {"layer": "LR", "phase": "PC", "mark": "[NN_LR_PC]ANeuralNetworksCompilation_finish"}
    assert sum(one.get("ph") == "b" for one in found) == sum(one.get("ph") == "e" for one in found) == 7


def test_numbers_in_text() -> None:
    found = trace_json(read("10 T1 B [NN_LA_PE]e\n10 T1 B [NN_LR_PE]r\n30 T1 E\n30 T1 E"))
    rows = [line.split() for line in trace_text(found)]
    assert ["Application", "self", "-", "-"] in rows
    assert ["inclusive", "0.020"] in rows
    assert (milliseconds(-400), microseconds(-400), microseconds(1_234_567)) == ("0.000", "-0.400", "1234.567")
    assert (counted(1, "run"), counted(2000, "run")) == ("1 run", "2,000 runs")


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


# --- documents and public traces ------------------------------------------------------------------------------------


def test_the_table_of_diagnostics_is_true() -> None:
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(T\d+)` \| (\w+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert rows == [(code, kind.severity, kind.meaning, kind.hint) for code, kind in KINDS.items()]


def test_an_event_has_the_fields_that_others_use() -> None:
    assert Event._fields == ("t_ns", "tid", "tgid", "kind", "text", "where")


PUBLIC = (
    "syn3000.html",
    "syn3000.html.gz",
    "syn3000.ftrace",
    "syn3000.ctrace",
    "syn3000.pftrace",
    "syn3000.compressed.pftrace",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_trace_in_six_encodings(name: str, shared: Path) -> None:
    expected = document((shared / "traces" / "syn3000.ftrace").read_bytes())
    assert document((shared / "traces" / name).read_bytes()) == expected


# The public device trace. Where the older parser's output has none of its known defects, its totals (its `times`, in
# ms) must come out here; where they do not, this says why.
DIFFERENCES = {
    (0, "LI", "PI"): (82.768, 74.643, "it counts calls of IServiceManager and IBase, which are not of NN"),
    (0, "LD", "PI"): (74.512, 74.415, "the same, on the driver's side"),
    (0, "LA", "PE"): (39.159, 44.617, "those calls pause it there; here it goes on"),
    **{
        (run, "LD", "PE"): (old, new, "it ends where the callback begins; here, where the call ends")
        for run, (old, new) in enumerate(
            ((20.730, 20.836), (10.519, 10.609), (14.184, 14.339), (15.983, 16.151), (13.012, 13.145))
        )
    },
    **{
        (run, "LI", "PE"): (0.0, new, "it leaves the client's side of execute out")
        for run, new in enumerate((21.438, 11.286, 15.024, 16.719, 13.695))
    },
}


def test_the_public_device_trace_gives_its_totals(shared: Path) -> None:
    found = read((shared / "traces" / "omr1.html").read_bytes())
    reference = json.loads((shared / "traces" / "omr1.reference.json").read_bytes())
    assert len(reference) == len(found.runs) == 5
    seen = set()
    for run in found.runs:
        table_ = found.tables[run.first_segment].inclusive
        old = reference[run.index]["times"]
        for layer in LAYERS:
            for phase in (one for one in PHASES if one in old and not (layer != "LA" and one == "PO")):
                ours, theirs = table_.get((layer, phase), 0) / 1e6, old[phase][layer] or 0.0
                if (run.index, layer, phase) in DIFFERENCES:
                    was, now, _ = DIFFERENCES[run.index, layer, phase]
                    assert [theirs, ours] == pytest.approx([was, now], abs=1e-3)
                    seen.add((run.index, layer, phase))
                elif "PWU" != phase != "PBM":
                    assert ours == pytest.approx(theirs, abs=1e-3), (run.index, layer, phase)
    assert seen == DIFFERENCES.keys()
    calls = found.driver.callbacks
    by_callback = [(end - start) / 1e6 for start, end in zip(calls.starts, calls.ends, strict=True)]
    assert by_callback == pytest.approx([20.730, 10.519, 14.184, 15.983, 13.012], abs=1e-3)


def test_a_perfetto_export_is_known_whatever_its_first_length() -> None:
    """The second byte is a length, and may be that of `<`."""
    begins = set()
    for length in range(60):
        line = f" {'a' * length}-7 (    7) [000] ...1 "
        text = f"{line}1.0: tracing_mark_write: B|7|[NN_LR_PE]x\n{line}2.0: tracing_mark_write: E|7\n"
        trace = open_trace(text.encode())
        exported = b"".join(perfetto_parts(trace, analyse(trace)))
        begins.add(exported[:2])
        assert open_trace(exported).encoding == "Perfetto"
    assert b"\n<" in begins


def test_a_thread_past_32_bits_is_no_other_thread() -> None:
    line = " a-{} ({}) [000] ...1 {}.000000: tracing_mark_write: "
    rows = [line.format(tid, tid, at) + "B|7|[NN_LR_PE]x\n" for at, tid in ((2, 7), (1, (1 << 32) + 7))]
    analysis = analyse(open_trace("".join(rows).encode()))
    assert analysis.threads <= {7}
    assert any(diagnostic.code.startswith("T") for diagnostic in analysis.diagnostics)
