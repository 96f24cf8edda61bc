"""Set the input shapes of a model, and the shapes of all tensors that depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.origin.read import current_origins
from circletools.parts.names import TensorNames, graph_at, quoted
from circletools.shapes.batch import Batch, Patch
from circletools.shapes.call import RefusedError, Shape, shown
from circletools.shapes.infer import Inference, Place, Shapes, ShapesRefusedError
from circletools.surgery.request import ShapeRequest, wanted_shapes
from circletools.wording import counted

_MOST_TILED_BYTES = 64 << 20


def set_shape(edit: ModelEdit, request: ShapeRequest) -> RewriteResult:
    """Set the shapes of a model's inputs, and the shapes of all other tensors that LiteRT computes from them.

    With `batch` and `dynamic_batch`, every output must grow with the batch. Raises UsageError for an input that does
    not exist, EditError for an operator that refuses the shapes, with its source and the constant that prevents them.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(batch=4, mend=True))
    ...     edit.save("out.tflite")
    """
    if sum((bool(request.inputs), request.batch is not None, request.dynamic_batch)) > 1:
        raise UsageError("inputs, a batch and a dynamic batch exclude each other", hint="give one of them")
    if not (request.inputs or request.batch is not None or request.dynamic_batch or request.static):
        raise UsageError("no shape to set", hint="give inputs, a batch, or an option for dynamic dimensions")
    model, index = edit.model, request.subgraph
    graph = graph_at(model_graph(model), index)
    if any(index in called for called in model_graph(model).callees.values()):
        raise EditError("operators call this subgraph", location=graph.place(), hint="choose a signature's subgraph")
    before = [tuple(graph.values.shapes.row(tensor).tolist()) for tensor in graph.inputs.tolist()]
    before = [tuple(max(size, 1) for size in shape) for shape in before]
    _, batch, named = wanted_shapes(model, graph, before, request)
    base, found = _infer(model, graph, before, request)
    if batch is not None and batch.before != batch.after:
        for slot, tensor in enumerate(graph.outputs.tolist()):
            _check_growth(graph, slot, tensor, (base, found))
    lines = _apply_patches(edit, found, batch)
    base = base if named == before else _with_inputs(model, graph, base, named)
    written = _apply_shapes(edit, request, base, found)
    if not written and not lines:
        return RewriteResult(())
    return RewriteResult((*_changed_ends(graph, written), *lines, f"shapes of {counted(len(written), 'tensor')}"))


def _with_inputs(model: Model, graph: Graph, base: Shapes, inputs: Sequence[Shape]) -> Shapes:
    """Return the shapes of all tensors for new input shapes; only those of the inputs if an operator refuses them."""
    other = Inference(model)
    try:
        other.run(graph.index, inputs)
    except (ShapesRefusedError, RefusedError):
        keys = ((graph.index, tensor) for tensor in graph.inputs.tolist())
        return replace(base, shapes=base.shapes | dict(zip(keys, inputs, strict=True)))
    return other.found


def _infer(model: Model, graph: Graph, before: Sequence[Shape], request: ShapeRequest) -> tuple[Shapes, Shapes]:
    """Return the shapes of all tensors before and after the change. Raises EditError if an operator refuses them."""
    base, (wanted, batch, _) = Inference(model), wanted_shapes(model, graph, before, request)
    after = Inference(model, base.found, batch, base.subgraphs)
    try:
        base.run(graph.index, before)
        after.run(graph.index, wanted)
        for key, operator in after.unpatched_readers():
            shares = "it shares a constant that contains the batch size with an operator that needs the new size"
            raise ShapesRefusedError((key[0], operator), after.subgraphs[key[0]].codes[operator], shares, key[1])
    except ShapesRefusedError as error:
        mended = request.mend or wanted_shapes(model, graph, before, replace(request, mend=True))[1] is None
        hint = None if mended else "`mend=True` changes constants that contain the batch size"
        raise _refusal(model, error.place, error.code, error.reason, error.constant, hint) from error
    except RefusedError as error:
        raise EditError(error.reason, location=f"subgraphs[{graph.index}]") from error
    return base.found, after.found


def _refusal(
    model: Model, place: Place, code: str, reason: str, constant: int | None = None, hint: str | None = None
) -> EditError:
    """Return an error that names an operator, its constant and its sources."""
    words = f"{code}: {reason}"
    if constant is not None and constant >= 0:
        words += f"; see its input {quoted(model.subgraphs[place[0]].tensors[constant].name)}"
    origins = current_origins(model_graph(model))
    names = [] if origins is None else [origins.sources[one] for one in origins.of(*place)]
    words += f"; source {', '.join(map(quoted, names[:3]))}" if names else ""
    return EditError(words, location=f"subgraphs[{place[0]}].operators[{place[1]}]", hint=hint)


def _check_growth(graph: Graph, slot: int, output: int, runs: tuple[Shapes, Shapes]) -> None:
    """Raise EditError if an output did not grow with the batch."""
    was, now = (run.shapes.get((graph.index, output)) for run in runs)
    if now is None or was == now:
        why = "does not depend on inputs that grow" if now else "has a shape that is known only when the model runs"
        raise EditError(f"output {slot} ({TensorNames(graph).shown(output)}) {why}", location=graph.place())


def _changed_ends(graph: Graph, written: Mapping[Place, tuple[Shape, Shape]]) -> list[str]:
    """Return a line for each input and output that was written."""
    names, ends = TensorNames(graph), (("input", graph.inputs), ("output", graph.outputs))
    return [
        f"{side} {names.shown(tensor)}: {' -> '.join(map(shown, written[graph.index, tensor]))}"
        for side, tensors in ends
        for tensor in dict.fromkeys(tensors.tolist())
        if (graph.index, tensor) in written
    ]


def _apply_shapes(
    edit: ModelEdit, request: ShapeRequest, base: Shapes, found: Shapes
) -> dict[Place, tuple[Shape, Shape]]:
    """Write shapes that changed or were dynamic; return the old and new shapes, with -1 for dynamic sizes."""
    written = {}
    for (index, tensor), now in found.shapes.items():
        if now is None or tensor < 0:
            continue
        view, was = edit.model.subgraphs[index].tensors[tensor], base.shapes.get((index, tensor))
        was = view.shape if (index, tensor) in found.patched else was
        if was == now and not (request.static and -1 in view.open_shape):
            continue
        shape, signature = _written(view.shape_signature, was, now, request)
        if shape != view.shape or (signature or shape) != view.open_shape:
            edit.set_shape(index, tensor, shape, signature)
            written[index, tensor] = view.open_shape, signature or shape
    return written


def _written(
    signature: Shape | None, was: Shape | None, now: Shape, request: ShapeRequest
) -> tuple[Shape, Shape | None]:
    """Return the shape and signature to write; unchanged dynamic sizes stay dynamic, except with `static`."""
    kept = signature if signature is not None and len(signature) == len(now) and not request.static else now
    same = was if was is not None and len(was) == len(now) else (-1,) * len(now)
    if request.dynamic_batch and was is not None:
        opened = [-1 if size != other or old == -1 else size for size, other, old in zip(was, now, kept, strict=True)]
        return was, tuple(opened)
    opened = [-1 if old == -1 and size == other else size for size, other, old in zip(now, same, kept, strict=True)]
    return now, tuple(opened) if -1 in opened else None


def _apply_patches(edit: ModelEdit, found: Shapes, batch: Batch | None) -> list[str]:
    """Write the constants that grow with the batch. Raises EditError if a constant cannot be repeated."""
    lines = []
    for (index, operator), sizes in found.options.items():
        if list(edit.model.subgraphs[index].operators[operator].options.get("new_shape", ())) != sizes:
            edit.set_option(index, operator, "new_shape", sizes)
            lines.append(f"subgraphs[{index}].operators[{operator}]: new_shape {shown(sizes)}")
    for (index, tensor), (patch, _) in found.patched.items():
        assert batch is not None
        view = edit.model.subgraphs[index].tensors[tensor]
        place = f"subgraphs[{index}].tensors[{tensor}]"
        if patch.value is not None:
            old = view.numpy()
            edit.set_constant(index, tensor, patch.value.reshape(old.shape).astype(old.dtype))
            lines.append(f"constant {quoted(view.name)}: {old.tolist()} -> {patch.value.tolist()}")
            continue
        if view.is_constant:
            edit.set_constant(index, tensor, _tiled(edit, index, tensor, patch, batch))
        lines.append(f"constant {quoted(view.name)}: repeated in dimension {patch.axis} ({place})")
    return lines


def _tiled(edit: ModelEdit, index: int, tensor: int, patch: Patch, batch: Batch) -> bytes:
    view, place = edit.model.subgraphs[index].tensors[tensor], f"subgraphs[{index}].tensors[{tensor}]"
    values, quantization = view.numpy(), view.quantization
    apart = len(quantization.scale) > 1 and quantization.axis == patch.axis
    if batch.after % batch.before or apart or values.dtype.name.upper() != view.type:
        raise EditError(f"the constant {quoted(view.name)} cannot be repeated for the batch", location=place)
    if values.nbytes * batch.after // batch.before > _MOST_TILED_BYTES:
        raise EditError(
            f"repeating {quoted(view.name)} would take more than {_MOST_TILED_BYTES >> 20} MiB", location=place
        )
    return np.concatenate([values] * (batch.after // batch.before), axis=patch.axis).tobytes()
