"""Infer the shapes of all tensors from the shapes of a subgraph's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.model.arrays import DTYPES
from circletools.model.model import Model
from circletools.model.sizes import MOST_DIMENSIONS, element_count
from circletools.shapes.batch import Batch, Patch, check_batch, patches
from circletools.shapes.call import (
    Call,
    DoubtfulError,
    RefusedError,
    Shape,
    UnknownError,
    Value,
    check_needs,
    refuse_unless,
    shown,
)
from circletools.shapes.layout import slices
from circletools.shapes.table import RULES

MOST_VALUES = 256
"""The maximum number of known values of a tensor; shapes have fewer."""

_REDUCE: dict[str, Callable[..., Value]] = {
    "REDUCE_PROD": np.prod,
    "SUM": np.sum,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "FLOOR_DIV": np.floor_divide, "FLOOR_MOD": np.mod,
    "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less,
    "GREATER": np.greater, "DIV": lambda one, other: (np.abs(one) // np.abs(other)) * np.sign(one) * np.sign(other),
}  # fmt: skip


def folded(call: Call, results: Sequence[Shape | None]) -> Value | None:
    """Return the value of an operator's only output if it follows from known values, or else None."""
    if call.code in {"SHAPE", "RANK"} and call.shapes:
        shape = call.shapes[0]
        return None if shape is None else np.array(shape if call.code == "SHAPE" else len(shape), np.int64)
    values = [value for value in call.values if value is not None]
    if len(values) != len(call) or not 0 < len(values) <= MOST_VALUES or values[-1].dtype == bool:
        return None
    if len(results) != 1 or results[0] is None or element_count(results[0]) > MOST_VALUES:
        return None
    try:
        found = _compute(call, values, results[0])
    except (ValueError, TypeError, IndexError, ArithmeticError, RefusedError):
        return None
    return found if found is not None and found.shape == results[0] else None


def _compute(call: Call, values: Sequence[Value], shape: Shape) -> Value | None:
    code, first, options = call.code, values[0], call.options
    with np.errstate(all="ignore"):
        if code in _BINARY and options.get("fused_activation_function", "NONE") == "NONE":
            return np.asarray(_BINARY[code](first, values[1]))
        if code in _REDUCE:
            axes = tuple(int(axis) for axis in values[1].reshape(-1))
            return np.asarray(_REDUCE[code](first, axis=axes, keepdims=bool(options.get("keep_dims"))))
    rule = _RULES.get(code)
    return None if rule is None else np.asarray(rule(call, values, shape))


def _gathered(call: Call, values: Sequence[Value], _: Shape) -> Value:
    if call.options.get("batch_dims") or values[1].min(initial=0) < 0:
        raise ValueError
    return np.take(values[0], values[1], axis=call.option("axis"))


_RULES: dict[str, Callable[[Call, Sequence[Value], Shape], Value]] = {
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), lambda _, values, shape: values[0].reshape(shape)),
    **dict.fromkeys(("SELECT", "SELECT_V2"), lambda _, values, __: np.where(values[0] != 0, values[1], values[2])),
    "PACK": lambda call, values, _: np.stack(list(values), axis=call.option("axis")),
    "CONCATENATION": lambda call, values, _: np.concatenate(list(values), axis=call.option("axis")),
    "GATHER": _gathered,
    "SLICE": lambda call, values, shape: values[0][tuple(map(slice, at := call.numbers(1), np.add(at, shape)))],
    "STRIDED_SLICE": lambda call, values, _: values[0][slices(call)],
    "TRANSPOSE": lambda call, values, _: values[0].transpose(call.numbers(1)),
    "CAST": lambda _, values, __: values[0],
    "FILL": lambda _, values, shape: np.full(shape, values[1]),
    "BROADCAST_TO": lambda _, values, shape: np.broadcast_to(values[0], shape),
    "BROADCAST_ARGS": lambda _, values, __: np.array(np.broadcast_shapes(*map(tuple, values)), np.int64),
    "RANGE": lambda _, values, __: np.array(  # too many for any shape
        range(*(int(one.item()) for one in values[:3]))[: MOST_VALUES + 1], np.int64
    ),
}


