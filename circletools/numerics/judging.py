"""Differences that rounding explains. Any larger difference is a fault.

Two programs that both compute an operator correctly may differ by this much:

    quantized output    by one step if the exact value lies midway between two steps, which is true of at most half of
                        the values (as when numbers of step 1 are rounded to step 2); or by as much as the
                        reference's integer kernels, which may be inexact, differ from its floating point
    floating point      by half of the digits of the type: sqrt(epsilon) of the largest value, the usual tolerance
                        for results that took many steps
    any                 by the change of the *reference* when the latter half of its inputs' digits changes, and
                        by the smallest normal number: an operator that divides by almost zero amplifies small
                        differences, even to infinity (a backward error: the result is exact for inputs close to the
                        given ones)
    quantized weights   compared with float weights: by twice the change of the reference when its weights are
                        randomly rounded to such steps; likewise for inputs that are quantized at run time
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from circletools.numerics.values import Difference
from circletools.runtimes.protocol import Array

HALF_PRECISION = ("litert-gpu",)
"""Programs that compute with FLOAT16 unless configured otherwise."""

_SIGMAS = 5.0  # a chance that is not met in millions of values
_HALF_OF_DIGITS = {"FLOAT16": sqrt(2.0**-10), "BFLOAT16": sqrt(2.0**-7)}
_SINGLE = sqrt(2.0**-23)
_FLOATS = ("FLOAT", "BFLOAT", "COMPLEX")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The largest difference that rounding explains: of one value, and of the root mean square."""

    max_abs: float
    rms: float

    def covers(self, found: Difference) -> bool:
        """Return whether a difference is within the allowance."""
        return not found.non_finite and found.max_abs <= self.max_abs and found.rms <= self.rms


def allowance(expected: Array, kind: str, step: float, sensitivity: Difference | None = None) -> Allowance:
    """Return the difference that rounding explains for values of a type with this quantization step (0: none).

    `sensitivity` is the change of the reference for slightly changed inputs and constants. Integers that are not
    quantized, booleans and texts are exact.
    """
    finite = np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind in "fc" else np.zeros(0)
    digits = _HALF_OF_DIGITS.get(kind, _SINGLE) * float(finite.max(initial=0.0)) if kind.startswith(_FLOATS) else 0.0
    largest, mean = (sensitivity.max_abs, sensitivity.rms) if sensitivity is not None else (0.0, 0.0)
    number = float(max(1, finite.size))
    if step and sensitivity is not None:  # equal values round alike; Kish's effective number of independent ones
        number /= max(1, float(np.square(np.unique(finite, return_counts=True)[1]).sum())) / number
    # The number of values midway between two steps follows the binomial distribution.
    ties = step**2 * (0.5 + _SIGMAS * sqrt(0.25 / number))
    # Twice the expectation; the mean square of few values varies more than that (chi-squared distribution).
    mean *= sqrt(max(1.0, (1 + _SIGMAS * sqrt(2 / max(1, expected.size))) / 4))
    return Allowance((step + digits + largest) * (1 + 1e-9), sqrt(ties + digits**2 + mean**2) * (1 + 1e-9))


def nearly(real: Array, kind: str, rng: np.random.Generator) -> Array:
    """Return slightly changed values: each by sqrt(epsilon), and zeros by the smallest normal number."""
    if not kind.startswith(_FLOATS):
        return real
    least = float(np.finfo(np.float16 if kind == "FLOAT16" else np.float32).tiny)
    signs = rng.choice((-1.0, 1.0), real.shape)
    return real * (1 + _HALF_OF_DIGITS.get(kind, _SINGLE) * signs) + least * signs


def rounded(real: Array, step: Array | float, rng: np.random.Generator) -> Array:
    """Return values that are off by up to a step, twice the effect of rounding."""
    return real + rng.uniform(-1, 1, real.shape) * step
