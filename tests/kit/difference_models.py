"""Models to compare, and the same in another order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.flatbuf.comparison import Difference, Kind
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build
from tests.kit.renumbered import orders_of
from tests.kit.renumbered import renumbered as in_orders


def twice_listed(kind: str = "circle") -> bytes:
    """Return a model with a chain of three operators that lists its output twice."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    a = graph.compute("ADD", [x, graph.constant("one", np.ones((2, 2), np.float32))], "a")
    b = graph.compute("MUL", [a, graph.constant("two", np.full((2, 2), 2, np.float32))], "b")
    c = graph.compute("TANH", [b], "c")
    graph.ends([x], [c, c])
    build.signature("main", [("x", x)], [("first", c), ("second", c)])
    return build.to_bytes(kind)


def fix_all(edit: ModelEdit) -> object:
    return fix_outputs(edit, [0])


def renumbered(data: bytes, chosen: random.Random) -> bytes:
    """Return the model with its tensors, buffers and operator codes in another order."""
    orders = orders_of(data, lambda indices: chosen.sample(indices, len(indices)))
    return in_orders(data, replace(orders, subgraphs=range(len(orders.subgraphs))))


def at(kind: Kind, path: str, before: Any, after: Any) -> Difference:
    """Return a difference at one path in both models."""
    return Difference(kind, path, path, before, after)
