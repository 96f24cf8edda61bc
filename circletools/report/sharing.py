"""The times of operators shared out evenly among groups of them: their sources, and the modules of these."""

from __future__ import annotations

import re
from collections.abc import Mapping

from circletools.origin.names import scopes
from circletools.report.joining import Measured, Place, Time, median
from circletools.trace.operators import OperatorTrace

_SEPARATORS = re.compile("::|/")


def split(total: int, count: int) -> list[int]:
    """Divide `total` into `count` parts that differ by 1 at most, the larger ones first."""
    part, rest = divmod(total, count)
    return [part + (position < rest) for position in range(count)]


def modules_of(source_name: str, depth: int | None = None) -> list[str]:
    """Return the module paths that a source's name holds, cut to `depth` parts: all but the last part of a path.

    Paths are divided by `::` or `/`; a converter joins the names of fused operators with `;`. A name without a path
    stands for itself.
    """
    found = [_cut(scope, depth) for scope in scopes(source_name)]
    return list(dict.fromkeys(found)) or [source_name]


def _cut(scope: str, depth: int | None) -> str:
    if depth is None:
        return scope
    ends = [match.start() for match in _SEPARATORS.finditer(scope) if match.start() > 0]
    return scope[: ends[depth - 1]] if len(ends) >= depth else scope


class Shares:
    """Adds up what groups get of the operators' times."""

    def __init__(self, measured: Mapping[Place, Measured], trace: OperatorTrace) -> None:
        self.measured = measured
        self.trace = trace
        self.totals: dict[int | str | None, int] = {}
        self.parts: dict[int | str | None, dict[Place, float]] = {}
        self._medians: dict[frozenset[tuple[Place, float]], int | None] = {}

    def of(self, row: OperatorTime, count: int) -> list[int]:
        return split(row.time.total_ns if row.time else 0, count)

    def add(self, group: int | str | None, row: OperatorTime, share: int, count: int) -> None:
        """Give `share`, one of `count`, of an operator's time to a group."""
        parts = self.parts.setdefault(group, {})
        self.totals[group] = self.totals.get(group, 0) + share
        place = (row.subgraph, row.index)
        parts[place] = parts.get(place, 0.0) + 1 / count

    def group(self, key: int | str | None, source: int | None, name: str | None) -> GroupTime:
        parts = self.parts[key]
        runs = sum(self.measured[place].runs for place in parts if place in self.measured)
        shared = any(part < 0.999999 for part in parts.values())
        time = Time(runs, self.totals[key], self._median(parts))
        return GroupTime(source, name, tuple(sorted(parts)), shared, time)

    def median(self, parts: Mapping[Place, float]) -> int | None:
        known = frozenset((place, part) for place, part in parts.items() if place in self.measured)
        if known not in self._medians:  # many sources of one operator have the same
            executions: Counter[int] = Counter()
            times: dict[int, float] = {}
            for place, part in known:
                for execution, time in self.measured[place].executions.items():
                    times[execution] = times.get(execution, 0.0) + time * part
            executions.update({execution: round(time) for execution, time in times.items()})
            self._medians[known] = median(executions, self.trace)
        return self._medians[known]


