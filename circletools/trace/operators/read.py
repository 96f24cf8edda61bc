"""Read operator-level traces of any runtime.

All except benchmark_model record every run of an operator; benchmark_model records only averages. The detailed
counters of OpenVINO's benchmark_app (`-report_type detailed_counters`) are read here:

    layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)
    MaxPool_21;Status.EXECUTED;MaxPool;jit_avx512_bf16;0.017;0.017
    Total;;;;0.859;0.859

There is one table for each request, with the mean times of its stream's inferences (openvino/tools/benchmark/utils/
statistics_report.py); `profile` writes a table for each run. A layer that computes the result of an operator has the
operator's index in its name (seen in 2026.4), unless it was replaced; others are rows of a delegate. Fused layers
have no kernel; others that took less than a microsecond are also marked as not run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, Literal

from circletools.errors import CircleToolsError, InvalidInputError, UsageError
from circletools.storage.documents import lines_of
from circletools.storage.files import open_source
from circletools.trace.operators import benchmark_model, etdump, litert, onert, tflm
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, nanoseconds, nothing_found, without_first
from circletools.trace.sources import events, open_trace
from circletools.trace.sources.content import EXPECTED, most_unpacked, pieces_of
from circletools.trace.sources.open import unpacked

_EXPECTED = (
    "expected onert's trace.chrome.json, LiteRT's events or a system trace with its marks, a log of benchmark_model, "
    "label_image, onert_run or TFLite Micro's profiler, benchmark_app -report_type detailed_counters, or an ETDump"
)
_REPORT = re.compile(rb"= Run Order =|[Nn]ode type[],]|nference (?:timings in us: |\(avg\): )")
_LOG = re.compile(rb"Graph: \[|king failed\.|\bcount=\d+ (?:first|curr)=|EXECUTE +takes |average time:")
_TICKS = re.compile(rb" took \d+ ticks \(|\"Event\",\"Tag\",\"Ticks\"|\"Unique Tag\",\"Total ticks")
_MOST_UNPACKED, _UNPACKED_RATIO = 8 << 20, 30  # all data is in memory several times, unlike other traces' events
_HEAD_BYTES, _MEMORY_NAME = 4096, "<bytes>"  # the second is the name of data in memory
_OPENVINO = b"layerName;execStatus;layerType;execType;realTime"
_NO_KERNELS = ("Parameter", "Result", "Constant", "")  # the last is the total
_INDEX = re.compile(r"\d{1,9}", re.ASCII)


def read_profile(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    skip: int | Literal["auto"] = 0,
    process: int | None = None,
    thread: int | None = None,
    ticks: bool = False,
) -> OperatorTrace:
    """Read an operator-level trace of any kind: a path (`-` is standard input), bytes, or a binary file.

    The kind is recognized by the contents. The first `skip` executions are removed, as by `without_first`. In a
    system trace, `process` and `thread` select a process or thread by its number. `ticks` allows times in ticks, in
    the log of a clock of unknown speed (see `OperatorTrace.unit`). Raises InvalidInputError if the trace cannot be
    read or has no operator times, and UsageError if `skip` is too large, or if a process or thread is selected in
    another kind of trace.
    """
    opened = open_source(source)
    memory = opened.octets
    opened.close()  # the mapping stays open as long as something refers to it
    try:
        most = min(most_unpacked(len(memory)), max(_MOST_UNPACKED, _UNPACKED_RATIO * len(memory)))
        pieces, packing = unpacked(pieces_of(memory), _MEMORY_NAME, most)
        memory = memoryview(b"".join(pieces())) if packing else memory
        trace = _parse(memory, process, thread)
        if trace.unit == "ticks" and not ticks:
            raise InvalidInputError(f"no times in seconds: {trace.whole.clock}", hint="`attribute` shows ticks")
    except CircleToolsError as error:
        place = (error.location or "").removeprefix(_MEMORY_NAME).removeprefix(":")
        error.location = f"{opened.name}:{place}" if place else opened.name
        raise
    return without_first(replace(trace, name=opened.name), skip)


def _parse(memory: memoryview, process: int | None, thread: int | None) -> OperatorTrace:
    head = bytes(memory[:_HEAD_BYTES]).lstrip(b"\xef\xbb\xbf \t\r\n")
    for is_one, parse in DOCUMENTS:
        if is_one(head, memory):
            if (process, thread) != (None, None):
                raise UsageError("only system traces have processes and threads")
            return parse(bytes(memory))
    try:
        found = events(open_trace(memory))
        return litert.collect(one for one in found if process in (None, one.tgid) and thread in (None, one.tid))
    except InvalidInputError as error:
        log = _LOG.search(memory)
        if log is None:
            if error.hint == EXPECTED:
                error.message, error.hint = "no operator times of a known format", _EXPECTED
            raise
        return benchmark_model.parse(bytes(memory))


def _parse_openvino(data: bytes) -> OperatorTrace:
    """Parse the report of OpenVINO's benchmark_app."""
    runs, layers = list[OperatorRun](), set[str]()
    tables = at_ns = order = 0
    for number, line in enumerate(lines_of(data), 1):
        cells = line.rstrip(";\r").rsplit(";", 5)
        if line.startswith(_OPENVINO.decode()):
            tables, at_ns, order = tables + 1, 0, 0
        elif len(cells) == 6:
            name, status, kind, kernel, real, _ = cells
            if tables < 2:
                layers.add(name)
            elif name not in layers:
                raise InvalidInputError("the tables belong to several models", location=str(number), hint="split it")
            if status.endswith("EXECUTED") or (kernel != "undef" and kind not in _NO_KERNELS):
                duration, known = nanoseconds(real, "milliseconds", str(number)), _INDEX.fullmatch(name)
                run = OperatorRun(0, int(name) if known else order, kind, kernel, at_ns, duration, tables - 1, tables)
                runs.append(run._replace(of_delegate=known is None))
                at_ns, order = at_ns + duration, order + 1
    if not runs:
        raise nothing_found("no layer of the report was executed")
    return OperatorTrace("openvino", tuple(runs), tables)


DOCUMENTS: tuple[tuple[Callable[[bytes, memoryview], bool], Callable[[bytes], OperatorTrace]], ...] = (
    (lambda _, memory: etdump.is_dump(memory), etdump.parse),
    (lambda head, _: b'"elapsed_time_us"' in head, litert.parse),
    (lambda head, _: head.startswith(_OPENVINO), _parse_openvino),
    (lambda _, memory: _REPORT.search(memory) is not None, benchmark_model.parse),
    (lambda _, memory: _TICKS.search(memory) is not None, tflm.parse),
    (lambda head, _: re.match(rb"\{|\[\s*[\[{\]]", head) is not None, onert.parse),
)
"""How to recognize and read other kinds, in the order tried; the fuzz target `operators` has seeds for each."""
