"""Convert PyTorch modules with TICO, with and without an auxiliary head, at several batch sizes, and optimize them.

    python benchmarks/tracking_tools/heads.py DIR FROM:TO

Run it with a Python that has torch and tico. Both exports have the same weights, and TICO names tensors after nodes
of the graph, so operators correspond if they have the same code and name, or are the only ones of a code between
known pairs. Networks that remain ambiguous are not written. `optimize` explains the ground truth for the passes.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import tico
import torch
from optimize import Attention, ConvBlock, Gated, optimise
from tico.circle import CircleDocument
from tico.config.v1 import CompileConfigV1
from torch import Tensor, nn

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.GELU, nn.Hardswish, nn.SiLU, nn.Tanh, nn.Sigmoid)
BATCHES = (2, 4)


class Pictures(nn.Module):
    """Blocks of convolutions, with a head in the middle."""

    shape = (3, 16, 16)

    def __init__(self, chosen: random.Random, heads: bool) -> None:
        super().__init__()
        width = chosen.choice([8, 12])
        self.stem = ConvBlock(3, width, activation=chosen.choice(ACTIVATIONS))
        self.blocks = nn.ModuleList()
        for _ in range(chosen.randint(1, 4)):
            block = ConvBlock(width, width, chosen.choice([1, width]), chosen.choice(ACTIVATIONS))
            self.blocks.append(nn.Sequential(block, nn.Conv2d(width, width, 1)))
        self.adds, self.at, self.heads = chosen.random() < 0.6, chosen.randrange(len(self.blocks)), heads
        self.head = nn.Linear(width, 10)
        parts = nn.Conv2d(width, 6, 1), chosen.choice(ACTIVATIONS)(), nn.Flatten(), nn.Linear(6 * 256, 5)
        self.branch = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Classify pictures."""
        x = middle = self.stem(x)
        for index, block in enumerate(self.blocks):
            x = x + block(x) if self.adds else block(x)
            middle = x if index == self.at else middle
        out = torch.softmax(self.head(x.mean((2, 3))), -1)
        return (out, self.branch(middle)) if self.heads else out


class Words(nn.Module):
    """Transformer layers, with a head in the middle and a head for the middle itself."""

    shape = (8, 32)

    def __init__(self, chosen: random.Random, heads: bool) -> None:
        super().__init__()
        layers = (Attention(32, 4) if chosen.random() < 0.7 else Gated(32) for _ in range(chosen.randint(1, 3)))
        self.layers = nn.ModuleList(layers)
        self.head, self.heads, self.at = nn.Linear(32, 9), heads, chosen.randrange(len(self.layers))
        self.branch = nn.Sequential(nn.Linear(32, 16), chosen.choice(ACTIVATIONS)(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Label words."""
        middle = x
        for index, layer in enumerate(self.layers):
            x = layer(x)
            middle = x if index == self.at else middle
        out = self.head(x)
        return (out, self.branch(middle), middle.mean(1)) if self.heads else out


def exported(module: nn.Module, batch: int = 1) -> bytes:
    """Return TICO's model without its optimizer."""
    torch.manual_seed(1)
    config = CompileConfigV1(circle_optimize=False)
    return bytes(tico.convert(module, (torch.randn(batch, *module.shape),), config=config).circle_binary)


def keys(binary: bytes) -> list[tuple[int, Any]]:
    """Return the code of each operator, and the name of its result."""
    model = CircleDocument.from_bytes(binary).model
    subgraph, codes = model.subgraphs[0], [code.builtinCode for code in model.operatorCodes]
    return [(codes[o.opcodeIndex], subgraph.tensors[int(o.outputs[0])].name) for o in subgraph.operators]


def aligned(before: list[tuple[int, Any]], after: list[tuple[int, Any]]) -> list[list[int]] | None:
    """Return BEFORE's counterparts of each operator of AFTER, or None if any is ambiguous."""
    at = [[index for index, other in enumerate(before) if other == key] for key in after]
    for index, own in enumerate(at):
        if len(own) != 1:
            low = at[index - 1][0] if index and len(at[index - 1]) == 1 else -1
            high = at[index + 1][0] if index + 1 < len(at) and len(at[index + 1]) == 1 else len(before)
            at[index] = [j for j in range(low + 1, high) if before[j][0] == after[index][0] and [j] not in at]
    return at if all(len(own) == 1 for own in at) else None


def save(stem: Path, before: bytes, after: bytes, operators: list[Any], removed: list[int]) -> None:
    """Write a pair."""
    Path(f"{stem}.before.circle").write_bytes(before)
    Path(f"{stem}.after.circle").write_bytes(after)
    Path(f"{stem}.json").write_text(json.dumps({"operators": operators, "removed": removed}))


def pairs_of(seed: int, directory: Path) -> None:
    """Write the pairs for a seed."""
    kind = random.Random(seed).choice([Pictures, Words])
    torch.manual_seed(seed)
    with_head, without = (kind(random.Random(seed), heads).eval() for heads in (True, False))
    without.load_state_dict(with_head.state_dict())
    many, few = exported(with_head), exported(without)
    at = aligned(keys(many), keys(few))
    if at is None:
        print(f"{seed}: names leave open which operators are which")
        return
    save(directory / f"s{seed}.heads", many, few, [at], [])
    optimised, truth = optimise(few)
    rows = truth["operators"]
    save(directory / f"s{seed}.passes", few, optimised, rows, truth["removed"])
    through = [[sorted({one for index in own for one in at[index]}) for own in row] for row in rows]
    removed = sorted({one for index in truth["removed"] for one in at[index]})
    save(directory / f"s{seed}.both", many, optimised, through, removed)
    for batch in BATCHES:
        larger = exported(without, batch)
        if [code for code, _ in keys(larger)] == [code for code, _ in keys(few)]:
            save(directory / f"s{seed}.batch{batch}", few, larger, [[[index] for index in range(len(at))]], [])


def main(directory: Path, seeds: range) -> None:
    """Write all pairs."""
    directory.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        pairs_of(seed, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]), range(*map(int, sys.argv[2].split(":"))))
