"""Divide the times of operators among their sources, the sources' modules, and operator codes.

    operator's time  ->  its sources, evenly  ->  the sources' modules, evenly

The remainder of a division goes to the first parts, one nanosecond each, so that the parts add up to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from circletools.origin.modules import module_tree, split
from circletools.origin.read import Origins
from circletools.origin.source import NOTHING, SourceDetails
from circletools.profile.joining import Join, Measured, Place, Time, time_in
from circletools.trace.operators.names import KERNEL_NUMBERS
from circletools.trace.operators.profile import OperatorTrace
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class OperatorTime(Attributes):
    """An operator of the model; `time` is None if the trace does not contain it.

    `operand_bytes` is the size of its inputs and outputs, including constants; a dynamic dimension counts as 1.
    `macs` is the number of its multiply-accumulates in one run, or None if a dimension is dynamic.
    """

    subgraph: int
    index: int
    code: str
    output: str
    backends: tuple[str, ...]
    sources: tuple[int, ...]
    time: Time | None
    operand_bytes: int = 0
    macs: int | None = None


@dataclass(frozen=True, slots=True)
class GroupTime(Attributes):
    """A source, a module or an operator code; `source` is a source's id.

    The group without a name contains the operators without an origin. `shared` means that other groups share some of
    its `operators`. `details` are a source's details; `parent` is the path of the module that contains a module.
    """

    source: int | None
    name: str | None
    operators: tuple[Place, ...]
    shared: bool
    time: Time
    details: SourceDetails = NOTHING
    parent: str | None = None


def grouped_times(
    rows: Sequence[OperatorTime], joined: Join, origins: Origins, trace: OperatorTrace, depth: int | None
) -> Iterator[tuple[GroupTime, ...]]:
    """Yield the times by source, those by module, and those by operator code."""
    by_source, by_module, by_code = (_Shares(joined.operators, trace) for _ in range(3))
    tree = module_tree(origins, depth)
    for row in rows:
        place = (row.subgraph, row.index)
        sources: Sequence[int | None] = row.sources or (None,)
        by_code.add(KERNEL_NUMBERS.sub("", row.code), place, row.time.total_ns if row.time else 0, 1)
        shares = split(row.time.total_ns if row.time else 0, len(sources))
        for source, share in zip(sources, shares, strict=True):
            by_source.add(source, place, share, 1 / len(sources))
            modules: Sequence[int | None] = (None,) if source is None else tree.of_source[source]
            for module, part in zip(modules, split(share, len(modules)), strict=True):
                for above in (None,) if module is None else tree.upwards(module):
                    by_module.add(above, place, part, 1 / len(sources) / len(modules))
    yield tuple(
        GroupTime(source, origins.sources.get(source), *share, origins.details.get(source, NOTHING))
        for source, share in by_source.groups()
    )
    yield tuple(
        GroupTime(None, None, *share)
        if row is None
        else GroupTime(None, tree.paths[row], *share, parent=tree.parent(row))
        for row, share in by_module.groups()
    )
    yield tuple(GroupTime(None, code, *share) for code, share in by_code.groups())


class _Shares:
    """Sums the shares of groups (a source, module or code; None: operators without one) in the operators' times."""

    def __init__(self, measured: Mapping[Place, Measured], trace: OperatorTrace) -> None:
        self._measured, self._trace = measured, trace
        self._totals: dict[Any, int] = {}
        self._parts: dict[Any, dict[Place, float]] = {}
        self._executions: dict[frozenset[tuple[Place, float]], dict[int, int]] = {}

    def add(self, group: int | str | None, place: Place, share_ns: int, part: float) -> None:
        """Assign `share_ns` of an operator's time to a group; `part` is the share as a fraction."""
        self._totals[group] = self._totals.get(group, 0) + share_ns
        parts = self._parts.setdefault(group, {})
        parts[place] = parts.get(place, 0.0) + part

    def groups(self) -> Iterator[tuple[Any, tuple[tuple[Place, ...], bool, Time]]]:
        """Yield the operators of every group, whether it shares them, and its time; without a name, it comes last."""
        for group, parts in sorted(self._parts.items(), key=lambda entry: (entry[0] is None, entry[0])):
            runs = sum(self._measured[place].runs for place in parts if place in self._measured)
            shared = any(not math.isclose(part, 1) for part in parts.values())
            yield (
                group,
                (tuple(sorted(parts)), shared, time_in(runs, self._totals[group], self._times(parts), self._trace)),
            )

    def _times(self, parts: Mapping[Place, float]) -> dict[int, int]:
        """Return the time of these parts in each execution."""
        known = frozenset((place, part) for place, part in parts.items() if place in self._measured)
        if known not in self._executions:  # many sources of one operator have the same share
            times: dict[int, float] = {}
            for place, part in sorted(known):
                for execution, time in self._measured[place].executions.items():
                    times[execution] = times.get(execution, 0.0) + time * part
            self._executions[known] = {execution: round(time) for execution, time in times.items()}
        return self._executions[known]
