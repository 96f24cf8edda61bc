"""Read ExecuTorch's ETDump, as written by `ETDumpGen` (executorch/devtools/etdump).

The events of a method's run are in the order in which they end. An instruction that calls an operator has an event
`native_call_<operator>` and, around it, `OPERATOR_CALL`; one that calls a delegate has events of the delegate's own
operators, and `DELEGATE_CALL` around them. Times are in nanoseconds if ExecuTorch's clock counts nanoseconds, as it
does on desktop systems. A delegate may use a different clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from circletools.errors import InvalidInputError, ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import OFFSET, load_schema
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, nothing_found

_IDENTIFIER, _SIZE_BYTES = b"ED00", 4
_KERNEL, _OPERATOR, _DELEGATE = "native_call_", "OPERATOR_CALL", "DELEGATE_CALL"
_OF_DELEGATE = 1  # the subgraph given to delegates' operators, numbered within an execution; the method's is 0
_LATEST = 1 << 62


def is_dump(memory: memoryview) -> bool:
    """Return whether the data is an ETDump, which may be preceded by the dump's size."""
    return _IDENTIFIER in (memory[4:8], memory[4 + _SIZE_BYTES : 8 + _SIZE_BYTES])


def parse(data: bytes) -> OperatorTrace:
    """Parse the dump. Raises InvalidInputError."""
    try:
        events = list(_events(data))
    except ModelFormatError as error:
        raise InvalidInputError(f"the dump is corrupt or truncated: {error.message}") from error
    runs, inside, executions = list[OperatorRun](), list[OperatorRun](), dict[int, int]()
    kernels: dict[tuple[int, int, int], str] = {}
    parts: dict[tuple[int, int, int], list[OperatorRun]] = {}
    counts: Counter[int] = Counter()
    for run, name, chain, instruction, delegated, start_ns, end_ns in events:
        if chain < 0 or instruction < 0:
            continue
        key = run, chain, instruction
        execution = executions.setdefault(run, len(executions))
        time = start_ns, end_ns - start_ns, execution
        if delegated:
            part = OperatorRun(_OF_DELEGATE, counts[execution], name, "", *time, of_delegate=True)
            parts.setdefault(key, []).append(part)
            counts[execution] += 1
        elif name.startswith(_KERNEL):
            kernels[key] = name.removeprefix(_KERNEL)
        elif name in (_OPERATOR, _DELEGATE):
            runs.append(OperatorRun(0, instruction, kernels.pop(key, name), "", *time))
            for part in parts.pop(key, []):
                within = start_ns <= part.start_ns <= part.start_ns + part.duration_ns <= end_ns
                (runs if within else inside).append(part)
    if not runs:
        raise nothing_found("the dump has no OPERATOR_CALL or DELEGATE_CALL")
    return OperatorTrace("executorch", tuple(runs), len(executions), inside=tuple(inside))


def _events(data: bytes) -> Iterator[tuple[int, str, int, int, bool, int, int]]:
    """Yield each event's run, name, chain, instruction, whether a delegate wrote it, its start and its end."""
    wire = Wire(memoryview(data)[0 if data[4:8] == _IDENTIFIER else _SIZE_BYTES :])
    schema = load_schema("etdump")
    root = Tables(wire, schema.tables[schema.root], wire.gather(np.zeros(1, np.int64), OFFSET).astype(np.int64))
    runs, _ = root.children("run_data", schema)
    held, of_run = runs.children("events", schema)
    wire.budget.charge("the events of all runs", 128 * len(held))  # memory for the objects made from each
    timed, rows = held.child("profile_event", schema)
    starts, ends = timed.scalars("start_time"), timed.scalars("end_time")
    if ((ends < starts) | (ends >= _LATEST)).any():
        raise InvalidInputError("an event ends before it starts or far too late", hint="was the clock running?")
    texts, ids = ("name", "delegate_debug_id_str"), timed.scalars("delegate_debug_id_int")
    place = np.repeat(np.arange(len(runs)), of_run.count)[rows], ids, timed.scalars("chain_index")
    others = timed.scalars("instruction_id"), timed.has("delegate_debug_id_str") | (ids >= 0), starts, ends
    columns = (column.tolist() for column in (*place, *others))
    for name, debug_name, run, number, *more in zip(*map(timed.strings, texts), *columns, strict=True):
        yield run, (debug_name or name).decode("utf-8", "backslashreplace") or str(number), *more
