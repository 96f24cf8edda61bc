"""Where the operators of some operator codes came from."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from circletools.graph.graph import ModelGraph
from circletools.model.views import text
from circletools.origin.read import current_origins

MOST_SOURCES = 5


def sources_by_code(model: ModelGraph, codes: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the names of the first sources of the operators of each of these codes, by its index.

    Where the tables of origins give none, are stale or broken: the names of the operators' first outputs.
    """
    found: dict[int, list[str]] = {code: [] for code in codes}
    origins = current_origins(model) if codes else None
    for graph in model.graphs if codes else ():
        for code, names in found.items():
            chosen = np.flatnonzero(graph.operators.code_indices == code)[: MOST_SOURCES - len(names)]
            for operator in chosen.tolist():
                ids = set() if origins is None else origins.of(graph.index, operator)
                value = int(graph.first_results[operator])
                first = text(graph.values.names[value]) if 0 <= value < len(graph.values) else ""
                name = origins.sources[min(ids)] if origins is not None and ids else first
                if name:
                    names.append(name)
    return {code: tuple(dict.fromkeys(names)) for code, names in found.items()}
