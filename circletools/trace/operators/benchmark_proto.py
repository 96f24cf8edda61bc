"""benchmark_model's report as a protocol buffer: `--op_profiling_output_mode=proto`.

Fields, from tflite/profiling/proto/profiling_info.proto: BenchmarkProfilingData { model_name = 1; init_profile = 2;
runtime_profile = 3 }; ModelProfilingData { subgraph_profiles = 1; delegate_profiles = 2 }; SubGraphProfilingData {
subgraph_index = 2; per_op_profiles = 3 }; DelegateProfilingData { per_op_profiles = 2 }; OpProfileData { node_type =
1; inference_microseconds = 2 { sum = 8; count = 9 }; times_called = 4; name = 5; run_order = 6 }.
"""

from __future__ import annotations

from collections.abc import Iterator

from circletools.errors import InvalidInputError
from circletools.trace.operators.benchmark_model import DELEGATE_PREFIX, place_in
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, nothing_found
from circletools.trace.sources.wire import BrokenMessage, bytes_in, contents, fields, message_in, number_in, varint

_NAME, _INIT, _RUNTIME = 1, 2, 3
_LARGEST = 1 << 50


def is_report(memory: memoryview) -> bool:
    """Return whether this is such a report: a name that may be missing, and then a profile."""
    head = bytes(memory[:4096])
    try:
        tag, at = varint(head, 0, len(head))
        if tag == _NAME << 3 | 2:
            size, at = varint(head, at, len(head))
            tag, _ = varint(head, at + size, len(head))
    except BrokenMessage:
        return False
    return tag in (_INIT << 3 | 2, _RUNTIME << 3 | 2)


def parse(data: bytes) -> OperatorTrace:
    """Read the report. Raises InvalidInputError."""
    try:
        profile = bytes_in(contents(data, 0, len(data)), _RUNTIME)
        runs, inside, executions = list[OperatorRun](), list[OperatorRun](), 1
        for number, _, start, end in fields(profile, 0, len(profile)):
            of_delegate = number == 2
            subgraph = 0 if of_delegate else number_in(contents(profile, start, end), 2)
            rows = _operators(profile, start, end, 2 if of_delegate else 3, subgraph)
            for run, each in sorted(rows, key=lambda row: row[0].start_ns):
                executions = max(executions, run.calls // max(1, each))
                (inside if of_delegate else runs).append(run._replace(start_ns=0))
    except BrokenMessage as error:
        raise InvalidInputError("the report is broken or cut", location=f"byte {error.at}") from error
    if not runs:
        raise nothing_found("the report lists no operators")
    return OperatorTrace("benchmark_model", tuple(runs), executions, averaged=True, inside=tuple(inside))


def _operators(data: bytes, start: int, end: int, wanted: int, subgraph: int) -> Iterator[tuple[OperatorRun, int]]:
    """Yield operators, their place in the run order as start, and how often each is called in an execution."""
    for number, _, first, stop in fields(data, start, end):
        parts = contents(data, first, stop) if number == wanted else {}
        name, kind = (bytes_in(parts, field).decode("utf-8", "surrogateescape") for field in (5, 1))
        place = place_in(name)
        if place is None:
            continue
        stat = message_in(parts, 2)
        total, count = number_in(stat, 8), number_in(stat, 9)
        if not total < _LARGEST > count:
            raise InvalidInputError(f"{name[:40]!r} has a time or count that cannot be")
        order, of_delegate = number_in(parts, 6), name.startswith(DELEGATE_PREFIX)
        run = OperatorRun(subgraph, place, kind, "", order, total * 1000, 0, 0, max(1, count), of_delegate)
        yield run, number_in(parts, 4)
