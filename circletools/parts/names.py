"""Find tensors by name, or by `index:12` (also `0/index:12`) if a name is ambiguous; choose names for signatures."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType

from circletools.errors import UsageError, shortened
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.views import Signature, text
from circletools.parts.contents import NewSignature
from circletools.wording import suggestion

INDEX = re.compile(r"(?:(\d{1,6})/)?index:(\d{1,9})")
_LISTED = 8


def quoted(name: str) -> str:
    """Return a quoted name for messages; a file can have names of any length."""
    return repr(shortened(name))


def listed(names: Sequence[str]) -> str:
    """Return a list of names for messages, limited in length."""
    shown = ", ".join(map(quoted, names[:_LISTED])) or "none"
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def graph_at(model: ModelGraph, index: int) -> Graph:
    """Return the graph of a subgraph. Raises UsageError for one that does not exist."""
    if not 0 <= index < len(model.graphs):
        raise UsageError(f"subgraph {index} does not exist; the count is {len(model.graphs)}")
    return model.graphs[index]


def is_open(graph: Graph, tensor: int) -> bool:
    """Return whether a dimension of a tensor is known only at run time."""
    return any(-1 in vectors.row(tensor) for vectors in (graph.values.shapes, graph.values.shape_signatures))


class TensorNames:
    """The names of the tensors of one graph."""

    def __init__(self, graph: Graph, new: Mapping[tuple[int, int], bytes] = MappingProxyType({})) -> None:
        """Read the names; `new` holds those of renamed and appended tensors, by subgraph and tensor."""
        self.place: str = graph.place()
        self._subgraph = graph.index
        raw = list(graph.values.names)
        for (owner, tensor), given in sorted(new.items()):
            if owner == graph.index:
                raw[tensor : tensor + 1] = [given]
        known = {name: text(name) for name in set(raw)}  # in a file, many tensors can share one long name
        self.names: list[str] = [known[name] for name in raw]
        self.found: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            self.found.setdefault(name, []).append(index)

    def find(self, words: str, offered: Iterable[str] | None = None) -> int:
        """Return the tensor with this name, or tensor N for `index:N`.

        Raises UsageError if none or several match; its hint suggests one of the names `offered` (by default, any).
        """
        same = self.found.get(words, [])
        if len(same) > 1:
            hint = f"select one by {', '.join(f'{self._subgraph}/index:{index}' for index in same[:_LISTED])}"
            raise UsageError(f"{len(same)} tensors are called {quoted(words)}", location=self.place, hint=hint)
        if same:
            return same[0]
        index = INDEX.fullmatch(words)
        if index is None or index[1] not in (None, str(self._subgraph)):
            hint = suggestion(words, self.found if offered is None else offered)
            raise UsageError(f"no tensor is called {quoted(words)}", location=self.place, hint=hint)
        if int(index[2]) >= len(self.names):
            raise UsageError(f"tensor {index[2]} does not exist; the count is {len(self.names)}", location=self.place)
        return int(index[2])

    def shown(self, tensor: int) -> str:
        """Return words that identify a tensor in messages: its name, or `index:N` if the name is not unique."""
        name = self.names[tensor]
        return quoted(name) if name and len(self.found[name]) == 1 else f"index:{tensor}"


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
    """Return a signature for these inputs and outputs, with the key and names of the subgraph's first signature.

    Tensors without a name in a signature keep their own names, or are named by position; names are made unique.
    """
    ours = [one for one in signatures if one.subgraph == graph.index]
    sides = []
    for what, tensors in (("input", inputs), ("output", outputs)):
        known: dict[int, str] = {}
        for one in ours:
            first = one.inputs if what == "input" else one.outputs
            for name, tensor in (*first, *one.inputs, *one.outputs):
                known.setdefault(tensor, name)
        names = [known.get(tensor) or proper(text(graph.values.names[tensor])) for tensor in tensors]
        sides.append(list(zip(map(_bytes, unique_names(names, what)), tensors, strict=True)))
    return NewSignature(_bytes(ours[0].key if ours else "serving_default"), graph.index, *sides)


def proper(name: str) -> str:
    """Return a name if it is valid UTF-8, so that every program can read it; otherwise an empty name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return ""
    return name


def unique_names(names: Iterable[str], what: str) -> list[str]:
    """Return unique names: empty names become `input_0` and so on, repeated names get a number."""
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
