"""Operator graphs with the structure of real networks, of any size, and ways to assign operators to devices."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from circletools.graph.algorithms import Dag, dag_from_edges


@dataclass(slots=True)
class Shape:
    """A graph under construction: the kind of each operator, and the edges."""

    kinds: list[str] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, kind: str, *inputs: int) -> int:
        """Append an operator and return its index."""
        self.kinds.append(kind)
        self.edges += [(operator, len(self.kinds) - 1) for operator in inputs]
        return len(self.kinds) - 1

    def chain(self, start: int, *kinds: str) -> int:
        """Append a chain of operators and return the last."""
        for kind in kinds:
            start = self.add(kind, start)
        return start

    def graph(self) -> Dag:
        """Return the graph."""
        edges = np.array(self.edges, np.int64).reshape(-1, 2)
        return dag_from_edges(len(self.kinds), edges[:, 0], edges[:, 1])


def resnet(count: int) -> Shape:
    """Residual blocks; every fourth block has a projection on its shortcut."""
    shape = Shape()
    last, block = shape.add("CONV_2D"), 0
    while len(shape.kinds) < count:
        shortcut = shape.add("CONV_2D", last) if block % 4 == 0 else last
        branch = shape.chain(last, "CONV_2D", "RELU", "CONV_2D")
        last = shape.add("RELU", shape.add("ADD", branch, shortcut))
        block += 1
    return shape


def transformer(count: int, heads: int = 4) -> Shape:
    """Encoder layers with separate heads."""
    shape = Shape()
    last = shape.add("EMBEDDING_LOOKUP")
    while len(shape.kinds) < count:
        norm = shape.add("LAYER_NORM", last)
        parts = []
        for _ in range(heads):
            query, key, value = (shape.add("FULLY_CONNECTED", norm) for _ in range(3))
            weights = shape.add("SOFTMAX", shape.add("BATCH_MATMUL", query, key))
            parts.append(shape.add("BATCH_MATMUL", weights, value))
        joined = shape.chain(shape.add("CONCATENATION", *parts), "FULLY_CONNECTED")
        middle = shape.add("ADD", joined, last)
        last = shape.add(
            "ADD", shape.chain(middle, "LAYER_NORM", "FULLY_CONNECTED", "GELU", "FULLY_CONNECTED"), middle
        )
    return shape


def inception(count: int) -> Shape:
    """Blocks with four branches, the last of which has a pool."""
    shape = Shape()
    last = shape.add("CONV_2D")
    while len(shape.kinds) < count:
        branches = [
            shape.chain(last, "CONV_2D"),
            shape.chain(last, "CONV_2D", "CONV_2D"),
            shape.chain(last, "CONV_2D", "CONV_2D", "CONV_2D"),
            shape.chain(last, "AVERAGE_POOL_2D", "CONV_2D"),
        ]
        last = shape.add("CONCATENATION", *branches)
    return shape


def unet(count: int) -> Shape:
    """A contracting and an expanding path, with a skip at each step; half of the skips span over a quarter."""
    shape = Shape()
    last = shape.add("CONV_2D")
    skips = []
    while len(shape.kinds) < count // 2:
        last = shape.chain(last, "CONV_2D", "RELU")
        skips.append(last)
        last = shape.add("MAX_POOL_2D", last)
    while skips:
        last = shape.chain(last, "RESIZE_BILINEAR")
        last = shape.chain(shape.add("CONCATENATION", last, skips.pop()), "CONV_2D")
    return shape


SHAPES: dict[str, Callable[[int], Shape]] = {
    "resnet": resnet,
    "transformer": transformer,
    "inception": inception,
    "unet": unet,
}


class Kinds(Protocol):
    """A graph to assign to devices: anything that has the kind of each operator."""

    @property
    def kinds(self) -> list[str]:
        """Return the kinds."""


_SECOND = {"ADD", "SOFTMAX", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "MAX_POOL_2D"}


def by_kind(shape: Kinds) -> list[int]:
    """Return device 1 for kinds that small accelerators often lack."""
    return [int(kind in _SECOND) for kind in shape.kinds]


def by_chance(shape: Kinds, share: float = 0.1, seed: int = 0) -> list[int]:
    """Return device 1 for a random share of the operators."""
    generator = random.Random(seed)  # noqa: S311 - made input, no secret
    return [int(generator.random() < share) for _ in shape.kinds]


def by_half(shape: Kinds) -> list[int]:
    """Return device 1 for the second half of the operators."""
    return [int(2 * operator >= len(shape.kinds)) for operator in range(len(shape.kinds))]


def by_stretch(shape: Kinds, length: int = 37) -> list[int]:
    """Return devices that alternate every `length` operators."""
    return [operator // length % 2 for operator in range(len(shape.kinds))]


ASSIGNMENTS: dict[str, Callable[[Kinds], list[int]]] = {
    "kind": by_kind,
    "10% by chance": by_chance,
    "half": by_half,
    "stretches": by_stretch,
}
