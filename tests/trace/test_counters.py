"""Frequencies and power rails beside marks in a Perfetto trace."""

from __future__ import annotations

import pytest

from circletools.render.traces import trace_json, trace_text
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import open_trace
from circletools.trace.sources.wire import field_bytes, field_number

MS = 1_000_000
COMPUTE = b"[NN_LR_PE]ANeuralNetworksExecution_compute"


def event(t_ms: int, body: bytes) -> bytes:
    return field_bytes(2, field_number(1, t_ms * MS) + field_number(2, 8) + body)


def printed(t_ms: int, text: bytes) -> bytes:
    return event(t_ms, field_bytes(3, field_bytes(2, text)))


def frequency(t_ms: int, cpu: int, khz: int) -> bytes:
    return event(t_ms, field_bytes(11, field_number(1, khz) + field_number(2, cpu)))


def bundle(*events: bytes) -> bytes:
    return field_bytes(1, field_bytes(1, field_number(1, 0) + b"".join(events)))


def energy(t_ms: int, microjoules: int) -> bytes:
    return field_bytes(2, field_number(1, 1) + field_number(2, t_ms) + field_number(3, microjoules))


RAILS = field_bytes(1, field_number(1, 1) + field_bytes(2, b"VDD_NPU"))


def test_what_the_machine_did_in_executions() -> None:
    marks = [printed(t_ms, text) for t_ms, text in ((10, b"B|7|" + COMPUTE), (20, b"E|7"), (30, b"B|7|" + COMPUTE))]
    changes = [frequency(5, 0, 1_000_000), frequency(15, 0, 2_000_000), frequency(35, 4, 500_000)]
    rails = field_bytes(1, field_bytes(40, RAILS + energy(0, 0) + energy(20, 4000) + energy(40, 10_000)))
    found = analyse(open_trace(bundle(*marks, printed(40, b"E|7")) + bundle(*changes) + rails))
    assert [(one.name, one.unit) for one in found.machine] == [("CPU 0", "MHz"), ("CPU 4", "MHz"), ("VDD_NPU", "mJ")]
    # 5 ms of 1 GHz and 15 of 2; half of what the rail took until 20 ms, and of what it took after
    assert [one.value for one in found.machine] == pytest.approx([1750.0, 500.0, 2.0 + 3.0])
    assert "5.0  mJ" in "\n".join(trace_text(trace_json(found)))


def test_broken_rails_are_a_fault() -> None:
    trace = open_trace(field_bytes(1, field_bytes(40, b"\x0a\x7f")) + bundle(printed(1, b"E|7")))
    analyse(trace)
    assert [fault.code for fault in trace.faults] == ["T004"]
