"""A small ShuffleNet, which `generate_litert_torch.py` exports for docs/gpu.md."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Shuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.reshape(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


class FlatShuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.reshape(b, 2, c // 2, h * w).transpose(1, 2).reshape(b, c, h, w)


class Unit(nn.Module):
    def __init__(self, channels: int, shuffle: type[nn.Module]) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, channels, 1)
        self.shuffle = shuffle()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.depthwise(self.shuffle(torch.relu(self.expand(x)))))


class Net(nn.Module):
    def __init__(self, shuffle: type[nn.Module] = Shuffle) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.units = nn.Sequential(Unit(8, shuffle), Unit(8, shuffle))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.units(self.stem(x)).mean((2, 3)))
