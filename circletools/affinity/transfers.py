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

    tensor: int
    name: str
    producer: int
    consumers: tuple[int, ...]
    devices: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Transfers:
    """The cuts of a subgraph, and sums: a copy is a tensor brought to one other device, once.

    `unsized` are the copies of tensors of unknown size, which `copied_bytes` leaves out; `launches` is the number of
    partitions.
    """

    cuts: tuple[Cut, ...]
    copies: int
    copied_bytes: int
    unsized: int
    launches: int


def transfers(facts: OperatorFacts, partitions: Sequence[int], devices: Sequence[int]) -> Transfers:
    """Return what crosses between the partitions of a subgraph; both sequences go by operator."""
    producer = dict(zip(facts.outputs.tensors.tolist(), facts.outputs.operators.tolist(), strict=True))
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
        tuple(cuts),
        sum(cut.devices for cut in cuts),
        sum(cut.devices * (cut.size_bytes or 0) for cut in cuts),
        sum(cut.devices for cut in cuts if cut.size_bytes is None),
        len(set(partitions)),
    )


def _cut(tensor: Tensor, producer: int, readers: set[int], partitions: Sequence[int], devices: Sequence[int]) -> Cut:
    consumers = tuple(sorted({partitions[reader] for reader in readers}))
    others = {devices[reader] for reader in readers} - {devices[producer]}
    return Cut(tensor.index, tensor.name, partitions[producer], consumers, len(others), size_bytes(tensor))
