"""Check whether a model can be loaded and executed: its graph, tensors, operators, signatures and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.offline import plan_findings
from circletools.model.indices import model_indices
from circletools.model.model import Model
from circletools.model.verify import check_indices
from circletools.model.views import Signature
from circletools.soundness.graph_findings import CORRECT, graph_findings
from circletools.soundness.operator_findings import operator_findings
from circletools.soundness.tensor_findings import tensor_findings
from circletools.soundness.whole import Whole
from circletools.soundness.windows import window_findings
from circletools.wording import counted, numbered

_LISTED = 10


def broken_graphs(model: Model) -> list[Finding]:
    """Return only those findings of `check` that are about the graphs of a model.

    These concern every out-of-range index or, if there is none, producers, readers and operator order. Raises
    ModelFormatError if the structure is broken where indices are stored.
    """
    return check_indices(model, as_read=True) or list(graph_findings(model, Whole(model)))


def operation_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about graphs, tensors, operators and offline plans; only their indices must be in range."""
    whole = Whole(model)
    yield from graph_findings(model, whole)
    yield from tensor_findings(model, whole)
    yield from operator_findings(model, whole)
    yield from plan_findings(model)
    tables, _ = model.root.children("signature_defs", model.schema)
    message = f"the signature has no key; LiteRT refuses the model; {CORRECT}"
    for index in np.flatnonzero(~tables.has("signature_key")).tolist():
        yield Finding("INVALID_SIGNATURE", "warning", f"signature_defs[{index}]", message)


def soundness_findings(model: Model) -> Iterator[Finding]:
    """Yield findings that keep runtimes from loading or executing the model, which must have no dangling indices."""
    yield from operation_findings(model)
    yield from window_findings(model)
    yield from signature_findings(model)
    yield from name_findings(model)
    yield from unused_findings(model)


# --- signatures -----------------------------------------------------------------------------------------------


def signature_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about signatures; all indices of the model must be in range."""
    first: dict[str, Signature] = {}
    again: set[tuple[str, bool]] = set()
    for signature in model.signatures:
        place = f"signature_defs[{signature.index}]"
        other = first.setdefault(signature.key, signature)
        copied = replace(signature, index=other.index) == other
        if other is not signature and (signature.key, copied) not in again:
            again.add((signature.key, copied))
            message = f"another signature already has the key {signature.key!r}; {CORRECT}"
            yield Finding("INVALID_SIGNATURE", "info" if copied else "warning", place, message)
        for side in ("inputs", "outputs"):
            for slot, (name, _) in enumerate(getattr(signature, side)):
                if not name:
                    message = f"the {side[:-1]} has no name; {CORRECT}"
                    yield Finding("INVALID_SIGNATURE", "warning", f"{place}.{side}[{slot}].name", message)
    yield from end_findings(model_graph(model))


def end_findings(model: ModelGraph) -> Iterator[Finding]:
    """Yield findings about signatures that do not give each input and output of their subgraph one unique name.

    LiteRT's CompiledModel cannot load or run such signatures.
    """
    ends: dict[int, dict[str, tuple[frozenset[int], int]]] = {}
    for signature in model.source.signatures:
        if signature.subgraph not in ends:
            subgraph = model.graphs[signature.subgraph]
            sides = {side: getattr(subgraph, side).tolist() for side in ("inputs", "outputs")}
            ends[signature.subgraph] = {side: (frozenset(tensors), len(tensors)) for side, tensors in sides.items()}
        for side in ("inputs", "outputs"):
            place = f"signature_defs[{signature.index}]"
            yield from _side(place, side, getattr(signature, side), *ends[signature.subgraph][side])


def _side(
    place: str, side: str, maps: tuple[tuple[str, int], ...], known: frozenset[int], count: int
) -> Iterator[Finding]:
    """Yield findings about either the inputs or the outputs of a signature."""
    names: Counter[str] = Counter()
    pairs, what = Counter(maps), side[:-1]
    for slot, (name, tensor) in enumerate(maps):
        names[name] += 1
        if tensor not in known:
            message = f"tensor {tensor} ({name!r}) is not an {what} of the subgraph; {CORRECT}"
            yield Finding("INVALID_SIGNATURE", "warning", f"{place}.{side}[{slot}]", message)
        elif names[name] == 2:
            message = f"another {what} has the name {name!r}; {CORRECT}"
            copied = pairs[name, tensor] == 2
            yield Finding("INVALID_SIGNATURE", "info" if copied else "warning", f"{place}.{side}[{slot}]", message)
    named = known.intersection(tensor for _, tensor in maps)  # costs as much as the signature, not more
    left = len(known) - len(named)
    if left or len(maps) != count:
        unnamed = f"{left} of {len(known):,} {what}s" if len(known) > 1 else f"the {what}"
        message = f"the signature has no name for {unnamed} of the subgraph"
        if not left:
            message = f"the signature names {counted(len(maps), what)}, but the subgraph has {count}"
        yield Finding("INCOMPLETE_SIGNATURE", "info", f"{place}.{side}", message)


# --- names and unused objects --------------------------------------------------------------------------------


def name_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about subgraphs in which tensors have equal names."""
    names, types = model.tensor_columns.names, model.tensor_columns.types
    for subgraph, (first, end) in enumerate(pairwise(model.tensor_columns.splits.tolist())):
        here = names[first:end]
        seen: dict[bytes, int] = {}
        some = here if len(set(here)) < len(here) else []
        again = [tensor for tensor, name in enumerate(some) if name and seen.setdefault(name, tensor) != tensor]
        if again:
            differ = any(types[first + tensor] != types[first + seen[here[tensor]]] for tensor in again)
            named = f"{_listed(again, 'tensor')} {'has' if len(again) == 1 else 'have'} the same name as"
            message = f"{named} an earlier tensor{' of another type' * differ}; onert and OpenVINO confuse them"
            yield Finding("DUPLICATE_NAME", "info", f"subgraphs[{subgraph}].tensors[{again[0]}]", message)


def unused_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about unused tensors, operator codes and buffers."""
    columns = model.tensor_columns
    used = {
        "tensor": np.zeros(len(columns.tables), np.bool_),
        "operator_code": np.zeros(len(model.operator_codes), np.bool_),
        "buffer": np.zeros(len(model.buffers), np.bool_),
    }
    used["buffer"][:1] = True
    for indices in model_indices(model, "tensor", "operator_code", "buffer"):
        values, kind, owners = indices.values, indices.role.kind, indices.subgraphs
        there = (values >= 0) & ((kind == "tensor") | (values < len(used[kind])))
        if kind == "tensor" and owners is not None:
            values = values + columns.splits[owners]
        used[kind][values[there]] = True
    for kind in ("operator_code", "buffer"):
        if left := np.flatnonzero(~used[kind]).tolist():
            yield _unused(left, kind)
    for subgraph, (first, end) in enumerate(pairwise(columns.splits.tolist())):
        if left := np.flatnonzero(~used["tensor"][first:end]).tolist():
            yield _unused(left, "tensor", f"subgraphs[{subgraph}].")


def _unused(numbers: list[int], kind: str, place: str = "") -> Finding:
    listed, them = _listed(numbers, kind.replace("_", " ")), "it" if len(numbers) == 1 else "them"
    message = f"nothing uses {listed}; `circletool compact --prune` leaves {them} out"
    return Finding("NOT_USED", "info", f"{place}{kind}s[{numbers[0]}]", message)


def _listed(numbers: list[int], what: str) -> str:
    return numbered(numbers[:_LISTED], what) + ", …" * (len(numbers) > _LISTED)
