"""Measure which operator copies a tensor bit for bit in the runtimes, and keep the table of it.

    python -m benchmarks.copyops            measure, and write circletools/outputs/copyops.json
    python -m benchmarks.copyops --check    measure, and exit with 1 when the file would change

Each measurement is a model with one operator, tensor -> operator -> tensor, that is loaded, run and compared with
what it was fed. A runtime may die of one, so that they run in processes of their own.

The file:

    runtimes        name -> the package that was measured
    source          where the versions of the operators come from
    kinds           shape kind -> what it means; the kinds are the keys of `exact`
    quantizations   as above
    outcomes        what the words in `otherwise` mean
    operators       name -> {
      form          how the operator is written
      versions      a list of rules, of which the first that fits a tensor has the version to write: a rule fits
                    when the type is in `types` and the rank at least `min_rank`, as far as it has them. `since` is
                    the oldest TFLite runtime that has this version.
      loads         runtime -> the versions that it takes, of a FLOAT32 matrix, from 1 to 12
      exact         runtime -> type -> quantization -> kind -> the ranks it copies, such as "0-6" or "0,2-4";
                    what is missing is not copied
      otherwise     runtime -> type -> quantization -> kind -> what happened instead, "prepare 7-8"; one word for
                    a whole type or quantization where all of it ended alike
      variants      other ways to write it -> runtime -> kind -> ranks, for FLOAT32
    }

In `exact`, `litert` means a TFLite file with the default delegate and also without it, `onert` means a file of
either format, as far as the format has the type.
"""

import argparse
import ctypes
import importlib
import importlib.metadata
import json
import math
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as fb
from numpy.typing import NDArray

from benchmarks.isolation import answers
from benchmarks.process import ROOT

TABLE = ROOT / "circletools" / "outputs" / "copyops.json"
RANKS = range(9)
LAST_VERSION = 12

RUNTIMES = {"litert": "ai-edge-litert", "onert": "onert"}
VARIANTS = {"litert": ("default", "builtin"), "onert": ("tflite", "circle")}
"""How each runtime is asked: with the default delegate or without it; with a file of this format."""

KINDS = {
    "static": "all dimensions known, none zero",
    "zero": "all dimensions known, one of them zero",
    "constant": "as static, and the tensor has data in the file",
    "fan_out": "as static; three outputs: the result of the operator, and two copies of that result",
    "dynamic": "one dimension is -1 in shape_signature, and is resized twice",
    "dynamic_all": "two or more dimensions are -1: all, or all but the one with scales; resized twice",
    "dynamic_zero": "as dynamic, and is resized to zero",
}
QUANTIZATIONS = {
    "none": "no quantization",
    "per_tensor": "one scale, zero point 0",
    "per_tensor_offset": "one scale, another zero point",
    "per_channel": "a scale for each element of one dimension, zero points 0",
}
OUTCOMES = {
    "exact": "the same bits, shape and quantization, in memory of its own",
    "unfed": "the interface of the runtime has no such tensors, or no such shapes",
    "load": "the file is refused",
    "prepare": "it loads, but cannot be allocated or compiled",
    "run": "it prepares, but the run fails",
    "differs": "it runs, and the output is not the input",
    "crash": "the process dies, or works without end",
    "undefined": "it differs, dies or works without end, as memory happens to be",
}
"""From the best to the worst: of several runs, the worst is what counts."""

