"""The optimization problem of one subgraph, an immutable value: choose a device and a partition for each unit.

Every solver takes a `Problem` and returns candidates: partitions in execution order. Every result is checked by
`violations`, and every solver computes times as `total_us` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import (
    Contents,
    CostTable,
    Floats,
    contents,
    contracted,
    cost_table,
    estimate,
    footprints,
)
from circletools.affinity.solvers.groups import (
    Partition,
    Units,
    connected,
    devices_of,
    gathered,
    group_of,
    make_units,
    of_operators,
    working,
)
from circletools.affinity.solvers.partitions import Mode, with_constants
from circletools.errors import EditError, UsageError
from circletools.graph.algorithms import Dag
from circletools.graph.graph import Graph
from circletools.wording import Attributes, nearest, suggestion

# --- limits on the partitions of a device ---------------------------------------------------------------------
#     npu:max-partitions=4        at most 4 partitions, the most profitable ones
#     npu:min-operators=5         at least 5 operators each; likewise min-bytes and min-us
#     npu:max-operators=100       at most 100 operators each; likewise max-bytes
#
# The bytes of a partition are those of the constants it reads, each counted once, and of the tensors it produces.


Kind = Literal["max-partitions", "min-operators", "min-bytes", "min-us", "max-operators", "max-bytes"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Limit(Attributes):
    """A limit on each partition of a device, or on the number of its partitions."""

    device: str
    kind: Kind
    number: float

    def __str__(self) -> str:
        """Return the limit in the syntax of the option."""
        return f"limit {self.device}:{self.kind}={self.number:g}"

    @property
    def is_upper(self) -> bool:
        """Whether this is an upper limit on the size of each partition."""
        return self.kind in ("max-operators", "max-bytes")

    @property
    def measure(self) -> str:
        """Return the limited quantity: partitions, operators, bytes or us."""
        return self.kind[4:]


def parse_limit(words: str) -> Limit:
    """Parse DEVICE:KIND=NUMBER. Raises UsageError."""
    left, _, number = words.rpartition("=")
    device, _, word = left.rpartition(":")
    kind = next((kind for kind in KINDS if kind == word), None)
    if not device or kind is None:
        likely = [one for one in KINDS if word and word in one and "operators" in one]
        likely += [one for one in KINDS if one == nearest(word, KINDS)] or [KINDS[0]]
        meant = f"{device or 'DEVICE'}:{likely[0]}={number if left else 'NUMBER'}"
        hint = f"write {meant}; kinds: {', '.join(KINDS)}"
        raise UsageError(f"`limits={words}` is not DEVICE:KIND=NUMBER", hint=hint)
    try:
        limit = float(number) if kind == "min-us" else int(number)
    except ValueError:
        limit = -1
    if not 0 <= limit <= 1e15:
        raise UsageError(f"`limits={words}`: {number!r} is not a number from 0 to 1e15")
    return Limit(device, kind, limit)


def check_limits(limits: Sequence[Limit], devices: Sequence[str], *, has_costs: bool) -> None:
    """Raise UsageError for invalid limits, and EditError for two limits that contradict each other."""
    for number, limit in enumerate(limits):
        if limit.device not in devices:
            hint = suggestion(limit.device, devices)
            raise UsageError(f"{limit}: unknown device {limit.device!r}", hint=hint)
        if limit.kind == "min-us" and not has_costs:
            raise UsageError(f"{limit} needs costs", hint="add `costs=FILE` or `traces=DEVICE=TRACE`")
        if any((other.device, other.kind) == (limit.device, limit.kind) for other in limits[:number]):
            raise UsageError(f"{limit}: duplicate {limit.kind} for {limit.device!r}")
    for least, most in product(limits, limits):
        same = (least.device, least.measure) == (most.device, most.measure)
        if same and least.kind.startswith("min") and most.kind.startswith("max") and least.number > most.number:
            raise EditError(f"{least} and {most} cannot be met together")


@dataclass(frozen=True)
class Problem:
    """Units 0..n-1 of a subgraph, devices 0..d-1, and the constraints on partitions.

    `graph` holds the edges between units. Operators that must stay together form one unit; those that depend only on
    constants are in no unit. `table` holds the costs, with infinite times on devices that a unit may not use.
    `contents` holds the values that units read and produce, and `operators` the number of operators in each unit.
    `limits` pairs device numbers with limits; `caps` holds device memory in bytes, and `names` the devices' names.
    """

    graph: Dag
    table: CostTable
    contents: Contents
    operators: Floats
    limits: tuple[tuple[int, Limit], ...] = ()
    caps: Mapping[int, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def devices(self) -> int:
        """The number of devices."""
        return int(self.table.times_us.shape[1])

    @property
    def is_constrained(self) -> bool:
        """Whether there are constraints other than the allowed devices of units."""
        return bool(self.limits or self.caps)

    @cached_property
    def able(self) -> NDArray[np.bool_]:
        """Whether each unit may be on each device; also false if the unit alone would be too large a partition."""
        able: NDArray[np.bool_] = np.isfinite(self.table.times_us)
        for device, limit in self.limits:
            if limit.is_upper:
                for unit in np.flatnonzero(able[:, device]).tolist():
                    able[unit, device] = self.weight(limit.measure, (unit,), device) <= limit.number
        return able

    @cached_property
    def buffers(self) -> list[list[int]]:
        """The constants that each unit reads."""
        return gathered(len(self), *(each.tolist() for each in self.contents.constants))

    @cached_property
    def made_bytes(self) -> Floats:
        """The total size in bytes of the tensors that each unit produces."""
        what = self.contents
        made = what.producers >= 0
        return np.bincount(what.producers[made], what.sizes_bytes[made], minlength=len(self)).astype(np.float64)

    def weight(self, measure: str, units: Iterable[int], device: int) -> float:
        """Return the size of a partition in operators, bytes or us (`measure`); an unknown time counts as 0.

        Its bytes are those of the constants it reads, each counted once, and of the tensors it produces.
        """
        chosen = list(units)
        if measure == "operators":
            return float(self.operators[chosen].sum())
        if measure == "bytes":
            return float(self.made_bytes[chosen].sum()) + self.constant_bytes(chosen)
        times = self.table.times_us[chosen, device]
        return float(times[np.isfinite(times)].sum())

    def constant_bytes(self, units: Iterable[int]) -> float:
        """Return the bytes of the constants that units read, each counted once."""
        read = {buffer for unit in units for buffer in self.buffers[unit]}
        return float(self.contents.buffer_bytes[sorted(read)].sum())


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A problem, the graph of all operators, and the operators of each unit in the problem."""

    problem: Problem
    graph: Dag
    members: Sequence[Sequence[int]]

    def partitions(self, candidate: Sequence[Partition]) -> tuple[Partition, ...]:
        """Return the partitions of all operators, given partitions of the problem's units."""
        return with_constants(self.graph, self.named(candidate))

    def named(self, candidate: Sequence[Partition]) -> tuple[Partition, ...]:
        """Return partitions of operators, without operators that depend only on constants."""
        return of_operators(self.members, candidate)


