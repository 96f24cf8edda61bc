"""Smaller variants of a model, with fewer operators or outputs in a subgraph, or with constants set to zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from circletools.errors import CircleToolsError
from circletools.graph.graph import Graph
from circletools.graph.reach import Reach
from circletools.model.options import quantizations
from circletools.parts.contents import Excerpt, NewSignature, Section
from circletools.parts.names import new_signature
from circletools.parts.whole import Whole
from circletools.runtimes.protocol import Array
from circletools.storage.files import view

_STRUCTURE = {"INT32": 64, "INT64": 128, "BOOL": 16}
"""The maximum size in bytes of shapes, axes or paddings, which define an operator: 2 numbers for 8 dimensions."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The kept operators of a subgraph, in order; its outputs (None: all possible ones); the buffers set to zero."""

    subgraph: int
    operators: tuple[int, ...]
    outputs: tuple[int, ...] | None = None
    zeros: tuple[int, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Builds the variant of a model that a choice describes."""

    whole: Whole

    def graph(self, choice: Choice) -> Graph:
        """Return the graph of a choice."""
        return self.whole.graph.graphs[choice.subgraph]

    def outputs(self, choice: Choice) -> list[int]:
        """Return the possible outputs: produced tensors that are read or returned, or else all produced tensors."""
        graph, reach = self.graph(choice), Reach(self.graph(choice))
        seen = [tensor for tensor in reach.seen_outside(choice.operators) if not graph.is_handle[tensor]]
        return seen or [tensor for tensor in reach.made_by(choice.operators) if not graph.is_handle[tensor]]

    def constants(self, choice: Choice) -> list[int]:
        """Return the buffers of constants that can be set to zero without changing what an operator does."""
        read = Reach(self.graph(choice)).read_by(choice.operators)
        return sorted({buffer for _, buffer in self.free(self.graph(choice), read)})

    def free(self, graph: Graph, tensors: Iterable[int]) -> list[tuple[int, int]]:
        """Return the constants among these tensors, each with its buffer, except shapes, axes and paddings."""
        constants = [tensor for tensor in tensors if graph.values.is_constant[tensor]]
        pairs = zip(constants, graph.values.buffers[constants].tolist(), strict=True)
        return [(tensor, buffer) for tensor, buffer in pairs if buffer not in self._fixed]

    @cached_property
    def _fixed(self) -> set[int]:
        """The buffers of shapes, axes and paddings; a weight that shares one of them is kept unchanged."""
        found = set[int]()
        for values in (graph.values for graph in self.whole.graph.graphs):
            is_short = values.bytes <= [_STRUCTURE.get(kind, -1) for kind in values.types]
            is_short[list(quantizations(values.tables, values.model.schema))] = False
            found.update(values.buffers[is_short & values.is_constant].tolist())
        return found

    @cached_property
    def _texts(self) -> set[int]:
        every = (graph.values for graph in self.whole.graph.graphs)
        return set().union(*(one.buffers[one.is_type("STRING")].tolist() for one in every))

    def filled(self, buffer: int, made: bytes) -> bytes:
        """Return a buffer with other contents of the same size; strings keep their count and lengths."""
        stored = self.data(buffer)
        kept = 4 * (int.from_bytes(stored[:4], "little") + 2) if buffer in self._texts else 0
        return made if kept > len(stored) else bytes(stored[:kept]) + made[kept:]

    def excerpt(self, choice: Choice) -> Excerpt | None:
        """Return the part, or None if it would read or return a resource, or have no operators or outputs."""
        graph = self.graph(choice)
        inputs = Reach(graph).given(choice.operators)
        outputs = list(self.outputs(choice) if choice.outputs is None else choice.outputs)
        if not outputs or not choice.operators or any(graph.is_handle[tensor] for tensor in inputs):
            return None
        section = Section(choice.subgraph, choice.operators, inputs, outputs)
        zeros = set(choice.zeros).intersection(self.constants(choice) if choice.zeros else ())
        data = {buffer: self.filled(buffer, bytes(len(self.data(buffer)))) for buffer in sorted(zeros)}
        return Excerpt([section], {}, [new_signature((), graph, inputs, outputs)], data)

    def data(self, buffer: int) -> memoryview:
        """Return the bytes of a buffer."""
        return self.whole.graph.source.buffers[buffer].data

    def file(self, excerpt: Excerpt) -> bytes:
        """Return the file of a part."""
        return b"".join(map(view, self.whole.bytes_of(excerpt)))


def anonymous(candidates: Candidates, choice: Choice, excerpt: Excerpt) -> Excerpt:
    """Return a part without names, with random weights of the same mean, standard deviation and range.

    Shapes, axes, paddings and options are kept: they determine what the operators do.
    """
    rng, contents = np.random.default_rng(0), candidates.whole.contents(excerpt)
    model, data = candidates.whole.model, {}
    sections = [(choice.subgraph, list(contents.tensors[0]))]
    sections += [(index, list(range(len(model.subgraphs[index].tensors)))) for index in contents.called]
    for index, tensors in sections:
        for tensor, buffer in candidates.free(candidates.whole.graph.graphs[index], tensors):
            stored = len(candidates.data(buffer))
            try:
                made = _random_like(model.subgraphs[index].array_of(tensor), rng).tobytes()
            except CircleToolsError:  # numpy has no such type, or the data does not match the shape
                made = b""
            # In sparse or packed data, and in strings, any bytes are valid.
            made = made if len(made) == stored else rng.integers(0, 256, stored, np.uint8).tobytes()
            data[buffer] = candidates.filled(buffer, made)
    (section,), (signature,) = excerpt.sections, excerpt.signatures
    assert isinstance(signature, NewSignature)
    sides = [
        [(f"{what}_{place}".encode(), tensor) for place, (_, tensor) in enumerate(side)]
        for what, side in (("input", signature.inputs), ("output", signature.outputs))
    ]
    named = NewSignature(signature.key, section.subgraph, *sides)
    return replace(excerpt, signatures=[named], data={**data, **excerpt.data}, anonymous=True)


def _random_like(array: Array, rng: np.random.Generator) -> Array:
    """Return random values with the mean, standard deviation and range of the given values."""
    if array.dtype.kind not in "iufb":
        return np.zeros(0)
    real = array.astype(np.float64)
    finite = real[np.isfinite(real)] if np.isfinite(real).any() else np.zeros(1)
    made = np.clip(rng.normal(finite.mean(), finite.std(), array.shape), finite.min(), finite.max())
    return (made if array.dtype.kind == "f" else np.rint(made)).astype(array.dtype)
