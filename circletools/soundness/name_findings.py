"""Check for equal tensor names, and for unused tensors, operator codes and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from circletools.findings import Finding
from circletools.model.indices import model_indices
from circletools.model.model import Model
from circletools.wording import ranges

_LISTED = 10


def name_findings(model: Model) -> Iterator[Finding]:
    """Yield findings for subgraphs with equal tensor names."""
    names, types = model.tensor_columns.names, model.tensor_columns.types
    for subgraph, (first, end) in enumerate(pairwise(model.tensor_columns.splits.tolist())):
        here = names[first:end]
        again: list[int] = []
        seen: dict[bytes, int] = {}
        if len(set(here)) < len(here):
            for tensor, name in enumerate(here):
                if name and seen.setdefault(name, tensor) != tensor:
                    again.append(tensor)
        if again:
            differ = any(types[first + tensor] != types[first + seen[here[tensor]]] for tensor in again)
            others = "others, and another type" if differ else "others"
            message = f"tensors {_listed(again)} have the same names as {others}; onert and OpenVINO confuse them"
            yield Finding("DUPLICATE_NAME", "info", f"subgraphs[{subgraph}].tensors[{again[0]}]", message)


def unused_findings(model: Model) -> Iterator[Finding]:
    """Yield unused tensors, operator codes and buffers."""
    columns = model.tensor_columns
    used = {
        "tensor": np.zeros(len(columns.tables), np.bool_),
        "operator_code": np.zeros(len(model.operator_codes), np.bool_),
        "buffer": np.zeros(len(model.buffers), np.bool_),
    }
    used["buffer"][:1] = True
    for indices in model_indices(model, "tensor", "operator_code", "buffer"):
        values, kind = indices.values, indices.role.kind
        owners = indices.subgraphs
        there = (values >= 0) & ((kind == "tensor") | (values < len(used[kind])))
        if kind == "tensor" and owners is not None:
            values = values + columns.splits[owners]
        used[kind][values[there]] = True
    for kind, what in (("operator_code", "operator_codes"), ("buffer", "buffers")):
        left = np.flatnonzero(~used[kind]).tolist()
        if left:
            message = f"nothing uses {what} {_listed(left)}; `circletool compact --prune` leaves them out"
            yield Finding("NOT_USED", "info", f"{what}[{left[0]}]", message)
    left_tensors = np.flatnonzero(~used["tensor"])
    for subgraph in np.unique(np.searchsorted(columns.splits, left_tensors, "right") - 1).tolist():
        first, end = columns.splits[subgraph : subgraph + 2]
        here = (left_tensors[(left_tensors >= first) & (left_tensors < end)] - first).tolist()
        message = f"nothing uses tensors {_listed(here)}; `circletool compact --prune` leaves them out"
        yield Finding("NOT_USED", "info", f"subgraphs[{subgraph}].tensors[{here[0]}]", message)


def _listed(numbers: list[int]) -> str:
    return ranges(numbers[:_LISTED]) + ", …" * (len(numbers) > _LISTED)
