"""Find the operators whose output sizes depend on values, not only on the shapes of their inputs."""

from __future__ import annotations

from circletools.graph.graph import Graph
from circletools.shapes.call import Call, RefusedError, Shape
from circletools.shapes.infer import Inference, InferredSubgraph, Place


class Assuming(Inference):
    """Infers shapes as if each size that is unknown in the file were 1; `sized` holds the operators that set one."""

    def __init__(self, graph: Graph) -> None:
        """Infer the shapes of a graph."""
        super().__init__(graph.model, strict=True)
        self.sized = set[Place]()
        rows = map(graph.values.shapes.row, graph.inputs.tolist())
        self.run(graph.index, [tuple(max(size, 1) for size in row.tolist()) for row in rows])

    def _results(self, subgraph: InferredSubgraph, operator: int, call: Call, depth: int) -> list[Shape | None]:
        tensors = subgraph.results[operator]
        opens = [tensor >= 0 and subgraph.is_open(tensor) for tensor in tensors]
        try:
            found = super()._results(subgraph, operator, call, depth)
        except RefusedError:  # the assumed sizes may not fit together
            if not any(opens):
                raise
            found = [None] * len(tensors)
        else:
            if any(is_open and shape is None for is_open, shape in zip(opens, found, strict=True)):
                self.sized.add((subgraph.index, operator))
        for slot, tensor in enumerate(tensors):
            if opens[slot] and found[slot] is None:
                found[slot] = tuple(max(size, 1) for size in subgraph.shapes[tensor])
        return found
