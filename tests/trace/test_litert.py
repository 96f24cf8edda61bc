"""LiteRT's marks in system traces."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import LITERT_MODELS, as_atrace, litert_events
from tests.kit.oracles.litert_events import OPERATOR
from tests.kit.support import path_of


@pytest.mark.parametrize("name", LITERT_MODELS)
def test_litert_marks_are_its_events(name: str) -> None:
    events = litert_events(path_of(f"tflite/{name}"), 3)
    trace = read_profile(as_atrace(events))
    assert (trace.runtime, trace.executions) == ("litert", 3)
    assert sorted(run[:6] for run in trace.runs) == sorted(
        (event.subgraph, event.number, event.tag, "", event.start * 1000, event.elapsed * 1000)
        for event in events
        if event.type == OPERATOR
    )
    begins = [
        event.start * 1000 for event in events if event.tag == "Invoke" and event.type == 1 and not event.subgraph
    ]
    assert all(begins[run.execution] <= run.start_ns for run in trace.runs)
    assert all(run.start_ns <= begin for run in trace.runs for begin in begins[run.execution + 1 :])


def marks(*texts: str) -> bytes:
    """Return ftrace text with a mark each 10 microseconds; `E` ends the innermost one."""
    lines = (
        f" app-77 (70) [001] .... 1.{10 * number:06}: tracing_mark_write: {'E|70' if text == 'E' else 'B|70|' + text}"
        for number, text in enumerate(texts, 1)
    )
    return "\n".join(["# tracer: nop", "#", *lines, ""]).encode()


@pytest.mark.parametrize(
    "data",
    [marks("Invoke@0/0", "E"), marks("ADD@0/0", "E"), marks("[NN_LR_PE]run", "E"), b"# nothing\n", b"", b"\0\1\2"],
    ids=["no operator", "no inference", "other marks", "no marks", "empty", "binary"],
)
def test_what_has_no_marks_of_litert(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        read_profile(data)
