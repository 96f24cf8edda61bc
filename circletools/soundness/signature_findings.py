"""Check that signatures name the inputs and outputs of their subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.model.views import Signature
from circletools.soundness.graph_findings import CORRECT
from circletools.wording import counted


def signature_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about signatures; all indices of the model must be in range."""
    tables, _ = model.root.children("signature_defs", model.schema)
    named = tables.has("signature_key").tolist()
    first: dict[str, Signature] = {}
    again: set[tuple[str, bool]] = set()
    for signature in model.signatures:
        place = f"signature_defs[{signature.index}]"
        if not named[signature.index]:
            message = f"the signature has no key; LiteRT refuses the model; {CORRECT}"
            yield Finding("INVALID_SIGNATURE", "warning", place, message)
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
    for signature in model.signatures:
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
