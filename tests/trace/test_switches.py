"""Lines of switches, one by one: their columns, times and lengths."""

from __future__ import annotations

import pytest

from circletools.trace.sources.batch import Trace
from circletools.trace.sources.switches import note_switches

Row = tuple[int, int, int, bool]
S = "sched_switch: prev_comm=a b prev_pid=70 prev_prio=120 prev_state=R+ ==> next_comm=c next_pid=8 next_prio=98"
W = "sched_waking: comm=a b pid=9 prio=120 target_cpu=001"


def read(*lines: str, ending: str = "\n") -> list[Row]:
    trace = Trace("name", "", "line", lambda _: iter(()), 0)
    note_switches(trace, ("\n".join(lines) + ending).encode())
    return trace.switches.rows()


def line(stamp: str, event: str = S, task: str = "app-70") -> str:
    return f"{task} [001] d..2 {stamp}: {event}"


@pytest.mark.parametrize(
    ("stamp", "t_ns"),
    [
        ("3.000050", 3_000_050_000), ("0.000000", 0), ("1234567.654321", 1_234_567_654_321_000),
        ("12345678.654321", 12_345_678_654_321_000), ("123456789.000001", 123_456_789_000_001_000),
        ("5.000000123", 5_000_000_123), ("5.1234567", 5_123_456_700), ("17.12345678", 17_123_456_780),
        ("4611686018.427387903", -1), ("1234567890.000001", -1), ("3.00005", -1), ("x3.000050", -1), ("soon", -1),
    ],
)  # fmt: skip
def test_times(stamp: str, t_ns: int) -> None:
    assert read(line(stamp)) == ([(t_ns, 70, 8, True)] if t_ns >= 0 else [])


def test_a_time_at_the_start_of_a_line() -> None:
    assert read(f" 3.000050: {W}") == [(3_000_050_000, -1, 9, True)]
    assert read("# head", f" 3.000050: {W}", f"     3.000051: {W}", f"      3.000052: {W}") == [
        (3_000_050_000, -1, 9, True), (3_000_051_000, -1, 9, True), (3_000_052_000, -1, 9, True),
    ]  # fmt: skip
    assert read(f"3.000050: {W}") == []


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (S, (70, 8, True)), (W, (-1, 9, True)), (W.replace("waking", "wakeup"), (-1, 9, True)),
        (W.replace("waking", "wakeup_new"), (-1, 9, True)),
        (S.replace("R+", "S"), (70, 8, False)), (S.replace("R+", "D|K"), (70, 8, False)),
        (S.replace("next_pid=8", "next_pid=0"), (70, 0, True)),
        (S.replace("prev_pid=70", "prev_pid=0"), (0, 8, True)),
        ("sched_switch: a b:70 [120] R ==> c:8 [98]", (70, 8, True)),
        ("sched_switch: a b:70 [-1] S ==> c:8 [98]", (70, 8, False)),
        ("sched_waking: a b:9 [120] success=1 CPU:001", (-1, 9, True)),
        ("sched_stat_runtime: comm=a pid=7 runtime=5 [ns]", None), (S.replace("next_pid=8", "next_pid=x"), None),
        ("sched_wakeful: comm=a pid=7 prio=1", None), ("sched_switch", None),
        ("sched_process_fork: comm=a pid=1", None),
    ],
)  # fmt: skip
def test_events(event: str, told: tuple[int, int, bool] | None) -> None:
    wanted = [] if told is None else [(3_000_050_000, *told)]
    assert read(line("3.000050", event)) == wanted
    assert read("# tracer: nop", line("3.000050", event), "other", ending="") == wanted


@pytest.mark.parametrize("before", [(), ("# a line",), ("# a line", "")])
def test_how_long_a_line_may_be(before: tuple[str, ...]) -> None:
    for extra, kept in ((0, True), (1, False)):
        one = line("3.000050", W)
        one += "x" * (512 + extra - len(one))
        assert read(*before, one, line("3.000060", W)) == [
            *([(3_000_050_000, -1, 9, True)] if kept else []), (3_000_060_000, -1, 9, True),
        ]  # fmt: skip
