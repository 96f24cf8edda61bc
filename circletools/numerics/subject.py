"""A model in a comparison: its main graph, the numbers its tensors represent, and parts of it as files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.reach import Reach
from circletools.model.model import Model, open_model
from circletools.model.options import quantizations
from circletools.model.views import Quantization
from circletools.numerics.results import Form
from circletools.parts.contents import Excerpt, Section
from circletools.parts.names import graph_at, new_signature
from circletools.parts.whole import Whole, read_whole
from circletools.runtimes.protocol import Array
from circletools.storage.files import Part, view
from circletools.surgery.ends import expose


@dataclass(frozen=True, slots=True)
class Region:
    """Operators that are cut out together (in order), the tensors that they are fed, and the tensors to compare."""

    operators: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


NO_REGION = Region()


@dataclass(frozen=True, eq=False)
class Subject:
    """A model whose subgraph 0 is compared; it corresponds to subgraph `subgraph` of the user's model `named`.

    If `is_real`, its parts compute in FLOAT32 with the numbers that quantized tensors represent.
    """

    model: Model
    whole: Whole
    named: ModelGraph
    subgraph: int
    is_real: bool = False

    @cached_property
    def real(self) -> Subject:
        """The same model, computing with real numbers."""
        return replace(self, is_real=True)

    @cached_property
    def graph(self) -> Graph:
        """The graph that runs."""
        return self.whole.graph.graphs[0]

    @cached_property
    def reach(self) -> Reach:
        """The walks through the graph, from value to value."""
        return Reach(self.graph)

    @cached_property
    def quantizations(self) -> dict[int, Quantization]:
        """The quantization of each quantized tensor."""
        return quantizations(self.graph.values.tables, self.graph.values.model.schema)

    def form(self, tensor: int) -> Form:
        """Return the form that dequantizes a tensor; values of per-channel tensors stay as stored."""
        found = self.quantizations.get(tensor)
        kind = self.graph.values.types[tensor]
        if found is None or len(found.scale) != 1 or not found.scale[0] > 0 or kind.startswith("FLOAT"):
            return Form(kind)
        if self.is_real:
            return Form("FLOAT32")
        return Form(kind, found.scale[0], found.zero_point[0] if found.zero_point else 0)

    def constant(self, tensor: int) -> Array:
        """Return the values of a constant. Raises UsageError and ModelFormatError like `array_of`."""
        return self.model.subgraphs[0].array_of(tensor)

    def region(self, operators: Sequence[int]) -> Region:
        """Return operators with all their inputs, and the results that other operators read or the graph returns."""
        reach = self.reach
        return Region(tuple(sorted(operators)), tuple(reach.given(operators)), tuple(reach.seen_outside(operators)))

    def exposed(self, tensors: Sequence[int]) -> tuple[list[Part], list[int]]:
        """Return the model with these additional outputs (the old bytes do not change), and each output's position.

        Raises EditError if the tensors cannot become outputs.
        """
        with ModelEdit(self.model) as edit:
            expose(edit, [f"index:{tensor}" for tensor in tensors])
            outputs = edit.ends(0, "outputs")
            return edit.parts(), [outputs.index(tensor) for tensor in tensors]

    def cut_out(self, region: Region, data: Mapping[int, bytes] | None = None) -> list[Part]:
        """Return these operators as a separate model; `data` holds replacement contents for buffers."""
        real: Collection[int] = ()
        if self.is_real:
            real = self.quantizations.keys()
            constants, buffers = real_constants(self, region.operators), self.graph.values.buffers
            data = {int(buffers[one]): array.astype(np.float32).tobytes() for one, array, _ in constants}
        section = Section(0, region.operators, region.inputs, region.outputs, real=real)
        signature = new_signature((), self.graph, region.inputs, region.outputs)
        return self.whole.bytes_of(Excerpt([section], {}, [signature], data or {}))


@contextmanager
def subject_of(model: Model, subgraph: int = 0) -> Iterator[Subject]:
    """Yield a model whose main graph is the given subgraph, with all operators in order.

    Raises UsageError if the subgraph does not exist, and EditError or ModelFormatError if the model is broken.
    """
    whole = read_whole(model)
    graph = graph_at(whole.graph, subgraph)
    if subgraph == 0:
        yield Subject(model, whole, whole.graph, 0)
        return
    inputs, outputs = graph.inputs.tolist(), graph.outputs.tolist()
    section = Section(subgraph, range(len(graph)), inputs, outputs, further=range(len(graph.values)))
    signature = new_signature(whole.graph.source.signatures, graph, inputs, outputs)
    parts = whole.bytes_of(Excerpt([section], {}, [signature]))
    with open_model(b"".join(map(view, parts))) as main:
        yield Subject(main, read_whole(main), whole.graph, subgraph)


def real_constants(subject: Subject, operators: Iterable[int]) -> Iterator[tuple[int, Array, Array]]:
    """Yield the quantized constants that operators read, as real numbers, and the step of each number."""
    values = subject.graph.values
    for tensor in dict.fromkeys(subject.reach.read_by(operators)):
        found = subject.quantizations.get(tensor)
        if found is None or not found.scale or not values.is_constant[tensor]:
            continue
        stored = subject.constant(tensor)
        shape = [1] * stored.ndim
        if len(found.scale) > 1:
            shape[found.axis] = -1
        step = np.reshape(found.scale, shape)
        zero = np.reshape(found.zero_point or 0, shape if len(found.zero_point) > 1 else [1] * len(shape))
        yield tensor, (stored.astype(np.float64) - zero) * step, step
