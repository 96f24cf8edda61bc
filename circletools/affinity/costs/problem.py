"""One subgraph with its costs, as arrays: times of operators, tensors that are handed on, and what copies cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from circletools.model import Model
from circletools.model.graph import operator_tensors
from circletools.model.views import Tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
_LARGEST = 1 << 62  # a hostile shape must not become infinite


@dataclass(frozen=True, slots=True)
class Links:
    """What copies and launches cost, by device number.

    `overhead_us` and `us_per_byte` have the shape (devices, devices), from and to; nothing on the diagonal.
    `launch_us` has the shape (devices,).
    """

    overhead_us: Floats
    us_per_byte: Floats
    launch_us: Floats


@dataclass(frozen=True, slots=True)
class Problem:
    """Operators 0..n-1, devices 0..d-1, and the tensors that one operator makes and others read.

    `times_us` has the shape (n, d), infinite where a device cannot run an operator. `producers` and `sizes_bytes` go
    by tensor; `read` and `readers` are pairs of a tensor and an operator that reads it, none twice.
    """

    times_us: Floats
    producers: Indices
    sizes_bytes: Floats
    read: Indices
    readers: Indices
    links: Links

    def copy_us(self, tensors: Indices, sources: Indices | int, targets: Indices | int) -> Floats:
        """Return what it costs to bring tensors from devices to devices."""
        links = self.links
        copied: Floats = (
            links.overhead_us[sources, targets] + self.sizes_bytes[tensors] * links.us_per_byte[sources, targets]
        )
        return copied


def make_problem(model: Model, subgraph: int, times_us: Floats, links: Links) -> Problem:
    """Return the problem of a subgraph."""
    makers, made = operator_tensors(model, subgraph, "outputs")
    consumers, read = operator_tensors(model, subgraph, "inputs")
    sizes = tensor_bytes(model, subgraph)
    number, producer = np.full(len(sizes), -1, np.int64), np.full(len(sizes), -1, np.int64)
    producer[made] = makers
    pairs = np.unique(np.stack([read, consumers], axis=1)[producer[read] >= 0], axis=0)
    tensors = np.unique(pairs[:, 0])
    number[tensors] = np.arange(len(tensors))
    return Problem(times_us, producer[tensors], sizes[tensors], number[pairs[:, 0]], pairs[:, 1], links)


def tensor_bytes(model: Model, subgraph: int) -> Floats:
    """Return the bytes of every tensor of a subgraph, as `least_bytes` has them."""
    return np.array([least_bytes(tensor) for tensor in model.subgraphs[subgraph].tensors], np.float64)


def least_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's value; an open dimension counts as 1, a type of unknown size as nothing."""
    width = re.fullmatch(r"(?:U?INT|B?FLOAT|COMPLEX)(\d+)", tensor.type)
    bits = 8 if tensor.type == "BOOL" else int(width[1]) if width else 0
    known = tensor.shape_signature if len(tensor.shape_signature or ()) == len(tensor.shape) else tensor.shape
    sizes = (1 if min(pair) < 0 else pair[0] for pair in zip(tensor.shape, known or (), strict=True))
    return min(-(-prod(sizes) * bits // 8), _LARGEST)
