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


_OUTSIDE = _Open(None, 0, None, False, None)


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
            mark = marks[event.text]
            _, _, execution, operator, role = stack[-1] if stack else _OUTSIDE
            role = None
            if mark is not None and mark.tag == _INVOKE:
                role, operator = _INVOKE, False
                if execution is None:
                    execution, executions = executions, executions + 1
            elif mark is not None and execution is not None:  # before, the interpreter prepares to run
                role, operator = "part" if operator else "operator", True
            stack.append(_Open(mark, event.t_ns, execution, operator, role))
        elif stack:
            mark, start_ns, execution, _, role = stack.pop()
            duration = event.t_ns - start_ns
            if mark is None or execution is None or role is None:
                continue
            if role == _INVOKE and not any(one.role for one in stack):
                elapsed[execution] = duration
            elif role in found and duration >= 0:
                place = mark.subgraph, mark.number, mark.tag
                found[role].append(OperatorRun(*place, "", start_ns, duration, execution, event.tid))
    if not found["operator"]:
        raise nothing_found("the trace has no marks of LiteRT's operators (`CONV_2D@0/0` within `Invoke@…`)")
    cut = sum(1 for stack in stacks.values() for begin in stack if begin.role is not None)
    runs, parts = tuple(found["operator"]), tuple(found["part"])
    known = all(number in elapsed for number in range(executions))
    whole = Whole(elapsed_ns=tuple(elapsed[number] for number in range(executions)) if known else ())
    return OperatorTrace("litert", runs, executions, inside=parts, incomplete=cut, whole=whole)


def _mark(text: bytes) -> _Mark | None:
    match = _MARK.fullmatch(text)
    return match and _Mark(match[1].decode("utf-8", "surrogateescape"), int(match[2]), int(match[3]))
