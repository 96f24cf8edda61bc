"""The size of a tensor's value in bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors

MOST_DIMENSIONS = 32
"""The maximum number of dimensions in NumPy 1, and thus the limit for values here; kernels accept fewer."""
_LARGEST = 1 << 62  # so that the size of a hostile shape does not become infinite


def size_bytes(type_name: str, shape: Sequence[int], signature: Sequence[int] = ()) -> int | None:
    """Return the number of bytes of a tensor's value, or None if its shape or element size is unknown."""
    bits = element_bits(type_name)
    if bits is None or any(size < 0 for size in (*shape, *signature)):
        return None
    return min(-(-element_count(shape) * bits // 8), _LARGEST)


def element_count(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor with this shape, at most 2^62."""
    count = 1
    for size in shape:
        count = max(-_LARGEST, min(count * size, _LARGEST))
    return count


def least_bytes(
    shapes: Vectors, signatures: Vectors, kinds: NDArray[np.int8], types: Mapping[int, str]
) -> NDArray[np.float64]:
    """Return the number of bytes of each tensor's value; a dynamic dimension counts as 1, an unknown type as 0 bytes.

    `kinds` holds the tensors' type numbers, and `types` the names of the types.
    """
    counts = element_counts(shapes, closed_sizes(shapes, signatures))
    with np.errstate(over="ignore", invalid="ignore"):  # infinity times 0 counts as 0
        bits = np.nan_to_num(counts * bits_of(kinds, types), nan=0.0, posinf=np.inf)
    return np.minimum(np.ceil(bits / 8), _LARGEST)


def bits_of(kinds: NDArray[np.int8], types: Mapping[int, str]) -> NDArray[np.float64]:
    """Return the number of bits of an element of each tensor, 0 if unknown; see `least_bytes`."""
    numbers, which = np.unique(kinds, return_inverse=True)
    bits = [element_bits(types.get(number, "")) or 0 for number in numbers.tolist()]
    return np.array(bits, np.float64)[which]


def element_counts(shapes: Vectors, sizes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the number of elements of each tensor, 1 for a scalar; `sizes` are the sizes of all dimensions."""
    found = np.ones(len(shapes.count))
    some = np.flatnonzero(shapes.count)
    if some.size:
        with np.errstate(over="ignore", invalid="ignore"):
            found[some] = np.multiply.reduceat(sizes.astype(np.float64), shapes.splits()[some])
    return found


def closed_sizes(shapes: Vectors, signatures: Vectors) -> NDArray[np.float64]:
    """Return the dimensions of tensors, concatenated, with 1 for dynamic dimensions."""
    sizes = shapes.flat().astype(np.float64)
    is_open = sizes < 0
    paired = shapes.count == signatures.count
    is_open[np.repeat(paired, shapes.count)] |= signatures.flat()[np.repeat(paired, signatures.count)] < 0
    sizes[is_open] = 1
    return sizes


def element_bits(type_name: str) -> int | None:
    """Return the number of bits of an element of this type, or None if unknown."""
    width = re.fullmatch(r"(?:U?INT|B?FLOAT|COMPLEX)(\d+)", type_name)
    return 8 if type_name == "BOOL" else int(width[1]) if width else None
