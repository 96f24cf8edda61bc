"""The figures of executions as a whole, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from circletools.profile.attribution import Attribution
from circletools.wording import counted, milliseconds


def whole_json(attribution: Attribution) -> dict[str, Any]:
    """Return the figures as a JSON object."""
    whole = attribution.whole
    return {
        "initialization_ns": whole.initialization_ns,
        "first_ns": _first_ns(attribution),
        "steady_ns": _steady_ns(attribution),
        "warm_up": attribution.warm_up,
        "memory_bytes": whole.memory_bytes,
        "threads": whole.threads,
        "range_ns": list(whole.range_ns),
        "warm_up_runs": whole.warm_up_runs,
        "initialization_parts": [{"name": name, "total_ns": total_ns} for name, total_ns in whole.parts],
        "initial_memory_bytes": whole.initial_memory_bytes,
        "memory_added": whole.memory_added,
        "model_bytes": whole.model_bytes,
    }


def _first_ns(attribution: Attribution) -> int | None:
    """Return the time of the first execution, or None if it is not in the trace."""
    whole = attribution.whole
    return whole.elapsed_ns[0] if whole.first_ns is None and whole.elapsed_ns else whole.first_ns


def _steady_ns(attribution: Attribution) -> int | None:
    """Return the median time of an execution after the warm-up, or the mean of averages; None if it is unknown."""
    settled = attribution.whole.elapsed_ns[attribution.warm_up :]
    return round(median(settled)) if settled else attribution.whole.mean_ns


def whole_cells(attribution: Attribution) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the figures that are known."""
    whole, first, steady = attribution.whole, _first_ns(attribution), _steady_ns(attribution)
    if whole.initialization_ns is not None:
        parts = ", ".join(f"{name} {milliseconds(time)}" for name, time in whole.parts)
        yield "initialization", f"{milliseconds(whole.initialization_ns)} ms{': ' * bool(parts)}{parts}"
    if whole.warm_up_runs is not None:
        yield "warm-up", counted(whole.warm_up_runs, "run")
    if first is not None:
        yield "first run", f"{milliseconds(first)} ms"
    each, outside = attribution.medians_ns or attribution.total_ns / attribution.executions, ""
    if steady is not None:
        beside = max(0.0, steady - each)
        share = f" ({100 * beside / steady:.0f} %)" if steady else ""
        outside = f", {milliseconds(round(beside))} ms{share} outside operators"
        run, spread = f"{milliseconds(steady)} ms", ""
        if whole.range_ns:
            low, high, deviation = map(milliseconds, whole.range_ns)
            percent = f"{100 * whole.range_ns[2] / max(steady, 1):.1f} %"
            spread = f", {low} to {high}, standard deviation {deviation} ({percent})"
        name, value = (
            ("average run", run + spread) if attribution.averaged else ("steady state", f"{run} a run{outside}")
        )
        yield name, value
    if attribution.averaged:
        yield "operators", f"{milliseconds(round(each))} ms a run{outside}"
    counts = [row.macs for row in attribution.operators if row.time or attribution.groups]
    if (macs := sum(count or 0 for count in counts)) and (steady or each):
        yield "rate", f"{2 * macs / (steady or each):.2f} GFLOP/s, {macs:,} MACs a run"
    if whole.threads is not None:
        yield "threads", str(whole.threads)
    if whole.memory_bytes is not None:
        added, first_bytes = (
            " more than at the start" if whole.memory_added else " peak",
            whole.initial_memory_bytes,
        )
        initial = f", {first_bytes / (1 << 20):.1f} after initialization" if first_bytes is not None else ""
        yield "memory", f"{whole.memory_bytes / (1 << 20):.1f} MiB{added}{initial}"