Place = tuple[int, int]
"""The index of a subgraph, and that of a tensor or an operator in it."""
_CALLING = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE")
ATTENTION = "odml.scaled_dot_product_attention"
"""The composite that XNNPACK runs itself, whatever its decomposition is (xnnpack_delegate.cc)."""
_DEEPEST, _LARGEST = 64, 2**31
_WHOLE_NUMBERS = ("INT32", "INT64", "BOOL")


class ShapesRefusedError(Exception):
    """An operator refuses the shapes; the error holds the reason, and the constant tensor that causes it, if any."""

    def __init__(self, place: Place, code: str, reason: str, constant: int | None = None) -> None:
        super().__init__(reason)
        self.place, self.code, self.reason, self.constant = place, code, reason, constant


@dataclass(slots=True)
class Shapes:
    """The shape of each visited tensor (None if unknown), and the changes that constants need."""

    shapes: dict[Place, Shape | None] = field(default_factory=dict)
    values: dict[Place, Value] = field(default_factory=dict)
    options: dict[Place, list[int]] = field(default_factory=dict)
    """The new value of the option `new_shape`, by operator."""
    patched: dict[Place, tuple[Patch, set[int]]] = field(default_factory=dict)


class InferredSubgraph:
    """The columns of a subgraph as lists."""

    def __init__(self, model: Model, graph: Graph) -> None:
        graph.check_values()
        self.graph, self.view, self.index = graph, model.subgraphs[graph.index], graph.index
        self.operands, self.results = graph.operands.lists(), graph.results.lists()
        self.codes, self.callees = graph.operators.code_names, graph.callees
        self.shapes: list[Shape] = [tuple(sizes) for sizes in graph.values.shapes.lists()]
        self.signatures = graph.values.shape_signatures
        self.has_large = bool((graph.values.shapes.count > MOST_DIMENSIONS).any())
        self.is_whole: list[bool] = graph.values.is_type(*_WHOLE_NUMBERS).tolist()
        self._constants: dict[int, Value | None] = {}
        self._buffers = model.buffers

    def constant(self, tensor: int) -> Value | None:
        """Return the values of a constant if it consists of a few integers."""
        if not self.is_whole[tensor]:
            return None
        if tensor not in self._constants:
            view, value = self.view.tensors[tensor], None
            with suppress(CircleToolsError, ValueError):
                if 0 in view.shape and self.graph.producer[tensor] < 0:
                    value = np.empty(view.shape, np.int32)
                elif element_count(view.shape) <= MOST_VALUES and view.is_constant:
                    count = element_count(view.shape)  # LiteRT reads only the first bytes of a longer buffer
                    flat = np.frombuffer(self._buffers.read(view.buffer), DTYPES[view.type], count)
                    value = flat.reshape(view.shape)
            self._constants[tensor] = value
        return self._constants[tensor]

    def vector(self, tensor: int, shape: Shape | None) -> Shape | None:
        """Return an INT32 vector's shape, from the file if not known otherwise, or None for other tensors."""
        if shape is None and tensor >= 0:  # a file may omit the shape of a computed tensor
            shape = self.shapes[tensor] or ((1,) if self.graph.producer[tensor] >= 0 else ())
        return shape if shape is not None and len(shape) == 1 and self.view.tensors[tensor].type == "INT32" else None

    def is_open(self, tensor: int) -> bool:
        return -1 in self.shapes[tensor] or -1 in self.signatures.row(tensor)


