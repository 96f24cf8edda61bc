"""The times of operators divided evenly among groups of them, such as sources or modules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from circletools.profile.joining import Measured, Place, Time, time_in
from circletools.trace.operators.profile import OperatorTrace


@dataclass(frozen=True, slots=True)
class Shared:
    """The share of a group: its operators, and whether it shares any of them with other groups."""

    operators: tuple[Place, ...]
    shared: bool
    time: Time


class Shares:
    """Adds up the shares of groups in the operators' times; a group is a name, or None for operators without one."""

    def __init__(self, measured: Mapping[Place, Measured], trace: OperatorTrace) -> None:
        """Start with the times to divide."""
        self._measured = measured
        self._trace = trace
        self._totals: dict[Any, int] = {}
        self._parts: dict[Any, dict[Place, float]] = {}
        self._executions: dict[frozenset[tuple[Place, float]], dict[int, int]] = {}

    def add(self, group: int | str | None, place: Place, share_ns: int, part: float) -> None:
        """Assign `share_ns` of an operator's time to a group; `part` is the share as a fraction."""
        self._totals[group] = self._totals.get(group, 0) + share_ns
        parts = self._parts.setdefault(group, {})
        parts[place] = parts.get(place, 0.0) + part

    def groups(self) -> Iterator[tuple[Any, Shared]]:
        """Yield the share of every group, by name; the unnamed one comes last."""
        for group, parts in sorted(self._parts.items(), key=lambda entry: (entry[0] is None, entry[0])):
            runs = sum(self._measured[place].runs for place in parts if place in self._measured)
            shared = any(not math.isclose(part, 1) for part in parts.values())
            time = time_in(runs, self._totals[group], self._times(parts), self._trace)
            yield group, Shared(tuple(sorted(parts)), shared, time)

    def _times(self, parts: Mapping[Place, float]) -> dict[int, int]:
        """Return the time in each execution."""
        known = frozenset((place, part) for place, part in parts.items() if place in self._measured)
        if known not in self._executions:  # many sources of one operator have the same share
            times: dict[int, float] = {}
            for place, part in sorted(known):
                for execution, time in self._measured[place].executions.items():
                    times[execution] = times.get(execution, 0.0) + time * part
            self._executions[known] = {execution: round(time) for execution, time in times.items()}
        return self._executions[known]
