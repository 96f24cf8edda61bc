"""Transfer costs of partitions: cut tensors, copies between devices, launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circletools.graph.columns import Values
from circletools.graph.graph import Graph
from circletools.model.views import text


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor that one partition produces and others read. `size_bytes` is None if the shape is not known."""

    tensor_index: int
    name: str
    producer_partition: int
    consumer_partitions: tuple[int, ...]
    copies: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Transfers:
    """The cuts of a subgraph, and totals: a copy brings a tensor to one other device, once.

    `launches` is the number of partitions; `copied_bytes` omits tensors of unknown size.
    """

    launches: int
    copies: int
    copied_bytes: int
    copies_of_unknown_size: int
    cuts: tuple[Cut, ...]


def transfers(facts: Graph, partitions: Sequence[int], devices: Sequence[int]) -> Transfers:
    """Return the transfers between the partitions of a subgraph; both sequences are by operator."""
    producer = dict(zip(facts.definitions.values.tolist(), facts.definitions.operators.tolist(), strict=True))
    for operator in facts.folded:  # every partition holds the results it reads
        for tensor in facts.results.of(operator):
            producer.pop(tensor, None)
    readers: dict[int, set[int]] = {}
    for reader, tensor in zip(*(each.tolist() for each in facts.uses), strict=True):
        maker = producer.get(tensor)
        if maker is not None and partitions[maker] != partitions[reader]:
            readers.setdefault(tensor, set()).add(reader)
    cuts = [
        _cut(facts.values, tensor, producer[tensor], operators, (partitions, devices))
        for tensor, operators in sorted(readers.items())
    ]
    return Transfers(
        len(set(partitions)),
        sum(cut.copies for cut in cuts),
        sum(cut.copies * (cut.size_bytes or 0) for cut in cuts),
        sum(cut.copies for cut in cuts if cut.size_bytes is None),
        tuple(cuts),
    )


def _cut(
    values: Values, tensor: int, producer: int, readers: set[int], homes: tuple[Sequence[int], Sequence[int]]
) -> Cut:
    """Return the cut of a tensor; `homes` has the partition and the device of each operator."""
    partitions, devices = homes
    consumers = tuple(sorted({partitions[reader] for reader in readers}))
    others = {devices[reader] for reader in readers} - {devices[producer]}
    name, size = text(values.names[tensor]), values.size_bytes(tensor)
    return Cut(tensor, name, partitions[producer], consumers, len(others), size)
