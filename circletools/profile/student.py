"""Student's t distribution: tails and quantiles, without a library for statistics."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_STEPS = 300
_TINY = 1e-300


def tail(t: float, freedom: float) -> float:
    """Return the probability of more than `t` with `freedom` degrees of freedom; infinite ones are the normal's."""
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    if t < 0:
        return 1 - tail(-t, freedom)
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: float) -> float:
    """Return the `t` that is not exceeded with a probability above a half."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - probability else (low, middle)
    return high


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction."""
    if x in (0.0, 1.0):
        return x
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction, by Lentz's method."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / _nonzero(1 + term * d), _nonzero(1 + term / c)
            found *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return found


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
