"""Which operators are needed: those that outputs depend on, and those that do more than compute their outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from circletools.graph.build import graph_of
from circletools.graph.graph import Graph
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.views import OperatorCode

_FOREIGN = ("CUSTOM", "DELEGATE", "UNKNOWN")  # nobody but their program knows what they do


class Flow:
    """Who makes and who reads each tensor of a subgraph."""

    def __init__(self, model: Model, subgraph: int) -> None:
        """Read a subgraph. Raises ModelFormatError for a tensor that two operators make, and for a cycle."""
        self.facts: Graph = graph_of(model, subgraph)
        _ = self.facts.dag  # its checks
        self.maker: list[int] = self.facts.producer.tolist()
        self.reads: list[list[int]] = [self._of(operator, True) for operator in range(len(self.facts))]
        self.makes: list[list[int]] = [self._of(operator, False) for operator in range(len(self.facts))]

    def _of(self, operator: int, inputs: bool) -> list[int]:
        slots = self.facts.operands if inputs else self.facts.results
        return [tensor for tensor in slots.of(operator) if tensor >= 0]

    def readers(self) -> dict[int, list[int]]:
        """Return who reads each tensor that is read, ascending."""
        found: dict[int, list[int]] = {}
        for operator, tensors in enumerate(self.reads):
            for tensor in dict.fromkeys(tensors):
                found.setdefault(tensor, []).append(operator)
        return found

    def behind(
        self, tensors: Iterable[int], stop: Collection[int] = (), only: Collection[int] | None = None
    ) -> set[int]:
        """Return the operators that these tensors depend on; what makes those of `stop` is not looked for.

        With `only`, other operators are neither taken nor looked behind.
        """
        found, pending = set[int](), list(tensors)
        while pending:
            tensor = pending.pop()
            operator = self.maker[tensor]
            if tensor in stop or operator < 0 or operator in found:
                continue
            if only is None or operator in only:
                found.add(operator)
                pending += self.reads[operator]
        return found

    def ahead(self, tensors: Iterable[int]) -> set[int]:
        """Return the operators that depend on these tensors."""
        readers, found, pending = self.readers(), set[int](), list(tensors)
        while pending:
            for operator in readers.get(pending.pop(), ()):
                if operator not in found:
                    found.add(operator)
                    pending += self.makes[operator]
        return found


class Needs:
    """What is needed of each subgraph of a model."""

    def __init__(self, model: Model) -> None:
        """Look at all operators. Raises ModelFormatError for a broken structure."""
        self.model: Model = model
        self.calls: Calls = Calls(model)
        every = range(len(model.subgraphs))
        own = [set(_acting(model, subgraph)) for subgraph in every]
        acting = self.calls.reaching(subgraph for subgraph in every if own[subgraph])
        self._acting: list[set[int]] = []
        for subgraph in every:
            rows = model.operator_columns.rows_of(subgraph)
            calling = {row - rows.start for row in rows if not acting.isdisjoint(self.calls.named(row))}
            self._acting.append(own[subgraph] | calling)

    def of(self, subgraph: int, tensors: Iterable[int]) -> list[int]:
        """Return the operators of a subgraph that these tensors need, and those that act by themselves, ascending."""
        flow, acting = Flow(self.model, subgraph), self._acting[subgraph]
        return sorted(acting | flow.behind([*tensors, *(read for one in acting for read in flow.reads[one])]))


def _acting(model: Model, subgraph: int) -> list[int]:
    """Return the operators that do more than compute their outputs, or whose doing is not known."""
    facts = graph_of(model, subgraph)
    facts.check_values()
    codes = [model.operator_codes[code] for code in model.subgraphs[subgraph].code_indices()]
    each = np.concatenate([np.stack(facts.uses, axis=1), np.stack(facts.definitions, axis=1)])
    operators, tensors = np.unique(each, axis=0).T
    users = np.bincount(tensors, minlength=len(facts.values))
    touching = facts.is_handle | (facts.values.is_variable & (users > 1))
    acting = np.array([_is_foreign(code) for code in codes], np.bool_)
    acting[np.setdiff1d(np.arange(len(facts)), facts.definitions.operators)] = True
    acting[operators[touching[tensors]]] = True
    return list(np.flatnonzero(acting).tolist())


def _is_foreign(code: OperatorCode) -> bool:
    return code.name.split(":")[0] in _FOREIGN
