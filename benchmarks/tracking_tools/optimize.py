"""Convert PyTorch modules with TICO, optimize them with its Circle passes, and record the ground truth.

    python benchmarks/tracking_tools/optimize.py DIR

Run it with a Python that has torch and tico. The model before is TICO's without its optimizer; the model after has
passed through the optimizer (pipeline O1 and the fusion of activations). The truth is recorded by observing the
optimizer: each of its rewrites is one transaction on the objects of the model, and the effect of a transaction (or of
a pass without transactions) is found by comparing the operators before and after it.

* An operator object keeps its sources throughout its life.
* An operator that no output needs any more is gone. Its sources pass to the operators that the same rewrite created,
  or whose options, output or constants it changed.
* An operator that now reads the inputs of an ADD, MUL, SUB or DIV instead of its output, and has other constants,
  has absorbed that operator, even if others still need it.
* If there are no such operators, the operator was merely removed (a reshape to the same shape, one of two equal
  operators): no operator computes it, or the choice is arbitrary. Its sources are listed as `removed`, not scored.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tico
import torch
from tico.circle import CircleDocument
from tico.circle.mutation import CircleMutationTransaction
from tico.circle.passes import create_o1_pipeline
from tico.circle.passes.base import CirclePassContext
from tico.circle.passes.manager import CirclePassManager
from tico.circle.passes.optimization.fuse import FuseActivationFunctionPass
from tico.circle.session import CircleOptimizationSession
from tico.config.v1 import CompileConfigV1
from torch import Tensor, nn

State = tuple[Any, ...]
ARITHMETIC = frozenset({0, 18, 41, 42})
"""BuiltinOperator values of ADD, MUL, SUB and DIV."""


class Ledger:
    """The sources of each operator object of a model, updated while the model is rewritten."""

    def __init__(self, model: Any) -> None:
        """Number the operators across all subgraphs."""
        operators = [operator for subgraph in model.subgraphs for operator in subgraph.operators]
        self.model = model
        self.sources = {id(operator): {number} for number, operator in enumerate(operators)}
        self.kept_alive: list[Any] = list(operators)  # so that no new object gets the id of a deleted one
        for subgraph in model.subgraphs:
            self.kept_alive += subgraph.tensors
        self.removed: set[int] = set()
        self.seen = [self.look(subgraph) for subgraph in model.subgraphs]

    def look(self, subgraph: Any) -> tuple[set[int], dict[int, State], dict[int, set[int]], dict[int, int]]:
        """Return the operators that outputs need, the state and inputs of all, and the producer of each tensor."""
        tensors = subgraph.tensors
        producer = {int(t): operator for operator in subgraph.operators for t in operator.outputs}
        needed: set[int] = set()
        waiting = [producer[int(t)] for t in subgraph.outputs if int(t) in producer]
        while waiting:
            operator = waiting.pop()
            if id(operator) not in needed:
                needed.add(id(operator))
                waiting += [producer[int(t)] for t in operator.inputs if int(t) in producer]
        return (
            needed,
            {id(operator): self.state(subgraph, operator) for operator in subgraph.operators},
            {id(operator): {id(tensors[t]) for t in operator.inputs if t >= 0} for operator in subgraph.operators},
            {id(tensors[tensor]): id(operator) for tensor, operator in producer.items()},
        )

    def state(self, subgraph: Any, operator: Any) -> State:
        """Return the properties that determine an operator's function, but not the origin of its inputs."""
        options = getattr(operator.builtinOptions, "__dict__", {})
        constants = []
        for slot, index in enumerate(operator.inputs):
            data = self.model.buffers[subgraph.tensors[int(index)].buffer].data if index >= 0 else None
            constants.append((slot, bytes(data)) if data is not None and len(data) else (slot,))
        code = self.model.operatorCodes[operator.opcodeIndex].builtinCode
        outputs = tuple(id(subgraph.tensors[int(tensor)]) for tensor in operator.outputs)
        return code, repr(options), outputs, tuple(constants)

    def update(self) -> None:
        """Record the changes since the last update."""
        for index, subgraph in enumerate(self.model.subgraphs):
            old_needed, old_states, old_inputs, old_producer = self.seen[index]
            new_needed, new_states, new_inputs, _ = self.seen[index] = self.look(subgraph)
            gone: set[int] = set().union(*(self.sources[key] for key in old_needed - new_needed))
            made = [key for key in new_states if key not in old_states]
            heirs = [key for key in new_needed if new_states[key] != old_states.get(key)]
            for key in made:
                self.sources[key] = set()
            for key in heirs:
                skipped = {old_producer.get(t) for t in old_inputs.get(key, set()) - new_inputs[key]} - {None}
                passed_by = [
                    other
                    for other in skipped
                    if old_states[other][0] in ARITHMETIC and old_inputs[other] & (new_inputs[key] - old_inputs[key])
                ]
                self.sources[key] = self.sources[key].union(gone, *(self.sources[other] for other in passed_by))
            if not heirs:
                self.removed |= gone
            self.kept_alive += [*subgraph.operators, *subgraph.tensors]

    def truth(self) -> dict[str, Any]:
        """Return the current sources of the operators."""
        operators = [[sorted(self.sources[id(o)]) for o in subgraph.operators] for subgraph in self.model.subgraphs]
        return {"operators": operators, "removed": sorted(self.removed)}


