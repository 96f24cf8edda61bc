"""What it costs that partitions bring the constants that they read: in two partitions, a weight is two copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.table import CostTable


def constants_us(what: Contents, problem: CostTable, home: Sequence[int], devices: Sequence[int]) -> float:
    """Return the time for the constants of all partitions; `home` and `devices` go by operator."""
    rate = problem.links.constant_us_per_byte
    if rate is None:
        return 0.0
    operators, buffers = what.constants
    rows = np.stack(
        [np.asarray(home, np.int64)[operators], np.asarray(devices, np.int64)[operators], buffers], axis=1
    )
    rows = np.unique(rows, axis=0)
    return float((what.buffer_bytes[rows[:, 2]] * rate[rows[:, 1]]).sum())
