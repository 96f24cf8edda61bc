"""ONNX Runtime's profile (`SessionOptions.enable_profiling`): Chrome's trace event format, one event for each run.

    {"cat": "Session", "tid": 7, "ts": 33700, "dur": 400, "ph": "X", "name": "model_run", "args": {}}
    {"cat": "Node", "tid": 7, "ts": 33737, "dur": 258, "ph": "X", "name": "conv0_kernel_time",
     "args": {"op_name": "Conv", "node_index": "8", "provider": "CPUExecutionProvider", ...}}

Times are microseconds. The nodes of a graph that a node calls (If, Loop) run within that one's time. Seen in 1.31.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from circletools.errors import InvalidInputError
from circletools.storage.strict_json import read_json
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nothing_found

_SUFFIX = "_kernel_time"
_BEGINNING = re.compile(rb'\[\s*\{\s*"cat"\s*:\s*"(?:Session|Node)"')
_INITIALIZING = ("model_loading_uri", "model_loading_array", "session_initialization")
_LARGEST = 1 << 50


def is_profile(head: bytes) -> bool:
    """Return whether this is the beginning of such a profile."""
    return _BEGINNING.match(head) is not None


def parse(data: bytes) -> OperatorTrace:
    """Read the profile. Raises InvalidInputError."""
    events = read_json(data, "")
    begins, nodes, elapsed, initialization_ns = [], [], dict[int, int](), 0
    for at, event in enumerate(events if isinstance(events, list) else ()):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        name, category = event.get("name"), event.get("cat")
        if category == "Session" and name == "model_run":
            begins.append(_time(event, "ts", at))
            elapsed[begins[-1]] = _time(event, "dur", at) if "dur" in event else -1
        elif category == "Session" and name in _INITIALIZING:
            initialization_ns += _time(event, "dur", at)
        elif category == "Node" and isinstance(name, str) and name.endswith(_SUFFIX):
            nodes.append(_run(event, name.removesuffix(_SUFFIX), at))
    if not nodes:
        raise nothing_found("the profile has no node that ran (`…_kernel_time`)")
    begins.sort()
    runs = [run._replace(execution=max(0, bisect_right(begins, run.start_ns) - 1)) for run in _levelled(nodes)]
    known = elapsed and min(elapsed.values()) >= 0
    whole = Whole(initialization_ns or None, tuple(elapsed[begin] for begin in begins) if known else ())
    return OperatorTrace("onnxruntime", tuple(runs), max(1, len(begins)), whole=whole)


def _run(event: Mapping[str, Any], name: str, at: int) -> OperatorRun:
    found = event.get("args")
    args: Mapping[str, Any] = found if isinstance(found, dict) else {}
    index, provider, thread = args.get("node_index"), args.get("provider"), event.get("tid")
    number = int(index) if isinstance(index, str) and re.fullmatch(r"\d{1,9}", index) else 0
    lane = thread if type(thread) is int else 0
    backend = provider if isinstance(provider, str) else ""
    return OperatorRun(0, number, name, backend, _time(event, "ts", at), _time(event, "dur", at), 0, lane)


def _levelled(runs: list[OperatorRun]) -> list[OperatorRun]:
    """Return the runs in the order of their begins; those within another of their thread are of a graph below it."""
    found, ends = list[OperatorRun](), dict[int, list[int]]()
    for run in sorted(runs, key=lambda run: (run.start_ns, -run.duration_ns)):
        end, open_ends = run.start_ns + run.duration_ns, ends.setdefault(run.lane, [])
        while open_ends and open_ends[-1] < max(end, run.start_ns + 1):
            open_ends.pop()
        found.append(run._replace(subgraph=len(open_ends)))
        open_ends.append(end)
    return found


def _time(event: Mapping[str, Any], field: str, at: int) -> int:
    value = event.get(field)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise InvalidInputError(f"event {at}: {field} is not a time in microseconds")
    return value * 1000
