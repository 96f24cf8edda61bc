"""Switches of threads in Perfetto traces, beside the same in ftrace text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from circletools.trace.nnapi.analysis import read_trace
from circletools.trace.sources import FaultKind, Trace, open_trace
from circletools.trace.sources.wire import field_bytes, field_number, number_bytes

SWITCH, WAKEUP, WAKING, WAKEUP_NEW = 4, 17, 20, 114
Row = tuple[int, int, int, int]
"""Time, the thread before (-1: what wakes one), its state, the thread after."""


def event(row: Row, kind: int = WAKING) -> bytes:
    """Return an event of ftrace, as Perfetto's probes write it."""
    t_ns, before, state, after = row
    if before >= 0:
        inner = field_bytes(1, b"app") + field_number(2, before) + field_number(3, 120) + field_number(4, state)
        inner += field_bytes(5, b"next") + field_number(6, after) + field_number(7, 98)
    else:
        inner = field_bytes(1, b"app") + field_number(2, after) + field_number(3, 120) + field_number(5, 1)
    said = field_bytes(SWITCH if before >= 0 else kind, inner)
    return field_bytes(2, field_number(1, t_ns) + field_number(2, max(before, 1)) + field_number(5, 1) + said)


def mark(t_ns: int, tid: int, text: str) -> bytes:
    said = field_bytes(3, field_number(1, 1) + field_bytes(2, text.encode() + b"\n"))
    return field_bytes(2, field_number(1, t_ns) + field_number(2, tid) + said)


def packed(number: int, values: Iterable[int]) -> bytes:
    return field_bytes(number, b"".join(map(number_bytes, values)))


def deltas(times: Sequence[int]) -> list[int]:
    return [time - before for before, time in zip([0, *times], times, strict=False)]


def compact(switches: Sequence[tuple[int, int, int]], wakes: Sequence[tuple[int, int]] = ()) -> bytes:
    """Return the compact form of switches (time, state, thread after) and of what wakes threads."""
    columns = field_bytes(5, b"app") + packed(1, deltas([one[0] for one in switches]))
    columns += packed(2, (one[1] for one in switches)) + packed(3, (one[2] for one in switches))
    columns += packed(4, [98] * len(switches)) + packed(6, [0] * len(switches))
    columns += packed(7, deltas([one[0] for one in wakes])) + packed(8, (one[1] for one in wakes))
    return field_bytes(4, columns)


def bundle(*parts: bytes, cpu: int = 0) -> bytes:
    return field_bytes(1, field_bytes(1, field_number(1, cpu) + b"".join(parts)))


MARKS = (mark(100, 7, "B|5|[NN_LR_PP]p"), mark(900, 7, "E|5"))


def rows(*packets: bytes) -> list[tuple[int, int, int, bool]]:
    return read(*packets).switches.rows()


def read(*packets: bytes) -> Trace:
    trace = open_trace(b"".join((*packets, bundle(*MARKS, cpu=9))))
    list(trace.batches())
    return trace


def test_events_of_ftrace() -> None:
    told = [(200, 7, 0, 300), (10**15, 300, 0x100, 1 << 30), (300, 8, 2, 0), (400, 9, 0x101, 127)]
    assert rows(bundle(*map(event, told))) == [
        (200, 7, 300, True), (10**15, 300, 1 << 30, True), (300, 8, 0, False), (400, 9, 127, False),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [WAKEUP, WAKING, WAKEUP_NEW])
def test_what_wakes_a_thread(kind: int) -> None:
    trace = read(bundle(event((200, -1, 0, 300), kind)))
    assert trace.switches.rows() == [(200, -1, 300, True)]
    assert not trace.switches


def test_other_events_are_none() -> None:
    other = field_bytes(2, field_number(1, 5) + field_number(2, 7) + field_bytes(18, field_number(2, 9)))
    broken = field_bytes(2, field_number(1, 5) + field_number(2, 7) + number_bytes(SWITCH << 3 | 2))
    no_time = field_bytes(2, field_number(2, 7) + field_bytes(SWITCH, field_number(2, 9)))
    late = event((1 << 62, 7, 0, 8))
    assert rows(bundle(other, broken, no_time, late, event((6, 7, 1, 8)))) == [(6, 7, 8, False)]


