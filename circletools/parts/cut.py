"""The operators between tensors: the smallest part of a graph that can run as a separate model.

Operators lie between inputs and outputs if they depend on the inputs and the outputs depend on them. Anything else
that they read but none of them produces becomes an additional input; operators without inputs are included.

    x -> A -> b -> B -> c -> C -> y         B and D lie between b and c; d becomes an input,
    d ------------ ^                        but e does not, since D depends only on constants
    k -> D -> e -- ^
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.errors import EditError
from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.reach import Reach
from circletools.graph.resources import State
from circletools.parts.names import TensorNames
from circletools.wording import ranges

_LISTED = 20  # the maximum number of operators that a hint names


@dataclass(frozen=True, slots=True)
class Cut:
    """Operators of a graph, in ascending order, and the tensors that enter and leave them.

    `further` holds the inputs, and `between` the operators, that were not requested.
    """

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    further: tuple[int, ...] = ()
    between: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cutter:
    """Finds cuts of a graph; each method raises EditError if there is no such cut.

    `state` describes the resources, such as variables, that operators share; a cut must not separate their users.
    """

    graph: Graph
    state: State

    def between(self, inputs: Sequence[int], outputs: Sequence[int]) -> Cut:
        """Return the cut from `inputs` to `outputs`; the default is all outputs of the graph that depend on them."""
        for tensor in inputs:
            self._check_input(tensor)
        reach = self._reach
        ahead = reach.ahead(inputs)
        wanted = list(outputs) or [
            tensor for tensor in self._results if reach.producer[tensor] in ahead and tensor not in inputs
        ]
        if not wanted:
            raise self._refusal("none of the outputs depends on these inputs", inputs[0], "name outputs with `to=`")
        for tensor in wanted:
            self._check_output(tensor, inputs)
            if reach.producer[tensor] not in ahead:
                raise self._refusal("it depends on none of the inputs", tensor, "change `from_=` or `to=`")
        needed = reach.behind(wanted, set(inputs))
        chosen = needed & ahead
        # Operators that these need are included if they depend on neither inputs nor state.
        fed = reach.ahead([*self._given, *inputs]).union(*self.state.users.values())
        chosen |= reach.behind(reach.read_by(chosen), set(inputs), only=needed - fed)
        read = set(reach.read_by(chosen))
        idle = next((tensor for tensor in inputs if tensor not in read), None)
        if idle is not None:
            raise self._refusal("the outputs do not need it as an input", idle, "leave it out of `from_=`")
        return self._cut(chosen, inputs, wanted)

    def before(self, outputs: Sequence[int]) -> Cut:
        """Return the cut from the inputs of the graph to `outputs`, with only the inputs that they need."""
        for tensor in outputs:
            self._check_output(tensor, ())
        chosen = self._reach.behind(outputs, self._given)
        while (divided := self._divided_resource(chosen)) is not None:  # users of the same state belong together
            chosen = chosen.union(divided[1], self._reach.behind(self._reach.read_by(divided[1]), self._given))
        return self._cut(chosen, (), outputs)

    def of(self, operators: Iterable[int]) -> Cut:
        """Return the cut with these operators and all operators between them."""
        asked, reach, readers = set(operators), self._reach, self.graph.readers
        between = reach.ahead(reach.made_by(asked)) & reach.behind(reach.read_by(asked))
        chosen = asked | between
        chosen |= reach.behind(reach.read_by(chosen), only=set(self.graph.folded))
        made = reach.made_by(sorted(chosen))
        outside = [tensor for tensor in made if tensor in self._results or not chosen.issuperset(readers[tensor])]
        outputs = outside or [tensor for tensor in made if not readers[tensor]]
        if not outputs:
            raise EditError(
                "these operators have no outputs",
                location=self.graph.place(),
                hint="choose operators that compute something",
            )
        return self._cut(chosen, (), ordered(outputs, self._results), tuple(sorted(between - asked)))

    def whole(self, inputs: Sequence[int], outputs: Sequence[int], operators: Iterable[int]) -> Cut:
        """Return the cut of a signature: its inputs and outputs, and the operators that it needs."""
        return self._cut(set(operators), ordered(inputs, self._given), ordered(outputs, self._results))

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self.graph)

    @cached_property
    def _given(self) -> dict[int, None]:
        return dict.fromkeys(self.graph.inputs.tolist())

    @cached_property
    def _results(self) -> dict[int, None]:
        return dict.fromkeys(self.graph.outputs.tolist())

    def _cut(
        self, chosen: set[int], inputs: Sequence[int], outputs: Sequence[int], between: tuple[int, ...] = ()
    ) -> Cut:
        """Add missing operators and inputs, and check the conditions that every cut must meet."""
        chosen = chosen | {one for one, users in self.state.copied.items() if not chosen.isdisjoint(users)}
        self._check_state(chosen)
        reach, made = self._reach, set(self._reach.made_by(chosen))
        double = next((tensor for tensor in inputs if tensor in made), None)
        if double is not None:
            message = f"it would be an input, but operator {reach.producer[double]} produces it"
            raise self._refusal(message, double, "leave it out of `from_=`, or name all outputs of this operator")
        read = set(reach.read_by(chosen)).difference(made, inputs)
        further = ordered((one for one in read if reach.producer[one] >= 0 or one in self._given), self._given)
        for what, tensors in (("an input", (*inputs, *further)), ("an output", outputs)):
            held = next((tensor for tensor in tensors if self.graph.is_handle[tensor]), None)
            if held is not None:
                message = f"it is a {self.graph.values.types[held].lower()}, which cannot be {what} of a model"
                raise self._refusal(message, held, "cut elsewhere, so that all its users are on the same side")
        return Cut(tuple(sorted(chosen)), (*inputs, *further), tuple(outputs), tuple(further), between)

    def _divided_resource(self, chosen: set[int]) -> tuple[str, list[int]] | None:
        """Return a resource of which only some users are chosen, and all its users."""
        users = self.state.users.items()
        return next((use for use in users if 0 < len(chosen.intersection(use[1])) < len(use[1])), None)

    def _check_state(self, chosen: set[int]) -> None:
        divided = self._divided_resource(chosen)
        if divided is not None:
            resource, users = divided
            inside, outside = (next(one for one in users if (one in chosen) is there) for there in (True, False))
            shown = ranges(users[:_LISTED]) + (", …" if len(users) > _LISTED else "")
            raise EditError(
                f"operators {inside} and {outside} use {resource}, and the cut would separate them",
                location=self.graph.place(),
                hint=f"take either all or none of the operators {shown}",
            )

    def _check_input(self, tensor: int) -> None:
        values = self.graph.values
        if values.is_constant[tensor] and self._reach.producer[tensor] < 0 and tensor not in self._given:
            raise self._refusal("it is a constant, not an input", tensor, "leave it out of `from_=`")
        if values.is_variable[tensor]:
            raise self._refusal("it keeps its value between runs", tensor, "leave it out of `from_=`")

    def _check_output(self, tensor: int, inputs: Sequence[int]) -> None:
        if tensor in inputs:
            raise self._refusal("it would be an input and an output", tensor, "leave it out of `from_=` or `to=`")
        if self._reach.producer[tensor] < 0:
            raise self._refusal("no operator produces it", tensor, "use `to=` with the output of an operator")

    def _refusal(self, message: str, tensor: int, hint: str) -> EditError:
        shown = TensorNames(self.graph).shown(tensor)
        return EditError(f"{shown}: {message}", location=f"{self.graph.place()}.tensors[{tensor}]", hint=hint)


def ordered(tensors: Iterable[int], first: Iterable[int]) -> list[int]:
    """Return each tensor once: those in `first`, in the order of `first`, then the others in ascending order."""
    rank = {tensor: index for index, tensor in enumerate(dict.fromkeys(first))}
    return sorted(set(tensors), key=lambda tensor: (rank.get(tensor, len(rank)), tensor))


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
