"""The values that are fed, and their encoding in a file."""

import zlib
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

_BYTES = {
    **dict.fromkeys(("UINT8", "INT8", "BOOL", "INT4", "UINT4", "FLOAT8_E4M3FN", "FLOAT8_E5M2"), 1),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 2),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT32", "INT2"), 4),
    **dict.fromkeys(("INT64", "UINT64", "FLOAT64", "COMPLEX64"), 8),
    "COMPLEX128": 16,
}
"""The bytes of an element as it is fed; types not listed here cannot be fed."""


def feedable(tensor_type: str) -> bool:
    """Return whether there are values to feed."""
    return tensor_type == "STRING" or tensor_type in _BYTES


@cache
def pool(tensor_type: str) -> tuple[bytes, ...]:
    """Return the elements to feed: all elements of a small type, else those that arithmetic would not preserve."""
    known = _small_pools()
    if tensor_type in known:
        return known[tensor_type]
    if tensor_type.startswith("COMPLEX"):
        parts = pool("FLOAT32" if tensor_type == "COMPLEX64" else "FLOAT64")
        return tuple(one + other for one, other in zip(parts, parts[7:] + parts[:7], strict=True))
    size = _BYTES[tensor_type]
    if size == 1:
        return tuple(bytes([value]) for value in range(256))
    rng = np.random.default_rng(zlib.crc32(tensor_type.encode()))
    special = [value.to_bytes(size, "little") for value in _special(8 * size)]
    return (*special, *(rng.bytes(size) for _ in range(64)))


@cache
def _small_pools() -> dict[str, tuple[bytes, ...]]:
    return {
        "STRING": (b"text", b"", b"\xff\xfe\x80", b"\0", b"a\0b\0", "é".encode(), b"\xed\xa0\x80", b"x" * 1000),
        "BOOL": (b"\0", b"\1"),
        "INT4": tuple(bytes([value & 255]) for value in range(-8, 8)),
        "UINT4": tuple(bytes([value]) for value in range(16)),
        "INT2": tuple(np.float32(value).tobytes() for value in range(-2, 2)),
    }


def _special(bits: int) -> list[int]:
    """Return the extreme integers or, for floats, zeros, infinities, NaNs and the extreme denormal numbers."""
    values = {0, 1, 2, (1 << bits) - 1, int("55" * (bits // 8), 16), int("aa" * (bits // 8), 16)}
    for exponent in {16: (5, 8), 32: (8,), 64: (11,)}[bits]:
        mantissa = bits - 1 - exponent
        infinity = ((1 << exponent) - 1) << mantissa
        quiet = 1 << (mantissa - 1)
        positive = (infinity, infinity | 1, infinity | quiet, infinity | quiet | 5, infinity - 1)
        values |= {*positive, (1 << mantissa) - 1, 1 << mantissa, infinity | ((1 << mantissa) - 1)}
    sign = 1 << (bits - 1)
    return sorted(values | {value | sign for value in values})


def rounds(tensor_type: str, count: int) -> Iterator[tuple[bytes, ...]]:
    """Yield `count` elements at a time until each element of the pool has occurred."""
    elements = pool(tensor_type)
    for start in range(0, len(elements), max(count, 1)) if count else [0]:
        yield tuple(elements[(start + number) % len(elements)] for number in range(count))


def packed(tensor_type: str, elements: Sequence[bytes]) -> bytes:
    """Return the elements as they are stored in a file."""
    if tensor_type == "STRING":
        ends = np.cumsum([0, *map(len, elements)]) + 4 * (len(elements) + 2)
        return np.array([len(elements), *ends], "<i4").tobytes() + b"".join(elements)
    width = {"INT4": 4, "UINT4": 4, "INT2": 2}.get(tensor_type)
    if width is None:
        return b"".join(elements)
    mask, each = (1 << width) - 1, 8 // width
    dtype = "<f4" if tensor_type == "INT2" else "i1"
    values = np.frombuffer(b"".join(elements), dtype).astype(int)
    small = [int(value) & mask for value in values] + [0] * (-len(elements) % each)
    return bytes(sum(small[at + i] << (width * i) for i in range(each)) for at in range(0, len(small), each))
