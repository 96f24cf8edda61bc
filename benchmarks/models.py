"""Large models to measure on: one of many bytes and one of many operators.

`python -m benchmarks.models big OUT --bytes N [--circle]`
`python -m benchmarks.models operators OUT --count N [--circle]`

The structure is written by the ordinary FlatBuffers builder, so vtables are shared and tables lie
among their strings and vectors as in the files of the converters. The fields used here have the
same number in TFLite and Circle, so the two formats differ in the file identifier only.
"""

import argparse
import math
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import flatbuffers
import numpy as np

GENERATOR_VERSION = 1
"""Part of the names of cached files: raise it when the bytes change."""

BIG_LAYERS = 256
MAX_BIG_BYTES = 2_000_000_000
"""Runtimes read FlatBuffers up to 2 GiB; this leaves room for the structure."""

_CHUNK = 1 << 24
_ALIGNMENT = 16
_INT32, _INT8 = 2, 9


class _Kind(NamedTuple):
    """One kind of operator: its code, its member of the options union, and how to write its options."""

    code: int
    union: int
    options: Callable[[Any], int]


def _activation_only(activation: int) -> Callable[[Any], int]:
    def write(builder: Any) -> int:
        builder.StartObject(1)
        builder.PrependInt8Slot(0, activation, 0)
        return int(builder.EndObject())

    return write


def _convolution_options(builder: Any) -> int:
    builder.StartObject(6)
    builder.PrependInt32Slot(1, 1, 0)
    builder.PrependInt32Slot(2, 1, 0)
    return int(builder.EndObject())


_ADD = _Kind(0, 11, _activation_only(0))
_ADD_RELU = _Kind(0, 11, _activation_only(1))
_CONVOLUTION = _Kind(3, 1, _convolution_options)
_FULLY_CONNECTED = _Kind(9, 8, _activation_only(0))
_MUL = _Kind(18, 21, _activation_only(0))


@cache
def _integers(values: tuple[int, ...], width: str) -> np.ndarray[Any, np.dtype[Any]]:
    return np.array(values, dtype=width)


@dataclass
class _Graph:
    """A model while it is built: the children are in the builder, their offsets here."""

    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1 << 20))
    tensors: list[int] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder.StartObject(3)
        self.buffers.append(self.builder.EndObject())  # buffer 0 is the empty one, by the format

    def buffer(self, data: bytes) -> int:
        """Add a constant and return its buffer index."""
        builder = self.builder
        builder.StartVector(1, len(data), _ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        vector = builder.EndVector()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        self.buffers.append(builder.EndObject())
        return len(self.buffers) - 1

    def late_buffer(self) -> int:
        """Add a buffer whose data is appended after the structure; `_patch` fills its field in."""
        self.builder.StartObject(3)
        self.builder.PrependUint32Slot(0, 1, 0)
        self.buffers.append(self.builder.EndObject())
        return len(self.buffers) - 1

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        scale: tuple[float, ...],
        element: int = _INT8,
        buffer: int = 0,
    ) -> int:
        """Add a quantized tensor and return its index."""
        builder = self.builder
        scales = builder.CreateNumpyVector(_floats(scale))
        zeros = builder.CreateNumpyVector(_integers((0,) * len(scale), "<i8"))
        builder.StartObject(7)
        builder.PrependUOffsetTRelativeSlot(2, scales, 0)
        builder.PrependUOffsetTRelativeSlot(3, zeros, 0)
        quantization = builder.EndObject()
        text = builder.CreateString(name)
        dimensions = builder.CreateNumpyVector(_integers(shape, "<i4"))
        builder.StartObject(8)
        builder.PrependUOffsetTRelativeSlot(0, dimensions, 0)
        builder.PrependUint32Slot(2, buffer, 0)
        builder.PrependUOffsetTRelativeSlot(3, text, 0)
        builder.PrependUOffsetTRelativeSlot(4, quantization, 0)
        builder.PrependInt8Slot(1, element, 0)
        self.tensors.append(builder.EndObject())
        return len(self.tensors) - 1

    def operator(self, kind: _Kind, inputs: Sequence[int], output: int) -> None:
        """Add an operator with one output."""
        builder = self.builder
        options = kind.options(builder)
        sources = builder.CreateNumpyVector(np.array(inputs, dtype="<i4"))
        results = builder.CreateNumpyVector(np.array((output,), dtype="<i4"))
        builder.StartObject(9)
        builder.PrependUint32Slot(0, self.codes.setdefault(kind.code, len(self.codes)), 0)
        builder.PrependUOffsetTRelativeSlot(1, sources, 0)
        builder.PrependUOffsetTRelativeSlot(2, results, 0)
        builder.PrependUOffsetTRelativeSlot(4, options, 0)
        builder.PrependUint8Slot(3, kind.union, 0)
        self.operators.append(builder.EndObject())

    def finish(self, inputs: Sequence[int], outputs: Sequence[int], *, circle: bool) -> bytearray:
        """Write the subgraph and the model around what was added."""
        builder = self.builder
        subgraph = self._subgraph(inputs, outputs)
        codes = self._offsets([self._code(code) for code in self.codes])
        subgraphs = self._offsets([subgraph])
        description = builder.CreateString("Generated for measurements.")
        buffers = self._offsets(self.buffers)
        builder.StartObject(8)
        builder.PrependUint32Slot(0, 0 if circle else 3, 0)
        for slot, offset in ((1, codes), (2, subgraphs), (3, description), (4, buffers)):
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        builder.Finish(builder.EndObject(), b"CIR0" if circle else b"TFL3")
        return bytearray(builder.Output())

    def _subgraph(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        builder = self.builder
        name = builder.CreateString("main")
        sources = builder.CreateNumpyVector(np.array(inputs, dtype="<i4"))
        results = builder.CreateNumpyVector(np.array(outputs, dtype="<i4"))
        tensors = self._offsets(self.tensors)
        operators = self._offsets(self.operators)
        builder.StartObject(5)
        for slot, offset in enumerate((tensors, sources, results, operators, name)):
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(builder.EndObject())

    def _code(self, code: int) -> int:
        builder = self.builder
        builder.StartObject(4)
        builder.PrependInt32Slot(2, 1, 0)  # the version's default is 1, but the converters write it
        builder.PrependInt32Slot(3, code, 0)
        builder.PrependInt8Slot(0, code, 0)
        return int(builder.EndObject())

    def _offsets(self, offsets: Sequence[int]) -> int:
        builder = self.builder
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())


