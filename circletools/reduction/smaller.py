"""Make the inputs of a model as small as possible while the model still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.model.sizes import MOST_DIMENSIONS
from circletools.storage.files import view
from circletools.surgery.request import ShapeRequest
from circletools.surgery.setting import set_shape


def smaller(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Return a failing file with input sizes of 1, or as small as halving allows; other shapes are inferred."""
    while True:
        with open_model(data) as model:
            found = next((made for made in _with_one_smaller(model) if fails(made)), None)
        if found is None:
            return data
        data = found


def _with_one_smaller(model: Model) -> Iterator[bytes]:
    """Yield files in which one input size is smaller, if the operators accept that size."""
    graph = model_graph(model).graphs[0]
    for place, tensor in enumerate(graph.inputs.tolist()):
        shape = graph.values.shapes.row(tensor).tolist()
        for axis, size in enumerate(shape if len(shape) <= MOST_DIMENSIONS else ()):
            for less in dict.fromkeys((1, size // 2)) if size > 1 else ():
                wanted = (*shape[:axis], less, *shape[axis + 1 :])
                try:
                    with ModelEdit(model) as edit:
                        set_shape(edit, ShapeRequest(((str(place), wanted),)))
                        parts = edit.parts()
                    with open_model(b"".join(map(view, parts))) as changed:
                        made = b"".join(map(view, compact_parts(changed)))
                except CircleToolsError:  # an operator refuses the size, or its shape rule is unknown
                    continue
                yield made
