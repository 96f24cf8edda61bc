"""How much work a function is, as the interpreter counts it: the same on every machine, unlike time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return how many instructions of Python a function runs, with all that it calls in Python."""
    count = 0

    def trace(frame: Any, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # before all others, or 3.12 counts nothing the first time
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
