"""Exports for trace viewers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.traces import encoded, workload
from circletools.trace import sources
from circletools.trace.sources import events, open_trace
from tests.kit.trace_support import (
    EXAMPLE,
    Ev,
    document,
    executing,
    exported,
    ftrace,
)


@pytest.mark.parametrize("target", ["chrome", "perfetto"])
@pytest.mark.parametrize("ending", ["ftrace", "pftrace"])
def test_an_export_says_the_same(target: str, ending: str) -> None:
    data = encoded(workload(300, per_run=5), ending)
    before, after = document(data), document(exported(data, target))
    for key in ("runs", "executions", "functions", "driver_executions", "diagnostics"):
        assert before[key] == after[key], key


@settings(max_examples=80)
@given(executing(), st.sampled_from(["chrome", "perfetto"]))
def test_slices_of_an_export_are_strictly_nested(trace: list[Ev], target: str) -> None:
    out = exported(ftrace(trace), target)
    depths: dict[int, int] = {}
    for event in events(open_trace(out)) if b"NN marks" in out or target == "chrome" else ():
        depths[event.tid] = depths.get(event.tid, 0) + (1 if event.kind == sources.BEGIN else -1)
        assert depths[event.tid] >= 0
    assert set(depths.values()) <= {0}


def test_what_a_chrome_export_holds() -> None:
    found = json.loads(exported(EXAMPLE.read_bytes(), "chrome"))["traceEvents"]
    begin = next(one for one in found if one.get("name") == "ANeuralNetworksCompilation_finish")
    assert begin["args"] == {"layer": "LR", "phase": "PC", "mark": "[NN_LR_PC]ANeuralNetworksCompilation_finish"}
    assert sum(one.get("ph") == "b" for one in found) == sum(one.get("ph") == "e" for one in found) == 7
