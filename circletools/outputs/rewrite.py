"""Giving every output a tensor of its own.

    before                          after
    ADD -> o                        ADD -> o
    outputs: o, o, x (an input)     TRANSPOSE o -> o_permute, TRANSPOSE x -> x_permute
                                    outputs: o, o_permute, x_permute

Rules, in this order, as onert's passes have them (ConstantOutputPass, OddOutputPass):

    0. an output that is a constant gets a copy of it
    1. an output that is an input gets a copy, read from the input
    2. the first of equal outputs keeps the tensor, each later one gets a copy read from it; in a subgraph that a user
       calls, the first gets one too where IF or WHILE computes the tensor: when onert allocates the model's outputs
       itself, other operators read zeros from such an output
    3. on request, an output that an operator reads too gets a copy

Copies are read from the one tensor (a star, not a chain) and stand at the end of the operators, so that every
operator index stays. Order and number of outputs never change, and inputs are never renamed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.model import Model, Subgraph
from circletools.outputs.analysis import OddKind, OddOutput, entry_subgraphs, odd_outputs
from circletools.outputs.copyops import CopyChoice, CopyOperator, choose_copy_operator

_DONE = {
    OddKind.CONSTANT: "a copy of the constant",
    OddKind.INPUT: "a copy of the input",
    OddKind.DUPLICATE: "a copy of the earlier output",
    OddKind.TAP: "a copy of the tensor that operators read",
}


def fix_outputs(
    edit: ModelEdit,
    subgraphs: Iterable[int],
    *,
    copy_operator: CopyChoice = "auto",
    keep_constants: bool = False,
    detach_taps: bool = False,
) -> RewriteResult:
    """Give the outputs of these subgraphs tensors of their own.

    Raises EditError, before anything is changed, for an output that no operator copies exactly.
    """
    model = edit.model
    chosen: defaultdict[int, list[tuple[OddOutput, CopyOperator]]] = defaultdict(list)
    for odd in _to_copy(model, odd_outputs(model, subgraphs, constants=not keep_constants, copies=True), detach_taps):
        chosen[odd.subgraph].append((odd, choose_copy_operator(model, odd, copy_operator)))
    changes = []
    for subgraph, copies in chosen.items():
        changes += _SubgraphFix(edit, model.subgraphs[subgraph]).apply(copies)
    return RewriteResult(tuple(changes))


def _to_copy(model: Model, odds: list[OddOutput], detach_taps: bool) -> Iterator[OddOutput]:
    """Yield the outputs that get a copy, of those that `odd_outputs` finds with `copies`."""
    entries = set(entry_subgraphs(model))
    shared = {(odd.subgraph, odd.tensor) for odd in odds if odd.kind is OddKind.DUPLICATE}
    for odd in odds:
        if odd.kind is OddKind.TAP and not detach_taps:
            if odd.subgraph in entries and (odd.subgraph, odd.tensor) in shared and _by_control_flow(model, odd):
                yield odd
        elif odd.kind is not OddKind.UNPRODUCED:
            yield odd


def _by_control_flow(model: Model, odd: OddOutput) -> bool:
    return odd.producer >= 0 and model.subgraphs[odd.subgraph].operators[odd.producer].code.name in ("IF", "WHILE")


class _SubgraphFix:
    """The copies of one subgraph."""

    def __init__(self, edit: ModelEdit, subgraph: Subgraph) -> None:
        self.edit, self.subgraph = edit, subgraph
        columns = edit.model.tensor_columns
        first, end = columns.splits[subgraph.index : subgraph.index + 2].tolist()
        self.names = set(columns.names[first:end])
        self.numbers: dict[str, int] = {}  # a name -> the last number that was put behind it
        self.operands: dict[tuple[int, ...], int] = {}  # the value of a second input -> its tensor

    def apply(self, copies: list[tuple[OddOutput, CopyOperator]]) -> list[str]:
        before = self.subgraph.outputs.tolist()
        outputs, changes = list(before), []
        for odd, operator in copies:
            outputs[odd.slot] = self.copy(odd, operator)
            changes.append(f"subgraphs[{odd.subgraph}].outputs[{odd.slot}] {odd.name}: {_DONE[odd.kind]}")
        self.edit.set_outputs(self.subgraph.index, outputs)
        self.follow_signatures(before, outputs)
        return changes

    def copy(self, odd: OddOutput, operator: CopyOperator) -> int:
        """Append a copy of the tensor; return the copy's index."""
        edit, subgraph = self.edit, odd.subgraph
        target = edit.add_tensor_like(subgraph, odd.tensor, self.unique(f"{odd.name}_permute"))
        code = edit.add_operator_code(operator.code, operator.version)
        inputs = [odd.tensor]
        inherits = [odd.producer] if odd.producer >= 0 else []
        if operator.operand is not None:
            inputs.append(self.operand(operator.operand))
        if operator.reads_shape:
            inputs.append(self.shape_of(odd, inherits))
        edit.add_operator(
            subgraph,
            code,
            inputs,
            [target],
            options=None if operator.options is None else (operator.options, {}),
            inherits=inherits,
        )
        return target

    def shape_of(self, odd: OddOutput, inherits: list[int]) -> int:
        """Append a SHAPE operator; return the tensor with the shape."""
        edit, subgraph = self.edit, odd.subgraph
        name = self.unique(f"{odd.name}_shape")
        shape = edit.add_tensor(subgraph, name, type="INT32", shape=[1], shape_signature=[-1])
        code = edit.add_operator_code("SHAPE", 1)
        int32 = edit.model.schema.enum_value("TensorType", "INT32")
        options = ("ShapeOptions", {"out_type": int32})
        edit.add_operator(subgraph, code, [odd.tensor], [shape], options=options, inherits=inherits)
        return shape

    def operand(self, value: tuple[int, ...]) -> int:
        """Return the constant tensor that holds this value; equal ones are one."""
        if value not in self.operands:
            self.operands[value] = self.edit.add_tensor(
                self.subgraph.index,
                self.unique(f"copy_operand_{'_'.join(map(str, value))}"),
                type="INT32",
                shape=[len(value)],
                buffer=self.edit.add_buffer(np.array(value, "<i4").tobytes()),
            )
        return self.operands[value]

    def unique(self, name: str) -> str:
        """Return the name, with a number behind it where a tensor has it already."""
        number = self.numbers.get(name, 1)
        candidate = name if number == 1 else f"{name}_{number}"
        while (raw := candidate.encode("utf-8", "surrogateescape")) in self.names:
            number += 1
            candidate = f"{name}_{number}"
        self.names.add(raw)
        self.numbers[name] = number
        return candidate

    def follow_signatures(self, before: list[int], after: list[int]) -> None:
        """Move signature outputs along with the slots that they stand for.

        Where a signature has several names for one tensor, the k-th stands for the k-th slot of that tensor (the
        last one, if there are fewer).
        """
        slots: defaultdict[int, list[int]] = defaultdict(list)
        for slot, tensor in enumerate(before):
            slots[tensor].append(slot)
        for signature in self.edit.model.signatures:
            if signature.subgraph != self.subgraph.index:
                continue
            named: defaultdict[int, int] = defaultdict(int)
            for entry, (_, tensor) in enumerate(signature.outputs):
                if tensor not in slots:
                    continue
                slot = slots[tensor][min(named[tensor], len(slots[tensor]) - 1)]
                named[tensor] += 1
                if after[slot] != tensor:
                    self.edit.set_signature_entry(signature.index, "outputs", entry, after[slot])
