"""Change one thing in a model through the published object API: `mutants(data, seed, count)`.

Half of the changes violate an invariant of models (a tensor read but never produced, two producers, a truncated
constant); the others set any field of any object to another value. Fields have the names of the object API.
"""

import importlib
import math
import random
import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import flatbuffers
import numpy as np

Change = Callable[[Any, random.Random], object]
"""A change of a model in place. Raises `Unfit` if the model has nothing to change."""
_NUMBERS = (-(2**31), -129, -5, -2, -1, 0, 1, 2, 3, 4, 5, 7, 17, 64, 127, 1000, 65536, 2**30, 2**31 - 1)


class Unfit(Exception):  # noqa: N818 - no error: another kind of change is drawn
    """The model has nothing to which this change applies."""


def unpack(data: bytes) -> Any:
    """Return a model as objects."""
    if data[4:8] == b"CIR0":
        module = importlib.import_module("circle_schema.v0_10.circle.Model")
    else:
        module = importlib.import_module("ai_edge_litert.schema_py_generated")
    return module.ModelT.InitFromPackedBuf(data, 0)


def pack(model: Any, identifier: bytes) -> bytes:
    """Return the file of a model."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), identifier)
    return bytes(builder.Output())


def mutants(data: bytes, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield changed models, each with a description of the change; models that cannot be encoded are drawn again."""
    rng, original, found = random.Random(seed), unpack(data), 0  # noqa: S311
    for _ in range(count * 20):
        if found == count:
            return
        kind = rng.choice(list(CHANGES)) if rng.random() < 0.5 else "any_field"
        model = deepcopy(original)
        try:
            text = (any_field if kind == "any_field" else CHANGES[kind])(model, rng)
            changed = pack(model, data[4:8])
        except (Unfit, TypeError, ValueError, AttributeError, OverflowError, struct.error):
            continue
        found += 1
        yield f"{kind} {text}", changed


def _pick(rng: random.Random, items: Any) -> Any:
    if items is None or not len(items):
        raise Unfit
    return items[rng.randrange(len(items))]


def _graph(model: Any, rng: random.Random) -> Any:
    return _pick(rng, model.subgraphs)


def _numbers(values: Any) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def _operator(model: Any, rng: random.Random) -> tuple[Any, Any]:
    graph = _graph(model, rng)
    return graph, _pick(rng, graph.operators)


def _slot(field: str) -> Change:
    def change(model: Any, rng: random.Random) -> object:
        graph, operator = _operator(model, rng)
        values = _numbers(getattr(operator, field))
        at = rng.randrange(len(values)) if values else _pick(rng, [])
        values[at] = rng.randrange(len(graph.tensors))
        setattr(operator, field, values)
        return f"{at} -> {values[at]}"

    return change


def _count(field: str) -> Change:
    def change(model: Any, rng: random.Random) -> object:
        graph, operator = _operator(model, rng)
        values = _numbers(getattr(operator, field))
        if rng.random() < 0.5:
            values = values[:-1]
        else:
            values.append(rng.randrange(-1, len(graph.tensors)))
        setattr(operator, field, values)
        return len(values)

    return change


def _ends(field: str) -> Change:
    def change(model: Any, rng: random.Random) -> object:
        graph = _graph(model, rng)
        values = _numbers(getattr(graph, field))
        how = rng.choice(("drop", "add", "replace", "repeat"))
        if how == "drop" or not values:
            values = values[1:]
        elif how == "add":
            values.append(rng.randrange(len(graph.tensors)))
        elif how == "replace":
            values[0] = rng.randrange(len(graph.tensors))
        else:
            values.append(values[0])
        setattr(graph, field, values)
        return how

    return change


def _order(model: Any, rng: random.Random) -> object:
    graph = _graph(model, rng)
    if len(graph.operators or ()) < 2:
        raise Unfit
    one, two = rng.sample(range(len(graph.operators)), 2)
    graph.operators[one], graph.operators[two] = graph.operators[two], graph.operators[one]
    return f"{one} <-> {two}"


def _drop_operator(model: Any, rng: random.Random) -> object:
    graph, operator = _operator(model, rng)
    graph.operators = [one for one in graph.operators if one is not operator]
    return ""


def _repeat_operator(model: Any, rng: random.Random) -> object:
    graph, operator = _operator(model, rng)
    graph.operators.append(operator)
    return ""


def _tensor(model: Any, rng: random.Random) -> Any:
    return _pick(rng, _graph(model, rng).tensors)


def _shape(model: Any, rng: random.Random) -> object:
    tensor = _tensor(model, rng)
    shape = _numbers(tensor.shape)
    if not shape or rng.random() < 0.2:
        shape.append(rng.choice((0, 1, 2, 3)))
    elif rng.random() < 0.2:
        shape.pop()
    else:
        at = rng.randrange(len(shape))
        shape[at] = rng.choice((-7, -1, 0, 1, 2, 3, shape[at] + 1, shape[at] * 2, 2**16, 2**30, 2**31 - 1))
    tensor.shape = shape
    return shape


def _signature_of_shape(model: Any, rng: random.Random) -> object:
    tensor = _tensor(model, rng)
    shape = _numbers(tensor.shape)
    tensor.shapeSignature = rng.choice((shape[:-1], [*shape, 1], [-1] * len(shape), [size + 1 for size in shape]))
    return tensor.shapeSignature


def _type(model: Any, rng: random.Random) -> object:
    tensor = _tensor(model, rng)
    tensor.type = rng.choice((*range(23), 23, 77, -1, -2, -9))
    return tensor.type


def _buffer_of(model: Any, rng: random.Random) -> object:
    tensor = _tensor(model, rng)
    tensor.buffer = rng.randrange(len(model.buffers) + 1)
    return tensor.buffer


