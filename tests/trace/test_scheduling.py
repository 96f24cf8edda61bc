"""What threads did in the time of their scopes, by the kernel's switches."""

from __future__ import annotations

import random

import pytest

from circletools.render.trace_tables import trace_text
from circletools.render.traces import trace_json
from circletools.trace.nnapi.analysis import Analysis, read_trace
from circletools.trace.nnapi.scheduling import Scheduled

HEAD = "# tracer: nop\n"
SWITCH = (
    "sched_switch: prev_comm=a b prev_pid={} prev_prio=120 prev_state={} ==> next_comm=c next_pid={} next_prio=98"
)


def at(microseconds: int, event: str, tid: int = 7) -> str:
    return f"  nn app-{tid} (5) [001] d..2 3.{microseconds:06}: {event}\n"


def mark(microseconds: int, text: str | None, tid: int = 7) -> str:
    return at(microseconds, f"tracing_mark_write: {'E|5' if text is None else f'B|5|{text}'}", tid)


def switch(microseconds: int, before: int, state: str, after: int) -> str:
    return at(microseconds, SWITCH.format(before, state, after), before)


def wake(microseconds: int, tid: int, kind: str = "waking") -> str:
    return at(microseconds, f"sched_{kind}: comm=a b pid={tid} prio=120 target_cpu=001", 1)


def analysed(*lines: str) -> Analysis:
    return read_trace((HEAD + "".join(sorted(lines, key=lambda line: line.split(": ")[0][-8:]))).encode())


def times(analysis: Analysis) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """Return microseconds of running, runnable, blocked and unknown by layer and phase."""
    return {
        (one.layer, one.phase): (
            one.running_ns // 1000, one.runnable_ns // 1000, one.blocked_ns // 1000, one.unknown_ns // 1000
        )
        for one in analysis.scheduling
    }  # fmt: skip


LAST, AWAY = switch(300, 7, "S", 1), switch(300, 1, "S", 2)
SCOPE = (mark(100, "[NN_LR_PP]prepare"), mark(200, None))


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ((switch(50, 1, "S", 7), LAST), (100, 0, 0, 0)),
        ((switch(50, 1, "S", 7), switch(120, 7, "S", 1), switch(150, 1, "S", 7), LAST), (70, 0, 30, 0)),
        ((switch(50, 1, "S", 7), switch(120, 7, "R+", 1), switch(150, 1, "S", 7), LAST), (70, 30, 0, 0)),
        ((switch(50, 1, "S", 7), switch(120, 7, "D", 1), wake(130, 7), switch(150, 1, "S", 7), AWAY),
         (70, 20, 10, 0)),
        ((switch(110, 7, "S", 1), switch(150, 1, "S", 7), switch(190, 1, "S", 2)), (40, 0, 40, 20)),
        ((switch(50, 3, "S", 2), switch(110, 7, "S", 1), switch(150, 1, "S", 7), AWAY), (60, 0, 40, 0)),
        ((switch(50, 3, "S", 2), switch(150, 1, "S", 7), AWAY), (50, 0, 0, 50)),
        ((wake(40, 7), switch(50, 3, "S", 2), switch(150, 1, "S", 7), AWAY, wake(400, 7)), (50, 50, 0, 0)),
        ((switch(50, 3, "S", 2), wake(130, 7), switch(150, 1, "S", 7), AWAY), (50, 20, 0, 30)),
        ((switch(50, 1, "S", 7), wake(120, 7), LAST), (100, 0, 0, 0)),
    ],
)  # fmt: skip
def test_states_of_a_thread(switches: tuple[str, ...], expected: tuple[int, ...]) -> None:
    assert times(analysed(*SCOPE, *switches)) == {("LR", "PP"): expected}


def test_switches_of_other_threads_say_nothing() -> None:
    assert times(analysed(*SCOPE, switch(50, 1, "S", 2), switch(300, 2, "S", 1))) == {}


def test_a_trace_without_switches_says_nothing() -> None:
    analysis = analysed(*SCOPE, wake(120, 7), wake(150, 7))
    assert analysis.scheduling == []
    assert "scheduling" not in trace_json(analysis)


