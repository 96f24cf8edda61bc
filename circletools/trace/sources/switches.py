"""Switches of threads in ftrace text: `sched_switch` and what wakes a thread, as the kernel and trace-cmd write them.

<...>-123 [001] d..2 5.000120: sched_switch: prev_comm=app prev_pid=123 prev_prio=120 prev_state=S ==>
next_comm=b next_pid=7 next_prio=120
app-123 [001] 5.000120: sched_switch: app:123 [120] S ==> b:7 [120]
b-7 [001] d.h4 5.000130: sched_waking: comm=app pid=123 prio=120 target_cpu=001
"""

from __future__ import annotations

import re

import numpy as np

from circletools.trace.sources.batch import NO_THREAD, Trace
from circletools.trace.sources.digits import stamps, word, words_at
from circletools.trace.sources.names import Numbers, interned

_EVENT, _EVENT_BYTES = word(b": sched_"), 8
_SWITCHES, _OF_SWITCH = word(b"switch"), word(b"\xff" * 6)
_WAKES, _OF_WAKING = word(b"wak"), word(b"\xff" * 3)
_LONGEST = 512
_FIRST_FAST = 16
_TIME = re.compile(rb" (\d{1,9})\.(\d{6,9})$")
_SWITCH = re.compile(
    rb"switch: +(?:prev_comm=.* prev_pid=(\d{1,9}) prev_prio=-?\d+ prev_state=(\S+) ==> "
    rb"next_comm=.* next_pid=(\d{1,9}) "
    rb"|.*:(\d{1,9}) \[-?\d+\] (\S+) ==> .*:(\d{1,9}) \[)"
)
_WAKING = re.compile(rb"(?:waking|wakeup|wakeup_new): +(?:comm=.* pid=(\d{1,9}) |.*:(\d{1,9}) \[)")


def note_switches(trace: Trace, data: bytes) -> None:
    """Note the switches of whole lines; a line that is longer than the kernel writes them is none."""
    characters, words = np.frombuffer(data, np.uint8), words_at(data)
    at = np.flatnonzero(characters[: -2 * _EVENT_BYTES] == ord(":"))
    at = at[words[at] == _EVENT]
    kinds = words[at + _EVENT_BYTES]
    at = at[(kinds & _OF_SWITCH == _SWITCHES) | (kinds & _OF_WAKING == _WAKES)]
    if not len(at):
        return
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(data))
    index = np.searchsorted(ends, at)
    starts, stops = np.where(index > 0, ends[index - 1] + 1, 0), ends[index]
    keep = np.append(True, index[1:] != index[:-1]) & (stops - starts <= _LONGEST)
    at, starts, stops = at[keep], starts[keep], stops[keep]
    codes, texts = interned(data, at + _EVENT_BYTES, stops)
    before, after, runnable = np.array([_parse_event(text) for text in texts], np.int64).reshape(len(texts), 3).T
    times = _times(data, starts, at)
    valid = (after[codes] >= 0) & (times >= 0)
    codes = codes[valid]
    trace.switches.add(times[valid], before[codes], after[codes], runnable[codes])


def _parse_event(text: bytes) -> tuple[int, int, bool]:
    """Return the thread before and after (-1 if not given), and whether the first can still run."""
    if match := _WAKING.match(text):
        return NO_THREAD, int(match[1] or match[2]), True
    if match := _SWITCH.match(text):
        before, state, after = match.group(1, 2, 3) if match[1] else match.group(4, 5, 6)
        return int(before), int(after), state.startswith(b"R")
    return NO_THREAD, NO_THREAD, False


def _times(data: bytes, starts: Numbers, ends: Numbers) -> Numbers:
    """Return the times at the ends of heads of lines, -1 where there is none."""
    times, good = np.zeros(len(ends), np.int64), ends >= _FIRST_FAST
    words = words_at(data)
    times[good], good[good] = stamps(words, ends[good])
    for at in np.flatnonzero(~good).tolist():
        time = _TIME.search(data[int(starts[at]) : int(ends[at])])
        times[at] = int(time[1]) * 1_000_000_000 + int(time[2]) * 10 ** (9 - len(time[2])) if time else -1
    return times
