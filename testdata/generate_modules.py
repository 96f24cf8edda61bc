"""Write Circle models of single PyTorch operators whose outputs are aliased, to try `fix-outputs` on.

Run it with a Python that has torch 2.13.0 and tico 0.3.0; nothing of it is committed:

    python testdata/generate_modules.py FOLDER [--seed 1]

Each module computes `y` and returns `y, y`, or `y, x`, or `y, x, y`. Shapes and weights are random, from the seed.
`tools/measure/copying/context.py` runs the models before and after.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import tico
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (as everywhere)

Compute = Callable[..., Tensor]
Case = tuple[str, nn.Module, tuple[Tensor, ...]]
RANKS = (1, 2, 3, 4, 5)

UNARY: dict[str, Compute] = {
    "relu": torch.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "gelu": F.gelu,
    "silu": F.silu, "elu": F.elu, "leaky_relu": F.leaky_relu, "hardswish": F.hardswish, "exp": torch.exp,
    "abs": torch.abs, "sin": torch.sin, "cos": torch.cos, "round": torch.round, "neg": torch.neg,
    "sqrt": lambda x: torch.sqrt(torch.abs(x)), "log": lambda x: torch.log(torch.abs(x) + 1),
    "square": lambda x: x * x, "power": lambda x: x**2, "clamp": lambda x: torch.clamp(x, -1, 1),
    "softmax": lambda x: torch.softmax(x, -1), "add_one": lambda x: x + 1, "third": lambda x: x / 3,
    "flat": lambda x: x.reshape(-1), "unsqueeze": lambda x: x.unsqueeze(0), "slice": lambda x: x[..., 1:],
}  # fmt: skip
BINARY: dict[str, Compute] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "minimum": torch.minimum, "eq": torch.eq, "lt": torch.lt, "ge": torch.ge, "ne": torch.ne,
    "cat": lambda a, b: torch.cat([a, b], -1), "stack": lambda a, b: torch.stack([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
}  # fmt: skip
REDUCTIONS: dict[str, Compute] = {"sum": torch.sum, "mean": torch.mean, "argmax": torch.argmax}
TYPES = {
    "float": torch.float32, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8, "int8": torch.int8,
    "int16": torch.int16, "bool": torch.bool,
}  # fmt: skip
IMAGES: dict[str, Callable[[int], nn.Module]] = {
    "conv": lambda channels: nn.Conv2d(channels, 5, 3, padding=1),
    "conv_stride": lambda channels: nn.Conv2d(channels, 4, 3, stride=2),
    "depthwise": lambda channels: nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
    "conv_relu": lambda channels: nn.Sequential(nn.Conv2d(channels, 5, 3), nn.ReLU()),
    "conv_norm": lambda channels: nn.Sequential(nn.Conv2d(channels, 5, 3), nn.BatchNorm2d(5)),
    "max_pool": lambda _: nn.MaxPool2d(2),
    "average_pool": lambda _: nn.AvgPool2d(2),
    "global_pool": lambda _: nn.AdaptiveAvgPool2d(1),
}


class Aliased(nn.Module):
    """Computes `y` of its inputs, the first of which is `x`, and returns what `style` lists."""

    def __init__(self, compute: Compute | nn.Module, style: str = "yy") -> None:
        super().__init__()
        self.compute, self.style = compute, style

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        known = {"x": inputs[0], "y": self.compute(*inputs)}
        return tuple(known[name] for name in self.style)


class Head(nn.Module):
    """The end of a language model: embedding, one attention, and the logits of every token."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        q = self.norm(x)
        return self.head(x + torch.softmax(q @ q.transpose(-1, -2) / 4, -1) @ x)


def shape_of(random: Random, rank: int) -> list[int]:
    """Return small sizes, the first of which may be 1."""
    return [random.randint(1, 4), *(random.randint(2, 6) for _ in range(rank - 1))]


def layers(random: Random) -> Iterator[Case]:
    """Yield layers with weights."""
    for rank in RANKS:
        size = shape_of(random, rank)
        for after in (nn.Identity(), nn.ReLU(), nn.Linear(4, 3), nn.Softmax(-1)):
            linear = nn.Sequential(nn.Linear(size[-1], 4), after)
            yield f"linear_{type(after).__name__}_{rank}", Aliased(linear), (torch.randn(size),)
        yield f"norm_{rank}", Aliased(nn.LayerNorm(size[-1])), (torch.randn(size),)
        order = random.sample(range(rank), rank)
        yield f"permute_{rank}", Aliased(lambda x, order=order: x.permute(order)), (torch.randn(size),)
    for name, make in IMAGES.items():
        channels = random.randint(1, 6)
        yield name, Aliased(make(channels)), (torch.randn(1, channels, 9, 9),)


def cases(random: Random) -> Iterator[Case]:
    """Yield a name, a module and its example inputs, for each operator."""
    for name, compute in UNARY.items():
        for rank in random.sample(RANKS, 3):
            yield f"{name}_{rank}", Aliased(compute), (torch.randn(shape_of(random, rank)),)
    for name, compute in BINARY.items():
        for rank in random.sample(RANKS, 3):
            size = shape_of(random, rank)
            yield f"{name}_{rank}", Aliased(compute), (torch.randn(size), torch.randn(size))
        for kind in ("int32", "int64"):
            a, b = (torch.randint(1, 9, shape_of(random, 3), dtype=TYPES[kind]) for _ in "ab")
            yield f"{name}_{kind}", Aliased(compute), (a, b.reshape(-1)[:1].expand(a.shape).contiguous())
    for name, reduce in REDUCTIONS.items():
        for rank in (2, 3, 4):
            yield (
                f"{name}_{rank}",
                Aliased(lambda x, reduce=reduce: reduce(x, -1)),
                (torch.randn(shape_of(random, rank)),),
            )
    yield from layers(random)
    yield "total", Aliased(torch.sum), (torch.randn(shape_of(random, 3)),)
    for name, kind in TYPES.items():
        value = (torch.rand(shape_of(random, 3)) * 9).to(kind)
        yield f"pass_{name}", Aliased(lambda x: x, "yxy"), (value,)
        for other, target in TYPES.items():
            for style in ("yy", "yx") if target is not kind else ():
                module = Aliased(lambda x, target=target: x.to(target), style)
                yield f"cast_{name}_{other}_{style}", module, (value,)
    image = torch.randint(0, 255, (1, 4, 4, 3), dtype=torch.uint8)
    yield "image", Aliased(lambda x: x.float() / 255, "yx"), (image,)
    yield "centred_image", Aliased(lambda x: (x.float() - 127.5) / 127.5, "yxy"), (image,)
    for style in ("yy", "yx", "yxy"):
        tokens = torch.randint(0, 9, (random.randint(1, 2), 6))
        yield f"head_{style}", Aliased(Head(8, random.randint(10, 14)), style), (tokens,)
        yield f"embedding_{style}", Aliased(nn.Embedding(10, 4), style), (tokens,)


def main() -> None:
    """Write what TICO accepts; print what it refuses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.manual_seed(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, module, inputs in cases(Random(options.seed)):  # noqa: S311
        try:
            tico.convert(module.eval(), inputs).save(options.folder / f"{name}.circle")
            written += 1
        except Exception as error:  # whatever TICO has against it
            print(f"{name}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
    print(f"{written} models")


if __name__ == "__main__":
    main()