@cache
def _floats(values: tuple[float, ...]) -> np.ndarray[Any, np.dtype[Any]]:
    return np.array(values, dtype="<f4")


def big(path: Path, size_bytes: int, *, circle: bool = False) -> None:
    """Write a model with about `size_bytes` bytes of weights: FULLY_CONNECTED and ADD in a residual chain.

    The weights are pseudo-random, and appended in chunks after the structure, so that neither a sparse
    file makes copying cheaper than it is nor this process needs the memory.
    """
    if not BIG_LAYERS <= size_bytes <= MAX_BIG_BYTES:
        raise ValueError(f"the weights must have {BIG_LAYERS} to {MAX_BIG_BYTES} bytes, not {size_bytes}")
    width = math.isqrt(size_bytes // BIG_LAYERS)
    graph = _Graph()
    late: list[tuple[int, int]] = []
    current = graph.tensor("serving_default_input:0", (1, width), scale=(2.0**-4,))
    first = current
    for layer in range(BIG_LAYERS):
        current = _dense_layer(graph, f"model/block_{layer}", current, width, late)
    structure = graph.finish([first], [current], circle=circle)
    starts = _patch(structure, [(graph.buffers[index], size) for index, size in late])
    sizes = [size for _, size in late]
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(structure)
        for start, size in zip(starts, sizes, strict=True):
            file.write(bytes(start - file.tell()))
            file.write(struct.pack("<I", size))
            for chunk in _random_chunks(start, size):
                file.write(chunk)


def _dense_layer(graph: _Graph, scope: str, source: int, width: int, late: list[tuple[int, int]]) -> int:
    weights, bias = graph.late_buffer(), graph.late_buffer()
    late += [(weights, width * width), (bias, width * 4)]
    weight_tensor = graph.tensor(f"{scope}/dense/MatMul", (width, width), scale=(2.0**-9,), buffer=weights)
    # Runtimes require the scale of a bias to be the product of the other two.
    bias_tensor = graph.tensor(
        f"{scope}/dense/BiasAdd/ReadVariableOp", (width,), scale=(2.0**-13,), element=_INT32, buffer=bias
    )
    product = graph.tensor(f"{scope}/dense/MatMul;{scope}/dense/BiasAdd", (1, width), scale=(2.0**-4,))
    graph.operator(_FULLY_CONNECTED, (source, weight_tensor, bias_tensor), product)
    total = graph.tensor(f"{scope}/add/add", (1, width), scale=(2.0**-4,))
    graph.operator(_ADD, (product, source), total)
    return total


def _patch(structure: bytearray, late: Iterable[tuple[int, int]]) -> list[int]:
    """Point the late buffers behind the structure; return where each vector begins."""
    starts = []
    end = len(structure)
    for offset, size in late:
        # The builder counts from the end of the file; the only field follows the table's own word.
        place = len(structure) - offset + 4
        start = _aligned(end + 4) - 4
        struct.pack_into("<I", structure, place, start - place)
        starts.append(start)
        end = start + 4 + size
    return starts


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _random_chunks(seed: int, size: int) -> Iterator[bytes]:
    random = np.random.Generator(np.random.SFC64(seed))
    for start in range(0, size, _CHUNK):
        yield random.bytes(min(_CHUNK, size - start))


def many_operators(path: Path, count: int, *, circle: bool = False) -> None:
    """Write a model of `count` small operators in a residual chain, each with an output of its own.

    One operator in four is a convolution with a constant of its own, quantized by channel.
    """
    if count < 1:
        raise ValueError("a model needs at least one operator")
    graph = _Graph()
    shape = (1, 4, 4, 8)
    first = graph.tensor("serving_default_image:0", shape, scale=(2.0**-4,))
    # One bias for all: it is zeros everywhere, and converters merge equal constants.
    bias = graph.tensor("model/bias", (8,), scale=(2.0**-13,) * 8, element=_INT32, buffer=graph.buffer(bytes(32)))
    chain = [first, first]
    random = np.random.Generator(np.random.SFC64(count))
    for index in range(count):
        scope = f"model/layer_{index}"
        output_name = f"{scope}/{('conv2d/Conv2D', 'add/add', 'mul/mul', 'add/add')[index % 4]}"
        kind = (_CONVOLUTION, _ADD_RELU, _MUL, _ADD)[index % 4]
        inputs: tuple[int, ...] = (chain[-1], chain[-2])
        if kind is _CONVOLUTION:
            inputs = (chain[-1], _filter(graph, scope, random.bytes(64)), bias)
        output = graph.tensor(f"{output_name};{scope}/Relu", shape, scale=(2.0**-4,))
        graph.operator(kind, inputs, output)
        chain = [chain[-1], output]
    structure = graph.finish([first], [chain[-1]], circle=circle)
    with replacing(path) as temporary:
        temporary.write_bytes(structure)


def _filter(graph: _Graph, scope: str, data: bytes) -> int:
    buffer = graph.buffer(data)
    return graph.tensor(f"{scope}/conv2d/Conv2D", (8, 1, 1, 8), scale=(2.0**-9,) * 8, buffer=buffer)


class replacing:  # noqa: N801 - reads as a verb at its uses
    """Give a temporary neighbour of `path` to write, and put it in place only when that went well."""

    def __init__(self, path: Path) -> None:
        """Remember the destination."""
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        """Return the path to write."""
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Keep the file or remove it."""
        if kind is None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)


def cached_big(folder: Path, size_bytes: int, *, circle: bool = False) -> Path:
    """Return the big model from the cache folder, made if it is missing."""
    path = folder / f"big-v{GENERATOR_VERSION}-{size_bytes}{_suffix(circle)}"
    if not path.exists():
        big(path, size_bytes, circle=circle)
    return path


def cached_operators(folder: Path, count: int, *, circle: bool = False) -> Path:
    """Return the model of many operators from the cache folder, made if it is missing."""
    path = folder / f"operators-v{GENERATOR_VERSION}-{count}{_suffix(circle)}"
    if not path.exists():
        many_operators(path, count, circle=circle)
    return path


def _suffix(circle: bool) -> str:
    return ".circle" if circle else ".tflite"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one model."""
    parser = argparse.ArgumentParser(prog="benchmarks.models", description="Write a large model.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, option, default in (("big", "--bytes", 1 << 30), ("operators", "--count", 100_000)):
        command = commands.add_parser(name)
        command.add_argument("out", type=Path)
        command.add_argument(option, dest="amount", type=int, default=default)
        command.add_argument("--circle", action="store_true", help="write Circle instead of TFLite")
    options = parser.parse_args(arguments)
    make = big if options.command == "big" else many_operators
    make(options.out, options.amount, circle=options.circle)
    print(f"{options.out}: {options.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
