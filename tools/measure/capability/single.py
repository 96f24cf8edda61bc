"""Write models with one operator from a description."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tests.kit.build import Build, Code, Table, quantization, schema_of

TYPES = list(schema_of("tflite").enums["TensorType"].values())
Options = tuple[str, Sequence[tuple[str, Any]]]
"""The type of the options (empty if there are none), and their values."""
NO_OPTIONS: Options = ("", ())
_NUMPY = {
    **{
        name: f"<{name[0].lower()}{int(name.lstrip('UINTFLOA')) // 8}" for name in ("INT8", "INT16", "INT32", "INT64")
    },
    **{name: f"<u{int(name[4:]) // 8}" for name in ("UINT8", "UINT16", "UINT32", "UINT64")},
    **{"FLOAT16": "<f2", "FLOAT32": "<f4", "FLOAT64": "<f8", "COMPLEX64": "<c8", "COMPLEX128": "<c16", "BOOL": "?"},
    # For these types, only the number of bytes matters, not the value.
    **{"BFLOAT16": "<u2", "FLOAT8_E4M3FN": "u1", "FLOAT8_E5M2": "u1"},
}
_PACKED = {"INT4": 2, "UINT4": 2, "INT2": 4}
WORDS = {"n": "unquantized", "t": "per_tensor", "c": "per_channel", "b": "blockwise"}


@dataclass(frozen=True)
class Operand:
    """A tensor: `kind` is computed, constant, variable or none; `type` may end in /t or /c for its quantization."""

    type: str
    shape: tuple[int, ...]
    kind: str = "computed"
    data: tuple[float, ...] | None = None
    scale: float = 0.5
    zero_point: int = 0
    channel: int = 0
    sparse: bool = False

    @property
    def element(self) -> str:
        """The element type."""
        return self.type.partition("/")[0]

    @property
    def quantization(self) -> str:
        """One of WORDS."""
        kind = self.type.partition("/")[2] or "n"
        return "t" if kind == "c" and self.scales == 1 else kind

    @property
    def scales(self) -> int:
        """The number of scales: one, or one for each channel."""
        return self.shape[self.channel] if self.type.endswith("/c") and self.shape else 1

    def text(self) -> str:
        """Return the operand in the words of a capability table."""
        if self.kind == "none":
            return "none"
        word = f" {WORDS[self.quantization]}" if self.element in QUANTIZABLE else ""
        return f"{self.element}{word} {'constant' if self.kind == 'constant' else 'computed'}"


QUANTIZABLE = {"INT8", "UINT8", "INT16", "INT32", "INT64", "INT4", "UINT4", "INT2"}


@dataclass(frozen=True)
class Probe:
    """An operator, with everything that a table can describe."""

    code: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    options: tuple[tuple[str, Any], ...] = ()
    table: str = ""
    version: int = 1
    dynamic: bool = False
    feature: str = ""
    """The difference from the first probe of a signature: version, dynamic or the name of an option."""
    variadic: bool = False

    focus = 0

    @cached_property
    def model(self) -> bytes:
        """The TFLite file."""
        writer = Writer()
        inputs = [writer.operand(operand, self.dynamic) for operand in self.inputs]
        outputs = [writer.operand(operand, self.dynamic) for operand in self.outputs]
        computed = [index for index, operand in zip(inputs, self.inputs, strict=True) if operand.kind == "computed"]
        writer.operator(Code(self.code, self.version), inputs, outputs, (self.table, self.options))
        return writer.ends(computed, outputs)

    @property
    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The inputs and the outputs, in the words of a table."""
        outputs = tuple(operand.text().removesuffix(" computed") for operand in self.outputs)
        return tuple(operand.text() for operand in self.inputs), outputs

    @property
    def settings(self) -> dict[str, Any]:
        """The options and, for an operator on any number of tensors, that number."""
        counts = {"inputs": len(self.inputs), "outputs": len(self.outputs)} if self.variadic else {}
        return dict(self.options) | counts

    @property
    def ranks(self) -> tuple[int, int]:
        """The lowest and highest ranks of computed inputs and outputs."""
        kinds = ("computed", "variable")
        ranks = [len(operand.shape) for operand in (*self.inputs, *self.outputs) if operand.kind in kinds]
        return min(ranks), max(ranks)


class Writer:
    """A TFLite model with one subgraph, under construction."""

    def __init__(self) -> None:
        self.build = Build("one operator")
        self.graph = self.build.graph()

    def operand(self, operand: Operand, dynamic: bool = False) -> int:
        """Add a tensor, and its data if it is constant; return its index, or -1 for an omitted operand."""
        if operand.kind == "none":
            return -1
        # The length of a shape or a list of axes is known, because the rank is.
        moving = dynamic and operand.kind == "computed" and operand.shape and operand.data is None
        return self.graph.tensor(
            f"t{len(self.graph.table.tensors)}",
            operand.shape,
            operand.element,
            data=packed(operand) if operand.kind == "constant" else None,
            is_variable=operand.kind == "variable",
            shape_signature=[-1, *operand.shape[1:]] if moving else None,
            sparsity=_sparsity(operand.shape) if operand.sparse else None,
            quantization=None if operand.quantization == "n" else _quantization(operand),
        )

    def operator(
        self, code: Code, inputs: Sequence[int], outputs: Sequence[int], options: Options = NO_OPTIONS
    ) -> None:
        """Add an operator."""
        self.graph.operator(code, inputs, outputs, table=options[0] or None, **dict(options[1]))

    def ends(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """Set the inputs and outputs; return the file."""
        self.graph.ends(inputs, outputs)
        return self.build.to_bytes()


def _quantization(operand: Operand) -> Table:
    channel = operand.channel % len(operand.shape) if operand.quantization == "c" else 0
    return quantization([operand.scale] * operand.scales, [operand.zero_point] * operand.scales, channel)


def _sparsity(shape: Sequence[int]) -> Table:
    """Return a sparsity with a compressed last dimension that contains all its elements."""
    lines = math.prod(shape[:-1])
    dense = [Table("DimensionMetadata", dense_size=size) for size in shape[:-1]]
    last = Table("DimensionMetadata", format=1)
    last.array_segments = Table("Int32Vector", values=[shape[-1] * line for line in range(lines + 1)])
    last.array_indices = Table("Int32Vector", values=[*range(shape[-1])] * lines)
    return Table("SparsityParameters", traversal_order=[*range(len(shape))], dim_metadata=[*dense, last])


def packed(operand: Operand) -> bytes:
    """Return the data of a constant: its values, or else ones."""
    count = math.prod(operand.shape)
    values = list(operand.data) if operand.data is not None else [1] * count
    if operand.element == "STRING":
        ends = [4 * (count + 2) + number for number in range(count + 1)]
        return np.array([count, *ends], "<i4").tobytes() + b"a" * count
    if operand.element in _PACKED:
        return b"\x11" * (-(-count // _PACKED[operand.element]))
    if operand.element not in _NUMPY:
        return b"\x01" * max(count, 1)
    return np.array(values).astype(_NUMPY[operand.element]).tobytes()


def array(operand: Operand) -> Any:
    """Return the array to feed, or None if nothing can be fed."""
    if operand.element not in _NUMPY:
        return None
    return np.frombuffer(packed(operand), _NUMPY[operand.element]).reshape(operand.shape)


def enum_names(enum: str) -> Iterator[tuple[str, int]]:
    """Yield the members of an enum of the schema."""
    yield from ((name, value) for value, name in schema_of("tflite").enums[enum].items())
