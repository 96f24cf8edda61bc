"""Fix outputs and test whether programs still accept the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from circletools import runtimes
from circletools.asking import as_file
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import EditError
from circletools.findings import Finding
from circletools.graph.build import graph_of, model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.rows import Subgraph
from circletools.outputs.analysis import LEFT_ALONE, AliasedOutput, AliasKind, aliased_outputs, reused_outputs
from circletools.outputs.copyops import CopyChoice, CopyOperator, CopyRuntime, choose_copy_operator

# Rules, in this order, as in onert's passes (ConstantOutputPass, OddOutputPass):
#     0. an output that is a constant is replaced by a copy of the constant
#     1. an output that is an input is replaced by a copy of the input
#     2. of equal outputs, the first keeps the tensor, and each later one is replaced by a copy; in a subgraph that a
#        user calls, the first is replaced too if IF or WHILE computes the tensor: when onert allocates the model's
#        outputs itself, other operators read zeros from such an output
#     3. on request, an output that an operator also reads is replaced by a copy; for onert, even if only the copies
#        may run after its last reader
# All copies read the original tensor (not another copy) and are appended, so operator indices do not change.

_COPY_BYTES = 4 << 10  # bytes charged to the budget for each copy, because it takes time
_DONE = {
    AliasKind.CONSTANT: "a copy of the constant",
    AliasKind.INPUT: "a copy of the input",
    AliasKind.DUPLICATE: "a copy of the earlier output",
    AliasKind.TAP: "a copy of the tensor that operators read",
}


@dataclass(frozen=True, slots=True)
class FixOptions:
    """The options of `fix_outputs`, which explains them."""

    subgraphs: str | tuple[int, ...] = "entry"
    copy_operator: CopyChoice = "auto"
    runtime: CopyRuntime = "auto"
    keep_constants: bool = False
    detach_taps: bool = False


def copy_outputs(edit: ModelEdit, options: FixOptions) -> RewriteResult:
    """Copy the outputs whose tensor has another use. Raises EditError before any change is made."""
    model, whole = edit.model, model_graph(edit.model)
    found = aliased_outputs(whole, options.subgraphs, constants=not options.keep_constants, copies=True)
    patterns = whole.source.patterns if options.subgraphs == "all" else frozenset[int]()
    chosen: defaultdict[int, list[tuple[AliasedOutput, CopyOperator]]] = defaultdict(list)
    notes = [one.finding("info", "it is not copied") for one in found if one.kind is AliasKind.UNPRODUCED]
    charge = model.wire.budget.tally("copies of outputs")
    for output in _to_copy(whole, found, options):
        charge(_COPY_BYTES)
        if output.subgraph in patterns:
            notes.append(output.finding("info", LEFT_ALONE))
            continue
        operator = choose_copy_operator(whole, output, options.copy_operator, options.runtime)
        chosen[output.subgraph].append((output, operator))
        if operator.inexact_in:
            message = f"{operator.code} does not copy this tensor exactly in {operator.inexact_in}"
            notes.append(output.finding("warning", message))
    for at in chosen:
        if edit.ends(at, "outputs") != model.subgraphs[at].outputs.tolist():
            hint = "save this edit first, and fix the outputs in another edit"
            raise EditError("this edit has changed the outputs", location=f"subgraphs[{at}].outputs", hint=hint)
    # onert treats a tensor with an empty data vector as a constant, and would copy memory that was never written.
    buffers = {0} | {int(whole.graphs[at].values.buffers[one.tensor]) for at in chosen for one, _ in chosen[at]}
    dropped = sorted(filter(edit.drop_empty_data, buffers)) if chosen else []
    changes = [f"buffers[{buffer}]: removed the empty data vector" for buffer in dropped]
    for subgraph, copies in chosen.items():
        changes += _SubgraphFix(edit, model.subgraphs[subgraph]).apply(copies)
    return RewriteResult(tuple(changes), tuple(notes))


def _to_copy(model: ModelGraph, outputs: list[AliasedOutput], options: FixOptions) -> list[AliasedOutput]:
    """Return the outputs to copy, from those that `aliased_outputs` returns with `copies`."""
    left = (AliasKind.UNPRODUCED,) if options.detach_taps else (AliasKind.UNPRODUCED, AliasKind.TAP)
    more = copied = {output for output in outputs if output.kind not in left}
    taps = {output for output in outputs if output.kind is AliasKind.TAP} - copied
    shared = {(output.subgraph, output.tensor) for output in copied if output.kind is AliasKind.DUPLICATE}
    for output in taps:
        codes = model.graphs[output.subgraph].operators.code_names
        again = (output.subgraph, output.tensor) in shared and output.producer >= 0
        if output.subgraph in model.entries and again and codes[output.producer] in ("IF", "WHILE"):
            copied.add(output)
    while more and (model.source.format == "circle" or options.runtime in ("onert", "both")):
        graph, tensors = model.graphs[0], [output.tensor for output in copied if output.subgraph == 0]
        unsafe = reused_outputs(graph, tensors) - reused_outputs(graph)
        more = {output for output in taps - copied if output.subgraph == 0 and output.tensor in unsafe}
        copied |= more
    return [output for output in outputs if output in copied]


class _SubgraphFix:
    """Adds the copies to one subgraph."""

    def __init__(self, edit: ModelEdit, subgraph: Subgraph) -> None:
        self.edit, self.subgraph = edit, subgraph
        self.charge = edit.model.wire.budget.tally(f"the names of copies in subgraphs[{subgraph.index}]")
        self.names = set(graph_of(edit.model, subgraph.index).values.names)
        self.numbers: dict[str, int] = {}  # a name -> the last number appended to it
        self.operands: dict[tuple[int, ...], int] = {}  # the value of a second input -> the constant tensor with it
        self.shapes: dict[int, int] = {}  # a tensor -> the tensor with its shape

    def apply(self, copies: list[tuple[AliasedOutput, CopyOperator]]) -> list[str]:
        before = self.subgraph.outputs.tolist()
        outputs, changes = list(before), []
        for output, operator in copies:
            outputs[output.slot] = self.copy(output, operator)
            changes.append(f"subgraphs[{output.subgraph}].outputs[{output.slot}] {output.name}: {_DONE[output.kind]}")
        self.edit.set_outputs(self.subgraph.index, outputs)
        self.follow_signatures(before, outputs)
        return changes

    def copy(self, output: AliasedOutput, operator: CopyOperator) -> int:
        """Append a copy of the tensor; return the copy's index."""
        edit, subgraph = self.edit, output.subgraph
        target = edit.add_tensor_like(subgraph, output.tensor, self.unique(f"{output.name}_permute"))
        code = edit.add_operator_code(operator.code, operator.version)
        inputs, options = [output.tensor], None if operator.options is None else (operator.options, dict[str, int]())
        inherits = [output.producer] if output.producer >= 0 else []
        if operator.operand is not None:
            inputs.append(self.operand(operator.operand))
        if operator.reads_shape:
            if output.tensor not in self.shapes:
                self.shapes[output.tensor] = self.shape_of(output, inherits)
            inputs.append(self.shapes[output.tensor])
        edit.add_operator(subgraph, code, inputs, [target], options=options, inherits=inherits)
        return target

    def shape_of(self, output: AliasedOutput, inherits: list[int]) -> int:
        """Append a SHAPE operator; return its output tensor."""
        edit, subgraph = self.edit, output.subgraph
        name = self.unique(f"{output.name}_shape")
        # onert prepares other subgraphs with the shapes in the file, and accepts no dynamic dimension there.
        signature = [-1] if subgraph == 0 else None
        shape = edit.add_tensor(subgraph, name, type="INT32", shape=[1], shape_signature=signature)
        code = edit.add_operator_code("SHAPE", 1)
        options = ("ShapeOptions", {"out_type": edit.model.schema.enum_value("TensorType", "INT32")})
        edit.add_operator(subgraph, code, [output.tensor], [shape], options=options, inherits=inherits)
        return shape

    def operand(self, value: tuple[int, ...]) -> int:
        """Return a constant tensor with this value; equal values share a tensor."""
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
        """Return the name, with a number appended if a tensor already has the name."""
        number = self.numbers.get(name, 1)
        candidate = name if number == 1 else f"{name}_{number}"
        while (raw := candidate.encode("utf-8", "surrogateescape")) in self.names:
            number += 1
            candidate = f"{name}_{number}"
        self.charge(len(raw))
        self.names.add(raw)
        self.numbers[name] = number
        return candidate

    def follow_signatures(self, before: list[int], after: list[int]) -> None:
        """Make signatures refer to the new output tensors.

        If a signature has several names for one tensor, the k-th name belongs to the k-th output that is this tensor
        (or to the last such output if there are fewer).
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


def fix_outputs(
    edit: ModelEdit,
    subgraphs: str | Iterable[int] = "entry",
    *,
    copy_operator: CopyChoice = "auto",
    runtime: CopyRuntime = "auto",
    keep_constants: bool = False,
    detach_taps: bool = False,
    with_: Sequence[str] = (),
) -> RewriteResult:
    """Give each output of these subgraphs its own tensor.

    `subgraphs` are indices, `entry` (the main subgraph and those that a signature names) or `all` (except those that
    runtimes recognize by their operators). Copies are exact in `runtime`. With `keep_constants`, a constant is copied
    only if it is also an earlier output; with `detach_taps`, outputs that an operator reads are copied too. `with_`
    names programs (docs/runtimes.md): a program that accepts the model as it was opened must accept the result and
    return the same outputs; otherwise the next copy operator is tried. Programs do not see the edit's other changes.

    Raises EditError, before any change, if no operator copies an output exactly, or none keeps the model running in
    all programs; and UsageError if a subgraph does not exist or a program is not installed. The notes list unchanged
    outputs (unproduced, or in subgraphs that `all` skips), copies that are not exact in onert, and refusals.

    >>> with ct.open("in.circle") as model, ct.edit(model) as edit:
    ...     result = ct.outputs.fix(edit)
    ...     edit.save("out.circle")
    """
    chosen = subgraphs if isinstance(subgraphs, str) else tuple(subgraphs)
    options = FixOptions(chosen, copy_operator, runtime, keep_constants, detach_taps)
    options, notes = _accepted_options(edit, options, with_) if with_ else (options, [])
    result = copy_outputs(edit, options)
    return replace(result, notes=(*result.notes, *notes))


def _accepted_options(edit: ModelEdit, options: FixOptions, names: Sequence[str]) -> tuple[FixOptions, list[Finding]]:
    """Return the options with the first copy operator that these programs accept, and notes about refusals."""
    others: tuple[CopyChoice, ...] = ("reshape", "transpose", "concatenation")
    trials = [replace(options, copy_operator=other) for other in others if options.copy_operator == "auto"]
    hint, refusals = "to fix the outputs anyway, leave out `with_=`", defaultdict[str, list[str]](list)
    for trial in (options, *trials):
        with ModelEdit(edit.model) as copied:
            try:
                changes = copy_outputs(copied, trial).changes
            except EditError:
                if trial is options:
                    raise
                continue
            try:
                notes = list(judged(copied, names if changes else (), hint))
            except EditError as error:
                refusals[error.message].append(trial.copy_operator)
                continue
        return trial, [*notes, *(Finding("NOT_LOADED", "warning", "model", one) for one in _listed(refusals))]
    raise EditError(f"no copy operator keeps the model running: {'; '.join(_listed(refusals))}", hint=hint)


def _listed(refusals: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"copies by {', '.join(ways)}: {message}" for message, ways in refusals.items()]


_RUNS = ("litert", "onert", "openvino")  # other programs only load the model


def judged(edit: ModelEdit, names: Sequence[str], hint: str) -> Iterator[Finding]:
    """Yield the refusals that remain. Raises EditError if a program accepts the original model but not the result."""
    if not names:
        return
    with ExitStack() as stack:
        path = stack.enter_context(as_file(edit.model))
        after = Path(stack.enter_context(TemporaryDirectory())) / path.name
        edit.save(after)
        for name in names:
            worker = stack.enter_context(runtimes.Worker(name))
            (was, old), (now, new) = (behavior(worker, one) for one in (path, after))
            if not was and (now or old != new):
                raise EditError(f"{name} now refuses the model: {now or 'the outputs differ'}", hint=hint)
            if was and now:
                yield Finding("NOT_LOADED", "warning", "model", f"{name} still refuses the model: {now}")


def behavior(worker: runtimes.Worker, path: Path) -> tuple[str, list[bytes]]:
    """Return why a program does not accept a model (empty if it does), and the outputs if the program runs models."""
    if worker.runtime not in _RUNS:
        verdict = worker.loads(path)
        return ("" if verdict.status == "ok" else verdict.words or verdict.status), []
    answer = worker.run(path)
    return answer.failure, [output.tobytes() for output in answer.outputs]
