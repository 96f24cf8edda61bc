"""Switches of threads in ftrace text: `sched_switch` and what wakes a thread, as the kernel and trace-cmd write them.

<...>-123 [001] d..2 5.000120: sched_switch: prev_comm=app prev_pid=123 prev_prio=120 prev_state=S ==>
next_comm=b next_pid=7 next_prio=120
app-123 [001] 5.000120: sched_switch: app:123 [120] S ==> b:7 [120]
b-7 [001] d.h4 5.000130: sched_waking: comm=app pid=123 prio=120 target_cpu=001
"""

from __future__ import annotations

import re

from circletools.trace.sources.batch import LATEST_NS, NO_THREAD, Trace

_EVENT = b": sched_"
_LONGEST = 512
_TIME = re.compile(rb" (\d{1,9})\.(\d{6,9})$")
_SWITCH = re.compile(
    rb"switch: +(?:prev_comm=.* prev_pid=(\d{1,9}) prev_prio=-?\d+ prev_state=(\S+) ==> "
    rb"next_comm=.* next_pid=(\d{1,9}) "
    rb"|.*:(\d{1,9}) \[-?\d+\] (\S+) ==> .*:(\d{1,9}) \[)"
)
_WAKING = re.compile(rb"(?:waking|wakeup|wakeup_new): +(?:comm=.* pid=(\d{1,9}) |.*:(\d{1,9}) \[)")


def note_switches(trace: Trace, data: bytes) -> None:
    """Note the switches of whole lines; a line that is longer than the kernel writes them is none."""
    at = data.find(_EVENT)
    while at >= 0:
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = end if end >= 0 else len(data)
        if end - start <= _LONGEST:
            _note(trace, data[start:at], data[at + len(_EVENT) : end])
        at = data.find(_EVENT, end)


def _note(trace: Trace, head: bytes, text: bytes) -> None:
    time = _TIME.search(head)
    match = _SWITCH.match(text) or _WAKING.match(text)
    if time is None or match is None:
        return
    t_ns = int(time[1]) * 1_000_000_000 + int(time[2]) * 10 ** (9 - len(time[2]))
    if t_ns >= LATEST_NS:
        return
    if match.re is _WAKING:
        trace.switches.add(t_ns, NO_THREAD, int(match[1] or match[2]), runnable=True)
    else:
        before, state, after = match.group(1, 2, 3) if match[1] else match.group(4, 5, 6)
        trace.switches.add(t_ns, int(before), int(after), runnable=state.startswith(b"R"))