@dataclass(frozen=True, slots=True)
class Sizing:
    """How to form partitions: the units, the mode, and the limits.

    Partitions of fewer than `min_size` operators move to `fallback` (by default the last device), or to another
    device that is known to accept all their operators and has enough memory within `caps` (bytes, by device number);
    if there is no such device, they stay. `units` has an item per subgraph; if empty, every operator is a unit.
    `seconds` is the total time in which the integer program may search for devices or partitions.
    """

    mode: Mode = "min"
    min_size: int = 1
    fallback: str | None = None
    limits: tuple[Limit, ...] = ()
    units: Sequence[Units] = ()
    caps: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 10.0

    def units_of(self, facts: Graph) -> Units:
        """Return the units of a subgraph."""
        return self.units[facts.index] if self.units else make_units(facts)


def make_subgraph(facts: Graph, table: CostTable, sizing: Sizing, names: Sequence[str]) -> Subgraph:
    """Return the problem of a subgraph's units, given the cost table of its operators and the devices' names."""
    units = sizing.units_of(facts)
    chosen, graph = working(units.graph)
    place = np.full(len(units.members), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    label = place[np.array(units.home, np.int64)]
    works, what = label >= 0, contracted(contents(facts), label)
    times = np.zeros((len(chosen), table.times_us.shape[1]))
    np.add.at(times, label[works], table.times_us[works])
    costs, counts = cost_table(what, times, table.links), np.bincount(label[works], minlength=len(chosen))
    limits = tuple((names.index(limit.device), limit) for limit in sizing.limits)
    problem = Problem(graph, costs, what, counts.astype(np.float64), limits, sizing.caps, tuple(names))
    return Subgraph(problem, facts.dag, [units.members[unit] for unit in chosen])


# --- candidates ---------------------------------------------------------------------------------------------


Candidate = tuple[Partition, ...]


Placed = tuple[Subgraph, Candidate]
"""A subgraph as a problem, and the chosen candidate."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that a candidate violates; `limit`, `device` and `partition` are set if they are involved."""

    message: str
    device: int | None = None
    limit: Limit | None = None
    partition: Partition | None = None


def violations(problem: Problem, candidate: Candidate) -> list[Violation]:
    """Return the constraints that a candidate violates; a candidate is a solution if there are none."""
    found = list(_broken(problem, candidate))
    return found or [*_over_limits(problem, candidate), *_over_memory(problem, candidate)]


def _broken(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    """Yield the reasons why a candidate is not a set of valid partitions."""
    count, graph = len(problem), problem.graph
    if sorted(unit for partition in candidate for unit in partition.operators) != list(range(count)):
        yield Violation("some units are in no partition or in several")
        return
    home = group_of(count, [partition.operators for partition in candidate])
    for number, partition in enumerate(candidate):
        for unit in partition.operators:
            if not np.isfinite(problem.table.times_us[unit, partition.device]):
                yield Violation(f"unit {unit} may not be on device {partition.device}", partition.device)
            if any(home[before] > number for before in graph.predecessors[unit]):
                yield Violation(f"unit {unit} runs before its producers", partition=partition)
    if not graph.joins_any:
        for partition in disconnected(problem, candidate):
            yield Violation("a partition is not connected", partition.device, partition=partition)


def disconnected(problem: Problem, candidate: Candidate) -> list[Partition]:
    """Return partitions whose units are not connected by edges or by sets of units that may share a partition."""
    home = group_of(len(problem), [partition.operators for partition in candidate])
    label = connected(problem.graph, home)
    return [partition for partition in candidate if len({label[unit] for unit in partition.operators}) > 1]


def _over_limits(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    for device, limit in problem.limits:
        own = [partition for partition in candidate if partition.device == device]
        if limit.kind == "max-partitions":
            if len(own) > limit.number:
                yield Violation(f"{limit}: the count is {len(own)}", device, limit)
            continue
        for partition in own:
            weight = problem.weight(limit.measure, partition.operators, device)
            if weight > limit.number if limit.is_upper else weight < limit.number:
                yield Violation(f"{limit}: a partition has {weight:g}", device, limit, partition)


def _over_memory(problem: Problem, candidate: Candidate) -> Iterator[Violation]:
    used = footprints(problem.contents, problem.graph, candidate, problem.devices) if problem.caps else []
    for device, cap in problem.caps.items():
        found = used[device]
        if found.total_bytes > cap:
            message = (
                f"{problem.names[device]} has {cap} bytes, but would need {found.total_bytes}: "
                f"{found.constants_bytes} of constants and {found.activations_bytes} of live tensors"
            )
            yield Violation(message, device)


def total_us(problem: Problem, candidate: Candidate) -> float:
    """Return the objective in microseconds: the times of operators, copies, launches and the loading of constants."""
    devices = devices_of(len(problem), candidate)
    return estimate(problem.table, devices, candidate, lambda: problem.contents).total_us


def better(problem: Problem, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the valid candidate with the least total time and, in a tie, the fewest partitions."""
    valid = [candidate for candidate in candidates if not violations(problem, candidate)]
    return min(valid, key=lambda candidate: (round(total_us(problem, candidate), 6), len(candidate)), default=None)
