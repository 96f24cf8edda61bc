"""Make the Circle models of `testdata/circle` with TICO, from small PyTorch modules.

Run it with a Python that has torch 2.13.0 and tico 0.3.0:

    python testdata/generate_tico.py            # write every model
    python testdata/generate_tico.py cnn mlp    # write these two
    python testdata/generate_tico.py --check    # write nothing, fail if a file would change

The weights are random, from a seed that belongs to the model; the same versions of torch and tico give
the same bytes every time. (TICO puts the names of modules into the names of tensors, `__main__` for the
classes here: run this as a script.)
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any

import tico
import torch
from model_files import Models, main
from tico.circle import CircleDocument
from tico.serialize.circle_binary import plan_circle_layout
from torch import Tensor, nn

MODELS: Models = {}


def model(make: Callable[[], bytes]) -> Callable[[], bytes]:
    """Enter a function into the table of models, under its name, and give it a seed of its own.

    A model `..._external` has the weights of the model it is named after.
    """
    seed = zlib.crc32(make.__name__.removesuffix("_external").encode())

    def seeded() -> bytes:
        torch.manual_seed(seed)
        return make()

    MODELS[make.__name__] = seeded
    return seeded


def convert(module: nn.Module, *args: Tensor, dynamic_shapes: dict[str, Any] | None = None) -> bytes:
    """Turn a module into the bytes of a Circle model."""
    return bytes(tico.convert(module.eval(), args, dynamic_shapes=dynamic_shapes).circle_binary)


# Everyday networks


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(16, 32)
        self.out = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(torch.relu(self.hidden(x))), dim=-1)


@model
def mlp() -> bytes:
    return convert(Mlp(), torch.randn(1, 16))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(torch.flatten(x, 1))


def _cnn() -> bytes:
    return convert(Cnn(), torch.randn(1, 3, 16, 16))


@model
def cnn() -> bytes:
    return _cnn()


class InvertedResidual(nn.Module):
    def __init__(self, channels: int = 8, expand: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, expand, 1, bias=False),
            nn.BatchNorm2d(expand),
            nn.ReLU6(),
            nn.Conv2d(expand, expand, 3, padding=1, groups=expand, bias=False),
            nn.BatchNorm2d(expand),
            nn.ReLU6(),
            nn.Conv2d(expand, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


@model
def inverted_residual() -> bytes:
    return convert(InvertedResidual(), torch.randn(1, 8, 8, 8))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(8, 4, 1)
        self.three = nn.Sequential(nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))
        self.pool = nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), nn.Conv2d(8, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        branches = [self.one(x), self.three(x), self.five(x), self.pool(x)]
        return torch.relu(torch.cat(branches, dim=1))


@model
def inception() -> bytes:
    return convert(Inception(), torch.randn(1, 8, 8, 8))


class TransformerBlock(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).reshape(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(2, 3)) * shape[-1] ** -0.5
        mixed = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


@model
def transformer_block() -> bytes:
    return convert(TransformerBlock(), torch.randn(1, 6, 16))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, (h, c) = self.lstm(x)
        return out, h, c


@model
def lstm() -> bytes:
    return convert(Lstm(), torch.randn(3, 1, 4))


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.table(tokens).mean(dim=1))


@model
def embedding_int64() -> bytes:
    return convert(Embedding(), torch.tensor([[3, 1, 4, 1, 5]], dtype=torch.int64))


@model
def embedding_int32() -> bytes:
    return convert(Embedding(), torch.tensor([[3, 1, 4, 1, 5]], dtype=torch.int32))


class Gather(nn.Module):
    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        return torch.index_select(x, 0, rows)


@model
def gather() -> bytes:
    return convert(Gather(), torch.randn(5, 4), torch.tensor([4, 0], dtype=torch.int32))


class LstmCell(nn.Module):
    """One step of an LSTM: the state goes in and comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(4 + 8, 4 * 8)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = torch.chunk(self.gates(torch.cat([x, h], dim=1)), 4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


@model
def lstm_cell() -> bytes:
    return convert(LstmCell(), torch.randn(1, 4), torch.randn(1, 8), torch.randn(1, 8))


@model
def rms_norm() -> bytes:
    return convert(nn.Sequential(nn.Linear(8, 8), nn.RMSNorm(8, eps=1e-5)), torch.randn(1, 3, 8))


@model
def instance_norm() -> bytes:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU())
    return convert(layers, torch.randn(1, 3, 8, 8))


