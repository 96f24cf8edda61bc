"""Hostile traces: text, pages, JSON, protobuf, and what they are packed in."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from functools import cache

from circletools.trace.sources.wire import field_bytes, field_number, number_bytes
from tests.kit.attacks.attack import Attack

_DEEP = 100_000
_MARKS = 20_000
_REFUSED = {"trace-stats": 3, "trace-export": 3, "trace-compare": 3}
_ZERO_BYTES, _BOMB_BYTES = 128 << 20, 16 << 20


def traces() -> list[Attack]:
    """Return all of them."""
    return [*_texts(), *_pages(), *_packings(), *_chrome(), *_perfetto(), *_operators()]


def line(seconds: str, mark: str, tid: int = 7) -> str:
    """Return a line of ftrace."""
    return f" app-{tid} ({tid:5}) [000] ...1 {seconds}: tracing_mark_write: {mark}\n"


def _lines(marks: Callable[[int], str], count: int) -> bytes:
    return "".join(line(f"{1 + at // 1000000}.{at % 1000000:06}", marks(at)) for at in range(count)).encode()


def _text(
    name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int], kind: str = "trace-text"
) -> Attack:
    return Attack(name, kind, message, make, expect)


def _texts() -> list[Attack]:
    one = line("1.000000", "B|7|[NN_LR_PE]x")
    return [
        _text("marks-deep", "marks nested 20,000 deep", lambda: _nested("[NN_LR_PE]f"), {"trace-stats": 0}),
        _text("marks-deep-sub", "[SUB] marks nested 20,000 deep", lambda: _nested("[SUB][NN_LR_PE]f"), {}),
        _text("marks-deep-mixed", "marks of all layers, nested 20,000 deep", _mixed, {}),
        _text("ends-only", "20,000 ends without a begin", lambda: _lines(lambda at: "E|7", _MARKS), {}),
        _text("names-distinct", "20,000 different marks", lambda: _lines(_distinct, _MARKS), {}),
        _text(
            "time-absurd",
            "a time of 99,999,999,999 seconds, past what 64 bits hold",
            (one + line("99999999999.999999999", "E|7")).encode,
            {},
        ),
        _text("time-digits", "a time of a million digits", (one + line("9" * 10**6 + ".0", "E|7")).encode, {}),
        _text("time-back", "times that go backwards, 20,000 of them", _backwards, {}),
        _text(
            "thread-huge",
            "thread and process 9,999,999,999",
            lambda: line("1.000000", "B|9999999999|[NN_LR_PE]x", 9999999999).encode(),
            {},
        ),
        _text("threads-many", "20,000 threads", _threads, {}),
        _text("line-long", "a line of 12 MB", lambda: one.encode() + b"x" * (12 << 20) + b"\n" + one.encode(), {}),
        _text(
            "lost-many", "a megabyte of lost events", lambda: one.encode() + b"CPU:1 [LOST 1 EVENTS]\n" * 50_000, {}
        ),
        _text("bars", "a megabyte of bars", lambda: one.encode() + b" B|" * 350_000, {}),
        _text("spaces", "an almost mark with a megabyte of spaces", f" a-1 ({' ' * (1 << 20)} B|".encode, {}),
        _text(
            "dashes", "a task name of a megabyte of dashes and digits", lambda: b" -1" * 350_000 + one.encode(), {}
        ),
        _text(
            "mark-commands",
            "a mark that would command a terminal",
            lambda: line("1.000000", "B|7|[NN_LR_PE]\x1b]0;x\x07\x9b2J").encode() + line("1.000001", "E|7").encode(),
            {},
        ),
        _text("nothing", "no byte at all", lambda: b"", _REFUSED),
        _text("noise", "random bytes", lambda: zlib.compress(bytes(range(256)) * 40)[2:], _REFUSED),
    ]


def _nested(name: str) -> bytes:
    return _lines(lambda at: f"B|7|{name}{at % 3}" if at < _MARKS else "E|7", 2 * _MARKS)


def _mixed() -> bytes:
    layers, phases = ("LA", "LR", "LI", "LD", "LC", "LU", "LO"), ("PO", "PI", "PC", "PE", "PIO", "PT", "PU")

    def mark(at: int) -> str:
        return f"B|7|[NN_{layers[at % 7]}_{phases[at // 7 % 7]}]f" if at < _MARKS else "E|7"

    return _lines(mark, 2 * _MARKS)


def _distinct(at: int) -> str:
    return "E|7" if at % 2 else f"B|7|[NN_LR_PE]f{at}"


def _backwards() -> bytes:
    rows = [line(f"{20_000 - at}.000000", "E|7" if at % 2 else "B|7|[NN_LR_PE]x") for at in range(20_000)]
    return "".join(rows).encode()


def _threads() -> bytes:
    return "".join(line(f"1.{at:06}", f"B|{at}|[NN_LR_PE]x", at) for at in range(1, 20_001)).encode()


def _pages() -> list[Attack]:
    def page(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
        return _text(name, message, make, expect, "trace-html")

    script = b'<script class="trace-data" type="application/text">\n'
    one = line("1.000000", "B|7|[NN_LR_PE]x").encode() + line("1.000001", "E|7").encode()
    return [
        page("page-deep", "elements nested 100,000 deep", lambda: b"<html>" + b"<div>\n" * _DEEP, _REFUSED),
        page("page-scripts", "100,000 scripts of traces, none closed", lambda: b"<html>" + script * _DEEP, {}),
        page("page-one-line", "a page in one line of 20 MB", lambda: b"<html>" + b"<b>x</b>" * 2_600_000, _REFUSED),
        page("page-open", "a script that is not closed", lambda: b"<html>" + script + one, {"trace-stats": 1}),
        page(
            "page-closings",
            "100,000 scripts on one line",
            lambda: b"<html>\n" + script + one + (script[:-1] + b"</script>") * _DEEP,
            {},
        ),
    ]


@cache
def _zeros(window_bits: int) -> bytes:
    return _squeezed(bytes(1 << 20), window_bits, _ZERO_BYTES)


def _squeezed(block: bytes, window_bits: int, most: int = _BOMB_BYTES) -> bytes:
    """Return what unpacks to much of a block again and again."""
    engine = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    times = (8 << 20) // len(block)
    first = engine.compress(block * times) + engine.flush(zlib.Z_FULL_FLUSH)
    again = engine.compress(block * times) + engine.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so that a piece may be repeated; the checksum at the end is left out.
    return first + again * (most // (8 << 20) - 1)


def _packings() -> list[Attack]:
    def packing(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
        return _text(name, message, make, expect, "trace-packed")

    block = (line("1.000000", "B|7|[NN_LR_PE]x") + line("1.000000", "E|7")).encode()
    block *= (1 << 20) // len(block)
    shell = b"capturing trace... done\nTRACE:\n"
    return [
        packing("gzip-bomb", "130 kB of gzip that unpack to 128 MiB of zeros", lambda: _zeros(31), _REFUSED),
        packing("gzip-bomb-lines", "gzip of 16 MiB of marks", lambda: _squeezed(block, 31), _REFUSED),
        packing(
            "gzip-bomb-json", "gzip of 16 MiB of JSON", lambda: _squeezed(b'{"a": 1},\n' * 100_000, 31), _REFUSED
        ),
        packing(
            "gzip-members", "20,000 empty members of gzip", lambda: gzip.compress(b"", mtime=0) * 20_000, _REFUSED
        ),
        packing(
            "gzip-twice", "gzip in gzip", lambda: gzip.compress(gzip.compress(block, mtime=0), mtime=0), _REFUSED
        ),
        packing(
            "gzip-broken", "gzip with noise in the middle", lambda: _noisy(gzip.compress(block, mtime=0)), _REFUSED
        ),
        packing("gzip-empty", "a gzip header and nothing else", lambda: b"\x1f\x8b\x08" + bytes(7), _REFUSED),
        packing("atrace-bomb", "atrace -z of 128 MiB of zeros", lambda: shell + _zeros(15), _REFUSED),
        packing("atrace-bomb-lines", "atrace -z of 16 MiB of marks", lambda: shell + _squeezed(block, 15), _REFUSED),
        packing(
            "atrace-broken", "atrace -z with noise in it", lambda: shell + _noisy(zlib.compress(block)), _REFUSED
        ),
        packing("zstd", "the first bytes of zstd", lambda: b"\x28\xb5\x2f\xfd" + bytes(20), _REFUSED),
    ]


def _noisy(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes(byte ^ 0x5A for byte in packed[middle : middle + 16]) + packed[middle + 16 :]


def _chrome() -> list[Attack]:
    def chrome(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
        return _text(name, message, make, expect, "trace-chrome")

    def event(**fields: str) -> bytes:
        given = {"ph": '"B"', "ts": "1", "tid": "7", "pid": "7", "name": '"[NN_LR_PE]x"'} | fields
        body = ", ".join(f'"{key}": {value}' for key, value in given.items())
        return f'{{"traceEvents": [{{{body}}}]}}'.encode()

    return [
        chrome("json-deep", "arrays nested 100,000 deep", lambda: b"[" * _DEEP, _REFUSED),
        chrome("json-deep-objects", "objects nested 100,000 deep", lambda: b'{"a":' * _DEEP, _REFUSED),
        chrome("json-integer", "an integer of 100,000 digits", lambda: event(ts="9" * _DEEP), {}),
        chrome("json-digits", "a number with 100,000 decimals", lambda: event(ts="1." + "9" * _DEEP), {}),
        chrome("json-exponent", "a time of 1e999999999", lambda: event(ts="1e999999999"), {}),
        chrome("json-exponent-small", "a time of 1e-999999999", lambda: event(ts="1e-999999999"), {}),
        chrome("json-exponent-absurd", "an exponent of 40 digits", lambda: event(ts="1e" + "9" * 40), {}),
        chrome("json-thread", "a thread of 2^64", lambda: event(tid=str(1 << 64)), {}),
        chrome(
            "json-nan", "NaN, Infinity and null as times", lambda: event(ts="NaN", tid="Infinity", pid="null"), {}
        ),
        chrome("json-surrogate", "a name that is half a character", lambda: event(name='"[NN_LR_PE]\\ud800"'), {}),
        chrome(
            "json-keys", "an object of 200,000 equal keys", lambda: b"{" + b'"a":1,' * 200_000 + b'"a":1}', _REFUSED
        ),
    ]


def _perfetto() -> list[Attack]:
    def perfetto(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
        return _text(name, message, make, expect, "trace-perfetto")

    def bomb(content: bytes) -> bytes:
        return _packet(field_bytes(50, content))

    marks = _packet(field_bytes(1, _event(1, b"B|7|[NN_LR_PE]x") + _event(1, b"E|7"))) * 16384
    huge = _event((1 << 64) - 1, b"B|7|[NN_LR_PE]x", tid=(1 << 64) - 1)
    tree = field_bytes(2, field_bytes(1, field_number(1, (1 << 64) - 1) + field_number(2, 1)))
    threads = field_bytes(2, field_bytes(2, field_number(1, 7) + field_number(3, (1 << 64) - 1)))
    good = _event(1, b"B|7|[NN_LR_PE]x") + _event(2, b"E|7")
    return [
        perfetto("packet-bomb", "a compressed packet of 128 MiB of zeros", lambda: bomb(_zeros(15)), _REFUSED),
        perfetto(
            "packet-bomb-marks",
            "a compressed packet of 16 MiB of marks",
            lambda: bomb(_squeezed(marks, 15)),
            _REFUSED,
        ),
        perfetto(
            "packet-bombs",
            "20 compressed packets of 16 MiB each",
            lambda: bomb(zlib.compress(field_bytes(1, bytes(16 << 20)), 9)) * 20,
            _REFUSED,
        ),
        perfetto("packet-in-packet", "compressed packets, 200 in each other", _nested_packets, {}),
        perfetto("varint-endless", "a varint that never ends", lambda: b"\x0a" + b"\xff" * 100_000, {}),
        perfetto("packet-long", "a packet of 2^63 bytes", lambda: b"\x0a" + number_bytes(1 << 63) + bytes(100), {}),
        perfetto("packet-empty", "200,000 empty packets", lambda: b"\x0a\0" * 200_000, {}),
        perfetto("event-huge", "times and threads of 2^64-1", lambda: _packet(field_bytes(1, huge + good)), {}),
        perfetto(
            "tree-huge",
            "processes of 2^64-1",
            lambda: _packet(tree) + _packet(threads) + _packet(field_bytes(1, good)),
            {},
        ),
        perfetto(
            "events-numbers",
            "an event of 100,000 number fields",
            lambda: _packet(field_bytes(1, field_bytes(2, field_number(1, 5) + field_number(9, 1) * 100_000))),
            {},
        ),
        perfetto("groups", "groups, which no reader knows", lambda: _packet(b"\x0b" * 1000), {}),
    ]


def _packet(content: bytes) -> bytes:
    return field_bytes(1, content)


def _event(time: int, mark: bytes, tid: int = 7) -> bytes:
    return field_bytes(2, field_number(1, time) + field_number(2, tid) + field_bytes(3, field_bytes(2, mark + b"\n")))


def _nested_packets() -> bytes:
    content = _packet(field_bytes(1, _event(1, b"B|7|[NN_LR_PE]x") + _event(2, b"E|7")))
    for _ in range(200):
        content = _packet(field_bytes(50, zlib.compress(content)))
    return content


def _operators() -> list[Attack]:
    def operator(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
        return _text(name, message, make, expect, "operators")

    refused = {"attribute": 3, "trace-compare": 3}

    def onert(**fields: object) -> Callable[[], bytes]:
        track = {"tid": "$0 sess, $0 subg, cpu", "name": "@2 Softmax"}
        rows = [{**track, "ph": phase, "ts": time, **fields} for phase, time in (("B", "1"), ("E", "9"))]
        return lambda: json.dumps(rows).encode()

    head = "============================== Operator-wise Profiling Info =============================="
    return [
        operator("onert-deep", "JSON nested 100,000 deep", lambda: b"[" * _DEEP, refused),
        operator("onert-time", "a time of 100,000 digits", onert(ts="9" * _DEEP), refused),
        operator("onert-index", "operator 999,999,999", onert(name="@999999999 Softmax"), {"attribute": 3}),
        operator(
            "onert-integer", "an integer of 100,000 digits", lambda: b'[{"ts": ' + b"9" * _DEEP + b"}]", refused
        ),
        operator("onert-track", "a track of a megabyte", onert(tid="$0 sess, $0 subg, " + "c" * (1 << 20)), {}),
        operator(
            "onert-sessions",
            "session 999,999,999 of subgraph 999,999,999",
            onert(tid="$999999999 sess, $999999999 subg, cpu"),
            {"attribute": 3},
        ),
        operator(
            "litert-deep",
            "operators of LiteRT nested 20,000 deep",
            lambda: _lines(lambda at: "B|7|Invoke@0/0" if at == 0 else f"B|7|ADD@{at % 9}/0", _MARKS),
            refused,
        ),
        operator(
            "report-numbers", "a report whose times are 1e999 and nan", lambda: _report(head, "1e999", "nan"), {}
        ),
        operator(
            "report-digits", "a report with a time of 10,000 digits", lambda: _report(head, "9" * 10_000, "1"), {}
        ),
    ]


def _report(head: str, first: str, average: str) -> bytes:
    columns = "[node type]\t[first]\t[avg ms]\t[%]\t[cdf%]\t[mem KB]\t[times called]\t[Name]"
    row = f"CONV_2D\t{first}\t{average}\t100%\t100%\t0\t1\t[a]:0"
    order = f"{'=' * 30} Run Order {'=' * 30}"
    return f"{head}\n{order}\n{columns}\n{row}\n".encode()
