"""Operator-level traces for tests: what the runtimes write, and what others write of LiteRT's events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.kit.oracles.litert_events import DELEGATE_PROFILED_OPERATOR, OPERATOR
from tests.kit.presence import need
from tests.kit.support import ROOT, path_of, with_root

TRACES = ROOT / "testdata" / "trace"
SAMPLES = (
    "onert_if_cond.chrome.json",
    "litert_custom_op.ftrace",
    "benchmark_custom_op.csv",
    "benchmark_custom_op.txt",
)

# testdata/README.md: onert 0.1.0 does not run these.
NOT_IN_ONERT = {"mlp_external", "cnn_external", "lstm", "rms_norm", "instance_norm"}
IN_ONERT = sorted(path for path in path_of("circle/mlp").parent.glob("*.circle") if path.stem not in NOT_IN_ONERT)
LITERT_MODELS = ("cnn", "cnn_int8", "if_cond", "while_nested", "transformer_block", "custom_op", "debug_metadata")


class Event(NamedTuple):
    """An event as LiteRT records it; times in microseconds."""

    tag: str
    type: int
    start: int
    elapsed: int
    number: int
    subgraph: int


def onert_traces(model: Path, runs: int, folder: Path) -> dict[str, bytes]:
    """Run a model in onert with its tracing on; return the three files that it writes, by name."""
    need("onert")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.oracles.onert_runs", str(model), str(runs)],
        cwd=folder,
        env=os.environ | {"TRACING_MODE": "1", "PYTHONPATH": with_root()},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def litert_events(model: Path, runs: int, variant: str = "builtin") -> tuple[Event, ...]:
    """Run a model in a variant of LiteRT; return what it recorded."""
    return litert_record(model, runs, variant)[0]


@cache
def litert_record(model: Path, runs: int, variant: str = "builtin") -> tuple[tuple[Event, ...], bytes]:
    """Run a model in LiteRT; return the events, and its own summary of them. Runs once for equal arguments."""
    need("ai_edge_litert")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.oracles.litert_events", str(model), str(runs), variant],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    document = json.loads(done.stdout)
    return tuple(Event(*event) for event in document["events"]), document["summary"].encode()


def as_atrace(events: Iterable[Event]) -> bytes:
    """Write events as atrace_profiler.cc marks them: TAG@<number>/<subgraph>, by begins and ends.

    What a delegate reports when its run is over (DELEGATE_PROFILED_OPERATOR) and telemetry are not begins and ends,
    and so no marks.
    """
    lines = ["# tracer: nop", "#"]
    open_events: list[Event] = []

    def write(microseconds: int, text: str) -> None:
        seconds = f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06}"
        lines.append(f"   app-77    (   70) [001] .... {seconds}: tracing_mark_write: {text}")

    def close(until: Event | None) -> None:
        while open_events and (until is None or not _within(until, open_events[-1])):
            event = open_events.pop()
            write(event.start + event.elapsed, "E|70")

    for event in events:
        if event.type < DELEGATE_PROFILED_OPERATOR:
            close(event)
            write(event.start, f"B|70|{event.tag}@{event.number}/{event.subgraph}")
            open_events.append(event)
    close(None)
    return "\n".join([*lines, ""]).encode()


def as_events(events: Iterable[Event]) -> bytes:
    """Write events as the fields of LiteRT's `ProfiledEventData`."""
    names = ("tag", "event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")
    return json.dumps({"events": [dict(zip(names, event, strict=True)) for event in events]}).encode()


def _within(event: Event, outer: Event) -> bool:
    end = outer.start + outer.elapsed
    return event.start < end or (event.start == end and outer.type != OPERATOR and event.type == OPERATOR)


class Row(NamedTuple):
    """A row of benchmark_model's table; `times` in microseconds, in order of execution."""

    subgraph: int
    kind: str
    name: str
    times: list[int]


def as_rows(events: Iterable[Event], output: str = "out") -> list[Row]:
    """Collect events as profile_summarizer.cc does: by name, in order of appearance."""
    rows: dict[tuple[int, str], Row] = {}
    for event in events:
        if event.type == OPERATOR:
            kind, name = event.tag, f"[{output}]:{event.number}"
        elif event.type == DELEGATE_PROFILED_OPERATOR:
            kind, name = event.tag, f"Delegate/{event.tag}:{event.number}"
        elif event.type == 1 and event.tag != "Invoke":
            kind, name = event.tag, f"{event.tag}/{event.subgraph}"
        else:
            continue
        rows.setdefault((event.subgraph, name), Row(event.subgraph, kind, name, [])).times.append(event.elapsed)
    return list(rows.values())


def as_report(rows: Iterable[Row], runs: int, *, text: bool = False, start: bool = False) -> bytes:
    """Write a report as stats_calculator.cc and profile_summary_formatter.cc do; `start` as they once did."""
    by_subgraph: dict[int, list[Row]] = {0: []}
    for row in rows:
        by_subgraph.setdefault(row.subgraph, []).append(row)
    lines = ["Operator-wise Profiling Info for Regular Benchmark Runs:"]
    for subgraph, members in sorted(by_subgraph.items()):
        if len(by_subgraph) > 1:
            title = f"Subgraph (index: {subgraph})" if subgraph else "Primary graph"
            lines.append(f"{title} profile:")
        for metric in ("Run Order", "Top by Computation Time"):
            lines.append(f"{'=' * 30} {metric} {'=' * 30}")
            lines.append(_header(text, start))
            ordered = sorted(members, key=lambda row: -sum(row.times)) if metric != "Run Order" else members
            lines += [_line(row, runs, text, start) for row in ordered]
            lines.append("")
        lines += [f"Number of nodes executed: {len(members)}", ""]
        if subgraph:
            lines.append(f"Subgraph (index: {subgraph}) Timings (microseconds): count={runs} curr=1")
        else:
            lines.append(f"Timings (microseconds): count={runs} first=9 curr=1 min=1 max=9 avg=3.5 std=2")
        lines += ["Memory (bytes): count=0", f"{len(members)} nodes observed", "", ""]
    return "\n".join(lines).encode()


def _header(text: bool, start: bool) -> str:
    if not text:
        return f"node type,{' start,' if start else ''} first, avg_ms, %, cdf%, mem KB, times called, name"
    titles = ["node type", *(["start"] if start else []), "first", "avg ms", "%", "cdf%", "mem KB", "times called"]
    return "".join(f"\t{f'[{title}]':>10}" for title in titles) + "\t[Name]"


def _line(row: Row, runs: int, text: bool, start: bool) -> str:
    numbers = [0.5] if start else []
    numbers += [row.times[0] / 1000, sum(row.times) / len(row.times) / 1000]
    called = len(row.times) // runs
    if not text:
        name = row.name if start else row.name.replace(",", "\t")
        values = [*(f"{number:g}" for number in numbers), "12.5%", "100%", "0", str(called)]
        return ", ".join([row.kind, *values, name])
    values = [*(f"{number:.3f}" for number in numbers), "12.500%", "100.000%", "0.000", str(called)]
    return "".join(f"\t{value:>9}" for value in [f"{row.kind:>24}", *values]) + f"\t{row.name}"


def event(name: str, phase: str, time: object, track: str = "$0 sess, $0 subg, cpu") -> dict[str, object]:
    """Return an event of onert's trace."""
    return {"name": name, "pid": "0", "tid": track, "ph": phase, "ts": time, "args": {"session": "0"}}