SOURCE = {
    "versions": "github.com/google-ai-edge/LiteRT tflite/converter/tools/versioning/op_version.cc, 119ae633cc86",
    "since": "github.com/google-ai-edge/LiteRT tflite/converter/tools/versioning/runtime_version.cc, 119ae633cc86",
}
Rule = dict[str, Any]
VERSIONS: dict[str, list[Rule]] = {
    "TRANSPOSE": [
        {"version": 9, "types": ["FLOAT16"], "since": "2.23.0"},
        {"version": 8, "min_rank": 7, "since": "2.22.0"},
        {"version": 8, "types": ["BFLOAT16"], "since": "2.22.0"},
        {"version": 7, "types": ["INT4"], "since": "2.14.4"},
        {"version": 6, "min_rank": 6, "since": "2.12.0"},
        {"version": 5, "types": ["INT16"], "since": "2.4.0"},
        {"version": 4, "min_rank": 5, "since": "2.3.0"},
        {"version": 3, "types": ["BOOL"], "since": "1.15.0"},
        {"version": 2, "types": ["INT8"], "since": "1.14.0"},
        {"version": 1, "since": "1.6.0"},
    ],
    "RESHAPE": [{"version": 1, "since": "1.5.0"}],
    "CONCATENATION": [
        {"version": 6, "types": ["FLOAT16"], "since": "2.23.0"},
        {"version": 5, "types": ["INT4"], "since": "2.21.0"},
        {"version": 4, "types": ["UINT32"], "since": "2.14.0"},
        {"version": 3, "types": ["INT16"], "since": "2.3.0"},
        {"version": 2, "types": ["INT8"], "since": "1.14.0"},
        {"version": 1, "since": "1.5.0"},
    ],
}
FORMS = {
    "TRANSPOSE": "a second input, constant INT32 [rank]: 0, 1, ... rank-1, its data a vector even if empty; "
    "TransposeOptions",
    "RESHAPE": "a second input, constant INT32 [rank]: the shape, -1 where unknown, its data a vector even if empty; "
    "no options",
    "CONCATENATION": "one input; ConcatenationOptions, axis 0, no activation",
}
RESHAPE_VARIANTS = {
    "RESHAPE/both": "the constant input, and ReshapeOptions.new_shape",
    "RESHAPE/option": "ReshapeOptions.new_shape only",
}

_QUANTIZED = ("INT8", "UINT8", "INT16", "INT32", "INT64", "INT4", "UINT4", "INT2", "FLOAT32")
_BYTES = {
    **dict.fromkeys(("UINT8", "INT8", "BOOL", "INT4", "UINT4", "FLOAT8_E4M3FN", "FLOAT8_E5M2"), 1),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 2),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT32", "INT2"), 4),
    **dict.fromkeys(("INT64", "UINT64", "FLOAT64", "COMPLEX64"), 8),
    "COMPLEX128": 16,
}
"""Bytes of an element as it is fed; of a type that is not here, nothing can be fed."""

# The Python interface of LiteRT has no arrays of these types. The operator stands between two others then, which
# make the type from another and give it back; both are exact for every value there is.
_GUISES = {"BFLOAT16": ("UINT16", "BITCAST", 1), "INT2": ("FLOAT32", "CAST", 8)}

Shape = tuple[int, ...]
# Many sizes above 1, so that a wrong order shows; the second has an odd number of elements, where a packed type
# leaves a part of its last byte unused.
_EVEN: Shape = (4, 3, 5, 2, 3, 2, 2, 3)
_ODD: Shape = (5, 3, 1, 3, 1, 3, 1, 3)


@dataclass(frozen=True)
class Case:
    """One entry of the table."""

    form: str
    type: str
    quantization: str
    kind: str
    rank: int
    version: int = 0
    """Of the operator; 0 is the one that the rules give."""


@dataclass(frozen=True)
class Trial:
    """One model of a case, and the shapes it is run with."""

    shape: Shape
    runs: tuple[Shape, ...]
    signature: Shape | None = None
    channel: int = 0
    constant: bool = False
    fan_out: bool = False


# ---------------------------------------------------------------------- what is measured


@cache
def tensor_types(form: str) -> dict[str, int]:
    """Return the tensor types of a file format."""
    schema = json.loads((ROOT / "schema" / f"{form}.json").read_text())
    return {str(name): int(value) for name, value in schema["enums"]["TensorType"].items()}


def cases() -> list[Case]:
    """Return all entries of the table, in its order."""
    types = list(dict.fromkeys([*tensor_types("tflite"), *tensor_types("circle")]))
    found = [case for form in FORMS for tensor_type in types for case in _cases(form, tensor_type)]
    for form in RESHAPE_VARIANTS:
        found += _cases(form, "FLOAT32")
    return found


def _cases(form: str, tensor_type: str) -> Iterator[Case]:
    for quantization in QUANTIZATIONS if tensor_type in _QUANTIZED else ("none",):
        for kind in KINDS:
            for rank in RANKS:
                case = Case(form, tensor_type, quantization, kind, rank)
                if trials(case):
                    yield case


