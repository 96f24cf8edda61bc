"""The operators between tensors: the smallest part of a subgraph that can run as a model of its own.

Between inputs and outputs are the operators that depend on the inputs and that the outputs depend on. What these read
besides and nobody there makes is a further input; what depends on no input of the model goes along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from circletools.errors import EditError
from circletools.model.model import Model
from circletools.split.state import read_state
from circletools.split.uses import Kept
from circletools.surgery.needed import Flow
from circletools.surgery.tensors import TensorNames
from circletools.wording import ranges

_LISTED = 20  # operators that a hint names


@dataclass(frozen=True, slots=True)
class Cut:
    """Operators of a subgraph, ascending, and the tensors that go in and come out.

    `further` are inputs that were not asked for, `between` operators that were not.
    """

    subgraph: int
    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    further: tuple[int, ...] = ()
    between: tuple[int, ...] = ()


class Cutter:
    """Finds cuts of one subgraph. Raises ModelFormatError where its operators are in a cycle."""

    def __init__(self, model: Model, subgraph: int) -> None:
        self.model, self.subgraph = model, subgraph
        self.names = TensorNames(model, subgraph)
        self.flow = Flow(model, subgraph)
        self.state = read_state(model, subgraph)
        view = model.subgraphs[subgraph]
        self.given: list[int] = list(dict.fromkeys(view.inputs.tolist()))
        self.results: list[int] = list(dict.fromkeys(view.outputs.tolist()))

    # ------------------------------------------------------------------ ways to say what is cut

    def between(self, inputs: Sequence[int], outputs: Sequence[int]) -> Cut:
        """Return the cut from `inputs` to `outputs`; without outputs, to all those of the subgraph that they reach.

        Raises EditError where there is no such cut.
        """
        for tensor in inputs:
            self._check_input(tensor)
        ahead = self.flow.ahead(inputs)
        wanted = list(outputs) or [
            tensor for tensor in self.results if self.flow.maker[tensor] in ahead and tensor not in inputs
        ]
        if not wanted:
            raise self._refusal("none of the outputs depends on these inputs", inputs[0], "name outputs with --to")
        for tensor in wanted:
            self._check_output(tensor, inputs)
            if self.flow.maker[tensor] not in ahead:
                raise self._refusal("it depends on none of the inputs", tensor, "name others with --from or --to")
        needed = self.flow.behind(wanted, set(inputs))
        chosen = needed & ahead
        chosen |= self._independent(chosen, needed, inputs)
        read = {tensor for operator in chosen for tensor in self.flow.reads[operator]}
        idle = next((tensor for tensor in inputs if tensor not in read), None)
        if idle is not None:
            raise self._refusal("the outputs do not need it as an input", idle, "leave it out of --from")
        return self._cut(chosen, inputs, wanted)

    def before(self, outputs: Sequence[int]) -> Cut:
        """Return the cut from the inputs of the subgraph to `outputs`, with those inputs alone that they need."""
        for tensor in outputs:
            self._check_output(tensor, ())
        return self._cut(self._with_state(self.flow.behind(outputs, self.given)), (), outputs)

    def of(self, operators: Iterable[int]) -> Cut:
        """Return the cut with these operators and those that lie between them."""
        asked = set(operators)
        made = [tensor for operator in asked for tensor in self.flow.makes[operator]]
        read = [tensor for operator in asked for tensor in self.flow.reads[operator]]
        between = self.flow.ahead(made) & self.flow.behind(read)
        chosen = asked | between
        constants = set(self.flow.facts.folded)
        chosen |= self.flow.behind((tensor for one in chosen for tensor in self.flow.reads[one]), only=constants)
        readers = self.flow.readers()
        everything = [tensor for operator in sorted(chosen) for tensor in self.flow.makes[operator]]
        outside = [
            tensor
            for tensor in everything
            if tensor in self.results or not chosen.issuperset(readers.get(tensor, ()))
        ]
        outputs = outside or [tensor for tensor in everything if tensor not in readers]
        if not outputs:
            raise EditError(
                "these operators have no outputs",
                location=self.names.place,
                hint="choose operators that compute something",
            )
        return self._cut(chosen, (), self._ordered(outputs, self.results), tuple(sorted(between - asked)))

    def whole(self, inputs: Sequence[int], outputs: Sequence[int], operators: Iterable[int]) -> Cut:
        """Return the cut of a signature: its inputs and outputs, and the operators that it needs."""
        return self._cut(set(operators), self._ordered(inputs, self.given), self._ordered(outputs, self.results))

    # ------------------------------------------------------------------ parts of them

    def _cut(
        self, chosen: set[int], inputs: Sequence[int], outputs: Sequence[int], between: tuple[int, ...] = ()
    ) -> Cut:
        """Complete the inputs, and check what no cut may do."""
        chosen = self._with_names(chosen)
        self._check_state(chosen)
        made = {tensor for operator in chosen for tensor in self.flow.makes[operator]}
        double = next((tensor for tensor in inputs if tensor in made), None)
        if double is not None:
            message = f"it would be an input, and operator {self.flow.maker[double]} makes it"
            raise self._refusal(message, double, "leave it out of --from, or name all that this operator makes")
        given = set(self.given)
        read = (tensor for operator in sorted(chosen) for tensor in self.flow.reads[operator])
        missing = {
            tensor for tensor in read if tensor not in made and (self.flow.maker[tensor] >= 0 or tensor in given)
        } - set(inputs)
        further = self._ordered(missing, self.given)
        for what, tensors in (("an input", (*inputs, *further)), ("an output", outputs)):
            held = next((tensor for tensor in tensors if self.flow.facts.is_handle[tensor]), None)
            if held is not None:
                message = f"it is a {self._type(held).lower()}, which cannot be {what} of a model"
                raise self._refusal(message, held, "cut elsewhere, so that all that use it are inside or outside")
        return Cut(self.subgraph, tuple(sorted(chosen)), (*inputs, *further), tuple(outputs), tuple(further), between)

    def _ordered(self, tensors: Iterable[int], first: Sequence[int]) -> list[int]:
        rank = {tensor: index for index, tensor in enumerate(first)}
        return sorted(set(tensors), key=lambda tensor: (rank.get(tensor, len(rank)), tensor))

    def _independent(self, chosen: set[int], needed: set[int], inputs: Sequence[int]) -> set[int]:
        """Return the operators that the chosen ones need and that depend on no input and no state."""
        fed = self.flow.ahead([*self.given, *inputs]).union(*self.state.users.values())
        read = [tensor for one in chosen for tensor in self.flow.reads[one]]
        return self.flow.behind(read, set(inputs), only=needed - fed)

    def _with_state(self, chosen: set[int]) -> set[int]:
        """Add the operators that use the same state as the chosen ones, and what they need."""
        while (torn := self._torn(chosen)) is not None:
            read = [tensor for one in torn[1] for tensor in self.flow.reads[one]]
            chosen = chosen.union(torn[1], self.flow.behind(read, self.given))
        return chosen

    def _with_names(self, chosen: set[int]) -> set[int]:
        """Add the operators that name what the chosen ones use, or give it its first value."""
        return chosen | {one for one, users in self.state.copied.items() if not chosen.isdisjoint(users)}

    def _torn(self, chosen: set[int]) -> tuple[Kept, list[int]] | None:
        """Return operators that use the same state, of which some are chosen and some not."""
        for kept, users in self.state.users.items():
            if 0 < len(chosen.intersection(users)) < len(users):
                return kept, users
        return None

    def _check_state(self, chosen: set[int]) -> None:
        torn = self._torn(chosen)
        if torn is not None:
            kept, users = torn
            inside, outside = (next(one for one in users if (one in chosen) is there) for there in (True, False))
            raise EditError(
                f"operators {inside} and {outside} use {kept}, and the cut would part them",
                location=self.names.place,
                hint=f"take all of operators {_shown(users)}, or none of them",
            )

    def _check_input(self, tensor: int) -> None:
        is_constant = bool(self.flow.facts.values.is_constant[tensor]) and self.flow.maker[tensor] < 0
        if is_constant and tensor not in self.given:
            raise self._refusal("it is a constant, not an input", tensor, "leave it out of --from")
        if self.flow.facts.values.is_variable[tensor]:
            raise self._refusal("it keeps its value between runs, and is no input", tensor, "leave it out of --from")

    def _check_output(self, tensor: int, inputs: Sequence[int]) -> None:
        if tensor in inputs:
            raise self._refusal("it would be an input and an output", tensor, "leave it out of --from or --to")
        if self.flow.maker[tensor] < 0:
            raise self._refusal("no operator makes it", tensor, "name what an operator computes with --to")

    def _type(self, tensor: int) -> str:
        return self.model.subgraphs[self.subgraph].tensors[tensor].type

    def _refusal(self, message: str, tensor: int, hint: str) -> EditError:
        return EditError(
            f"{self.names.shown(tensor)}: {message}", location=f"{self.names.place}.tensors[{tensor}]", hint=hint
        )


def _shown(operators: Sequence[int]) -> str:
    return ranges(operators[:_LISTED]) + (", …" if len(operators) > _LISTED else "")
