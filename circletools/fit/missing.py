"""Fill in the shapes that a file omits, for programs that compute these shapes themselves."""

from __future__ import annotations

from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.shapes.call import RefusedError
from circletools.shapes.infer import Inference, Place, ShapesRefusedError


def with_shapes(model: Model) -> tuple[Model, set[Place]]:
    """Return the model with inferred shapes for tensors without one, and the tensors whose values were inferred.

    A shape that cannot be inferred stays empty.
    """
    whole, inference = model_graph(model), Inference(model, strict=True)
    called = {index for callees in whole.callees.values() for index in callees}
    try:
        for graph in whole.graphs:
            if graph.index not in called:
                inputs = [tuple(graph.values.shapes.row(tensor).tolist()) for tensor in graph.inputs.tolist()]
                inference.run(graph.index, [tuple(max(size, 1) for size in shape) for shape in inputs])
        edit = ModelEdit(model)
        for (index, tensor), shape in inference.found.shapes.items():
            if shape and tensor >= 0 and not model.subgraphs[index].tensors[tensor].shape:
                edit.set_shape(index, tensor, shape, None)
        return open_model(edit.to_bytes()), set(inference.found.values)
    except (CircleToolsError, ShapesRefusedError, RefusedError):
        return model, set()
