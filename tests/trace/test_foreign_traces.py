"""Files that other programs wrote, against what these programs say themselves; a generator beside them makes more."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.analysis import read_trace
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.trace.operators.read import read_profile
from circletools.trace.sources import events, open_trace
from circletools.trace.sources.wire import field_bytes, field_number
from tests.kit.operator_support import TRACES
from tests.kit.profile_support import joined
from tests.kit.support import bytes_of

FOREIGN = TRACES / "foreign"
CNN = bytes_of("tflite/cnn")


def total(runs: Iterable[OperatorRun]) -> int:
    return sum(run.duration_ns for run in runs)


# --- LiteRT ---------------------------------------------------------------------------------------------------


def test_events_and_the_summary_that_litert_made_of_them() -> None:
    trace = read_profile(FOREIGN / "litert_cnn.events.json")
    assert (trace.runtime, trace.executions, trace.averaged) == ("litert", 5, False)
    by_row: Counter[tuple[int, str]] = Counter()
    for run in trace.runs:
        by_row[run.operator, run.name] += run.duration_ns
    table = (FOREIGN / "litert_cnn.summary.txt").read_text().partition("\n\n")[0]
    rows = re.findall(r"Delegate/(.*\S) +\S+ +\S+ +(\S+) +\S+% +\S+% +\S+ +5   \[Delegate\]:(\d)", table)
    shown = {(int(number), name): round(float(mean_ms) * 5e6) for name, mean_ms, number in rows}
    assert by_row.keys() == shown.keys()
    assert all(abs(by_row[key] - shown[key]) <= 5 * 500 for key in shown)  # means of three decimals of a millisecond
    assert total(trace.runs) > 0
    assert [run.start_ns for run in trace.runs] == sorted(run.start_ns for run in trace.runs)


def test_operators_within_events() -> None:
    def event(tag: str, kind: int, start: int, elapsed: int, *numbers: int) -> dict[str, object]:
        names = ("tag", "event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")
        return dict(zip(names, (tag, kind, start, elapsed, *numbers), strict=False))

    def read(*rows: dict[str, object]) -> OperatorTrace:
        return read_profile(json.dumps({"events": rows}).encode())

    inner = event("Invoke", 1, 12, 3, 0, 1)
    found = read(
        event("ADD", 2, 1, 1, 0, 0),
        event("Invoke", 1, 10, 10, 0, 0),
        event("IF", 2, 11, 5, 0, 0),
        inner,
        event("MUL", 2, 13, 1, 0, 1),
        event("Conv", 8, 0, 4, 3, 0),
        event("Conv", 8, 0, 2, 4, 0),
        event("telemetry", 64, 17, 1, 2**64 - 1, 0),
        event("Invoke", 1, 20, 5, 0, 0),
        event("IF", 2, 20, 4),
    )
    assert found.executions == 2
    assert [run[:9] for run in found.runs] == [
        (0, 0, "IF", "", 11_000, 5_000, 0, 0, 1),
        (1, 0, "MUL", "", 13_000, 1_000, 0, 0, 1),
        (0, 3, "Conv", "", 13_000, 4_000, 0, 0, 1),
        (0, 4, "Conv", "", 17_000, 2_000, 0, 0, 1),
        (0, 0, "IF", "", 20_000, 4_000, 1, 0, 1),
    ]
    assert [run.of_delegate for run in found.runs] == [False, False, True, True, False]
    with pytest.raises(InvalidInputError, match="no operator within `Invoke`"):
        read(event("ADD", 2, 1, 1, 0, 0))
    with pytest.raises(InvalidInputError, match=r"events\[0\]\.elapsed_time_us is not a valid number"):
        read(event("ADD", 2, 1, -1, 0, 0))
    with pytest.raises(InvalidInputError, match=r"events\[1\]\.event_metadata1 is not"):
        read(inner, event("ADD", 2, 1, 1, 1 << 50, 0))
    with pytest.raises(InvalidInputError, match=r"events\[0\] is not an event with a tag"):
        read({"elapsed_time_us": 1})
    with pytest.raises(InvalidInputError, match="no list of `events`"):
        read_profile(b'{"x": {"elapsed_time_us": 1}}')


# --- OpenVINO -------------------------------------------------------------------------------------------------


def test_openvino_s_counters_add_up_to_its_totals() -> None:
    path = FOREIGN / "openvino_cnn.csv"
    trace = read_profile(path)
    shown = [round(float(value) * 1e6) for value in re.findall(r"Total;;;;([\d.]+);", path.read_text())]
    assert (trace.runtime, trace.executions) == ("openvino", len(shown))
    for execution, wanted in enumerate(shown):
        assert total(run for run in trace.runs if run.execution == execution) == wanted
    found = joined(CNN, trace)
    assert found.total_ns == sum(shown)
    delegated = {row.index: bool(row.time and row.time.delegated_ns) for row in found.operators if row.time}
    assert delegated == {0: True, 1: True, 2: True, 3: True, 4: False, 5: False, 6: False}
    backends = {row.index: row.backends for row in found.operators}
    assert any("brgconv" in name or "conv" in name or "gemm" in name for name in backends[2])
    assert {row.name for row in found.added} <= {"Reorder", "Transpose"}


# --- Perfetto -------------------------------------------------------------------------------------------------


def test_kernel_marks_equal_perfetto_messages() -> None:
    """Bundles of several CPUs overlap in time, and half of them are compressed."""
    analysis = read_trace(FOREIGN / "kernel.pftrace")
    found = {(one.layer, one.phase, one.name): (one.calls, one.inclusive_ns) for one in analysis.functions}
    shown, foreign = {}, 0
    for *_, text, calls, total_ns in json.loads((FOREIGN / "kernel.totals.json").read_bytes()):
        if tag := re.fullmatch(r"\[NN_(L.)_(\w+)\](.*)", text):
            shown[tag.groups()] = (calls, total_ns)
        else:
            foreign += calls
    assert found == shown
    assert foreign > 0
    assert analysis.events == 2 * (foreign + sum(calls for calls, _ in shown.values()))
    assert analysis.diagnostics == []


def packet(*parts: bytes) -> bytes:
    return field_bytes(1, b"".join(parts))


def losses(*packets: bytes) -> list[str]:
    trace = open_trace(b"".join(packets))
    assert list(events(trace)) == []
    assert {fault.code for fault in trace.faults} <= {"T003"}
    return [fault.text for fault in trace.faults]


def kernel(phase: int, *cpus: dict[int, int]) -> bytes:
    """Return statistics of the kernel: for each CPU counters by their fields."""
    stats = (field_bytes(2, b"".join(field_number(*one) for one in cpu.items())) for cpu in cpus)
    return packet(field_bytes(34, field_number(1, phase) + b"".join(stats)))


def test_packets_that_were_dropped() -> None:
    first = packet(field_number(10, 7), field_number(42, 1))
    assert losses(first) == losses(first, packet(field_number(10, 8), field_number(42, 1))) == []
    assert losses(first, first) == ["packets were dropped before this one"]
    assert losses(packet(field_number(10, 7)), packet(field_number(10, 7), field_number(42, 0))) == []
    assert losses(packet(field_number(10, 7)), packet(field_number(42, 1), field_number(10, 7))) != []


def test_events_that_the_kernel_lost() -> None:
    before = kernel(1, {1: 0, 3: 5, 8: 1}, {1: 3, 4: 2})
    assert losses(before, kernel(2, {1: 0, 3: 5, 8: 1}, {1: 3, 4: 2})) == []
    assert losses(before, kernel(2, {1: 0, 3: 9, 8: 2}, {1: 3, 4: 3})) == [
        "CPU 0, events overrun: 4", "CPU 0, events dropped: 1", "CPU 3, events commit overrun: 1"
    ]  # fmt: skip
    assert losses(kernel(2, {1: 0, 3: 2})) == ["CPU 0, events overrun: 2"]
    assert losses(kernel(2, {3: 2}), kernel(2, {3: 2})) == ["CPU 0, events overrun: 2"]
    assert losses(kernel(0, {1: 0, 3: 2})) == []


def test_losses_of_perfetto_s_buffers() -> None:
    def stats(*counters: int) -> bytes:
        return packet(field_bytes(35, field_bytes(1, b"".join(field_number(one, 4) for one in counters))))

    assert losses(stats(1, 2, 3, 18, 13)) == []
    lost = ["patches failed: 4", "violations of the ABI: 4", "packets lost by trace writers: 4"]
    assert losses(stats(19, 6, 9)) == lost
    trace = open_trace(packet(field_bytes(34, b"\x12\x09")))
    list(events(trace))
    assert [(fault.code, fault.text) for fault in trace.faults] == [("T004", "broken statistics of the trace")]
