"""Student's t distribution: tails and quantiles, without a statistics library."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist


def tail(t: float, freedom: float) -> float:
    """Return the probability of exceeding `t`, for whole or infinitely many degrees of freedom.

    The series is from Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    angle, odd = math.atan2(t, math.sqrt(freedom)), int(freedom) % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for number in range(1 + odd, int(freedom), 2):
        total, term = total + term, term * number / (number + 1) * math.cos(angle) ** 2
    between = math.sin(angle) * total
    return (1 - (2 / math.pi * (angle + between) if odd else between)) / 2


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: float) -> float:
    """Return the `t` that is not exceeded with this probability, which is above a half."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - probability else (low, middle)
    return high
