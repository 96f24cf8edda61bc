"""Every encoding of an NNAPI trace gives the same result."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from itertools import permutations

import pytest

from benchmarks.traces import encoded, workload
from circletools.errors import InvalidInputError
from circletools.render.trace_slices import perfetto_parts
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import content, events, open_trace
from circletools.trace.sources.wire import field_bytes, field_number
from tests.kit.trace_support import EXAMPLE, SIMPLE, US, document, ftrace, inclusive, lines, read, table

ENDINGS = ("html", "ftrace", "html.gz", "ftrace.gz", "ctrace", "pftrace", "z.pftrace", "pftrace.gz")

SIMPLE_EVENTS = [
    (10 * US, 100001, 1000, "B", b"[NN_LR_PP]p"),
    (20 * US, 200001, 2000, "B", b"foreign"),
    (30 * US, 100001, 1000, "E", b""),
    (40 * US, 200001, 2000, "E", b""),
]


def read_events(data: bytes) -> list[tuple[int, int, int, str, bytes]]:
    return [event[:5] for event in events(open_trace(data))]


def test_the_example_is_what_its_generator_makes() -> None:
    assert EXAMPLE.read_bytes() == encoded(workload(120, per_run=6), "html")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_encoding_gives_the_same(ending: str) -> None:
    wanted = list(workload(300, per_run=5))
    expected = document(encoded(wanted, "ftrace"))
    assert expected["runs"]
    found = document(encoded(wanted, ending))
    assert found == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_pieces_of_any_size_give_the_same(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_texts_that_are_not_marks_are_ignored() -> None:
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
    page = b"<html>\n" + script + b"PROCESS DUMP\nroot 1000 1 7 7 w 0 S /bin/service@1.0 x\n</script>\n"
    page += script + ftrace(first) + b"</script>\n<p>B|1|\n" + script + ftrace(second) + b"</script>\n</html>\n"
    assert read_events(page) == SIMPLE_EVENTS
    assert [event.where for event in events(open_trace(page))] == [9, 10, 16, 17]
    found, cut = open_trace(page), open_trace(page[: page.rindex(b"</script>")])
    assert (analyse(found).diagnostics, found.thread_names[1000]) == ([], "/bin/service@1.0")
    assert [one.code for one in analyse(cut).diagnostics] == ["T003"]


def test_a_page_whose_scripts_end_within_a_line() -> None:
    first, second = table(SIMPLE)[:2], table(SIMPLE)[2:]
    page = b"<html>\n<script class='trace-data' type='application/text'>\n" + ftrace(first)[:-1] + b"</script><p>\n"
    page += b'<script class="trace-data">\n' + ftrace(second)[:-1] + b"</script>"
    found = list(events(open_trace(page)))
    assert [event[:5] for event in found] == SIMPLE_EVENTS
    texts = page.split(b"\n")
    assert all(b"0.0000%d0:" % (number + 1) in texts[event.where - 1] for number, event in enumerate(found))


def test_messages_of_atrace_before_the_trace() -> None:
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
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\x28\xb5\x2f\xfd rest", "zstd -dc"),
        (b"PK\x03\x04 rest", "ZIP"),
        (b"\x89PNG\r\n\0\0", "not a known"),
        (b'{"a": 1}', "JSON"),
        (b'{"a": ', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"hello\nworld\n", "contains no ftrace lines"),
        (b"<html><body>no trace</body></html>", "contains no ftrace lines"),
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "twice"),
        (gzip.compress(b"x" * 1000, mtime=0)[:20] + b"\xff" * 20, "corrupt"),
        (b"\x0a\x05\x01\x02\x03\x04\x05\x99\x99\x99\x00\x00", "packet"),
        (b"\x0a\x07\xaa\x08\x03\x28\xb5\x2f\xfd", "zstd"),
    ],
)
def test_files_that_are_not_traces(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)) as caught:
        read(data)
    assert caught.value.location is not None
    assert caught.value.hint is not None


def test_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ftrace(table(SIMPLE)))))
    assert inclusive(analyse(open_trace("-"))) == {"LR_PP": 20}


def test_perfetto_fields_in_any_order() -> None:
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