def _constant(model: Any, rng: random.Random) -> object:
    buffer = _pick(rng, [one for one in model.buffers or () if one.data is not None and len(one.data)])
    data = np.asarray(buffer.data, np.uint8)
    cut = rng.choice((0, 1, len(data) // 2, len(data) - 1, len(data) + 1, len(data) + 16, len(data) * 2))
    buffer.data = np.resize(data, cut)
    return f"{len(data)} -> {cut}"


def _quantization(model: Any, rng: random.Random) -> object:
    tensors = [one for graph in model.subgraphs or () for one in graph.tensors or () if one.quantization is not None]
    quantization = _pick(rng, tensors).quantization
    field = rng.choice(("scale", "zeroPoint", "quantizedDimension", "min", "max"))
    if field == "quantizedDimension":
        quantization.quantizedDimension = rng.choice((-1, 1, 2, 4, 9))
        return quantization.quantizedDimension
    values = [] if getattr(quantization, field) is None else list(getattr(quantization, field))
    if not values or rng.random() < 0.4:
        values.append(1)
    elif rng.random() < 0.5:
        values.pop()
    else:
        values[rng.randrange(len(values))] = rng.choice((0, -1, 1000, float("nan"), float("inf")))
    if field == "zeroPoint":
        values = [int(value) for value in values if math.isfinite(value)]
    setattr(quantization, field, values)
    return f"{field} {len(values)}"


def _code(model: Any, rng: random.Random) -> object:
    code = _pick(rng, model.operatorCodes)
    code.builtinCode = rng.choice((*range(210), 500, -1, -9))
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    return code.builtinCode


def _version(model: Any, rng: random.Random) -> object:
    code = _pick(rng, model.operatorCodes)
    code.version = rng.choice((-1, 0, 1, 2, 5, 12, 13, 100))
    return code.version


def _without(field: str) -> Change:
    def change(model: Any, rng: random.Random) -> object:
        if getattr(model, field) is None:
            raise Unfit
        setattr(model, field, rng.choice((None, [])))
        return ""

    return change


def _signature(model: Any, rng: random.Random) -> object:
    signature = _pick(rng, model.signatureDefs)
    maps = _pick(rng, [one for one in (signature.inputs, signature.outputs) if one is not None and len(one)])
    how = rng.choice(("drop", "tensor", "subgraph", "repeat", "name"))
    if how == "drop":
        maps.pop()
    elif how == "tensor":
        maps[0].tensorIndex = rng.randrange(8)
    elif how == "subgraph":
        signature.subgraphIndex = rng.randrange(3)
    elif how == "repeat":
        maps.append(maps[0])
    else:
        maps[0].name = rng.choice((None, b"", maps[-1].name))
    return how


def _name(model: Any, rng: random.Random) -> object:
    graph = _graph(model, rng)
    one, two = _pick(rng, graph.tensors), _pick(rng, graph.tensors)
    one.name = rng.choice((two.name, b"", None))
    return one.name


def _variable(model: Any, rng: random.Random) -> object:
    tensor = _tensor(model, rng)
    tensor.isVariable = not tensor.isVariable
    return tensor.isVariable


CHANGES: dict[str, Change] = {
    "operator_input": _slot("inputs"),
    "operator_output": _slot("outputs"),
    "input_count": _count("inputs"),
    "output_count": _count("outputs"),
    "subgraph_inputs": _ends("inputs"),
    "subgraph_outputs": _ends("outputs"),
    "operator_order": _order,
    "drop_operator": _drop_operator,
    "repeat_operator": _repeat_operator,
    "shape": _shape,
    "shape_signature": _signature_of_shape,
    "type": _type,
    "tensor_buffer": _buffer_of,
    "constant": _constant,
    "quantization": _quantization,
    "operator_code": _code,
    "operator_version": _version,
    "no_subgraphs": _without("subgraphs"),
    "no_buffers": _without("buffers"),
    "no_codes": _without("operatorCodes"),
    "signature": _signature,
    "tensor_name": _name,
    "variable": _variable,
}


# --- any field ----------------------------------------------------------------------------------------------


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in vars(kind()) if not name.startswith("_"))


def any_field(model: Any, rng: random.Random) -> str:
    """Set any field of an object of any type; the type is drawn first, so that rare types occur too."""
    kinds: dict[type, list[Any]] = {}
    pending = [model]
    while pending:
        one = pending.pop()
        kinds.setdefault(type(one), []).append(one)
        for name in _fields(type(one)):
            value = getattr(one, name)
            pending += [item for item in (value if isinstance(value, list) else [value]) if hasattr(item, "Pack")]
    chosen = rng.choice(sorted((kind for kind in kinds if _fields(kind)), key=lambda kind: kind.__name__))
    one, name = rng.choice(kinds[chosen]), rng.choice(_fields(chosen))
    value = _other(getattr(one, name), rng)
    setattr(one, name, value)
    return f"{chosen.__name__}.{name} = {str(value)[:40]}"


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool | np.bool_):
        return not value
    if isinstance(value, int | np.integer):
        return rng.choice((*_NUMBERS, int(value) + 1, int(value) - 1))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), value * 2))
    if isinstance(value, bytes | str):
        return rng.choice((b"", b"other", None))
    if isinstance(value, list | np.ndarray) and len(value):
        items = list(value)
        how = rng.choice(("none", "pop", "repeat", "swap", "change"))
        if how == "pop":
            items.pop(rng.randrange(len(items)))
        elif how == "repeat":
            items.append(rng.choice(items))
        elif how == "swap":
            rng.shuffle(items)
        elif how == "change" and not hasattr(items[0], "Pack"):
            items[rng.randrange(len(items))] = _other(items[0], rng)
        return None if how == "none" else items
    if value is None:
        raise Unfit
    return None
