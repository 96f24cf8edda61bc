"""What the oracles feed a model: the same values for the same place, whatever happened to the model behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TEXTS = (b"hello world", b"", b"what is the weather", b"\xc3\xa9t\xc3\xa9 42", b"no")


def make_input(seed: int, place: int | str, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return the array for a place: the position of a subgraph's input, or the name of a signature's.

    Never the index of a tensor, which an edit may change. Integers of more than a byte are 0 to 2, as they often are
    indices, sizes or axes.
    """
    dims = tuple(int(size) for size in shape)
    key = hashlib.sha256(repr((seed, place, dtype.name, dims)).encode()).digest()
    random = np.random.default_rng(list(key))
    match dtype.kind:
        case "b":
            return random.integers(0, 2, dims).astype(dtype)
        case "i" | "u" if dtype.itemsize == 1:
            return np.frombuffer(random.bytes(int(np.prod(dims, dtype=int))), dtype).reshape(dims)
        case "i" | "u":
            return random.integers(0, 3, dims).astype(dtype)
        case "f":
            return random.uniform(-1, 1, dims).astype(dtype)
        case "c":
            return (random.uniform(-1, 1, dims) + 1j * random.uniform(-1, 1, dims)).astype(dtype)
        case "S" | "O":
            array = np.empty(dims, object)
            for number in range(array.size):
                array.flat[number] = _TEXTS[(seed + number) % len(_TEXTS)]
            return array
    raise NotImplementedError(f"no values of {dtype}")