@pytest.mark.parametrize("kind", ["waking", "wakeup", "wakeup_new"])
def test_trace_cmd_s_form(kind: str) -> None:
    lines = (
        at(50, "sched_switch:         a b:1 [120] S ==> nn app:7 [98]"),
        at(120, "sched_switch:         nn app:7 [98] S ==> a:1 [120]"),
        at(140, f"sched_{kind}:         nn app:7 [98] success=1 CPU:001"),
        at(150, "sched_switch:         a b:1 [-1] R ==> nn app:7 [98]"),
        at(300, "sched_switch:         nn app:7 [98] S ==> a:1 [120]"),
    )
    assert times(analysed(*SCOPE, *lines)) == {("LR", "PP"): (70, 10, 20, 0)}


def test_two_threads_and_nested_scopes() -> None:
    lines = (
        mark(100, "[NN_LA_PO]app"), mark(110, "[NN_LR_PP]x"), mark(150, None), mark(200, None),
        mark(120, "[NN_LR_PP]y", 8), mark(180, None, 8),
        switch(90, 1, "S", 7), switch(130, 7, "S", 8), switch(160, 8, "R", 7), switch(250, 7, "S", 1),
    )  # fmt: skip
    assert times(analysed(*lines)) == {("LA", "PO"): (50, 0, 10, 0), ("LR", "PP"): (20 + 30, 20, 20, 10)}


@pytest.mark.parametrize("seed", range(5))
def test_against_a_microsecond_at_a_time(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 - no secret
    marks, open_scopes = [mark(10, "[NN_LR_PP]a")], 1
    for moment in sorted(chosen.sample(range(11, 990), 60)):
        if open_scopes > 1 and chosen.random() < 0.5:
            marks.append(mark(moment, None))
            open_scopes -= 1
        else:
            marks.append(mark(moment, chosen.choice(("[NN_LR_PC]b", "[NN_LI_PC]c"))))
            open_scopes += 1
    marks += [mark(990 + at_end, None) for at_end in range(open_scopes)]
    state = ["running"] * 2000
    lines, current = [switch(1, 1, "S", 7)], "running"
    moments = sorted(chosen.sample(range(2, 1100), 80))
    for moment, after in zip(moments, [*moments[1:], 1200], strict=True):
        if current == "running":
            kind = chosen.choice("RS")
            lines.append(switch(moment, 7, kind, 1))
            current = "runnable" if kind == "R" else "blocked"
        elif current == "blocked" and chosen.random() < 0.5:
            lines.append(wake(moment, 7))
            current = "runnable"
        else:
            lines.append(switch(moment, 1, "S", 7))
            current = "running"
        state[moment:after] = [current] * (after - moment)
    lines.append(switch(1200, 3, "S", 4))
    analysis = analysed(*marks, *lines)
    found = [sum(column) for column in zip(*times(analysis).values(), strict=True)]
    within = state[10 : 990 + open_scopes - 1]
    assert found == [within.count("running"), within.count("runnable"), within.count("blocked"), 0]
    own = {(one.layer, one.phase): one.running_ns + one.runnable_ns + one.blocked_ns for one in analysis.scheduling}
    table = next(iter(analysis.tables.values()))
    assert own == {key: value for key, value in table.self_ns.items() if value}


def test_how_it_is_shown() -> None:
    analysis = analysed(
        *SCOPE, switch(50, 1, "S", 7), switch(120, 7, "S", 1), switch(150, 1, "S", 7), switch(190, 7, "S", 1)
    )
    assert analysis.scheduling == [Scheduled("LR", "PP", 60_000, 0, 30_000, 10_000)]
    document = trace_json(analysis)
    assert document["scheduling"] == [
        {
            "layer": "LR",
            "phase": "PP",
            "running_ns": 60_000,
            "runnable_ns": 0,
            "blocked_ns": 30_000,
            "unknown_ns": 10_000,
        }
    ]
    assert "scheduling" not in trace_json(analysis, "function")
    lines = list(trace_text(document))
    first = lines.index("self time of threads by what the kernel let them do, in ms")
    assert [line.split() for line in lines[first + 1 : first + 3]] == [
        ["layer", "phase", "running", "runnable", "blocked", "unknown"],
        ["Runtime", "Preparation", "0.060", "-", "0.030", "0.010"],
    ]
