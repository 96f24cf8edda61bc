"""Read the events that TFLite Micro's profiler logs, and find the executions of a model among them.

    CONV_2D took 249561 ticks (9 ms).      MicroProfiler::Log
    2,CONV_2D,249561                       LogCsv, after "Event","Tag","Ticks"
    CONV_2D, 1817013                       LogTicksPerTagCsv, after "Unique Tag","Total ticks across all events..."

Events are in the order of their starts. Those of operators have the names of their codes (micro_profiler.cc, and
OpNameFromRegistration in micro_interpreter_graph.cc); others are set-up, whole runs, or functions of kernels. What a
tick is depends on the platform; milliseconds are rounded down, so each line only bounds the length of a tick.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise, zip_longest
from typing import Literal

from circletools.errors import InvalidInputError
from circletools.storage.documents import check_lines
from circletools.trace.operators.names import CUSTOM
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, OtherRow, Whole, nothing_found

_TOOK = re.compile(r"([\w:.()/-]{1,99}) took (\d{1,10}) ticks \((\d{1,10}) ms\)")
_ROW = re.compile(r"\b\d{1,4} *, *([A-Za-z][\w:./-]{0,99}) *, *(-?\d{1,10})\b")
_TOTAL = re.compile(r"((?:tflite::\w{1,99} )?\b[A-Za-z][\w:./-]{0,99}), (-?\d{1,10})\b")
_HEADS = {'"Event","Tag","Ticks"': _ROW, '"Unique Tag","Total ticks': _TOTAL, '"total number of ticks"': None}
_APART = re.compile(r".*(?:::|\().*|Initialize\w*Runner|AllocateTensors|Decompress\w*")  # TFLite Micro's other tags
_WRAPPED, _TIGHT, _ROUNDING = 1 << 32, 1.01, 1e-6  # bounds may differ by one percent; TicksToMs computes in float

_Block = list[tuple[str, int]]
"""The tags and ticks of events that were logged together."""


def parse(data: bytes) -> OperatorTrace:
    """Parse a log; its times are in ticks unless it gives the length of a tick to within 1%.

    The events of `Log` are preferred to those of `LogCsv`, and totals by tag come last. If all blocks of events have
    the same tags, each is an execution. Raises InvalidInputError if no operator took time.
    """
    text = data.decode("utf-8", "replace")
    found = _blocks(text)
    apart = dict.fromkeys(
        one for some in found.values() for block in some for one in block if _APART.fullmatch(one[0])
    )
    own = {kind: [one for block in some for one in _pieces(block, apart)] for kind, some in found.items()}
    kind = next((kind for kind, some in own.items() if any(some)), _TOTAL)
    # Without ClearEvents, a block repeats all earlier events.
    pairs = pairwise([*filter(None, own[kind]), []])
    blocks = [one for one, after in pairs if len(after) <= len(one) or after[: len(one)] != one]
    blocks = blocks[-1:] if kind is _TOTAL else blocks
    if not any(ticks for block in blocks for _, ticks in block):
        raise nothing_found("TFLite Micro's profiler logged no operator that took a tick")
    times = [(int(match[2]), int(match[3])) for match in _TOOK.finditer(text)]
    low = max((ticks / (ms + 1) for ticks, ms in times), default=0.0) * (1 - _ROUNDING)
    high = min((ticks / ms for ticks, ms in times if ms), default=math.inf) * (1 + _ROUNDING)
    exact = low < high <= low * _TIGHT
    ns = 2e6 / (low + high) if exact else 1
    clock = f"1 ms is {low:,.6g} to {high:,.6g} ticks" if low < high < math.inf else "the length of a tick is unknown"
    same = len({tuple(tag for tag, _ in block) for block in blocks}) == 1
    events = [(lane, place, *event) for lane, block in enumerate(blocks) for place, event in enumerate(block)]
    runs = tuple(
        OperatorRun(0, place if same else at, tag, "", 0, round(ticks * ns), lane * same, lane)
        for at, (lane, place, tag, ticks) in enumerate(events)
    )
    others = tuple(OtherRow(tag, round(ticks * ns)) for tag, ticks in apart)
    types = tuple((run.name, 0) for run in runs) if kind is _TOTAL else ()
    whole = Whole(others=others, types=types, clock=clock + "; times are in ticks" * (not exact))
    unit: Literal["ns", "ticks"] = "ns" if exact else "ticks"
    return OperatorTrace("tflm", runs, len(blocks) if same else 1, bool(types), whole=whole, unit=unit)


def _pieces(block: _Block, apart: Collection[tuple[str, int]]) -> list[_Block]:
    """Return the operators' events of a block: in pieces, split at other events, if all pieces have equal tags."""
    pieces = [[*some] for is_apart, some in groupby(block, apart.__contains__) if not is_apart]
    same = len({tuple(tag for tag, _ in piece) for piece in pieces}) == 1
    return pieces if same and len(pieces[0]) > 1 else [[*chain.from_iterable(pieces)]]


def _blocks(text: str) -> dict[re.Pattern[str], list[_Block]]:
    """Return the blocks of events of each kind; other lines end a block of `Log`, but not the rows of a table."""
    found: dict[re.Pattern[str], list[_Block]] = {_TOOK: [], _ROW: [], _TOTAL: []}
    kind: re.Pattern[str] | None = None
    for line in filter(str.strip, check_lines(text).splitlines()):
        match, head = _TOOK.search(line), next((words for words in _HEADS if words in line), None)
        after = _HEADS[head] if head else _TOOK if match else None if kind is _TOOK else kind
        if after and (head or after is not kind):
            found[after].append([])
        kind = after
        if kind and (match := match or kind.search(line)):
            found[kind][-1].append((match[1], int(match[2]) % _WRAPPED))
    return found


def in_order(trace: OperatorTrace, codes: Sequence[str], builtin: Collection[str]) -> OperatorTrace:
    """Return the executions of a model whose operators have these codes; `builtin` holds the names of all codes.

    Each block contains whole executions or, if other lines are in between, all blocks together do. Other blocks count
    as incomplete. Raises InvalidInputError if there is no execution.
    """
    names = [code.removeprefix(CUSTOM) for code in codes]
    known = {*builtin, *names}
    events = [run for run in trace.runs if run.name in known]
    blocks = [[*some] for _, some in groupby(events, key=lambda run: run.lane)]
    of_model = [one for some in blocks if _fits(some, names) for one in some] or events * _fits(events, names)
    if not of_model:
        pairs = enumerate(zip_longest((run.name for run in events), names))
        place, traced, name = next((at, *pair) for at, pair in pairs if pair[0] != pair[1])
        message = f"operator {place} is {traced or 'missing'} in the log, and {name or 'missing'} in the model"
        raise InvalidInputError(f"the trace is from another model: {message}", hint="use the model that was run")
    runs = (run._replace(operator=at % len(names), execution=at // len(names)) for at, run in enumerate(of_model))
    others = tuple(OtherRow(run.name, run.duration_ns) for run in trace.runs if run.name not in known)
    whole = replace(trace.whole, others=trace.whole.others + others)
    count, left = len(of_model) // len(names), len(events) - len(of_model)
    return replace(trace, runs=tuple(runs), executions=count, incomplete=trace.incomplete + left, whole=whole)


def _fits(runs: Sequence[OperatorRun], names: list[str]) -> bool:
    """Return whether these are whole executions."""
    return bool(runs) and [run.name for run in runs] == names * (len(runs) // max(1, len(names)))
