"""Tell whether the constants of one model are those of another, rounded, without running either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

import numpy as np

from circletools.findings import Finding
from circletools.numerics.running import Task
from circletools.numerics.subject import Subject, real_constants
from circletools.runtimes.protocol import Array

_LEAST_NUMBERS = 16
_UNRELATED = 0.5  # constants with 2 bits per number still correlate with the original by more than 0.8


def unrelated_weights(first: Subject, second: Subject, plan: Iterable[Task]) -> Iterator[Finding]:
    """Yield a note if most of the constants that paired operators read are uncorrelated."""
    found = [one for task in plan for one in _correlations(first, second, task)]
    if found and median(found) < _UNRELATED:
        words = "the weights were not made from those of the other model: their correlation is"
        yield Finding(
            "OTHER_WEIGHTS", "warning", "", f"{words} {median(found):.2f} (median of {len(found)} constants)"
        )


def _correlations(first: Subject, second: Subject, task: Task) -> Iterator[float]:
    """Yield the correlation of each pair of constants that have the same shape and vary."""
    for old, new in zip(_weights(first, task.theirs.operators), _weights(second, task.own.operators), strict=False):
        if old.shape == new.shape and old.size >= _LEAST_NUMBERS and np.ptp(old) > 0 and np.ptp(new) > 0:
            yield float(np.corrcoef(old.ravel(), new.ravel())[0, 1])


def _weights(subject: Subject, operators: tuple[int, ...]) -> Iterator[Array]:
    """Yield the floating-point or quantized constants of rank 2 or more that operators read, as real numbers."""
    values, real = subject.graph.values, {tensor: array for tensor, array, _ in real_constants(subject, operators)}
    for tensor in dict.fromkeys(subject.reach.read_by(operators)):
        if values.is_constant[tensor] and len(values.shapes.row(tensor)) > 1:
            if tensor in real:
                yield real[tensor]
            elif values.types[tensor].startswith("FLOAT"):
                yield subject.constant(tensor).astype(np.float64)
