"""The bytes that a tensor's value takes."""

from __future__ import annotations

import re
from math import prod

from circletools.model.views import Tensor

_LARGEST = 1 << 62  # a hostile shape must not become infinite


def size_bytes(tensor: Tensor) -> int | None:
    """Return the bytes of a tensor's value, None where the shape or the size of an element is not known."""
    bits = _element_bits(tensor.type)
    if bits is None or any(size < 0 for size in (*tensor.shape, *(tensor.shape_signature or ()))):
        return None
    return -(-prod(tensor.shape) * bits // 8)


def least_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's value; an open dimension counts as 1, a type of unknown size as nothing."""
    known = tensor.shape_signature if len(tensor.shape_signature or ()) == len(tensor.shape) else tensor.shape
    sizes = (1 if min(pair) < 0 else pair[0] for pair in zip(tensor.shape, known or (), strict=True))
    return min(-(-prod(sizes) * (_element_bits(tensor.type) or 0) // 8), _LARGEST)


def _element_bits(type_name: str) -> int | None:
    width = re.fullmatch(r"(?:U?INT|B?FLOAT|COMPLEX)(\d+)", type_name)
    return 8 if type_name == "BOOL" else int(width[1]) if width else None
