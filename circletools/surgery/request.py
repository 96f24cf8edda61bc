"""A request to change the shapes of inputs, which are given by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from circletools.edit.signatures import Direction
from circletools.errors import EditError, UsageError
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.parts.names import TensorNames, quoted
from circletools.shapes.batch import Batch
from circletools.shapes.call import Shape, shown
from circletools.wording import Attributes, counted

_DIMS = re.compile(r"\d{1,9}(,\d{1,9})*")


@dataclass(frozen=True, slots=True)
class ShapeRequest(Attributes):
    """New shapes for the inputs of a subgraph.

    `inputs` are pairs or strings `NAME=DIMS`, such as `image=4,224,224,3`, with the name in a signature, the name of
    the tensor, or a position. `batch` sets the first dimension of all inputs; `dynamic_batch` makes it dynamic.
    `static` fixes dynamic dimensions at the sizes in the file. `mend` also changes constants with the batch size.
    """

    inputs: tuple[str | tuple[str, Sequence[int]], ...] = ()
    batch: int | None = None
    static: bool = False
    dynamic_batch: bool = False
    mend: bool = False
    subgraph: int = 0


class EndNames:
    """Inputs or outputs of a subgraph, found by position, by signature names, or by tensor names."""

    def __init__(self, model: Model, graph: Graph, side: Direction = "inputs") -> None:
        self._side, self._ends = side, list(getattr(graph, side).tolist())
        self._tensors = TensorNames(graph)
        signed = (getattr(one, side) for one in model.signatures if one.subgraph == graph.index)
        self._signed = {name: tensor for ends in signed for name, tensor in ends}

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return [self._tensors.names[tensor] for tensor in self._ends]

    def find(self, words: str) -> int:
        """Return the position of an input or output. Raises UsageError if there is none with that name."""
        if words.isdecimal() and len(words) < 6 and int(words) < len(self._ends):
            return int(words)
        tensor = self._signed[words] if words in self._signed else self._tensors.find(words)
        if tensor not in self._ends:
            hint = f"the {self._side} are {', '.join(self._tensors.shown(one) for one in self._ends[:8])}"
            raise UsageError(f"{quoted(words)} is not an {self._side[:-1]}", location=self._tensors.place, hint=hint)
        return self._ends.index(tensor)


def wanted_shapes(
    model: Model, graph: Graph, before: Sequence[Shape], request: ShapeRequest
) -> tuple[list[Shape], Batch | None, list[Shape]]:
    """Return the new input shapes, the batch if only the batch changes, and the old shapes for comparison.

    In the old shapes, a dynamic size that the request repeats, and thus fixes, is changed so that it counts as new.

    Raises UsageError for an input that does not exist, EditError for inputs without a common batch.
    """
    opens = [model.subgraphs[graph.index].tensors[tensor].open_shape for tensor in graph.inputs.tolist()]
    if request.batch is not None or request.dynamic_batch:
        sizes = {shape[0] for shape in before if shape}
        if len(sizes) != 1 or request.batch == 0:
            shapes = ", ".join(map(shown, before)) or "none"
            raise EditError(f"the inputs have no batch in common: {shapes}", hint="give the shape of each input")
        size = sizes.pop()
        after = size + 1 if request.batch is None else request.batch
        batch = Batch(size, after, request.mend, request.dynamic_batch)
        wanted = [(after, *shape[1:]) if shape else shape for shape in before]
        named = [(slot, 0) for slot, shape in enumerate(wanted) if shape and request.batch is not None]
        return wanted, batch, _reopened(opens, before, wanted, named)
    names, wanted, given = EndNames(model, graph), list(before), set[int]()
    for pair in request.inputs:
        name, shape = _split(pair)
        position = names.find(name)
        if position in given:
            raise UsageError(f"input {quoted(name)} is given twice")
        if before[position] and len(shape) != len(before[position]):
            raise UsageError(f"{quoted(name)} has {counted(len(before[position]), 'dimension')}, not {len(shape)}")
        given.add(position)
        wanted[position] = shape
    grown = {(shape[0], after[0]) for shape, after in zip(before, wanted, strict=True) if shape and after}
    same = all(shape[1:] == after[1:] for shape, after in zip(before, wanted, strict=True))
    only_batch = request.mend and same and len(grown) == 1
    named = [(slot, axis) for slot in given for axis in range(len(wanted[slot]))]
    return wanted, Batch(*grown.pop(), True) if only_batch else None, _reopened(opens, before, wanted, named)


def _reopened(
    opens: Sequence[Shape], before: Sequence[Shape], wanted: Sequence[Shape], named: Iterable[tuple[int, int]]
) -> list[Shape]:
    """Return the old shapes, but with a different size where a requested dimension is dynamic and keeps its size."""
    shapes = list(map(list, before))
    for slot, axis in named:
        if opens[slot][axis : axis + 1] == (-1,) and before[slot][axis : axis + 1] == (wanted[slot][axis],):
            shapes[slot][axis] += 1
    return list(map(tuple, shapes))


def _split(pair: str | tuple[str, Sequence[int]]) -> tuple[str, Shape]:
    if isinstance(pair, str):
        name, _, text = pair.rpartition("=")
        if not name or not _DIMS.fullmatch(text):
            raise UsageError(f"{quoted(pair)} is not NAME=DIMS", hint="write image=4,224,224,3")
        shape = tuple(map(int, text.split(",")))
    else:
        name, shape = pair[0], tuple(pair[1])
    if min(shape, default=1) < 1:
        raise UsageError(f"{shown(shape)} has a size below 1")
    return name, shape
