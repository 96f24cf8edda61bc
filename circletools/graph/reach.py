"""Find the operators on which given values of a graph depend, and those that depend on these values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from circletools.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Reach:
    """Walks through a graph from value to value, skipping omitted slots."""

    graph: Graph

    @cached_property
    def producer(self) -> list[int]:
        """The producer of each value, or -1 if there is none."""
        return list(self.graph.producer.tolist())

    @cached_property
    def operands(self) -> list[list[int]]:
        """The values that each operator reads."""
        return [[value for value in row if value >= 0] for row in self.graph.operands.lists()]

    @cached_property
    def results(self) -> list[list[int]]:
        """The values that each operator produces."""
        return [[value for value in row if value >= 0] for row in self.graph.results.lists()]

    def read_by(self, operators: Iterable[int]) -> list[int]:
        """Return the values that these operators read, operator by operator."""
        return [value for operator in operators for value in self.operands[operator]]

    def made_by(self, operators: Iterable[int]) -> list[int]:
        """Return the values that these operators produce, operator by operator."""
        return [value for operator in operators for value in self.results[operator]]

    def behind(
        self, values: Iterable[int], stop: Collection[int] = (), only: Collection[int] | None = None
    ) -> set[int]:
        """Return the operators that these values depend on; the walk stops at values in `stop`.

        If `only` is given, the walk also stops at operators outside it, which are not returned.
        """
        found, pending = set[int](), list(values)
        while pending:
            value = pending.pop()
            operator = self.producer[value]
            if value in stop or operator < 0 or operator in found:
                continue
            if only is None or operator in only:
                found.add(operator)
                pending += self.operands[operator]
        return found

    def ahead(self, values: Iterable[int]) -> set[int]:
        """Return the operators that depend on these values."""
        found, pending = set[int](), list(values)
        while pending:
            for operator in self.graph.readers[pending.pop()]:
                if operator not in found:
                    found.add(operator)
                    pending += self.results[operator]
        return found

    def given(self, operators: Iterable[int]) -> list[int]:
        """Return the values that these operators read but do not produce, except constants and variables."""
        chosen, values = list(operators), self.graph.values
        made, inputs = set(self.made_by(chosen)), set(self.graph.inputs.tolist())
        return [
            value
            for value in dict.fromkeys(self.read_by(chosen))
            if value not in made and (self.producer[value] >= 0 or value in inputs) and not values.is_variable[value]
        ]

    def seen_outside(self, operators: Iterable[int]) -> list[int]:
        """Return these operators' results that are graph outputs, read by other operators, or not read at all."""
        chosen, ends, readers = set(operators), set(self.graph.outputs.tolist()), self.graph.readers
        made = dict.fromkeys(self.made_by(sorted(chosen)))
        return [
            value for value in made if value in ends or not readers[value] or not chosen.issuperset(readers[value])
        ]
