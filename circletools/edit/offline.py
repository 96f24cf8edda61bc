"""Keep TFLM's offline plan of memory valid in an edit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from circletools.edit.entries import Entries
from circletools.graph.offline import OFFLINE_PLAN, PlannedTensors, edited_plan
from circletools.model.model import Model


class PlannedOffsets:
    """The offsets of tensors in an edit; a plan that the edit itself sets or removes is left alone."""

    def __init__(self, model: Model, entries: Entries) -> None:
        """Start with the offsets of the model."""
        self._model, self._entries = model, entries
        self._plan: bytes | memoryview | None = model.metadata_value(OFFLINE_PLAN)
        self._moved = defaultdict[int, set[int]](set)

    def drop(self, subgraph: int, tensors: Iterable[int], kept: Iterable[int] = ()) -> None:
        """Drop the offsets of tensors that get another size or lifetime, except those in `kept`."""
        if self._plan is not None:
            self._moved[subgraph].update(set(tensors).difference(kept))

    def append(self, subgraph: int, tensors: Iterable[int]) -> None:
        """Drop the offsets of the tensors of an appended operator; outputs live until the end anyway."""
        if self._plan is not None:
            self.drop(subgraph, tensors, self._model.subgraphs[subgraph].outputs.tolist())

    def store(self, added: Mapping[int, int]) -> None:
        """Write the plan; `added` holds the number of added tensors of each subgraph."""
        if self._plan is None or self._entries.value(OFFLINE_PLAN) != self._plan:
            return
        kept = (
            PlannedTensors(
                subgraph.index,
                range(len(subgraph.tensors) + added.get(subgraph.index, 0)),
                self._moved[subgraph.index],
                range(len(subgraph.operators)),
            )
            for subgraph in self._model.subgraphs
        )
        plan = edited_plan(self._model, kept) or self._model.metadata_value(OFFLINE_PLAN)
        if plan != self._plan:
            self._plan = plan
            self._entries.put(OFFLINE_PLAN, bytes(plan or b""))