def trials(case: Case) -> list[Trial]:
    """Return the models of a case: none where there can be none."""
    found = [*_trials(case.kind, case.rank)]
    if case.form.startswith("RESHAPE") and case.kind == "dynamic_all":
        return []  # a constant shape has place for one unknown dimension
    if case.kind == "constant" and not _feedable(case):
        return []
    if case.quantization != "per_channel":
        return found
    # As many scales as the dimension has elements: it must be known, and there must be some.
    axes = sorted({0, case.rank - 1}) if case.rank else []
    if case.kind == "dynamic_all":
        return [_with_known(trial, axis) for trial in found for axis in axes if case.rank > 2]
    return [
        replace(trial, channel=axis)
        for trial in found
        for axis in axes
        if trial.shape[axis] and (trial.signature is None or trial.signature[axis] != -1)
    ]


def _with_known(trial: Trial, axis: int) -> Trial:
    runs = tuple(_replace(shape, axis, 3) for shape in trial.runs)
    signature = _replace(trial.signature or (), axis, 3)
    return Trial(_replace(trial.shape, axis, 3), runs, signature, axis)


def _trials(kind: str, rank: int) -> Iterator[Trial]:
    even, odd = _EVEN[:rank], _ODD[:rank]
    ends = sorted({0, rank - 1}) if rank else []
    match kind:
        case "static" | "constant" | "fan_out":
            for shape in dict.fromkeys((even, odd, (1,) * rank)):
                yield Trial(shape, (shape,), constant=kind == "constant", fan_out=kind == "fan_out")
        case "zero":
            yield from (Trial(shape, (shape,)) for shape in (_replace(even, axis, 0) for axis in ends))
        case "dynamic":
            for axis in ends:
                runs = (even, _replace(even, axis, 7))
                yield Trial(_replace(even, axis, 1), runs, _replace(even, axis, -1))
        case "dynamic_all" if rank > 1:
            yield Trial((1,) * rank, (even, odd), (-1,) * rank)
        case "dynamic_zero":
            for axis in ends:
                yield Trial(_replace(even, axis, 1), (_replace(even, axis, 0),), _replace(even, axis, -1))


