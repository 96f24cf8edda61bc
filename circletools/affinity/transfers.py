"""What a partition costs: tensors that cross, copies between devices, launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circletools.model.operator_facts import OperatorFacts
from circletools.model.sizes import size_bytes
from circletools.model.views import Tensor


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor that one partition produces and others read. `size_bytes` is None where the shape is open."""

    tensor_index: int
    name: str
    producer_partition: int
    consumer_partitions: tuple[int, ...]
    copies: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Transfers:
    """The cuts of a subgraph, and sums: a copy is a tensor brought to one other device, once.

    `launches` is the number of partitions; `copied_bytes` leaves copies of tensors of unknown size out.
    """

    launches: int
    copies: int
    copied_bytes: int
    copies_of_unknown_size: int
    cuts: tuple[Cut, ...]


def transfers(facts: OperatorFacts, partitions: Sequence[int], devices: Sequence[int]) -> Transfers:
    """Return what crosses between the partitions of a subgraph; both sequences go by operator."""
    producer = dict(zip(facts.outputs.tensors.tolist(), facts.outputs.operators.tolist(), strict=True))
    for operator in facts.constants:  # every partition has what it reads of these
        for tensor in facts.output_slots.of(operator):
            producer.pop(tensor, None)
    readers: dict[int, set[int]] = {}
    for reader, tensor in zip(*(each.tolist() for each in facts.inputs), strict=True):
        maker = producer.get(tensor)
        if maker is not None and partitions[maker] != partitions[reader]:
            readers.setdefault(tensor, set()).add(reader)
    tensors = facts.model.subgraphs[facts.subgraph].tensors
    cuts = [
        _cut(tensors[tensor], producer[tensor], operators, partitions, devices)
        for tensor, operators in sorted(readers.items())
    ]
    return Transfers(
        len(set(partitions)),
        sum(cut.copies for cut in cuts),
        sum(cut.copies * (cut.size_bytes or 0) for cut in cuts),
        sum(cut.copies for cut in cuts if cut.size_bytes is None),
        tuple(cuts),
    )


def _cut(tensor: Tensor, producer: int, readers: set[int], partitions: Sequence[int], devices: Sequence[int]) -> Cut:
    consumers = tuple(sorted({partitions[reader] for reader in readers}))
    others = {devices[reader] for reader in readers} - {devices[producer]}
    return Cut(tensor.index, tensor.name, partitions[producer], consumers, len(others), size_bytes(tensor))
