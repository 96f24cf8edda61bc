"""Large models for benchmarks: one with many bytes, and one with many operators.

`python -m benchmarks.models big OUT --bytes N [--circle]`
`python -m benchmarks.models operators OUT --count N [--circle]`

The structure is written by the tests' builder, which uses the standard FlatBuffers builder, so vtables are shared and
tables lie among their strings and vectors, as in the files of converters.
"""

import argparse
import math
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.kit.build import Build, Table
from tests.kit.support import field_at, locate

GENERATOR_VERSION = 2
"""Part of the names of cached files; increase it when the bytes change."""

BIG_LAYERS = 256
MAX_BIG_BYTES = 2_000_000_000
"""Runtimes read FlatBuffers up to 2 GiB; this leaves room for the structure."""

_CHUNK = 1 << 24
_ALIGNMENT = 16


Kind = tuple[str, dict[str, Any]]
_ADD: Kind = ("ADD", {})
_ADD_RELU: Kind = ("ADD", {"fused_activation_function": 1})
_CONVOLUTION: Kind = ("CONV_2D", {"stride_w": 1, "stride_h": 1})
_MUL: Kind = ("MUL", {})


class _Chain:
    """A model under construction: quantized tensors, and operators with one output."""

    def __init__(self) -> None:
        self.build = Build("Generated for measurements.")
        self.graph = self.build.graph()

    def tensor(
        self, name: str, shape: tuple[int, ...], scale: tuple[float, ...], element: str = "INT8", buffer: int = 0
    ) -> int:
        """Add a tensor and return its index."""
        quantized = Table("QuantizationParameters", scale=scale, zero_point=(0,) * len(scale))
        return self.graph.tensor(name, shape, element, buffer=buffer, quantization=quantized)

    def operator(self, kind: Kind, inputs: Sequence[int], output: int) -> None:
        """Add an operator."""
        self.graph.operator(kind[0], inputs, [output], **kind[1])

    def finish(self, first: int, last: int, *, circle: bool) -> bytearray:
        """Return the file."""
        self.graph.ends([first], [last])
        return bytearray(self.build.to_bytes("circle" if circle else "tflite"))


def big(path: Path, size_bytes: int, *, circle: bool = False) -> None:
    """Write a model with about `size_bytes` bytes of weights: FULLY_CONNECTED and ADD in a residual chain.

    The weights are pseudo-random, so that holes cannot make copying cheaper, and are appended in chunks after the
    structure, so that this process needs little memory.
    """
    if not BIG_LAYERS <= size_bytes <= MAX_BIG_BYTES:
        raise ValueError(f"the weights must have {BIG_LAYERS} to {MAX_BIG_BYTES} bytes, not {size_bytes}")
    width = math.isqrt(size_bytes // BIG_LAYERS)
    graph = _Chain()
    late: list[tuple[int, int]] = []
    current = graph.tensor("serving_default_input:0", (1, width), (2.0**-4,))
    first = current
    for layer in range(BIG_LAYERS):
        current = _dense_layer(graph, f"model/block_{layer}", current, width, late)
    structure = graph.finish(first, current, circle=circle)
    starts = _patch(structure, late)
    sizes = [size for _, size in late]
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(structure)
        for start, size in zip(starts, sizes, strict=True):
            file.write(bytes(start - file.tell()))
            file.write(struct.pack("<I", size))
            for chunk in _random_chunks(start, size):
                file.write(chunk)


def _dense_layer(graph: _Chain, scope: str, source: int, width: int, late: list[tuple[int, int]]) -> int:
    weights, bias = graph.build.buffer(b""), graph.build.buffer(b"")  # `_patch` fills them
    late += [(weights, width * width), (bias, width * 4)]
    weight_tensor = graph.tensor(f"{scope}/dense/MatMul", (width, width), (2.0**-9,), buffer=weights)
    # Runtimes require the scale of a bias to be the product of the other two.
    bias_tensor = graph.tensor(f"{scope}/dense/BiasAdd/ReadVariableOp", (width,), (2.0**-13,), "INT32", bias)
    product = graph.tensor(f"{scope}/dense/MatMul;{scope}/dense/BiasAdd", (1, width), (2.0**-4,))
    graph.operator(("FULLY_CONNECTED", {}), (source, weight_tensor, bias_tensor), product)
    total = graph.tensor(f"{scope}/add/add", (1, width), (2.0**-4,))
    graph.operator(_ADD, (product, source), total)
    return total


def _patch(structure: bytearray, late: Iterable[tuple[int, int]]) -> list[int]:
    """Place the data of these buffers after the structure; return the start of each vector."""
    starts = []
    end, data = len(structure), bytes(structure)
    for index, size in late:
        place = field_at(data, locate(data, "buffers", index), 0)
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
    """Write a model of `count` small operators in a residual chain, each with its own output.

    One operator in four is a convolution with its own constant, quantized by channel.
    """
    if count < 1:
        raise ValueError("a model needs at least one operator")
    graph = _Chain()
    shape = (1, 4, 4, 8)
    first = graph.tensor("serving_default_image:0", shape, (2.0**-4,))
    # All share one bias: it is zero everywhere, and converters merge equal constants.
    bias = graph.tensor("model/bias", (8,), (2.0**-13,) * 8, "INT32", graph.build.buffer(bytes(32)))
    chain = [first, first]
    random = np.random.Generator(np.random.SFC64(count))
    for index in range(count):
        scope = f"model/layer_{index}"
        output_name = f"{scope}/{('conv2d/Conv2D', 'add/add', 'mul/mul', 'add/add')[index % 4]}"
        kind = (_CONVOLUTION, _ADD_RELU, _MUL, _ADD)[index % 4]
        inputs: tuple[int, ...] = (chain[-1], chain[-2])
        if kind is _CONVOLUTION:
            buffer = graph.build.buffer(random.bytes(64))
            weights = graph.tensor(f"{scope}/conv2d/Conv2D", (8, 1, 1, 8), (2.0**-9,) * 8, buffer=buffer)
            inputs = (chain[-1], weights, bias)
        output = graph.tensor(f"{output_name};{scope}/Relu", shape, (2.0**-4,))
        graph.operator(kind, inputs, output)
        chain = [chain[-1], output]
    structure = graph.finish(first, chain[-1], circle=circle)
    with replacing(path) as temporary:
        temporary.write_bytes(structure)


class replacing:  # noqa: N801 - reads as a verb at its uses
    """Provide a temporary file next to `path`, and rename it to `path` only on success."""

    def __init__(self, path: Path) -> None:
        """Remember the destination."""
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        """Return the temporary path."""
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Rename the file or remove it."""
        if kind is None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)


def cached_big(folder: Path, size_bytes: int, *, circle: bool = False) -> Path:
    """Return the big model from the cache folder; make it if it is missing."""
    path = folder / f"big-v{GENERATOR_VERSION}-{size_bytes}{_suffix(circle)}"
    if not path.exists():
        big(path, size_bytes, circle=circle)
    return path


def cached_operators(folder: Path, count: int, *, circle: bool = False) -> Path:
    """Return the model with many operators from the cache folder; make it if it is missing."""
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
