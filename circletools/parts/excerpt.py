"""The contents of a part: operators of some subgraphs, everything that these operators use, and nothing else.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order. The sections of an excerpt come
first, then the whole subgraphs that their operators call. An excerpt contains all constants that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.reach import Reach


@dataclass(frozen=True, slots=True)
class Section:
    """A selection from a subgraph: operators in ascending order, and the tensors that become inputs and outputs.

    `names` holds new names for tensors of the subgraph; `further` holds tensors to include although nothing here uses
    them; `real` holds the tensors that become FLOAT32, without quantization. An operator of the excerpt that calls
    the subgraph calls this section if `replaces` is set, and otherwise the whole subgraph.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes] = field(default_factory=dict)
    replaces: bool = False
    further: Sequence[int] = ()
    real: Collection[int] = ()


NamedTensors = Sequence[tuple[bytes, int]]
"""The names in a signature, each with a tensor of the old subgraph."""


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A new signature for the first section of a subgraph."""

    key: bytes
    subgraph: int
    inputs: NamedTensors
    outputs: NamedTensors


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The selection for a part: a section for each subgraph, except those included only because operators call them.

    `metadata` holds the entries to keep, by index in the old model, with a new value or None for the old one;
    `signatures` are those to keep, by index, or new ones. Signatures refer to the first section of their subgraph.
    `data` holds new contents for buffers. An `anonymous` part has no description and no names of the old model,
    except in signatures.
    """

    sections: Sequence[Section]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int | NewSignature] = ()
    data: Mapping[int, bytes] = field(default_factory=dict)
    anonymous: bool = False


_FOREIGN = ("CUSTOM", "DELEGATE", "UNKNOWN")  # their effects are unknown


class Needs:
    """Finds the operators that outputs depend on, in each graph of a model."""

    def __init__(self, model: ModelGraph) -> None:
        """Start without reading anything."""
        self._model = model

    def of(self, index: int, tensors: Iterable[int]) -> list[int]:
        """Return the operators that tensors of a graph depend on, and those with side effects, in order.

        Raises ModelFormatError for a broken structure, a tensor that two operators produce, or a cycle.
        """
        graph, (own, with_effects) = self._model.graphs[index], self._with_effects
        _ = graph.dag  # this raises for a broken structure
        calling = {operator for operator in graph.callees if not with_effects.isdisjoint(graph.called([operator]))}
        chosen, reach = own[index] | calling, Reach(graph)
        return sorted(chosen | reach.behind([*tensors, *reach.read_by(chosen)]))

    @cached_property
    def _with_effects(self) -> tuple[list[set[int]], set[int]]:
        """The operators with side effects, by graph, and the graphs that contain or (indirectly) call them."""
        own = [_with_effects(graph) for graph in self._model.graphs]
        return own, self._model.reaching(index for index, operators in enumerate(own) if operators)


def _with_effects(graph: Graph) -> set[int]:
    """Return the operators with side effects, or with unknown effects."""
    graph.check_values()
    names = graph.operators.code_names
    each = np.concatenate([np.stack(graph.uses, axis=1), np.stack(graph.definitions, axis=1)])
    operators, values = np.unique(each, axis=0).T
    users = np.bincount(values, minlength=len(graph.values))
    touching = graph.is_handle | (graph.values.is_variable & (users > 1))
    foreign = {operator for operator, name in enumerate(names) if name.split(":")[0] in _FOREIGN}
    makes_nothing = np.setdiff1d(np.arange(len(graph)), graph.definitions.operators)
    return foreign.union(makes_nothing.tolist(), operators[touching[values]].tolist())