def _replace(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def version(operator: str, tensor_type: str, rank: int) -> int:
    """Return the version that the rules give the operator."""
    for rule in VERSIONS[operator]:
        if rank >= rule.get("min_rank", 0) and tensor_type in rule.get("types", [tensor_type]):
            return int(rule["version"])
    raise LookupError(operator)


# ---------------------------------------------------------------------- the values


@cache
def pool(tensor_type: str) -> tuple[bytes, ...]:
    """Return the elements to feed: all there are of a small type, else those that arithmetic would not keep."""
    known = _small_pools()
    if tensor_type in known:
        return known[tensor_type]
    if tensor_type.startswith("COMPLEX"):
        parts = pool("FLOAT32" if tensor_type == "COMPLEX64" else "FLOAT64")
        return tuple(one + other for one, other in zip(parts, parts[7:] + parts[:7], strict=True))
    size = _BYTES[tensor_type]
    if size == 1:
        return tuple(bytes([value]) for value in range(256))
    rng = np.random.default_rng(zlib.crc32(tensor_type.encode()))
    special = [value.to_bytes(size, "little") for value in _special(8 * size)]
    return (*special, *(rng.bytes(size) for _ in range(64)))


@cache
def _small_pools() -> dict[str, tuple[bytes, ...]]:
    return {
        "STRING": (b"text", b"", b"\xff\xfe\x80", b"\0", b"a\0b\0", "é".encode(), b"\xed\xa0\x80", b"x" * 1000),
        "BOOL": (b"\0", b"\1"),
        "INT4": tuple(bytes([value & 255]) for value in range(-8, 8)),
        "UINT4": tuple(bytes([value]) for value in range(16)),
        "INT2": tuple(np.float32(value).tobytes() for value in range(-2, 2)),
    }


def _special(bits: int) -> list[int]:
    """Return the ends of the integers, and of floats each zero, infinity, NaN and denormal end."""
    values = {0, 1, 2, (1 << bits) - 1, int("55" * (bits // 8), 16), int("aa" * (bits // 8), 16)}
    for exponent in {16: (5, 8), 32: (8,), 64: (11,)}[bits]:
        mantissa = bits - 1 - exponent
        infinity = ((1 << exponent) - 1) << mantissa
        quiet = 1 << (mantissa - 1)
        positive = (infinity, infinity | 1, infinity | quiet, infinity | quiet | 5, infinity - 1)
        values |= {*positive, (1 << mantissa) - 1, 1 << mantissa, infinity | ((1 << mantissa) - 1)}
    sign = 1 << (bits - 1)
    return sorted(values | {value | sign for value in values})


def rounds(tensor_type: str, count: int) -> Iterator[tuple[bytes, ...]]:
    """Yield `count` elements at a time until each of the pool was there."""
    elements = pool(tensor_type)
    for start in range(0, len(elements), max(count, 1)) if count else [0]:
        yield tuple(elements[(start + number) % len(elements)] for number in range(count))


# ---------------------------------------------------------------------- the models


class _Writer:
    """A model under construction."""

    def __init__(self, types: Mapping[str, int]) -> None:
        self._types = types
        self.model = fb.ModelT()
        self.model.version, self.model.description = 3, "a copy"
        self.model.operatorCodes, self.model.buffers = [], [fb.BufferT()]
        self.graph = fb.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, tensor_type: str, shape: Shape, signature: Shape | None = None, quantization: Any = None) -> int:
        tensor = fb.TensorT()
        tensor.name, tensor.type, tensor.buffer = f"t{len(self.graph.tensors)}", self._types[tensor_type], 0
        tensor.shape, tensor.hasRank = [*shape], True
        tensor.shapeSignature = None if signature is None else [*signature]
        tensor.quantization = quantization
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def fill(self, tensor: int, data: bytes) -> int:
        buffer = fb.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self.graph.tensors[tensor].buffer = len(self.model.buffers)
        self.model.buffers.append(buffer)
        return tensor

    def operator(self, name: str, number: int, inputs: list[int], output: int, options: Any = None) -> None:
        value = getattr(fb.BuiltinOperator, name)
        code = fb.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = value, min(value, 127), number
        self.model.operatorCodes.append(code)
        operator = fb.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = len(self.graph.operators), inputs, [output]
        if options is not None:
            operator.builtinOptionsType = getattr(fb.BuiltinOptions, type(options).__name__[:-1])
            operator.builtinOptions = options
        self.graph.operators.append(operator)

    def finish(self, identifier: bytes) -> bytes:
        builder = flatbuffers.Builder(1 << 10)
        builder.Finish(self.model.Pack(builder), identifier)
        return bytes(builder.Output())


def build(case: Case, trial: Trial, variant: str) -> bytes:
    """Return the model.

    One writer serves both formats: the tables and fields that it uses are the same in both schemas.
    """
    writer = _Writer(tensor_types(_format(variant)))
    guise = _GUISES.get(case.type) if variant in VARIANTS["litert"] else None
    like = (trial.shape, trial.signature)
    tensor = partial(writer.tensor, case.type, *like, _quantization(case, trial))
    source = tensor()
    if trial.constant:
        writer.fill(source, _packed(case.type, next(rounds(case.type, math.prod(trial.shape)))))
    elif guise is None:
        writer.graph.inputs = [source]
    else:
        outside = writer.tensor(guise[0], *like)
        writer.operator(guise[1], guise[2], [outside], source)
        writer.graph.inputs = [outside]
    number = case.version or version(case.form.partition("/")[0], case.type, case.rank)
    copy = partial(_add_copy, writer, case.form, trial, number)
    results = [copy(source, tensor())]
    if trial.fan_out:
        results += [copy(results[0], tensor()) for _ in range(2)]
    for result in results:
        if guise is None:
            writer.graph.outputs.append(result)
        else:
            writer.graph.outputs.append(writer.tensor(guise[0], *like))
            writer.operator(guise[1], guise[2], [result], writer.graph.outputs[-1])
    return writer.finish(b"CIR0" if variant == "circle" else b"TFL3")


def _add_copy(writer: _Writer, form: str, trial: Trial, number: int, source: int, target: int) -> int:
    operator, _, variant = form.partition("/")
    rank = len(trial.shape)
    open_shape = trial.shape if trial.signature is None else trial.signature
    values = range(rank) if operator == "TRANSPOSE" else open_shape
    inputs, options = [source], None
    if operator == "CONCATENATION":
        options = fb.ConcatenationOptionsT()
    elif variant != "option":
        inputs.append(writer.fill(writer.tensor("INT32", (rank,)), np.array(values, "<i4").tobytes()))
    if operator == "TRANSPOSE":
        options = fb.TransposeOptionsT()
    elif variant:
        options = fb.ReshapeOptionsT()
        options.newShape = [*open_shape]
    writer.operator(operator, number, inputs, target, options)
    return target


def _quantization(case: Case, trial: Trial) -> Any:
    if case.quantization == "none":
        return None
    count = trial.shape[trial.channel] if case.quantization == "per_channel" else 1
    offset = 3 if case.quantization == "per_tensor_offset" else 0
    quantization = fb.QuantizationParametersT()
    quantization.scale = [0.25 * (1 + number) for number in range(count)]
    quantization.zeroPoint = [offset] * count
    quantization.quantizedDimension = trial.channel if case.quantization == "per_channel" else 0
    return quantization


def _packed(tensor_type: str, elements: Sequence[bytes]) -> bytes:
    """Return the elements as a file has them."""
    if tensor_type == "STRING":
        ends = np.cumsum([0, *map(len, elements)]) + 4 * (len(elements) + 2)
        return np.array([len(elements), *ends], "<i4").tobytes() + b"".join(elements)
    width = {"INT4": 4, "UINT4": 4, "INT2": 2}.get(tensor_type)
    if width is None:
        return b"".join(elements)
    mask, each = (1 << width) - 1, 8 // width
    dtype = "<f4" if tensor_type == "INT2" else "i1"
    values = np.frombuffer(b"".join(elements), dtype).astype(int)
    small = [int(value) & mask for value in values] + [0] * (-len(elements) % each)
    return bytes(sum(small[at + i] << (width * i) for i in range(each)) for at in range(0, len(small), each))


# ---------------------------------------------------------------------- the runtimes

Enter = Callable[[str], None]


class _WrongError(Exception):
    """It ran, but the output is not the input, or is not a tensor of its own."""


class _UnfedError(Exception):
    """The interface cannot carry such a tensor."""


def _feedable(case: Case) -> bool:
    return case.type == "STRING" or case.type in _BYTES


@cache
def _litert() -> Any:
    # Here and not above: no process shall hold both runtimes.
    return importlib.import_module("ai_edge_litert.interpreter")


def litert_probe(case: Case, trial: Trial, variant: str, enter: Enter) -> None:
    """Run one model in LiteRT; an exception is the end, and `enter` was told the stage."""
    litert = _litert()
    resolvers = litert.OpResolverType
    enter("load")
    interpreter = litert.Interpreter(
        model_content=build(case, trial, variant),
        num_threads=1,
        experimental_op_resolver_type=resolvers.AUTO
        if variant == "default"
        else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for number, shape in enumerate(trial.runs):
        enter("prepare")
        if trial.signature is not None:
            index = interpreter.get_input_details()[0]["index"]
            # Once a string tensor was fed, the interface takes its dimensions for known.
            interpreter.resize_tensor_input(index, shape, strict=number == 0)
        interpreter.allocate_tensors()
        enter("run")
        _run_litert(interpreter, case, trial, shape)


def _run_litert(interpreter: Any, case: Case, trial: Trial, shape: Shape) -> None:
    if not _feedable(case):
        interpreter.invoke()
        raise _UnfedError
    for elements in rounds(case.type, math.prod(shape)):
        if not shape and elements == (b"",):
            continue  # NumPy has no such array
        if interpreter.get_input_details() and elements:
            detail = interpreter.get_input_details()[0]
            interpreter.set_tensor(detail["index"], _array(elements, np.dtype(detail["dtype"]), shape))
        interpreter.invoke()
        for detail in interpreter.get_output_details():
            # Of an empty tensor the interface has no data to give.
            value = interpreter.get_tensor(detail["index"]) if elements else np.empty(detail["shape"])
            if value.shape != shape or _elements(value) != elements:
                raise _WrongError
        _check_quantization(interpreter, case, trial)
        if elements and shape and case.type != "STRING":  # of the others the interface gives copies
            _check_memory(interpreter)
        if trial.constant:
            return


def _array(elements: Sequence[bytes], dtype: np.dtype[Any], shape: Shape) -> NDArray[Any]:
    if dtype.kind in "SO" and not shape:
        # The interface takes the address in an object array without dimensions for the string.
        return np.frombuffer(elements[0], f"S{len(elements[0])}").reshape(())
    if dtype.kind in "SO":
        array = np.empty(len(elements), object)
        array[:] = elements
        return array.reshape(shape)
    return np.frombuffer(b"".join(elements), dtype).reshape(shape)


def _elements(array: NDArray[Any]) -> tuple[bytes, ...]:
    if array.dtype.kind in "SO":
        return tuple(map(bytes, array.flat))
    data, size = array.tobytes(), array.itemsize
    return tuple(data[at : at + size] for at in range(0, len(data), size))


def _check_quantization(interpreter: Any, case: Case, trial: Trial) -> None:
    if case.type in _GUISES or case.quantization == "none":
        return
    wanted = _quantization(case, trial)
    for detail in interpreter.get_output_details():
        found = detail["quantization_parameters"]
        lists = ([*found["scales"]], [*found["zero_points"]], found["quantized_dimension"])
        if lists != (wanted.scale, wanted.zeroPoint, wanted.quantizedDimension):
            raise _WrongError


def _check_memory(interpreter: Any) -> None:
    details = [*interpreter.get_input_details(), *interpreter.get_output_details()]
    places = {interpreter.tensor(detail["index"])().ctypes.data for detail in details}
    if len(places) < len(details):
        raise _WrongError


def onert_probe(case: Case, trial: Trial, variant: str, enter: Enter) -> None:
    """Run one model in onert; an exception is the end, and `enter` was told the stage."""
    onert = _onert()
    with tempfile.NamedTemporaryFile(suffix=f".{variant}") as file:
        file.write(build(case, trial, variant))
        file.flush()
        enter("load")
        session = onert.Session()
        session.load(Path(file.name))
    session.use_backends("cpu")
    for number, shape in enumerate(trial.runs):
        if trial.signature is not None:
            enter("unfed")
            session.set_input_info(0, _info(session, shape))
        if number == 0:
            # The first resize is before this and known to the compiler, the second one after it.
            enter("prepare")
            session.prepare()
        _run_onert(session, case, trial, shape, enter)
    session.close()


@cache
def _onert() -> Any:
    return importlib.import_module("circletools.runtimes.onert_c")


def _info(session: Any, shape: Shape) -> Any:
    info = session.input_info(0)
    info.dims[: len(shape)] = shape
    return info


def _run_onert(session: Any, case: Case, trial: Trial, shape: Shape, enter: Enter) -> None:
    for elements in rounds(case.type, math.prod(shape)) if _feedable(case) else [()]:
        data = b"".join(elements)
        enter("unfed")
        if session.input_count():
            session.set_input(0, session.input_info(0).dtype, data)
        buffers = []
        for position in range(session.output_count()):
            # What is not written must not look like a plausible zero, and nothing behind the tensor may be.
            buffers.append((ctypes.c_char * (len(data) + 64)).from_buffer(bytearray(b"\xa5" * (len(data) + 64))))
            session.set_output(position, session.output_info(position).dtype, buffers[-1])
        enter("run")
        session.run()
        if not _feedable(case):
            raise _UnfedError
        for position, buffer in enumerate(buffers):
            if bytes(buffer) != data + b"\xa5" * 64 or session.output_info(position).shape() != shape:
                raise _WrongError
        if trial.constant:
            return


PROBES: dict[str, Callable[[Case, Trial, str, Enter], None]] = {"litert": litert_probe, "onert": onert_probe}
PACKAGES: dict[str, Callable[[], Any]] = {"litert": _litert, "onert": _onert}


# ---------------------------------------------------------------------- the processes

Unit = tuple[Case, str]


def outcome(runtime: str, unit: Unit) -> str:
    """Return the worst of the trials of a case."""
    return max((_attempt(runtime, unit, trial) for trial in trials(unit[0])), key=[*OUTCOMES].index)


def _attempt(runtime: str, unit: Unit, trial: Trial) -> str:
    stages = ["load"]
    try:
        PROBES[runtime](unit[0], trial, unit[1], stages.append)
    except _WrongError:
        return "differs"
    except _UnfedError:
        return "unfed"
    except Exception as error:
        if type(error).__name__ not in {"RuntimeError", "ValueError", "StatusError"}:
            raise
        return stages[-1]
    return "exact"


def measure(runtime: str, units: Sequence[Unit]) -> list[str]:
    """Return what happened to each unit; a process that dies is replaced."""
    outcomes: list[str] = []
    while len(outcomes) < len(units):
        rest = units[len(outcomes) :]
        company = next((n for n, unit in enumerate(rest) if _is_scalar_transpose(unit[0])), len(rest))
        outcomes += answers(rest[: company or 1], partial(outcome, runtime), PACKAGES[runtime])
    return outcomes


def _is_scalar_transpose(case: Case) -> bool:
    """Return whether LiteRT works with numbers that nobody wrote, and may spoil what its process runs afterwards."""
    return case.rank == 0 and case.form == "TRANSPOSE"


Results = dict[str, dict[Unit, str]]


def measure_all(found: Sequence[Case]) -> Results:
    """Return runtime -> case and variant -> outcome."""

    def one(runtime: str) -> dict[Unit, str]:
        units = [(case, v) for v in VARIANTS[runtime] for case in found if case.type in tensor_types(_format(v))]
        return dict(zip(units, measure(runtime, units), strict=True))

    with ThreadPoolExecutor(len(RUNTIMES)) as threads:
        return dict(zip(RUNTIMES, threads.map(one, RUNTIMES), strict=True))


def _format(variant: str) -> str:
    return "circle" if variant == "circle" else "tflite"


# ---------------------------------------------------------------------- the table


def version_cases(operator: str) -> list[Case]:
    """Return what tells the versions that a runtime takes."""
    return [Case(operator, "FLOAT32", "none", "static", 2, number) for number in range(1, LAST_VERSION + 1)]


def table(results: Results) -> dict[str, Any]:
    """Return what the file holds."""
    worst = {runtime: _worst(outcomes) for runtime, outcomes in results.items()}
    return {
        "runtimes": {name: f"{package} {importlib.metadata.version(package)}" for name, package in RUNTIMES.items()},
        "source": SOURCE,
        "kinds": KINDS,
        "quantizations": QUANTIZATIONS,
        "outcomes": OUTCOMES,
        "operators": {operator: _operator(operator, worst) for operator in FORMS},
    }


def _worst(outcomes: Mapping[Unit, str]) -> dict[Case, str]:
    worst: dict[Case, str] = {}
    for (case, _), found in outcomes.items():
        worst[case] = max(worst.get(case, "exact"), found, key=[*OUTCOMES].index)
    return {case: _settled(case, worst) for case in worst}


def _settled(case: Case, worst: Mapping[Case, str]) -> str:
    """Return the outcome; where it depends on memory, not the one that there was by chance.

    A constant is copied once only, which may go well. That a scalar is fed more than one value tells the truth.
    """
    fed = worst[replace(case, kind="static")] if _is_scalar_transpose(case) else ""
    return "undefined" if fed in {"differs", "crash"} else worst[case]


def _operator(operator: str, worst: Mapping[str, Mapping[Case, str]]) -> dict[str, Any]:
    mine = {runtime: _only(outcomes, operator) for runtime, outcomes in worst.items()}
    entry = {
        "form": FORMS[operator],
        "versions": VERSIONS[operator],
        "loads": {
            runtime: ranges([case.version for case in version_cases(operator) if outcomes[case] == "exact"])
            for runtime, outcomes in worst.items()
        },
        "exact": {runtime: _exact(outcomes) for runtime, outcomes in mine.items()},
        "otherwise": {runtime: _otherwise(outcomes) for runtime, outcomes in mine.items()},
    }
    variants = {
        text: {
            runtime: _exact(_only(outcomes, form)).get("FLOAT32", {}).get("none", {})
            for runtime, outcomes in worst.items()
        }
        for form, text in RESHAPE_VARIANTS.items()
        if form.startswith(operator)
    }
    return entry | ({"variants": variants} if variants else {})


def _only(outcomes: Mapping[Case, str], form: str) -> dict[Case, str]:
    return {case: found for case, found in outcomes.items() if case.form == form and not case.version}


def _exact(outcomes: Mapping[Case, str]) -> dict[str, dict[str, dict[str, str]]]:
    tree: dict[str, dict[str, dict[str, str]]] = {}
    good = [case for case, found in outcomes.items() if found == "exact"]
    for (name, quantization, kind), group in groupby(good, lambda case: (case.type, case.quantization, case.kind)):
        ranks = ranges([case.rank for case in group])
        tree.setdefault(name, {}).setdefault(quantization, {})[kind] = ranks
    return tree


def _otherwise(outcomes: Mapping[Case, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, of_type in groupby(outcomes.items(), lambda item: item[0].type):
        items = [*of_type]
        groups = groupby(items, lambda item: item[0].quantization)
        tree[name] = _uniform(items) or {key: text for key, group in groups if (text := _by_kind([*group]))}
    return {name: text for name, text in tree.items() if text and text != "exact"}


Items = Sequence[tuple[Case, str]]


def _uniform(items: Items) -> str:
    words = {found for _, found in items}
    return words.pop() if len(words) == 1 else ""


def _by_kind(items: Items) -> str | dict[str, str]:
    if word := _uniform(items):
        return "" if word == "exact" else word
    kinds = {kind: _words([*group]) for kind, group in groupby(items, lambda item: item[0].kind)}
    return {kind: text for kind, text in kinds.items() if text}


def _words(items: Items) -> str:
    ranks = {word: [case.rank for case, found in items if found == word] for word in OUTCOMES if word != "exact"}
    return ", ".join(f"{word} {ranges(numbers)}" for word, numbers in ranks.items() if numbers)


def ranges(numbers: Iterable[int]) -> str:
    """Return "0-2,5" for 0, 1, 2, 5."""
    # Along a run of consecutive numbers, the difference of number and position stays.
    groups = [[n for _, n in group] for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ",".join(str(g[0]) if len(g) == 1 else f"{g[0]}-{g[-1]}" for g in groups)


def dump(value: Any, indent: str = "") -> str:
    """Return JSON with an innermost object or list on one line."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    # The explanations are for reading, one on a line.
    long = sum(len(str(item)) for item in inner) > 200
    if not any(isinstance(item, dict | list) for item in inner) and not long:
        return json.dumps(value)
    deeper = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + json.dumps(item) for item in value) + f"\n{indent}]"
    lines = (f"{deeper}{json.dumps(key)}: {dump(item, deeper)}" for key, item in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def disagreements(results: Results) -> list[str]:
    """Return where one runtime answers differently, depending on how it is asked."""
    lines = []
    for runtime, outcomes in results.items():
        one, other = VARIANTS[runtime]
        for (case, variant), found in outcomes.items():
            also = outcomes.get((case, other), found)
            if variant == one and also != found and not _is_scalar_transpose(case):
                lines.append(f"{runtime}: {case}: {one} {found}, {other} {also}")
    return lines


def main() -> None:
    """Measure; write the table, or compare it with the file."""
    parser = argparse.ArgumentParser(prog="benchmarks.copyops", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the file would change")
    options = parser.parse_args()
    results = measure_all([*cases(), *(case for operator in FORMS for case in version_cases(operator))])
    for line in disagreements(results):
        print(line)
    text = dump(table(results)) + "\n"
    same = TABLE.exists() and TABLE.read_text() == text
    print(f"{TABLE.relative_to(ROOT)}: {'as measured' if same else 'differs' if options.check else 'written'}")
    if options.check:
        sys.exit(not same)
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
