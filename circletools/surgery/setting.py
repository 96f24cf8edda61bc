"""Set the input shapes of a model, and the shapes of all tensors that depend on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.edit.signatures import Direction
from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.origin.read import current_origins
from circletools.parts.names import TensorNames, graph_at, quoted
from circletools.shapes.batch import Batch, Patch
from circletools.shapes.call import RefusedError, Shape, shown
from circletools.shapes.infer import Inference, Place, Shapes, ShapesRefusedError, fixed_shapes
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
        known = [*self._signed, *self.names]
        tensor = self._signed[words] if words in self._signed else self._tensors.find(words, known)
        if tensor not in self._ends:
            hint = f"the {self._side} are {', '.join(self._tensors.shown(one) for one in self._ends[:8])}"
            raise UsageError(f"{quoted(words)} is not an {self._side[:-1]}", location=self._tensors.place, hint=hint)
        return self._ends.index(tensor)


def wanted_shapes(
    model: Model, graph: Graph, before: Sequence[Shape], request: ShapeRequest
) -> tuple[list[Shape], Batch | None, list[Shape]]:
    """Return the new input shapes, the batch if nothing else changes, and the old shapes for comparison.

    In the old shapes, a dynamic size that the request repeats, and thus fixes, is changed so that it counts as new.

    Raises UsageError for a missing input, and EditError for inputs without a common batch.
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
            count = counted(len(before[position]), "dimension")
            raise UsageError(f"input {quoted(name)} has {count}, not {len(shape)}", location=graph.place())
        given.add(position)
        wanted[position] = shape
    grown = {(shape[0], after[0]) for shape, after in zip(before, wanted, strict=True) if shape and after}
    same = all(shape[1:] == after[1:] for shape, after in zip(before, wanted, strict=True))
    only_batch = same and len(grown) == 1
    named = [(slot, axis) for slot in given for axis in range(len(wanted[slot]))]
    return wanted, Batch(*grown.pop(), request.mend) if only_batch else None, _reopened(opens, before, wanted, named)


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


_MOST_TILED_BYTES = 64 << 20


def set_shape(edit: ModelEdit, request: ShapeRequest) -> RewriteResult:
    """Set the shapes of a model's inputs, and the shapes of all other tensors that LiteRT computes from them.

    With `batch` and `dynamic_batch`, every output must grow with the batch. Raises UsageError for an input that does
    not exist, and EditError for an operator that refuses the shapes, with its source and the responsible constant.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(batch=4, mend=True))
    ...     edit.save("out.tflite")
    """
    if sum((bool(request.inputs), request.batch is not None, request.dynamic_batch)) > 1:
        raise UsageError("inputs, a batch and a dynamic batch cannot be combined", hint="give one of them")
    if not (request.inputs or request.batch is not None or request.dynamic_batch or request.static):
        raise UsageError("no shape to set", hint="give inputs, a batch, or an option for dynamic dimensions")
    try:
        return _set_shape(edit, request)
    except EditError:
        if request.mend and not request.inputs:  # where sizes are computed, the constants may be right as they are
            with suppress(EditError):
                return _set_shape(edit, replace(request, mend=False))
        raise


def _set_shape(edit: ModelEdit, request: ShapeRequest) -> RewriteResult:
    model, index = edit.model, request.subgraph
    graph = graph_at(model_graph(model), index)
    if any(index in called for called in model_graph(model).callees.values()):
        raise EditError("operators call this subgraph", location=graph.place(), hint="choose a signature's subgraph")
    before = [tuple(graph.values.shapes.row(tensor).tolist()) for tensor in graph.inputs.tolist()]
    before = [tuple(max(size, 1) for size in shape) for shape in before]
    wanted, growth, named = wanted_shapes(model, graph, before, request)
    batch = growth if request.mend or not request.inputs else None
    hint = "`mend=True` changes constants that contain the batch size" if growth and not request.mend else None
    base, found = _infer(graph, (before, wanted), batch, hint)
    if batch is not None and batch.before != batch.after:
        for slot, tensor in enumerate(graph.outputs.tolist()):
            _check_growth(graph, slot, tensor, (base, found))
    lines = _apply_patches(edit, found, batch)
    old = Inference(model, base, strict=True)  # the result of an operator that refuses the old shapes is new
    old.run(index, named)
    written = _apply_shapes(edit, request, replace(base, shapes=base.shapes | old.found.shapes), found)
    lines += _fold(edit, graph, wanted) if request.static else []
    lines += [f"shapes of {counted(len(written), 'tensor')}"] if written else []
    notes = (*(_assumed(graph, named, wanted) if request.static else ()), *_open(graph, found, request))
    return RewriteResult((*_changed_ends(graph, written), *lines), notes)


