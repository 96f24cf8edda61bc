"""The measurements: the entries of the table, and the models for each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.kit.build import schema_of
from tools.measure.copying.values import feedable

RANKS = range(9)
LAST_VERSION = 12

RUNTIMES = {"litert": "ai-edge-litert", "onert": "onert"}
VARIANTS = {"litert": ("default", "builtin"), "onert": ("tflite", "circle")}
"""The variants of each runtime: with or without the default delegate, or with a file of this format."""

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
    "crash": "the process crashes or hangs",
    "undefined": "it differs, crashes or hangs, depending on the contents of memory",
}
"""The outcomes from best to worst; of several runs, the worst counts."""

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
    "RESHAPE": "a second input, constant INT32 [rank]: the shape, -1 where unknown, or first where all is known and "
    "nothing zero; no options",
    "CONCATENATION": "one input; ConcatenationOptions, axis 0, no activation",
}
RESHAPE_VARIANTS = {
    "RESHAPE/both": "the constant input, and ReshapeOptions.new_shape",
    "RESHAPE/option": "ReshapeOptions.new_shape only",
}

_QUANTIZED = ("INT8", "UINT8", "INT16", "INT32", "INT64", "INT4", "UINT4", "INT2", "FLOAT32")
Shape = tuple[int, ...]
# Many sizes above 1, so that a wrong order is visible; the second has an odd number of elements, so that a packed
# type leaves part of its last byte unused.
_EVEN: Shape = (4, 3, 5, 2, 3, 2, 2, 3)
_ODD: Shape = (5, 3, 1, 3, 1, 3, 1, 3)


@dataclass(frozen=True)
class Case:
    """An entry of the table."""

    form: str
    type: str
    quantization: str
    kind: str
    rank: int
    version: int = 0
    """The version of the operator; 0 means the version given by the rules."""


@dataclass(frozen=True)
class Trial:
    """A model for a case, and the shapes with which it is run."""

    shape: Shape
    runs: tuple[Shape, ...]
    signature: Shape | None = None
    channel: int = 0
    constant: bool = False
    fan_out: bool = False


def format_of(variant: str) -> str:
    """Return the file format of a variant."""
    return "circle" if variant == "circle" else "tflite"


def type_names(kind: str) -> list[str]:
    """Return the tensor types of a file format."""
    return list(schema_of(kind).enums["TensorType"].values())


def cases() -> list[Case]:
    """Return all entries of the table, in its order."""
    types = list(dict.fromkeys([*type_names("tflite"), *type_names("circle")]))
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
    """Return the models for a case; none if no such model can exist."""
    found = [*_trials(case.kind, case.rank)]
    if case.form.startswith("RESHAPE") and case.kind == "dynamic_all":
        return []  # a constant shape has room for one unknown dimension
    if case.kind == "constant" and not feedable(case.type):
        return []
    if case.quantization != "per_channel":
        return found
    # There are as many scales as elements in the dimension, so its size must be known and positive.
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
    """Return the operator version given by the rules."""
    for rule in VERSIONS[operator]:
        if rank >= rule.get("min_rank", 0) and tensor_type in rule.get("types", [tensor_type]):
            return int(rule["version"])
    raise LookupError(operator)