class Inference:
    """Infers the shapes in a subgraph and in the subgraphs that it calls, visiting each once.

    `base` holds the shapes of the unchanged model: operators whose inputs did not change keep these shapes. With
    `strict`, the file's shapes of other computed tensors are not used, and `refused` holds the operators whose rules
    refuse their inputs; `batch` must be None.
    """

    def __init__(
        self,
        model: Model,
        base: Shapes | None = None,
        batch: Batch | None = None,
        known: dict[int, InferredSubgraph] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.model, self._base, self._batch, self._strict = model, base, batch, strict
        self._graphs = model_graph(model)
        self.refused: dict[Place, RefusedError] = {}
        self.subgraphs: dict[int, InferredSubgraph] = {} if known is None else known
        self.found = Shapes()
        self._runs: dict[int, tuple[Shape | None, ...]] = {}

    def run(self, index: int, inputs: Sequence[Shape | None], depth: int = 0) -> list[Shape | None]:
        """Infer a subgraph from its input shapes; return the shapes of its outputs. Raises ShapesRefusedError."""
        if index not in self.subgraphs:
            self.subgraphs[index] = InferredSubgraph(self.model, self._graphs.graphs[index])
        subgraph, now = self.subgraphs[index], self.found.shapes
        ends = [int(tensor) for tensor in subgraph.graph.inputs]
        if self._runs.get(index, tuple(inputs)) != tuple(inputs) or depth > _DEEPEST:
            raise RefusedError(f"subgraph {index} is called with different shapes elsewhere")
        if len(ends) != len(inputs):
            raise RefusedError(f"the number of inputs of subgraph {index} is {len(ends)}, not {len(inputs)}")
        if index not in self._runs:
            self._runs[index] = tuple(inputs)
            now.update(((index, tensor), shape) for tensor, shape in zip(ends, inputs, strict=True))
            for operator in range(len(subgraph.codes)):
                self._step(subgraph, operator, depth)
        return [self._shape(subgraph, int(tensor)) for tensor in subgraph.graph.outputs]

    def _step(self, subgraph: InferredSubgraph, operator: int, depth: int) -> None:
        place, results = (subgraph.index, operator), subgraph.results[operator]
        keys = [(subgraph.index, tensor) for tensor in results]
        touched = (*subgraph.operands[operator], *results) if subgraph.has_large else ()
        if any(len(subgraph.shapes[tensor]) > MOST_DIMENSIONS for tensor in touched if tensor >= 0):
            raise ShapesRefusedError(place, subgraph.codes[operator], f"more than {MOST_DIMENSIONS} dimensions")
        if self._base is not None and not self._changed(subgraph, operator):
            self.found.shapes.update((key, self._base.shapes.get(key)) for key in keys)
            self.found.values.update((key, self._base.values[key]) for key in keys if key in self._base.values)
            return
        slots = subgraph.operands[operator]
        call = self._call(subgraph, operator, self.found)
        try:
            if self._base is not None and self._batch is not None and self._batch.mend:
                with suppress(UnknownError):
                    for patch in patches(call, self._call(subgraph, operator, self._base), self._batch):
                        self._patch(subgraph, operator, patch)
                call = self._call(subgraph, operator, self.found)
            found = self._results(subgraph, operator, call, depth)
            if self._base is not None and self._batch is not None:
                before: list[Shape | None] = [self._base.shapes.get(key) for key in keys]
                with suppress(UnknownError):
                    check_batch(call, self._call(subgraph, operator, self._base), (before, found), self._batch)
        except RefusedError as error:
            if self._strict:
                self.refused[place] = error
                found = [None] * len(results)
            elif self._base is None:  # only LiteRT knows the shape; use the one in the file
                found = [subgraph.shapes[tensor] if tensor >= 0 else None for tensor in results]
            else:
                constant = None if error.slot is None or error.slot >= len(slots) else slots[error.slot]
                raise ShapesRefusedError(place, call.code, error.reason, constant) from error
        # The XNNPACK delegate accepts tensors without elements, which kernels refuse to read, and unpacks constants
        # before their shapes are known, so it uses those in the file.
        kept = [subgraph.shapes[tensor] for tensor in results] if call.code in ("DEQUANTIZE", "DENSIFY") else found
        unsure = self._strict and kept != found and subgraph.view.tensors[slots[0]].is_constant
        known = (None if self._strict and (0 in (shape or ()) or unsure) else shape for shape in found)
        self.found.shapes.update(zip(keys, known, strict=True))
        value = folded(call, found) if results else None
        if value is not None and subgraph.is_whole[results[0]]:
            self.found.values[keys[0]] = value

    def _results(self, subgraph: InferredSubgraph, operator: int, call: Call, depth: int) -> list[Shape | None]:
        try:
            if call.code in _CALLING:
                found = self._called(subgraph, operator, call, depth)
            elif call.code in RULES and not (self._strict and call.code == "BITCAST"):  # it also depends on types
                check_needs(call)
                found = list(RULES[call.code](call))
            elif not call.results:
                found = []
            elif self._strict:
                raise UnknownError
            else:
                raise RefusedError("its shapes cannot be derived from its inputs")
        except (IndexError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise RefusedError("its inputs and options do not fit together") from error
        except UnknownError:
            # XNNPACK gives a variable the file's shape.
            tensors, of_variable = subgraph.results[operator], call.code == "READ_VARIABLE"
            keeps = self._base is None and (of_variable or not self._strict)
            closed = [keeps and tensor >= 0 and not subgraph.is_open(tensor) for tensor in tensors]
            found = [subgraph.shapes[at] if one else None for at, one in zip(tensors, closed, strict=True)]
            found = [shape or None for shape in found] if of_variable else found
        if len(found) != call.results:
            raise DoubtfulError(f"the number of outputs is {call.results}, not {len(found)}")
        for shape in found:
            if shape is not None and (min(shape, default=0) < 0 or element_count(shape) >= _LARGEST):
                raise RefusedError(f"{shown(shape)} is not a valid tensor shape")
        return found

    def _called(self, subgraph: InferredSubgraph, operator: int, call: Call, depth: int) -> list[Shape | None]:
        if self._strict and call.options.get("name") == ATTENTION:
            raise UnknownError
        given = [] if call.code == "CALL_ONCE" else list(call.shapes[call.code == "IF" :])
        called, count = subgraph.callees.get(operator, ()), len(given)
        returned = {
            "IF": (call.results, call.results),
            "WHILE": (1, count),
            "CALL_ONCE": (0,) if self._strict else (),
            "STABLEHLO_COMPOSITE": (call.results,) if self._strict else (),
        }.get(call.code, ())
        for graph, results in zip([self._graphs.graphs[index] for index in called], returned, strict=False):
            fits = (len(graph.inputs), len(graph.outputs)) == (count, results)
            refuse_unless(fits, f"{graph.place()} must have {count} inputs and {results} outputs")
        refuse_unless(call.code != "CALL_ONCE" or subgraph.index not in called, "it calls its own subgraph")
        try:
            ends = [self.run(index, given, depth + 1) for index in called]
        except RefusedError as error:
            if self._strict:
                raise UnknownError from error
            raise
        if call.code == "WHILE" and len(ends) == 2:
            condition = self.subgraphs[subgraph.callees[operator][0]]
            reads = any(self._changed(condition, at) for at in range(len(condition.codes))) if self._base else False
            if self._batch is not None and reads:
                raise RefusedError("a single condition decides for the whole batch")
            ends = [ends[1], given]
        if not ends or call.code == "CALL_ONCE":
            return [None] * call.results if self._strict else []
        return [shapes[0] if len(set(shapes)) == 1 else None for shapes in zip(*ends, strict=False)]

    def _call(self, subgraph: InferredSubgraph, operator: int, found: Shapes) -> Call:
        slots, sizes = subgraph.operands[operator], found.options.get((subgraph.index, operator))
        shapes = [self._shape(subgraph, tensor, found) for tensor in slots]
        if subgraph.codes[operator] == "RESHAPE" and len(slots) == 2:
            shapes[1] = subgraph.vector(slots[1], shapes[1])  # without this input, LiteRT uses the options
        return Call(
            subgraph.codes[operator],
            {**subgraph.view.options_of(operator), **({} if sizes is None else {"new_shape": sizes})},
            shapes,
            [self._value(subgraph, tensor, found) for tensor in slots],
            len(subgraph.results[operator]),
        )

    def _shape(self, subgraph: InferredSubgraph, tensor: int, found: Shapes | None = None) -> Shape | None:
        shapes, key = (found or self.found).shapes, (subgraph.index, tensor)
        return shapes[key] if key in shapes else subgraph.shapes[tensor] if tensor >= 0 else None

    def _value(self, subgraph: InferredSubgraph, tensor: int, found: Shapes) -> Value | None:
        if tensor < 0:
            return None
        value = found.values.get((subgraph.index, tensor))
        return value if value is not None else subgraph.constant(tensor)

    def _changed(self, subgraph: InferredSubgraph, operator: int) -> bool:
        assert self._base is not None
        for tensor in subgraph.operands[operator]:
            if self._shape(subgraph, tensor) != self._shape(subgraph, tensor, self._base):
                return True
            values = [self._value(subgraph, tensor, found) for found in (self.found, self._base)]
            if values[0] is not values[1] and not np.array_equal(np.asarray(values[0]), np.asarray(values[1])):
                return True
        return False

    def _patch(self, subgraph: InferredSubgraph, operator: int, patch: Patch) -> None:
        """Replace or repeat an input. Raises RefusedError if the input is computed or must differ elsewhere."""
        assert self._batch is not None
        if subgraph.codes[operator] == "RESHAPE" and patch.value is not None:
            if subgraph.view.options_of(operator).get("new_shape"):
                self.found.options[subgraph.index, operator] = [int(size) for size in patch.value]
            if len(subgraph.operands[operator]) < 2:
                return
        tensor = subgraph.operands[operator][patch.slot]
        key, view = (subgraph.index, tensor), subgraph.view.tensors[tensor]
        if not (view.is_constant or view.is_variable) or subgraph.graph.producer[tensor] >= 0:
            raise RefusedError("a computed input does not grow with the batch", patch.slot)
        known = self.found.patched.setdefault(key, (patch, set()))
        same = known[0].axis == patch.axis and np.array_equal(np.asarray(known[0].value), np.asarray(patch.value))
        if not same or (patch.value is not None and patch.value.size != element_count(view.shape)):
            raise RefusedError("another operator needs different values of the same constant", patch.slot)
        known[1].add(operator)
        if patch.value is not None:
            self.found.values[key] = patch.value.reshape(view.shape)
        else:
            sizes = list(view.shape)
            sizes[patch.axis] = self._batch.grown(sizes[patch.axis])
            self.found.shapes[key] = tuple(sizes)

    def unpatched_readers(self) -> Iterator[tuple[Place, int]]:
        """Yield the changed constants that another operator needs unchanged, each with such an operator."""
        for key, (_, operators) in self.found.patched.items():
            yield from ((key, one) for one in self.subgraphs[key[0]].graph.readers[key[1]] if one not in operators)


def fixed_shapes(graph: Graph, inputs: Sequence[Shape] = ()) -> Shapes | None:
    """Return what follows from input shapes (default: those in the file) and constants alone, or None if refused."""
    run, rows = Inference(graph.model, strict=True), map(graph.values.shapes.row, graph.inputs.tolist())
    try:
        run.run(graph.index, inputs or [tuple(max(size, 1) for size in row.tolist()) for row in rows])
    except (CircleToolsError, ShapesRefusedError, RefusedError):
        return None
    return run.found
