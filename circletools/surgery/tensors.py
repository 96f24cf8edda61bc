"""Finding tensors by words: their name, or `index:12` (also `0/index:12`) where a name does not tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from circletools.errors import UsageError, shortened
from circletools.model.model import Model
from circletools.model.views import text
from circletools.wording import suggestion

_INDEX = re.compile(r"(?:(\d{1,6})/)?index:(\d{1,9})")
_LISTED = 8
_LONGEST = 200  # characters of a name


def quoted(name: str) -> str:
    """Write a name for people; a file can have names of any length."""
    return repr(shortened(name, _LONGEST))


def listed(names: Sequence[str]) -> str:
    """Write some names for people, not too many."""
    shown = ", ".join(map(quoted, names[:_LISTED])) or "none"
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


class TensorNames:
    """The names of the tensors of one subgraph."""

    def __init__(
        self, model: Model, subgraph: int, renamed: Mapping[tuple[int, int], bytes] = MappingProxyType({})
    ) -> None:
        """Read the names; `renamed` has new ones, by subgraph and tensor.

        Raises UsageError for a subgraph that does not exist.
        """
        if not 0 <= subgraph < len(model.subgraphs):
            raise UsageError(f"subgraph {subgraph} does not exist; there are {len(model.subgraphs)}")
        rows = model.tensor_columns.rows_of(subgraph)
        self.subgraph: int = subgraph
        self.place: str = f"subgraphs[{subgraph}]"
        raw = model.tensor_columns.names[rows.start : rows.stop]
        for (owner, tensor), new in renamed.items():
            if owner == subgraph:
                raw[tensor] = new
        known = {name: text(name) for name in set(raw)}  # a file can give many tensors one long name
        self.names: list[str] = [known[name] for name in raw]
        self.found: dict[str, list[int]] = {}
        for index, name in enumerate(self.names):
            self.found.setdefault(name, []).append(index)

    def find(self, words: str) -> int:
        """Return the tensor of this name, or of `index:N`. Raises UsageError where there is none, or several."""
        same = self.found.get(words, [])
        if len(same) > 1:
            listed = ", ".join(f"{self.subgraph}/index:{index}" for index in same[:_LISTED])
            raise UsageError(
                f"{len(same)} tensors are called {quoted(words)}", location=self.place, hint=f"name one by {listed}"
            )
        if same:
            return same[0]
        index = _INDEX.fullmatch(words)
        if index is None or index[1] not in (None, str(self.subgraph)):
            raise UsageError(
                f"no tensor is called {quoted(words)}", location=self.place, hint=suggestion(words, self.found)
            )
        if int(index[2]) >= len(self.names):
            raise UsageError(f"tensor {index[2]} does not exist; there are {len(self.names)}", location=self.place)
        return int(index[2])

    def shown(self, tensor: int) -> str:
        """Return how messages call a tensor, and how it can be named."""
        name = self.names[tensor]
        return quoted(name) if name and len(self.found[name]) == 1 else f"index:{tensor}"
