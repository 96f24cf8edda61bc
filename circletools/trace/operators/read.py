"""Reading operator-level traces, whichever of three runtimes wrote them.

    onert            trace.chrome.json, Chrome's trace event format          `onert`
    LiteRT           atrace marks NAME@<operator index>/<subgraph index>     `litert`
    benchmark_model  the operator tables of its report, CSV or text          `benchmark_model`

The first two tell every run of an operator, the third only averages.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import BinaryIO

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.storage.files import open_source
from circletools.trace.operators import benchmark_model, litert, litert_events, onert
from circletools.trace.operators.profile import OperatorTrace, without_first
from circletools.trace.sources import events, open_trace

_HEAD_BYTES = 4096
_MEMORY_NAME = "<bytes>"  # what is in memory is called


def read_profile(source: str | os.PathLike[str] | bytes | BinaryIO, *, skip: int = 0) -> OperatorTrace:
    """Read an operator-level trace of any kind: a path (`-` is standard input), bytes, or a binary file.

    The contents tell the kind. The first `skip` executions are left out, as `without_first` does. Raises
    InvalidInputError when it cannot be read or has no operator times, UsageError when `skip` is too large.
    """
    opened = open_source(source)
    memory = opened.memory
    opened.close()  # the mapping stays for as long as something refers to it
    try:
        trace = _parse(memory)
    except CircleToolsError as error:
        place = (error.location or "").removeprefix(_MEMORY_NAME).removeprefix(":")
        error.location = f"{opened.name}:{place}" if place else opened.name
        raise
    return without_first(replace(trace, name=opened.name), skip)


def _parse(memory: memoryview) -> OperatorTrace:
    head = bytes(memory[:_HEAD_BYTES]).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"[") and litert_events.is_events(head):
        return litert_events.parse(bytes(memory))
    if head[:1] in (b"{", b"["):
        return onert.parse(bytes(memory))
    if onert.is_table(head):
        raise InvalidInputError(onert.TABLE_REASON, hint=onert.OTHER_FILE)
    if benchmark_model.is_report(memory):
        return benchmark_model.parse(bytes(memory))
    return litert.collect(events(open_trace(memory)))
