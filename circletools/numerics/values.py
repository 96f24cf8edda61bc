"""The difference between two arrays, and dequantized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10
from operator import ne

import numpy as np

from circletools.runtimes.protocol import Array

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Form:
    """The type of a tensor and, if a number represents `(stored - zero) * scale`, that scale; else 0."""

    type: str
    scale: float = 0.0
    zero: int = 0

    def real(self, stored: Array) -> Array:
        """Return the real numbers that stored ones represent, as doubles; texts are unchanged."""
        if stored.dtype.kind in "OS":
            return stored
        if self.type == "BFLOAT16" and stored.dtype == np.uint16:
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signaling NaN
            wide = stored.astype(np.complex128 if stored.dtype.kind == "c" else np.float64)
        real: Array = (wide - self.zero) * self.scale if self.scale else wide
        return real

    def stored(self, real: Array) -> Array:
        """Return real numbers in stored form: rounded to the nearest, and clamped to the range of the type."""
        dtype = np.dtype({"STRING": "O", "BFLOAT16": "u2"}.get(self.type, self.type.lower()))
        if self.type == "BFLOAT16":
            return (real.astype(np.float32).view(np.uint32) + 0x8000 >> 16).astype(dtype)
        if real.dtype.kind in "OS" or dtype.kind not in "iu":
            return real.astype(dtype)
        limits = np.iinfo(dtype)
        with np.errstate(invalid="ignore"):
            number = np.rint(real / self.scale) + self.zero if self.scale else np.rint(real)
        stored: Array = np.clip(np.nan_to_num(number), limits.min, limits.max).astype(dtype)
        return stored


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of values from the expected ones.

    `unequal` of `size` values differ, by at most `max_abs`, and by `rms` in the root mean square. `max_steps` is
    `max_abs` in steps of the quantization, None without one. `snr_db` is the ratio of signal to difference in
    decibels, None if nothing differs, or there is no signal; `cosine` is the cosine of the angle between the two.
    Values that are not finite in just one of the two, or not finite and different, count only in `non_finite`; the
    largest number of FLOAT32 counts as infinite.
    """

    size: int
    unequal: int
    max_abs: float
    rms: float
    max_steps: float | None
    snr_db: float | None
    cosine: float | None
    non_finite: int


def difference(expected: Array, found: Array, step: float = 0.0) -> Difference:
    """Compare real numbers of the same shape; texts are equal or not (`max_abs` is then 1)."""
    if expected.dtype.kind in "OS":
        unequal = sum(map(ne, expected.ravel().tolist(), found.ravel().tolist()))
        return Difference(expected.size, unequal, float(unequal > 0), (unequal / max(1, expected.size)) ** 0.5,
                          None, None, None, 0)  # fmt: skip
    expected, found = _unclamped(expected), _unclamped(found)
    finite = np.isfinite(expected) & np.isfinite(found)
    one, two = expected[finite], found[finite]
    non_finite = int(changes_kind(expected, found).sum())
    error = np.abs(two - one)
    largest = float(error.max(initial=0.0))
    signal, noise, power = (float(np.square(np.abs(of)).sum()) for of in (one, error, two))
    return Difference(
        expected.size,
        int(np.count_nonzero(error)) + non_finite,
        largest,
        (noise / max(1, one.size)) ** 0.5,
        largest / step if step else None,
        10 * log10(signal / noise) if signal and noise and signal / noise < inf else None,
        float((one.conj() * two).real.sum()) / (signal * power) ** 0.5 if signal * power else None,
        non_finite,
    )


def changes_kind(expected: Array, found: Array) -> Array:
    """Return where one of two numbers is not finite and the other differs from it."""
    both_finite, both_nan = np.isfinite(expected) & np.isfinite(found), np.isnan(expected) & np.isnan(found)
    changed: Array = ~(both_finite | both_nan | (expected == found))
    return changed


def _unclamped(real: Array) -> Array:
    """Return numbers with infinity in place of the largest of FLOAT32, to which LiteRT's kernels clamp it."""
    if real.dtype.kind != "f":
        return real
    return np.where(np.abs(real) >= _LARGEST, np.copysign(inf, real), real)


def joined(arrays: Sequence[Array]) -> Array:
    """Return the values of several runs as one row."""
    return arrays[0].ravel() if len(arrays) == 1 else np.concatenate([array.ravel() for array in arrays])