# Shapes of a model's interface


class SameTwice(nn.Module):
    """Returns `o, o, h`: one result twice, and an intermediate."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.fc(x)
        o = torch.relu(h)
        return o, o, h


@model
def output_twice() -> bytes:
    return convert(SameTwice(), torch.randn(1, 4))


class InputAround(nn.Module):
    """Returns `x, f(x), x`: its input as first and as last output."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, torch.relu(self.fc(x)), x


@model
def input_as_output() -> bytes:
    return convert(InputAround(), torch.randn(1, 4))


class OnlyInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


@model
def only_input() -> bytes:
    return convert(OnlyInput(), torch.randn(1, 4))


class ConstantBeside(nn.Module):
    """Returns a computed value, and beside it a parameter of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.anchors = nn.Parameter(torch.randn(2, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), self.anchors


@model
def constant_output() -> bytes:
    return convert(ConstantBeside(), torch.randn(1, 4))


class TwoInputs(nn.Module):
    """Two inputs, three outputs, and one input that the graph does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 3)
        self.right = nn.Linear(5, 3)

    def forward(self, x: Tensor, y: Tensor, unused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = self.left(x), self.right(y)
        return a + b, a * b, torch.tanh(a)


@model
def unused_input() -> bytes:
    return convert(TwoInputs(), torch.randn(1, 4), torch.randn(1, 5), torch.randn(1, 2))


class Branchy(nn.Module):
    """A diamond and a value with three users: something to extract from."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return torch.tanh(h) * torch.sigmoid(h) + torch.relu(h)


@model
def diamond() -> bytes:
    return convert(Branchy(), torch.randn(1, 8))


@model
def dynamic_batch() -> bytes:
    batch = torch.export.Dim("batch", min=1, max=64)
    return convert(Mlp(), torch.randn(3, 16), dynamic_shapes={"x": {0: batch}})


# Quantized weights


class QuantizedLinear(nn.Module):
    """Linear, sigmoid, linear, with the fake quantization steps that TICO folds into uint8 tensors.

    Activations have one scale each, the weights one per output channel. The scales of the activations are
    fixed: calibration would add nothing here (and TICO's own wrappers want a further package).
    """

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 4)

    @staticmethod
    def activation(x: Tensor, low: float, high: float) -> Tensor:
        scale = (high - low) / 255
        return torch.fake_quantize_per_tensor_affine(x, scale, round(-low / scale), 0, 255)

    @staticmethod
    def weight(w: Tensor) -> Tensor:
        scale = w.abs().amax(dim=1) / 127
        return torch.fake_quantize_per_channel_affine(w, scale, torch.full_like(scale, 128), 0, 0, 255)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(x, -4.0, 4.0)
        h = nn.functional.linear(x, self.weight(self.fc1.weight), self.fc1.bias)
        h = self.activation(torch.sigmoid(self.activation(h, -4.0, 4.0)), 0.0, 255 / 256)
        h = nn.functional.linear(h, self.weight(self.fc2.weight), self.fc2.bias)
        return self.activation(h, -4.0, 4.0)


@model
def quantized_linear() -> bytes:
    return convert(QuantizedLinear(), torch.randn(1, 8))


# Constants behind the flatbuffer


def externalize(binary: bytes) -> bytes:
    """Lay a model out as TICO does for models beyond 2 GiB: constants behind the flatbuffer, 16-aligned."""
    return bytes(plan_circle_layout(CircleDocument.from_bytes(binary).model, inline_budget=0).to_bytes())


@model
def mlp_external() -> bytes:
    return externalize(convert(Mlp(), torch.randn(1, 16)))


@model
def cnn_external() -> bytes:
    return externalize(_cnn())


if __name__ == "__main__":
    sys.exit(main(__doc__, "circle", ".circle", MODELS))
