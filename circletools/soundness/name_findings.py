"""Check for tensors with equal names, and for unused tensors, operator codes and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from circletools.findings import Finding
from circletools.model.indices import model_indices
from circletools.model.model import Model
from circletools.wording import numbered

_LISTED = 10


def name_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about subgraphs in which tensors have equal names."""
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
            named = f"{_listed(again, 'tensor')} {'has' if len(again) == 1 else 'have'} the same name as"
            message = f"{named} an earlier tensor{' of another type' * differ}; onert and OpenVINO confuse them"
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
    for kind in ("operator_code", "buffer"):
        left = np.flatnonzero(~used[kind]).tolist()
        if left:
            yield _unused(left, kind)
    left_tensors = np.flatnonzero(~used["tensor"])
    for subgraph in np.unique(np.searchsorted(columns.splits, left_tensors, "right") - 1).tolist():
        first, end = columns.splits[subgraph : subgraph + 2]
        here = (left_tensors[(left_tensors >= first) & (left_tensors < end)] - first).tolist()
        yield _unused(here, "tensor", f"subgraphs[{subgraph}].")


def _unused(numbers: list[int], kind: str, place: str = "") -> Finding:
    listed, them = _listed(numbers, kind.replace("_", " ")), "it" if len(numbers) == 1 else "them"
    message = f"nothing uses {listed}; `circletool compact --prune` leaves {them} out"
    return Finding("NOT_USED", "info", f"{place}{kind}s[{numbers[0]}]", message)


def _listed(numbers: list[int], what: str) -> str:
    return numbered(numbers[:_LISTED], what) + ", …" * (len(numbers) > _LISTED)
