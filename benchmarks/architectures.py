"""Operator graphs with the structure of architectures: diffusion UNets, language models, HRNet, NASNet, DenseNet.

Each function has its own size parameters (levels, layers, heads) and returns a `Shape`; `ROWS` lists the benchmarks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from benchmarks.graphs import Shape


def diffusion(blocks: int, depth: int = 1, heads: int = 1) -> Shape:
    """A UNet as in Stable Diffusion: four levels of `blocks` blocks, each with `depth` transformers, and skips.

    Every block reads the encodings of the timestep and of the text.
    """
    shape = Shape()
    time = shape.chain(shape.add("FULLY_CONNECTED"), "LOGISTIC", "FULLY_CONNECTED")
    text = shape.add("RESHAPE")
    last = shape.add("CONV_2D")
    skips = [last]
    for level in range(4):
        for _ in range(blocks):
            last = _block(shape, last, time, text, (depth if level < 3 else 0, heads))
            skips.append(last)
        if level < 3:
            last = shape.add("CONV_2D", last)
            skips.append(last)
    last = _block(shape, last, time, text, (depth, heads))
    for level in range(4):
        for _ in range(blocks + 1):
            joined = shape.add("CONCATENATION", last, skips.pop())
            last = _block(shape, joined, time, text, (depth if level else 0, heads))
        if level < 3:
            last = shape.chain(last, "RESIZE_NEAREST_NEIGHBOR", "CONV_2D")
    shape.chain(_group_norm(shape, last), "CONV_2D")
    return shape


def _block(shape: Shape, last: int, time: int, text: int, size: tuple[int, int]) -> int:
    depth, heads = size
    inner = shape.chain(_group_norm(shape, last), "CONV_2D")
    step = shape.chain(shape.add("LOGISTIC", time), "FULLY_CONNECTED", "RESHAPE")
    inner = shape.chain(_group_norm(shape, shape.add("ADD", inner, step)), "CONV_2D")
    last = shape.add("ADD", shape.add("CONV_2D", last), inner)
    for _ in range(depth):
        last = _transformer(shape, last, text, heads)
    return last


def _group_norm(shape: Shape, last: int) -> int:
    flat = shape.add("RESHAPE", last)
    mean = shape.add("MEAN", flat)
    spread = shape.chain(shape.add("SQUARED_DIFFERENCE", flat, mean), "MEAN", "RSQRT")
    scaled = shape.chain(shape.add("MUL", shape.add("SUB", flat, mean), spread), "RESHAPE", "MUL", "ADD")
    return shape.add("MUL", scaled, shape.add("LOGISTIC", scaled))


def _transformer(shape: Shape, last: int, text: int, heads: int) -> int:
    start = shape.chain(last, "RESHAPE", "FULLY_CONNECTED")
    inner = start
    for context in (None, text):
        norm = _layer_norm(shape, inner)
        inner = shape.add("ADD", inner, _attention(shape, norm, norm if context is None else context, heads))
    norm = _layer_norm(shape, inner)
    gate = shape.chain(norm, "FULLY_CONNECTED", "GELU")
    product = shape.add("MUL", shape.add("FULLY_CONNECTED", norm), gate)
    inner = shape.add("ADD", shape.add("FULLY_CONNECTED", product), inner)
    return shape.add("ADD", shape.chain(inner, "FULLY_CONNECTED", "RESHAPE"), last)


def _layer_norm(shape: Shape, last: int) -> int:
    centred = shape.add("SUB", last, shape.add("MEAN", last))
    spread = shape.chain(shape.add("SQUARE", centred), "MEAN", "RSQRT")
    return shape.chain(shape.add("MUL", centred, spread), "MUL", "ADD")


def _attention(shape: Shape, queries: int, keys: int, heads: int) -> int:
    query, key, value = (shape.add("FULLY_CONNECTED", source) for source in (queries, keys, keys))
    made = []
    for _ in range(heads):
        parts = [shape.chain(each, "RESHAPE", "TRANSPOSE") for each in (query, key, value)]
        weights = shape.chain(shape.add("BATCH_MATMUL", parts[0], parts[1]), "MUL", "SOFTMAX")
        made.append(shape.add("BATCH_MATMUL", weights, parts[2]))
    joined = made[0] if heads == 1 else shape.add("CONCATENATION", *made)
    return shape.chain(joined, "TRANSPOSE", "RESHAPE", "FULLY_CONNECTED")


def decoder(layers: int, heads: int = 1) -> Shape:
    """A language model: RMS norm, rotary position embedding, attention with its heads unrolled, SwiGLU."""
    shape = Shape()
    last = shape.add("EMBEDDING_LOOKUP")
    angles = shape.add("MUL")
    cosine, sine = shape.add("COS", angles), shape.add("SIN", angles)
    mask = shape.add("SELECT_V2")
    for _ in range(layers):
        norm = _rms_norm(shape, last)
        key, value = shape.add("FULLY_CONNECTED", norm), shape.add("FULLY_CONNECTED", norm)
        query = shape.add("FULLY_CONNECTED", norm)
        made = []
        for _ in range(heads):
            turned = [_rotary(shape, shape.chain(each, "SLICE", "RESHAPE"), cosine, sine) for each in (query, key)]
            scores = shape.chain(shape.add("BATCH_MATMUL", *turned), "MUL")
            weights = shape.add("SOFTMAX", shape.add("ADD", scores, mask))
            made.append(shape.add("BATCH_MATMUL", weights, shape.chain(value, "SLICE", "RESHAPE")))
        joined = made[0] if heads == 1 else shape.add("CONCATENATION", *made)
        middle = shape.add("ADD", shape.chain(joined, "RESHAPE", "FULLY_CONNECTED"), last)
        norm = _rms_norm(shape, middle)
        gate = shape.add("FULLY_CONNECTED", norm)
        gate = shape.add("MUL", gate, shape.add("LOGISTIC", gate))
        product = shape.add("MUL", gate, shape.add("FULLY_CONNECTED", norm))
        last = shape.add("ADD", shape.add("FULLY_CONNECTED", product), middle)
    shape.chain(_rms_norm(shape, last), "FULLY_CONNECTED")
    return shape


def _rms_norm(shape: Shape, last: int) -> int:
    spread = shape.chain(last, "SQUARE", "MEAN", "ADD", "RSQRT")
    return shape.chain(shape.add("MUL", last, spread), "MUL")


def _rotary(shape: Shape, last: int, cosine: int, sine: int) -> int:
    first, second = shape.add("STRIDED_SLICE", last), shape.add("STRIDED_SLICE", last)
    turned = shape.add("CONCATENATION", shape.add("NEG", second), first)
    return shape.add("ADD", shape.add("MUL", last, cosine), shape.add("MUL", turned, sine))


def hrnet(modules: int, branches: int = 4) -> Shape:
    """Parallel branches with several resolutions; after each module, every branch reads from all others."""
    shape = Shape()
    stem = shape.chain(shape.add("CONV_2D"), "RELU", "CONV_2D", "RELU")
    lanes = [shape.chain(stem, "CONV_2D", "RELU") for _ in range(branches)]
    for _ in range(modules):
        for lane in range(branches):
            for _ in range(4):
                inner = shape.chain(lanes[lane], "CONV_2D", "RELU", "CONV_2D")
                lanes[lane] = shape.chain(shape.add("ADD", inner, lanes[lane]), "RELU")
        lanes = [_fused(shape, lanes, target) for target in range(branches)]
    shape.chain(shape.add("CONCATENATION", *lanes), "CONV_2D")
    return shape


def _fused(shape: Shape, lanes: list[int], target: int) -> int:
    total = lanes[target]
    for source, lane in enumerate(lanes):
        if source > target:
            total = shape.add("ADD", total, shape.chain(lane, "CONV_2D", "RESIZE_BILINEAR"))
        elif source < target:
            down = [kind for _ in range(target - source - 1) for kind in ("CONV_2D", "RELU")]
            total = shape.add("ADD", total, shape.chain(lane, *down, "CONV_2D"))
    return shape.add("RELU", total)


def nasnet(cells: int) -> Shape:
    """Cells with five pairs of branches; each cell reads the two preceding cells."""
    shape = Shape()
    before = last = shape.add("CONV_2D")
    for _ in range(cells):
        left, right = (shape.chain(each, "RELU", "CONV_2D") for each in (before, last))
        separable = ("RELU", "DEPTHWISE_CONV_2D", "CONV_2D", "RELU", "DEPTHWISE_CONV_2D", "CONV_2D")
        pairs = [
            (shape.chain(right, *separable), shape.chain(left, *separable)),
            (shape.chain(left, *separable), shape.chain(left, *separable)),
            (shape.add("AVERAGE_POOL_2D", right), left),
            (shape.add("AVERAGE_POOL_2D", left), shape.add("MAX_POOL_2D", left)),
            (shape.chain(right, *separable), right),
        ]
        sums = [shape.add("ADD", *pair) for pair in pairs]
        before, last = last, shape.add("CONCATENATION", left, *sums)
    return shape


def densenet(layers: int, blocks: int = 4) -> Shape:
    """Blocks in which every layer reads all preceding layers."""
    shape = Shape()
    last = shape.chain(shape.add("CONV_2D"), "RELU", "MAX_POOL_2D")
    for _ in range(blocks):
        made = [last]
        for _ in range(layers):
            joined = shape.add("CONCATENATION", *made) if len(made) > 1 else made[0]
            made.append(shape.chain(joined, "MUL", "ADD", "RELU", "CONV_2D", "RELU", "CONV_2D"))
        last = shape.chain(shape.add("CONCATENATION", *made), "MUL", "RELU", "CONV_2D", "AVERAGE_POOL_2D")
    return shape


def by_chance_fed(count: int, reach: int, seed: int) -> Shape:
    """A random graph: every operator reads one to three of the `reach` preceding operators (0: all)."""
    generator = random.Random(seed)  # noqa: S311 - made input, no secret
    shape = Shape()
    for operator in range(count):
        low = max(0, operator - reach) if reach else 0
        wanted = min(generator.choices((1, 2, 3), (55, 30, 15))[0], operator - low)
        shape.add(generator.choice("ABCDEFGHIJ"), *generator.sample(range(low, operator), wanted))
    return shape


@dataclass(frozen=True, slots=True)
class Row:
    """A graph to partition, and the kinds of operators that go to the second device."""

    name: str
    make: Callable[[], Shape]
    second: Collection[str]

    def devices(self, shape: Shape) -> list[int]:
        """Return device 1 for the kinds of the second device."""
        return [int(kind in self.second) for kind in shape.kinds]


_NORM = ("MEAN", "RSQRT", "SQUARE", "SQUARED_DIFFERENCE")


_SECOND: dict[Callable[..., Shape], tuple[tuple[str, ...], ...]] = {
    diffusion: (("GELU",), ("SOFTMAX",), _NORM, ("RESIZE_NEAREST_NEIGHBOR",), ("LOGISTIC",)),
    decoder: (("NEG",), ("SOFTMAX",), _NORM, ("STRIDED_SLICE", "NEG", "COS", "SIN")),
    hrnet: (("RESIZE_BILINEAR",), ("ADD",), ("RELU",)),
    nasnet: (("AVERAGE_POOL_2D", "MAX_POOL_2D"), ("ADD",), ("DEPTHWISE_CONV_2D",)),
    densenet: (("CONCATENATION",), ("RELU",), ("MUL", "ADD")),
    by_chance_fed: (("A",), tuple("ABC"), tuple("ABCDE")),
}
_SIZES: dict[Callable[..., Shape], tuple[tuple[int, ...], ...]] = {
    diffusion: ((2, 1, 1), (2, 2, 4), (4, 2, 4), (4, 4, 4), (4, 4, 8)),
    decoder: tuple((layers, heads) for layers in (12, 32, 48, 120) for heads in (1, 8, 32)),
    hrnet: ((8,), (40,), (160,)),
    nasnet: ((12,), (100,), (400,)),
    densenet: ((12,), (48,)),
    by_chance_fed: tuple(
        (count, reach, count + reach) for count in (1_000, 10_000, 100_000) for reach in (8, 60, 1_000, 0)
    ),
}


def _row(make: Callable[..., Shape], size: tuple[int, ...], second: tuple[str, ...]) -> Row:
    name = f"{make.__name__} {' '.join(map(str, size))}: {' '.join(second)}"
    return Row(name.replace("by_chance_fed", "random"), lambda: make(*size), second)


ROWS: list[Row] = [
    _row(make, size, second) for make, sizes in _SIZES.items() for size in sizes for second in _SECOND[make]
]