def _fold(edit: ModelEdit, graph: Graph, inputs: Sequence[Shape]) -> list[str]:
    """Let operators read constants instead of values that are computed from shapes alone; return a line for each."""
    view, folded, operands = graph.model.subgraphs[graph.index], dict[int, int](), graph.operands.lists()
    values = shapes.values if (shapes := fixed_shapes(graph, inputs)) else {}
    here = {tensor: value for (index, tensor), value in values.items() if index == graph.index}
    known = {one: value for one, value in here.items() if view.tensors[one].type in ("INT32", "INT64")}
    for operator, (read, made) in enumerate(zip(operands, graph.results.lists(), strict=True)):
        if known.keys().isdisjoint(read) or known.keys() >= {*made}:
            continue
        for tensor in known.keys() & {*read} - folded.keys():
            name = f"{view.tensors[tensor].name}/constant"
            value, kind = known[tensor], view.tensors[tensor].type
            buffer = edit.add_buffer(value.astype(kind.lower()).tobytes())
            folded[tensor] = edit.add_tensor(graph.index, name, type=kind, shape=value.shape, buffer=buffer)
        edit.set_operands(graph.index, operator, [folded.get(tensor, tensor) for tensor in read])
    lines = [f"{quoted(view.tensors[one].name)} is the constant {known[one].tolist()}" for one in sorted(folded)]
    return [*lines, *["`compact --prune --outputs` drops the operators that computed constants"][: len(lines)]]


def _assumed(graph: Graph, named: Sequence[Shape], wanted: Sequence[Shape]) -> Iterator[Finding]:
    """Yield a warning for each input with unnamed unknown sizes, except a batch; they become 1.

    Converters write 1 for an unknown size.
    """
    for tensor, was, now in zip(graph.inputs.tolist(), named, wanted, strict=True):
        view = graph.model.subgraphs[graph.index].tensors[tensor]
        axes = [axis for axis, ends in enumerate(zip(view.open_shape, was, now, strict=False)) if ends == (-1, 1, 1)]
        if axes and (axes != [0] or now == (1,) or -1 in view.shape):
            words = f"the size of dimension {', '.join(map(str, axes))} of input {quoted(view.name)} is unknown"
            place = f"{graph.place()}.tensors[{tensor}]"
            yield Finding("ASSUMED_SIZE", "warning", place, f"{words}, so it becomes 1; set it with `--input`")


def _open(graph: Graph, found: Shapes, request: ShapeRequest) -> Iterator[Finding]:
    """Yield a note if `static` leaves dynamic dimensions, whose sizes depend on more than the shapes of inputs."""
    tensors = graph.model.subgraphs[graph.index].tensors if request.static else ()
    left = [at for at, one in enumerate(tensors) if -1 in one.open_shape and not found.shapes.get((graph.index, at))]
    if left:
        words = f"sizes of {counted(len(left), 'tensor')} depend on values that are known only when the model runs"
        yield Finding("OPEN_SHAPE", "info", f"subgraphs[{graph.index}].tensors[{left[0]}]", words)


def _infer(
    graph: Graph, inputs: tuple[list[Shape], list[Shape]], batch: Batch | None, hint: str | None
) -> tuple[Shapes, Shapes]:
    """Return the shapes of all tensors before and after the change. Raises EditError if an operator refuses them."""
    base = Inference(graph.model)
    after = Inference(graph.model, base.found, batch, base.subgraphs)
    try:
        base.run(graph.index, inputs[0])
        after.run(graph.index, inputs[1])
        for key, operator in after.unpatched_readers():
            shares = "it shares a constant that contains the batch size with an operator that needs the new size"
            raise ShapesRefusedError((key[0], operator), after.subgraphs[key[0]].codes[operator], shares, key[1])
    except ShapesRefusedError as error:
        raise _refusal(error, (base, after), hint) from error
    except RefusedError as error:
        raise EditError(error.reason, location=f"subgraphs[{graph.index}]") from error
    return base.found, after.found


_SIZES = {"BROADCAST_TO": 1, "RESHAPE": 1, "RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1, "TRANSPOSE_CONV": 0}
"""The position of the input that sets the output's shape."""


def _fixed(place: Place, runs: tuple[Inference, Inference]) -> tuple[int, int] | None:
    """Return the last operator that feeds this one and whose output keeps a constant shape, and that constant."""
    subgraph, (was, now) = runs[1].subgraphs[place[0]], (run.found.shapes for run in runs)
    grows = {tensor for index, tensor in now if index == place[0] and was.get((index, tensor)) != now[index, tensor]}
    needed = set(subgraph.operands[place[1]])
    for operator in reversed(range(place[1])):
        if needed.isdisjoint(subgraph.results[operator]):
            continue
        slots = subgraph.operands[operator]
        needed.update(slots)
        slot = _SIZES.get(subgraph.codes[operator], len(slots))
        if slot < len(slots) and grows.intersection(slots) and not grows.intersection(subgraph.results[operator]):
            return (operator, slots[slot]) if subgraph.constant(slots[slot]) is not None else None
    return None


def _refusal(error: ShapesRefusedError, runs: tuple[Inference, Inference], hint: str | None) -> EditError:
    """Return an error that names an operator, its constant or that of an operator before it, and its sources."""
    model, place, words = runs[1].model, error.place, f"{error.code}: {error.reason}"
    if (fixed := _fixed(place, runs)) is not None:
        code, name = runs[1].subgraphs[place[0]].codes[fixed[0]], model.subgraphs[place[0]].tensors[fixed[1]].name
        words += f"; operator {fixed[0]}, {code}, keeps its old size, which the constant {quoted(name)} sets"
        hint = hint or "convert the model again, at the new size"
    elif error.constant is not None and error.constant >= 0:
        words += f"; see its input {quoted(model.subgraphs[place[0]].tensors[error.constant].name)}"
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