def optimise(binary: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return a model after all passes, and its ground truth."""
    document = CircleDocument.from_bytes(binary)
    ledger = Ledger(document.model)
    commit, after_pass = CircleMutationTransaction.commit, CircleOptimizationSession.after_pass

    def committed(transaction: Any) -> None:
        commit(transaction)
        ledger.update()

    def passed(session: Any, **details: Any) -> None:  # some passes use no transactions
        after_pass(session, **details)
        ledger.update()

    CircleMutationTransaction.commit, CircleOptimizationSession.after_pass = committed, passed
    try:
        context = CirclePassContext(preserve_io=True)
        create_o1_pipeline().run(document, context)
        CirclePassManager((FuseActivationFunctionPass(),)).run(document, context)
        create_o1_pipeline().run(document, context)
    finally:
        CircleMutationTransaction.commit, CircleOptimizationSession.after_pass = commit, after_pass
    return document.to_bytes(), ledger.truth()


class ConvBlock(nn.Module):
    """A convolution, batch normalization and activation."""

    def __init__(self, inputs: int, outputs: int, groups: int = 1, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.norm.running_mean = torch.randn(outputs) * 0.1
        self.norm.running_var = torch.rand(outputs) + 0.5
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the three layers."""
        result: Tensor = self.activation(self.norm(self.conv(x)))
        return result


class Residual(nn.Module):
    """Blocks with shortcuts, as in ResNet."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = ConvBlock(3, width)
        blocks = (nn.Sequential(ConvBlock(width, width), ConvBlock(width, width)) for _ in range(depth))
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Classify pictures."""
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        result: Tensor = self.head(x.mean(dim=(2, 3)))
        return result


class Mobile(nn.Module):
    """Depthwise blocks, as in MobileNet."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        parts: list[nn.Module] = [ConvBlock(3, width, activation=nn.ReLU6)]
        for _ in range(depth):
            parts += [ConvBlock(width, width, width, nn.ReLU6), nn.Conv2d(width, width, 1), nn.ReLU6()]
        self.body = nn.Sequential(*parts)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Classify pictures."""
        result: Tensor = self.head(self.body(x).mean(dim=(2, 3)))
        return result


class Attention(nn.Module):
    """A decomposed transformer block, whose norms the optimizer recognizes."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.heads = heads
        for norm in (self.first, self.second):  # as if trained: factors of 1 and 0 would vanish
            nn.init.normal_(norm.weight, 1.0, 0.2)
            nn.init.normal_(norm.bias, 0.0, 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then transform."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).chunk(3, dim=-1)
        q, k, v = (t.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        result: Tensor = x + self.down(nn.functional.gelu(self.up(self.second(x)), approximate="tanh"))
        return result


class Gated(nn.Module):
    """A block as in Llama, decomposed: RMS norm and gated feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize, gate, add."""
        h = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.scale
        gate = self.gate(h)
        result: Tensor = x + self.down(gate * torch.sigmoid(gate) * self.up(h))
        return result


class Views(nn.Module):
    """Operators that only move data: reshapes, transposes and slices that cancel out or merge."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        """Move the data back and forth."""
        y = self.a(x.reshape(4, 16)).reshape(2, 2, 16).transpose(0, 1).transpose(0, 1)
        z = self.b(y.reshape(4, 16)).unsqueeze(0).squeeze(0)
        return torch.relu(z.reshape(2, 2, 16) * 1.0 + y.permute(1, 0, 2).permute(1, 0, 2)) - 0.0


MODULES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "residual": lambda: (Residual(16, 8), torch.randn(1, 3, 16, 16)),
    "residual_small": lambda: (Residual(8, 2), torch.randn(1, 3, 8, 8)),
    "mobile": lambda: (Mobile(16, 10), torch.randn(1, 3, 16, 16)),
    "attention": lambda: (nn.Sequential(*(Attention(32, 4) for _ in range(6))), torch.randn(1, 8, 32)),
    "attention_small": lambda: (Attention(16, 2), torch.randn(1, 4, 16)),
    "gated": lambda: (nn.Sequential(*(Gated(32) for _ in range(6))), torch.randn(1, 8, 32)),
    "views": lambda: (Views(), torch.randn(4, 16)),
    "lstm": lambda: (_Lstm(), torch.randn(1, 6, 8)),
}


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


def main(directory: Path) -> None:
    """Write all pairs."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, make in MODULES.items():
        torch.manual_seed(len(name))
        module, example = make()
        binary = tico.convert(module.eval(), (example,), config=CompileConfigV1(circle_optimize=False)).circle_binary
        after, truth = optimise(binary)
        stem = directory / f"{name}.optimised"
        stem.with_name(f"{stem.name}.before.circle").write_bytes(binary)
        stem.with_name(f"{stem.name}.after.circle").write_bytes(after)
        stem.with_name(f"{stem.name}.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
