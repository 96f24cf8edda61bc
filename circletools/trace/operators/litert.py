"""LiteRT's atrace marks: every event of the interpreter is a begin `TAG@<number>/<subgraph index>` and an end.

For an operator the tag is the name of its code (for a custom operator the custom code, for a delegate's node the name
of the delegate) and the number is its operator index: tensorflow/lite/profiling/atrace_profiler.cc, GetTFLiteOpName
in tensorflow/lite/core/subgraph.cc. Operators run within `Invoke`, and the outermost is one inference; a
subgraph that an operator calls has another `Invoke`. Marks inside an operator's mark are parts of the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nothing_found
from circletools.trace.sources import BEGIN, Event

_MARK = re.compile(rb"(.+)@(\d{1,9})/(\d{1,9})", re.DOTALL)
_INVOKE = "Invoke"


class _Mark(NamedTuple):
    tag: str
    number: int
    subgraph: int


class _Open(NamedTuple):
    """A begin without its end so far.

    `execution` is the inference around it, `operator` whether an operator runs since the last `Invoke`; `role` is the
    mark itself, None for a foreign mark.
    """

    mark: _Mark | None
    start_ns: int
    execution: int | None
    operator: bool
    role: str | None


def collect(events: Iterable[Event]) -> OperatorTrace:
    """Return the runs of operators among the marks of a trace. Raises InvalidInputError if there are none."""
    marks: dict[bytes, _Mark | None] = {}
    stacks: dict[int, list[_Open]] = {}
    found: dict[str, list[OperatorRun]] = {"operator": [], "part": []}
    executions, elapsed = 0, dict[int, int]()
    for event in events:
        stack = stacks.setdefault(event.tid, [])
        if event.kind == BEGIN:
            if event.text not in marks:
                marks[event.text] = _mark(event.text)
            begin = _begin(marks[event.text], event.t_ns, stack[-1] if stack else None, executions)
            executions += begin.role == _INVOKE and begin.execution == executions
            stack.append(begin)
        elif stack:
            begin = stack.pop()
            if begin.role == _INVOKE and begin.execution is not None and not any(one.role for one in stack):
                elapsed[begin.execution] = event.t_ns - begin.start_ns
            if begin.mark is not None and begin.role in found and event.t_ns >= begin.start_ns:
                found[begin.role].append(_run(begin, begin.mark, event))
    if not found["operator"]:
        raise nothing_found("the trace has no marks of LiteRT's operators (`CONV_2D@0/0` within `Invoke@…`)")
    cut = sum(1 for stack in stacks.values() for begin in stack if begin.role is not None)
    runs, parts = tuple(found["operator"]), tuple(found["part"])
    known = all(number in elapsed for number in range(executions))
    whole = Whole(elapsed_ns=tuple(elapsed[number] for number in range(executions)) if known else ())
    return OperatorTrace("litert", runs, executions, inside=parts, incomplete=cut, whole=whole)


def _begin(mark: _Mark | None, time: int, outer: _Open | None, executions: int) -> _Open:
    execution = outer.execution if outer is not None else None
    operator = outer is not None and outer.operator
    if mark is None:
        return _Open(None, time, execution, operator, None)
    if mark.tag == _INVOKE:
        return _Open(mark, time, executions if execution is None else execution, False, _INVOKE)
    if execution is None:  # the interpreter prepares to run
        return _Open(mark, time, None, False, None)
    return _Open(mark, time, execution, True, "part" if operator else "operator")


def _run(begin: _Open, mark: _Mark, end: Event) -> OperatorRun:
    duration = end.t_ns - begin.start_ns
    return OperatorRun(
        mark.subgraph, mark.number, mark.tag, "", begin.start_ns, duration, begin.execution or 0, end.tid
    )


def _mark(text: bytes) -> _Mark | None:
    match = _MARK.fullmatch(text)
    return match and _Mark(match[1].decode("utf-8", "surrogateescape"), int(match[2]), int(match[3]))
