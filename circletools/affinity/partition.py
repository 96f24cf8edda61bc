"""A partition: operators that one device runs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """Operators, ascending, that one device (given by its number) runs in one go."""

    device: int
    operators: tuple[int, ...]


def group_of(count: int, partitions: Sequence[Sequence[int]]) -> list[int]:
    """Return for each of `count` operators the index of its partition."""
    home = {operator: index for index, partition in enumerate(partitions) for operator in partition}
    return [home[operator] for operator in range(count)]


def devices_of(count: int, partitions: Sequence[Partition]) -> list[int]:
    """Return the device of each of `count` operators."""
    home = {operator: partition.device for partition in partitions for operator in partition.operators}
    return [home[operator] for operator in range(count)]