def test_the_compact_form() -> None:
    first = bundle(compact([(200, 1, 7), (250, 0, 8)], [(210, 9), (10**12, 300)]))
    other = bundle(compact([(300, 2, 20)]), cpu=1)
    then = bundle(compact([(400, 0x100, 300), (500, 1, 0)]))
    assert rows(first, other, then) == [
        (200, 0, 7, False), (250, 7, 8, True), (210, -1, 9, True), (10**12, -1, 300, True),
        (300, 0, 20, False),
        (400, 8, 300, True), (500, 300, 0, False),
    ]  # fmt: skip


def test_the_thread_before_a_loss_is_not_known() -> None:
    lost = bundle(field_number(3, 1), compact([(400, 1, 7)]))
    assert rows(bundle(compact([(200, 1, 8)])), lost, bundle(compact([(500, 1, 9)]))) == [
        (200, 0, 8, False), (400, 0, 7, False), (500, 7, 9, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "columns",
    [
        packed(1, [5]) + packed(2, [0]),
        packed(1, [5]) + packed(3, [7]),
        packed(2, [0]) + packed(3, [7]),
        packed(7, [5]),
        packed(8, [5]),
        field_bytes(7, b"\x85") + packed(8, [5]),
        packed(8, [5]) + b"\x0f",
    ],
)
def test_broken_columns(columns: bytes) -> None:
    trace = read(bundle(field_bytes(4, columns)))
    assert trace.switches.rows() == []
    assert [(fault.kind, fault.where) for fault in trace.faults] == [(FaultKind.MALFORMED, 0)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", ["events", "compact"])
def test_the_same_in_text_and_perfetto(seed: int, form: str) -> None:
    made = random.Random(seed)  # noqa: S311 - no secret
    time, running, told = 1000, [0, 0], list[tuple[int, Row]]()
    lines, marks, depth = list[tuple[int, str]](), list[bytes](), dict.fromkeys((7, 8), 0)
    for _ in range(300):
        time += made.randrange(1, 9) * 1000
        cpu, tid, after = made.randrange(2), made.choice((7, 8)), made.choice((0, 7, 8, 9))
        if made.random() < 0.4:
            begins = not depth[tid] or made.random() < 0.5
            depth[tid] += 1 if begins else -1
            text = f"B|5|[NN_L{made.choice('RCI')}_PE]x" if begins else "E|5"
            marks.append(mark(time, tid, text))
            lines.append((time, f"tracing_mark_write: {text}"))
            head = tid
        elif made.random() < 0.7:
            state = made.choice((0, 1, 2, 0x100))
            before, running[cpu] = running[cpu], after
            told.append((cpu, (time, before, state, after)))
            letter = {0: "R", 1: "S", 2: "D", 0x100: "R+"}[state]
            head, text = before, f"prev_comm=a prev_pid={before} prev_prio=120 prev_state={letter} ==> next_comm=b "
            lines.append((time, f"sched_switch: {text}next_pid={after} next_prio=1"))
        else:
            told.append((cpu, (time, -1, 0, after)))
            lines.append((time, f"sched_waking: comm=b pid={after} prio=120 target_cpu=001"))
            head = 1
        lines[-1] = time, f"{'app':>16}-{head:<5} (    5) [000] ...1 0.{time // 1000:06}: {lines[-1][1]}\n"
    text_trace = "# tracer: nop\n" + "".join(line for _, line in lines)
    packets = [bundle(*marks, cpu=5)]
    for cpu in (0, 1):
        mine = [row for one, row in told if one == cpu]
        for some in (mine[:40], mine[40:]):
            switches = [(row[0], row[2], row[3]) for row in some if row[1] >= 0]
            wakes = [(row[0], row[3]) for row in some if row[1] < 0]
            parts = map(event, some) if form == "events" else [compact(switches, wakes)]
            packets.append(bundle(*parts, cpu=cpu))
    expected = read_trace(text_trace.encode()).scheduling
    assert expected
    assert read_trace(b"".join(packets)).scheduling == expected
