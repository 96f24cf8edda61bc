"""The costs of one subgraph as arrays: operator times, the tensors between operators, copies, and device memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.solvers.groups import Partition, group_of
from circletools.graph.algorithms import Dag, distinct_edges
from circletools.graph.graph import Graph

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
_ENTRY_BYTES = 32  # bytes charged for an entry of a set


@dataclass(frozen=True, slots=True)
class Links:
    """The costs of copies and launches, by device number.

    `overhead_us` and `us_per_byte` have the shape (devices, devices), source by target, with zeros on the diagonal.
    `launch_us` and `constant_us_per_byte` (the cost of loading one byte of a partition's constants) have the shape
    (devices,); None for the latter means that constants are free.
    """

    overhead_us: Floats
    us_per_byte: Floats
    launch_us: Floats
    constant_us_per_byte: Floats | None = None


@dataclass(frozen=True, slots=True)
class CostTable:
    """Operators 0..n-1, devices 0..d-1, and the tensors that pass between operators.

    `times_us` has the shape (n, d), infinite where a device cannot run an operator. `producers` and `sizes_bytes`
    have an item per tensor; `read` and `readers` are distinct pairs of a tensor and an operator that reads it.
    """

    times_us: Floats
    producers: Indices
    sizes_bytes: Floats
    read: Indices
    readers: Indices
    links: Links

    def copy_us(self, tensors: Indices, sources: Indices | int, targets: Indices | int) -> Floats:
        """Return the cost of copying tensors between devices."""
        overhead, rate = self.links.overhead_us[sources, targets], self.links.us_per_byte[sources, targets]
        copied: Floats = overhead + self.sizes_bytes[tensors] * rate
        return copied


def make_cost_table(facts: Graph, times_us: Floats, links: Links) -> CostTable:
    """Return the costs of a subgraph. Operators that depend only on constants take no time and need no copies.

    Raises ModelFormatError for a tensor that does not exist.
    """
    return cost_table(
        contents(facts), np.where(np.isin(np.arange(len(facts)), facts.folded)[:, None], 0.0, times_us), links
    )


def cost_table(what: Contents, times_us: Floats, links: Links) -> CostTable:
    """Return the costs of units that have these times and pass the tensors in `what`."""
    makers = what.producers[what.read]
    passed = (makers >= 0) & (makers != what.readers)
    size = max(len(what.sizes_bytes), len(times_us))
    read, readers = distinct_edges(size, what.read[passed], what.readers[passed])
    tensors, number = np.unique(read, return_inverse=True)
    return CostTable(times_us, what.producers[tensors], what.sizes_bytes[tensors], number, readers, links)


# --- the objective, shared by all code that compares assignments --------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """The time of one run in microseconds, with operators executed sequentially.

    `operators_without_time` counts operators whose time on their device is unknown (taken as 0). `constants_us` is
    the time to load the constants of the partitions; each partition loads its own copy.
    """

    operators_us: float
    copies_us: float
    launches_us: float
    operators_without_time: int
    constants_us: float = 0.0

    @property
    def total_us(self) -> float:
        """Return the total."""
        return self.operators_us + self.copies_us + self.launches_us + self.constants_us


def evaluate(
    problem: CostTable, numbers: Sequence[int] | Indices, launched: Sequence[int] | Indices = ()
) -> Estimate:
    """Return the cost if operators run on the devices `numbers`; `launched` lists the device of each partition.

    The cost comprises all operators, one copy of each tensor to each other device that reads it, and all launches.
    """
    devices = np.asarray(numbers, np.int64)
    times = problem.times_us[np.arange(len(devices)), devices]
    known = np.isfinite(times)
    tensors, targets = crossings(problem, devices)
    copies = problem.copy_us(tensors, devices[problem.producers[tensors]], targets)
    launches = problem.links.launch_us[np.asarray(launched, np.int64)]
    operators_us, copies_us, launches_us = (float(part.sum()) for part in (times[known], copies, launches))
    return Estimate(operators_us, copies_us, launches_us, int((~known).sum()))


def crossings(problem: CostTable, devices: Indices) -> tuple[Indices, Indices]:
    """Return each pair of a tensor and a device to which it is copied, as two arrays."""
    targets = devices[problem.readers]
    across = targets != devices[problem.producers[problem.read]]
    count = problem.times_us.shape[1]
    pairs = np.unique(problem.read[across] * count + targets[across])
    return pairs // count, pairs % count


# --- memory use of each device: its constants, and the peak bytes of computed tensors -------------------------
#     constants      every buffer that an operator on the device reads, counted once; also the results of operators
#                    that depend only on constants, and the buffers that these operators read
#     activations    a tensor lives on the device that makes it until its last reader on any device has run, or to the
#                    end if it is an output of the subgraph; on a device that it is copied to (or that reads an input
#                    of the subgraph), from the start of the first partition that reads it until its last reader there
#
# Operators run one after another, in the order of the partitions. Memory that a device's compiler adds (scratch
# space, alignment, repacked constants) is not included.


@dataclass(frozen=True, slots=True)
class Contents:
    """The tensors of a subgraph, as needed to compute memory use.

    `constants` are distinct pairs of an operator and a buffer that it reads; `buffer_bytes` has an item per buffer,
    and `producers` an item per tensor (-1 for inputs); `read` and `readers` are pairs of a tensor and an operator
    that reads it; `kept` tensors are outputs of the subgraph.
    """

    constants: tuple[Indices, Indices]
    buffer_bytes: Floats
    sizes_bytes: Floats
    producers: Indices
    read: Indices
    readers: Indices
    kept: Indices


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory used on one device in bytes: constants, and the peak of computed tensors."""

    constants_bytes: int
    activations_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return the total."""
        return self.constants_bytes + self.activations_bytes


def contents(facts: Graph) -> Contents:
    """Return the tensors that operators of a subgraph read and produce.

    Raises ModelFormatError for a missing tensor.
    """
    inputs, outputs = (row[(row >= 0) & (row < len(facts.values))] for row in (facts.inputs, facts.outputs))
    computed = facts.producer >= 0
    computed[inputs] = True
    readers, read = facts.reads
    once = np.isin(facts.producer, facts.folded)  # computed before anything else runs
    fixed = ~computed[read] | once[read]
    buffers = facts.values.buffers
    data = np.array([len(buffer.data) for buffer in facts.values.model.buffers], np.float64)
    if facts.folded:  # the results of these operators count as buffers too
        buffers = np.where(once, len(data) + np.arange(len(once)), buffers)
        data = np.concatenate([data, facts.values.bytes])
    constants = np.unique(np.stack([readers[fixed], buffers[read[fixed]]], axis=1), axis=0)
    constants = _passed_constants(facts, constants)
    return Contents(
        (constants[:, 0], constants[:, 1]),
        data,
        facts.values.bytes,
        np.where(once, -1, facts.producer),
        read[~fixed],
        readers[~fixed],
        np.unique(outputs[computed[outputs]]),
    )


def _passed_constants(facts: Graph, constants: Indices) -> Indices:
    """Return pairs of operators and buffers; operators that read only constants pass buffers to their readers."""
    if not facts.folded:
        return constants
    held: dict[int, set[int]] = {}
    for operator, buffer in constants.tolist():
        held.setdefault(operator, set()).add(buffer)
    fixed, graph = set(facts.folded), facts.dag
    charge = facts.operators.model.wire.budget.tally("the constants that operators pass on")
    for operator in graph.order:
        if operator in fixed:
            row = held.pop(operator)
            for reader in graph.successors[operator]:
                charge(_ENTRY_BYTES * len(row))
                held.setdefault(reader, set()).update(row)
    pairs = sorted((operator, buffer) for operator, row in held.items() for buffer in row)
    return np.array(pairs, np.int64).reshape(-1, 2)


def contracted(what: Contents, label: Indices) -> Contents:
    """Return the values that units read and produce, given each operator's unit, or -1 if it is in none.

    Values that only their own unit reads count only while that unit runs.
    """
    operators, buffers = what.constants
    pairs = np.unique(np.stack([label[operators], buffers], axis=1), axis=0)
    producers = np.append(label, -1)[what.producers]  # -1 stays -1
    return replace(what, constants=(pairs[:, 0], pairs[:, 1]), producers=producers, readers=label[what.readers])


def footprints(what: Contents, graph: Dag, partitions: Sequence[Partition], devices: int) -> list[Footprint]:
    """Return the memory used on each device if the partitions run in this order."""
    count = sum(len(partition.operators) for partition in partitions)
    home, place, begins = (np.zeros(count, np.int64) for _ in range(3))
    number = np.zeros(count, np.int64)
    number[graph.order] = np.arange(count)
    rows = [np.array(partition.operators, np.int64) for partition in partitions]
    order = np.fromiter(chain.from_iterable(row[np.argsort(number[row])] for row in rows), np.int64, count)
    place[order] = np.arange(count)
    for partition, row in zip(partitions, rows, strict=True):
        home[row] = partition.device
        begins[row] = place[row].min()
    operators, buffers = what.constants
    width = max(len(what.buffer_bytes), 1)
    held = np.unique(home[operators] * width + buffers)
    constants = np.bincount(held // width, what.buffer_bytes[held % width], minlength=devices)
    peaks = _peaks(what, home, place, begins, devices)
    return [Footprint(int(total), int(peak)) for total, peak in zip(constants, peaks, strict=True)]


def _peaks(what: Contents, home: Indices, place: Indices, begins: Indices, devices: int) -> Floats:
    """Return the peak size of computed tensors on each device, in bytes."""
    count, tensors = len(home), len(what.sizes_bytes)
    last = np.full(tensors, -1, np.int64)
    made = np.flatnonzero(what.producers >= 0)
    last[made] = place[what.producers[made]]
    np.maximum.at(last, what.read, place[what.readers])
    last[what.kept] = count - 1
    # A tensor lives on the device that produces it, and separately on each other device that reads it.
    reads_at = home[what.readers]
    away = (what.producers[what.read] < 0) | (home[what.producers[what.read]] != reads_at)
    copies, which = np.unique(what.read[away] * devices + reads_at[away], return_inverse=True)
    first, final = np.full(len(copies), count, np.int64), np.zeros(len(copies), np.int64)
    np.minimum.at(first, which, begins[what.readers[away]])
    np.maximum.at(final, which, place[what.readers[away]])
    peaks = np.zeros(devices)
    for device in range(devices):
        own = made[home[what.producers[made]] == device]
        here = copies % devices == device
        starts = np.concatenate([place[what.producers[own]], first[here]])
        ends = np.concatenate([last[own], final[here]]) + 1
        sizes = np.concatenate([what.sizes_bytes[own], what.sizes_bytes[copies[here] // devices]])
        change = np.bincount(starts, sizes, minlength=count + 1) - np.bincount(ends, sizes, minlength=count + 1)
        peaks[device] = np.cumsum(change).max(initial=0.0)
    return peaks


def estimate(
    table: CostTable, devices: Sequence[int], partitions: Sequence[Partition], what: Callable[[], Contents]
) -> Estimate:
    """Return the times of one run, with the loading of all partitions' constants, which `what` returns if needed.

    `devices` has an item for each operator.
    """
    found = evaluate(table, devices, [partition.device for partition in partitions])
    rate = table.links.constant_us_per_byte
    if rate is None:
        return found
    known = what()
    operators, buffers = known.constants
    home = np.array(group_of(len(devices), [partition.operators for partition in partitions]), np.int64)
    rows = np.stack([home[operators], np.asarray(devices, np.int64)[operators], buffers], axis=1)
    rows = np.unique(rows, axis=0)
    return replace(found, constants_us=float((known.buffer_bytes[rows[:, 2]] * rate[rows[:, 1]]).sum()))
