"""The signatures of a part: those of the model with the same inputs and outputs, or else a new one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from circletools.edit.signatures import Direction
from circletools.graph.graph import Graph
from circletools.model.views import Signature, text
from circletools.parts.excerpt import NewSignature

DEFAULT_KEY = "serving_default"


def with_ends(
    signatures: Iterable[Signature], subgraph: int, inputs: Collection[int], outputs: Collection[int]
) -> list[int]:
    """Return the signatures of a subgraph that have exactly these inputs and outputs, in any order."""
    ends = set(inputs), set(outputs)
    return [
        one.index
        for one in signatures
        if one.subgraph == subgraph and ({at for _, at in one.inputs}, {at for _, at in one.outputs}) == ends
    ]


def new_signature(
    signatures: Iterable[Signature], graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
) -> NewSignature:
    """Return a signature for these inputs and outputs, with the key and names of the subgraph's first signature."""
    ours = [one for one in signatures if one.subgraph == graph.index]
    key = ours[0].key if ours else DEFAULT_KEY
    return NewSignature(
        _bytes(key), graph.index, _named(graph, ours, "inputs", inputs), _named(graph, ours, "outputs", outputs)
    )


def _named(
    graph: Graph, signatures: Sequence[Signature], side: Direction, tensors: Sequence[int]
) -> list[tuple[bytes, int]]:
    """Name tensors after signatures, else after the tensors, else by position; names are unique."""
    known: dict[int, str] = {}
    for one in signatures:
        for name, tensor in (*(one.inputs if side == "inputs" else one.outputs), *one.inputs, *one.outputs):
            known.setdefault(tensor, name)
    names = [known.get(tensor) or proper(text(graph.values.names[tensor])) for tensor in tensors]
    return list(zip(map(_bytes, unique_names(names, side[:-1])), tensors, strict=True))


def proper(name: str) -> str:
    """Return a name if every program can read it, that is, if it is UTF-8; else an empty name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return ""
    return name


def unique_names(names: Iterable[str], what: str) -> list[str]:
    """Return unique names: an empty one becomes `input_0`, repeated ones get a number."""
    used, found, numbers = set[str](), list[str](), defaultdict[str, Iterator[int]](lambda: count(1))
    for index, name in enumerate(names):
        wanted = name or f"{what}_{index}"
        found.append(
            wanted if wanted not in used else next(n for i in numbers[wanted] if (n := f"{wanted}_{i}") not in used)
        )
        used.add(found[-1])
    return found


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
