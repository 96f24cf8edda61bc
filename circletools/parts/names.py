"""Finds tensors by their name, or by `index:12` (also `0/index:12`) if a name is ambiguous."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from circletools.errors import UsageError, shortened
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.views import text
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
        raise UsageError(f"subgraph {index} does not exist; there are {len(model.graphs)}")
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
        known = {name: text(name) for name in set(raw)}  # a file can give many tensors one long name
        self.names: list[str] = [known[name] for name in raw]
        self.found: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            self.found.setdefault(name, []).append(index)

    def find(self, words: str) -> int:
        """Return the tensor of this name, or of `index:N`. Raises UsageError if there is none, or several."""
        same = self.found.get(words, [])
        if len(same) > 1:
            listed = ", ".join(f"{self._subgraph}/index:{index}" for index in same[:_LISTED])
            raise UsageError(
                f"{len(same)} tensors are called {quoted(words)}", location=self.place, hint=f"name one by {listed}"
            )
        if same:
            return same[0]
        index = INDEX.fullmatch(words)
        if index is None or index[1] not in (None, str(self._subgraph)):
            raise UsageError(
                f"no tensor is called {quoted(words)}", location=self.place, hint=suggestion(words, self.found)
            )
        if int(index[2]) >= len(self.names):
            raise UsageError(f"tensor {index[2]} does not exist; there are {len(self.names)}", location=self.place)
        return int(index[2])

    def shown(self, tensor: int) -> str:
        """Return a tensor's name in messages, in a form that also identifies it."""
        name = self.names[tensor]
        return quoted(name) if name and len(self.found[name]) == 1 else f"index:{tensor}"
