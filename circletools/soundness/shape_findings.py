"""Find operators whose input shapes LiteRT's kernel refuses.

When LiteRT allocates tensors, it computes each shape from the model's inputs and constants, and ignores the shapes of
computed tensors in the file. These checks do the same (rules: `shapes.table`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import isqrt

import numpy as np

from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.shapes.call import RefusedError, Shape, WindowError, shown
from circletools.shapes.infer import Inference, Place, ShapesRefusedError
from circletools.soundness.whole import Whole

_MOST_OPERATORS = 1 << 14  # each operator takes about 30 us
_OTHER_SIZE = 256  # a size to try for dynamic dimensions: many models need a multiple of a power of two
_MOST_SIZES = 4  # the maximum number of sizes to try, to give a RESHAPE the number of elements it needs


def shape_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about operators that refuse their inputs, in subgraphs that run.

    These are subgraph 0, subgraphs with a signature, and all subgraphs that they call. With dynamic inputs, an
    operator that accepts larger inputs is not reported. Models with more than 16,384 operators are skipped. Indices
    must be in range, except those of signatures.
    """
    if model.format != "tflite" or not 0 < len(model.operator_columns.tables) <= _MOST_OPERATORS:
        return
    found, _ = _refused(model, None)
    times = {one.times for one in found.values()}
    times = {root for one in times for root in (one, isqrt(one)) if root > 1 and one in (root, root * root)}
    others = [_refused(model, size) for size in (_OTHER_SIZE, *sorted(times)[:_MOST_SIZES])] if found else []
    whole = model_graph(model)
    for (subgraph, operator), error in found.items():
        graph = whole.graphs[subgraph]
        made = graph.results.values[slice(*graph.results.splits[operator : operator + 2].tolist())].tolist()
        if isinstance(error, WindowError):
            continue  # reported by a separate finding
        if all(
            (subgraph, operator) in refused or all(shapes.get((subgraph, tensor)) is None for tensor in made)
            for refused, shapes in others
        ):
            name = graph.operators.code_names[operator]
            message = f"{name} does not fit its inputs: {error.reason}; {error.effect}"
            yield Finding("OPERATOR_SHAPES", "warning", graph.place(operator), message)


def _refused(model: Model, size: int | None) -> tuple[dict[Place, RefusedError], dict[Place, Shape | None]]:
    """Return why operators refuse their inputs, and the shapes; `size`, if given, replaces dynamic dimensions."""
    inference = Inference(model, strict=True)
    named = (one.subgraph for one in model.signatures if one.subgraph < len(model.subgraphs))
    for index in dict.fromkeys((0, *named)):
        inputs = []
        for tensor in (model.subgraphs[index].tensors[one] for one in model.subgraphs[index].inputs):
            signature = tensor.open_shape if size and len(tensor.open_shape) == len(tensor.shape) else tensor.shape
            pairs = zip(tensor.shape, signature, strict=True)
            inputs.append(tuple(size if size and other < 0 else one for one, other in pairs))
        with suppress(RefusedError, ShapesRefusedError):  # called with different shapes, or too many dimensions
            inference.run(index, inputs)
    return inference.refused | _resized(model, inference), inference.found.shapes


def _resized(model: Model, inference: Inference) -> dict[Place, RefusedError]:
    """Return operators whose output is a constant with a different size, which `Subgraph::ResizeTensor` refuses."""
    whole = Whole(model)
    written = np.flatnonzero((whole.first_producer >= 0) & whole.has_data & ~whole.graph.values.is_variable)
    found: dict[Place, RefusedError] = {}
    for row in written.tolist():
        index = int(np.searchsorted(whole.tensors.splits, row, "right")) - 1
        tensor = model.subgraphs[index].tensors[row - int(whole.tensors.splits[index])]
        shape = inference.found.shapes.get((index, tensor.index))
        if shape not in (None, tuple(tensor.shape)):
            place = (index, whole.index_of(int(whole.first_producer[row])))
            found[place] = RefusedError(f"it writes {shown(shape)} into a constant of shape {shown(tensor.shape)}")
    return found
