"""Views of operators, tensors, buffers and other objects of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from circletools.calls import explained
from circletools.wording import Attributes


def text(raw: bytes) -> str:
    """Decode a name, which is usually UTF-8; invalid bytes become surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class OperatorCode(Attributes):
    """An entry of the operator code list. `name` is the enum name (`ADD`), or `CUSTOM:<custom code>`."""

    index: int
    code: int
    custom_code: str
    version: int
    name: str

    def __eq__(self, other: object) -> bool:
        """Compare all fields; a string is compared with the name."""
        if isinstance(other, OperatorCode):
            return astuple(self) == astuple(other)
        return self.name.__eq__(other)

    def __hash__(self) -> int:
        """Return the hash of the name, since a code compares equal to its name."""
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Quantization(Attributes):
    """The quantization of a tensor: value = (number - zero_point) * scale; false and empty if there is none.

    There is one scale and zero point for all elements, or one for each index of the dimension `axis`. `minimum` and
    `maximum` are the observed range, and often empty. `kind` names the table with other details
    (`BlockwiseQuantization`), or is empty; `details` holds its fields, in which `scales` and `zero_points` are tensor
    indices.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    kind: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether the tensor is quantized, or has an observed range."""
        return bool(self.scale or self.minimum or self.kind)

    def to_row(self) -> dict[str, Any]:
        """Return the fields that are set."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        always = ("scale", "zero_point", "axis")
        return {name: value for name, value in found.items() if value or name in always}


class SubgraphContext(Protocol):
    """The subgraph of an operator or tensor. It reads the data that the view itself does not store."""

    def options_of(self, operator: int) -> Mapping[str, Any]:
        """Return the options of an operator."""

    def quantization_of(self, tensor: int) -> Quantization:
        """Return the quantization of a tensor."""

    def producer_of(self, tensor: int) -> Operator | None:
        """Return the operator that produces a tensor."""

    def consumers_of(self, tensor: int) -> tuple[Operator, ...]:
        """Return the operators that read a tensor."""

    def has_data(self, tensor: int) -> bool:
        """Return whether the file contains a tensor's values."""

    def array_of(self, tensor: int) -> NDArray[Any]:
        """Return the values of a tensor."""


class _Placed(Attributes):
    """A view that `attach` binds to its subgraph; an unbound view cannot return what is read from the subgraph."""

    __slots__ = ("_context",)
    _context: SubgraphContext


@explained
@dataclass(frozen=True, slots=True, repr=False)
class Operator(_Placed):
    """An operator; `inputs` and `outputs` are tensor indices, -1 for an omitted optional input."""

    subgraph: int
    index: int
    code: OperatorCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<Operator {self.index} {self.code.name} {list(self.inputs)} -> {list(self.outputs)}>"

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name, with enum values as names. Custom operators have no named options."""
        return self._context.options_of(self.index)

    def to_row(self) -> dict[str, Any]:
        """Return the operator as plain values, as in `inspect --operators --json`."""
        return {
            "subgraph": self.subgraph,
            "index": self.index,
            "code": self.code.name,
            "version": self.code.version,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "options": dict(self.options),
        }


@explained
@dataclass(frozen=True, slots=True, repr=False)
class Tensor(_Placed):
    """A tensor. `type` is the enum name; `shape_signature` holds -1 for unknown sizes and is None if absent."""

    subgraph: int
    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...] | None
    buffer: int
    is_variable: bool

    def __repr__(self) -> str:
        return f"<Tensor {self.index} {self.name!r} {self.type}[{','.join(map(str, self.open_shape))}]>"

    @property
    def open_shape(self) -> tuple[int, ...]:
        """The shape, with -1 for unknown sizes."""
        return self.shape if self.shape_signature is None else self.shape_signature

    @property
    def quantization(self) -> Quantization:
        """The quantization; it is false and has no scales if the tensor is not quantized."""
        return self._context.quantization_of(self.index)

    @property
    def producer(self) -> Operator | None:
        """The operator that produces the tensor (the last one, if several do), or None."""
        return self._context.producer_of(self.index)

    @property
    def consumers(self) -> tuple[Operator, ...]:
        """The operators that read the tensor, in ascending order."""
        return self._context.consumers_of(self.index)

    @property
    def is_constant(self) -> bool:
        """Whether the tensor is a constant in the file. Raises ModelFormatError if its buffer does not exist."""
        return not self.is_variable and self._context.has_data(self.index)

    def numpy(self) -> NDArray[Any]:
        """Return the tensor's values in the file as a read-only array, without a copy if the type allows it.

        INT2, INT4 and UINT4 become bytes, BFLOAT16 and FLOAT8 become float32, STRING becomes objects of bytes, and
        sparse tensors become dense. Quantized numbers are not dequantized. Raises UsageError if there are no values
        (most tensors are computed) or NumPy lacks the type, and ModelFormatError if data and shape disagree.
        """
        return self._context.array_of(self.index)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the tensor's values for `np.asarray(tensor)`."""
        return np.array(self.numpy(), dtype, copy=copy)

    def to_row(self) -> dict[str, Any]:
        """Return the tensor as plain values, as in `inspect --tensors --json`."""
        quantization, producer = self.quantization, self.producer
        return {
            "subgraph": self.subgraph,
            "index": self.index,
            "name": self.name,
            "type": self.type,
            "shape": list(self.open_shape),
            "buffer": self.buffer,
            "is_constant": self.is_constant,
            "is_variable": self.is_variable,
            "quantization": quantization.to_row() if quantization else None,
            "producer": None if producer is None else producer.index,
            "consumers": [operator.index for operator in self.consumers],
        }


_View = TypeVar("_View", Operator, Tensor)


def attach(view: _View, context: SubgraphContext) -> _View:
    """Bind a view to its subgraph; return the view."""
    object.__setattr__(view, "_context", context)
    return view


@dataclass(frozen=True, slots=True)
class Buffer(Attributes):
    """A buffer. `data` is a view of the file; `external` means that it lies outside the flatbuffer."""

    index: int
    data: memoryview
    external: bool

    def to_row(self) -> dict[str, Any]:
        """Return the index, the number of bytes, and whether the bytes lie outside the flatbuffer."""
        return {"index": self.index, "bytes": len(self.data), "external": self.external}


@dataclass(frozen=True, slots=True)
class Metadata(Attributes):
    """A metadata entry: a name and the index of the buffer with its value. Several entries may have the same name."""

    index: int
    name: str
    buffer: int


@dataclass(frozen=True, slots=True)
class Signature(Attributes):
    """A signature: names for the inputs and outputs of a subgraph, as (name, tensor index)."""

    index: int
    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
