"""What the tests of exports share: models with an affinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.store import annotate
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import row
from tests.kit.support import edited


def with_affinity(data: bytes, *devices: Sequence[str | None]) -> bytes:
    """Return a model with the device of each operator in the first subgraphs; None means no device."""
    names = list(dict.fromkeys(device for row in devices for device in row if device is not None))
    subgraphs = {}
    with open_model(data) as model:
        for index, row in enumerate(devices):
            ids = np.array([NONE if device is None else names.index(device) for device in row], np.uint32)
            partitions = np.full(len(row), NONE, np.uint32)
            if None not in row:
                for number, partition in enumerate(make_partitions(graph_of(model, index).dag, ids.tolist())):
                    partitions[list(partition.operators)] = number
            subgraphs[index] = SubgraphAffinity(ids, partitions)
    return edited(data, lambda edit: annotate(edit, Affinity(dict(enumerate(names)), subgraphs)))


def codes_of(data: bytes, subgraph: int = 0) -> list[str]:
    """Return the code name of each operator."""
    with open_model(data) as model:
        return model.code_names(subgraph)


def alternating(data: bytes, *devices: str) -> bytes:
    """Return a model whose operators take turns, in all subgraphs."""
    with open_model(data) as model:
        counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    return with_affinity(data, *([devices[index % len(devices)] for index in range(count)] for count in counts))


def named(*names: str, kind: str = "circle") -> bytes:
    """Return a chain of operators whose outputs have these names."""
    return row(*(("TANH", name) for name in names)).to_bytes(kind)
