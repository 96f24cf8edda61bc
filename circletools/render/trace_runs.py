"""The runs and executions of an NNAPI trace, as parts of its JSON document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.executions import ExecutionColumns
from circletools.trace.nnapi.timeline import APP_PHASES, OUTSIDE, run_of
from circletools.trace.nnapi.wall_clock import OWN_PROCESS, SHARED, Share

Document = dict[str, Any]
WHOLE = "all"
"""The application phase of a whole run."""


def runs_json(analysis: Analysis) -> Iterator[Document]:
    """Yield all runs; the time outside any run, if any, comes first."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, segment in enumerate(analysis.executions.segments.tolist()):
        places[segment].append(place)
    names = ("index", "process", "name", "start_ns", "partial")
    if OUTSIDE in analysis.tables or OUTSIDE in places:
        outside = zip(names, (-1, -1, "", -1, False), strict=True)
        yield {**dict(outside), **clock_json(()), "parts": _parts(analysis, [OUTSIDE], places)}
    for run in analysis.runs:
        shares = clock_json(analysis.run_clock.shares([run.index]))
        segments = range(run.first_segment, run.first_segment + len(APP_PHASES))
        yield {name: getattr(run, name) for name in names} | shares | {"parts": _parts(analysis, segments, places)}


def _parts(analysis: Analysis, segments: Sequence[int], places: Mapping[int, list[int]]) -> list[Document]:
    """Return the whole run, then its phases if there are several; `places` holds execution indices by segment.

    Buckets are thread time; the wall-clock time is that of executions.
    """
    every = sorted(place for segment in segments for place in places.get(segment, ()))
    parts = [(WHOLE, analysis.tables.total(segments), every)]
    known = [segment for segment in segments if segment in analysis.tables]
    for segment in known if len(known) > 1 else ():
        parts.append((run_of(segment)[1], analysis.tables[segment], places.get(segment, [])))
    return [
        {
            "app_phase": phase,
            "covered_ns": table.covered_ns,
            "buckets": table.to_rows(),
            "executions": executions_json(analysis.executions.only(np.array(some, np.int64))),
            "wall_clock": shares_json(analysis.wall_clock.shares(some)),
        }
        for phase, table, some in parts
    ]


def summary(times: Iterable[int]) -> Document:
    """Return the number, sum, minimum, median, 90th percentile (nearest rank) and maximum; empty without times."""
    ordered = sorted(times)
    if not ordered:
        return {}
    count = len(ordered)
    median_ns, p90_ns = (ordered[(count - 1) // 2] + ordered[count // 2]) // 2, ordered[-(-9 * count // 10) - 1]
    found = {"count": count, "total_ns": sum(ordered), "min_ns": ordered[0]}
    return found | {"median_ns": median_ns, "p90_ns": p90_ns, "max_ns": ordered[-1]}


def executions_json(executions: ExecutionColumns, *, alike: bool = True) -> Document:
    """Return the times of executions, and the largest number in flight at once.

    If several are `alike`, the first time and the median of the others are added.
    """
    elapsed = (executions.ends - executions.starts).tolist()
    found = summary(elapsed)
    if not found:
        return {"count": 0}
    if alike and elapsed[1:]:
        found |= {"first_ns": elapsed[0], "rest_median_ns": summary(elapsed[1:])["median_ns"]}
    starts = np.sort(executions.starts)
    begun, ended = np.arange(1, len(starts) + 1), np.searchsorted(np.sort(executions.ends), starts, "right")
    return found | {"most_at_once": int((begun - ended).max(initial=1))}


def groups_json(analysis: Analysis) -> Iterator[Document]:
    """Yield the times of executions in each of the application's phases, outside runs, and on the CPU only."""
    segments, own = analysis.executions.segments, defaultdict[str, Any](int)
    for (layer, *_), times in analysis.wall_clock.each():
        own[layer] += times
    phases = np.where(segments == OUTSIDE, 0, (segments - 1) % len(APP_PHASES))
    groups = {name: phases == at for at, name in enumerate(APP_PHASES) if at}
    groups["outside runs"] = (segments == OUTSIDE) & bool(analysis.runs)
    groups["CPU only"] = own["LC"] * (own["LI"] + own["LD"] + own[SHARED[0]] == 0) > 0
    for name, chosen in groups.items():
        if chosen.any():
            yield {"group": name} | executions_json(analysis.executions.only(chosen), alike=False)


def clock_json(shares: Sequence[Share]) -> Document:
    """Return the elapsed time, and its shares."""
    return {"elapsed_ns": sum(share.self_ns for share in shares), "wall_clock": shares_json(shares)}


def shares_json(shares: Iterable[Share]) -> list[Document]:
    """Return shares of wall-clock time, by layer, phase and driver."""
    return [
        {
            "layer": layer,
            "phase": phase,
            "driver_process": None if process == OWN_PROCESS else process,
            "self_ns": self_ns,
            "inclusive_ns": inclusive_ns,
        }
        for layer, phase, process, self_ns, inclusive_ns in sorted(shares)
    ]
