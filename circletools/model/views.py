"""The small values that a model is made of."""

from __future__ import annotations

from dataclasses import dataclass


def text(raw: bytes) -> str:
    """Decode a name: names are bytes, UTF-8 by custom, and must survive even where they are not."""
    return raw.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """An entry of the operator code list. `name` is the enum's (`ADD`), or `CUSTOM:<custom code>`."""

    index: int
    code: int
    custom_code: str
    version: int
    name: str


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator; `inputs` and `outputs` are tensor indices, -1 for an optional input that is left out."""

    subgraph: int
    index: int
    code: OperatorCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor. `type` is the enum's name; `shape_signature` has -1 for unknown sizes, None where not written."""

    subgraph: int
    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...] | None
    buffer: int
    is_variable: bool


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer. `data` is a view of the file; `external` says that it lies outside the flatbuffer."""

    index: int
    data: memoryview
    external: bool


@dataclass(frozen=True, slots=True)
class Metadata:
    """A metadata entry: a name and the index of the buffer with its value. Names may repeat."""

    index: int
    name: str
    buffer: int


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature: names for the inputs and outputs of a subgraph, as (name, tensor index)."""

    index: int
    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
