"""Change the signatures of a model, and the order and number of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.edit.signatures import SIDES, Direction
from circletools.errors import EditError, UsageError, shortened
from circletools.findings import Finding
from circletools.flatbuf.columns import OBJECT_BYTES
from circletools.graph.build import model_graph
from circletools.graph.reach import Reach
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import Model
from circletools.parts.metadata import ENDS_TABLE
from circletools.parts.names import TensorNames, graph_at, listed, proper, quoted, unique_names
from circletools.surgery.rename import Pair, split_pair
from circletools.wording import Attributes, suggestion


@dataclass(frozen=True, slots=True)
class SignatureRequest(Attributes):
    """A signature to add, and the keys of signatures to remove first.

    `inputs` and `outputs` are pairs of a name and a tensor, as in `image=serving_default_x:0`; the default is all
    inputs or outputs of `subgraph`, under the names of their tensors.
    """

    add: str | None = None
    inputs: tuple[Pair, ...] = ()
    outputs: tuple[Pair, ...] = ()
    remove: tuple[str, ...] = ()
    subgraph: int = 0


def sign(edit: ModelEdit, request: SignatureRequest) -> RewriteResult:
    """Remove and add signatures in an edit.

    Raises UsageError if a signature or tensor does not exist, and EditError if the key is taken or a tensor is not an
    input or output of the subgraph.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.sign(edit, ct.surgery.SignatureRequest("detect", ("image=x",), ("boxes=Identity",)))
    ...     edit.save("out.tflite")
    """
    changes = []
    for key in dict.fromkeys(request.remove):
        if not edit.signatures.remove(key):
            keys = [one.key for one in edit.signatures.now]
            hint = suggestion(key, keys) if keys else "there are none"
            raise UsageError(f"no signature is called {quoted(key)}", hint=hint)
        changes.append(f"signature {quoted(key)}: removed")
    added = RewriteResult(()) if request.add is None else _add(edit, request, request.add)
    return RewriteResult((*changes, *added.changes), added.notes)


def _add(edit: ModelEdit, request: SignatureRequest, key: str) -> RewriteResult:
    names = TensorNames(graph_at(model_graph(edit.model), request.subgraph), edit.new_names)
    inputs, outputs = (
        _ends(names, side, pairs, list(dict.fromkeys(edit.ends(request.subgraph, side))))
        for side, pairs in zip(SIDES, (request.inputs, request.outputs), strict=True)
    )
    _check_text(key)
    known = [(one.subgraph, one.inputs, one.outputs) for one in edit.signatures.now if one.key == key]
    if known == [(request.subgraph, inputs, outputs)]:
        return RewriteResult(())
    if known:
        hint = f"use another key, or add `remove={shortened(key, 100)}`"
        raise EditError(f"there is already a signature {quoted(key)}", hint=hint)
    edit.set_signature(key, inputs, outputs, request.subgraph)
    named = {tensor for _, tensor in inputs}
    missing = [names.shown(at) for at in dict.fromkeys(edit.ends(request.subgraph, "inputs")) if at not in named]
    messages = (f"signature {quoted(key)} has no name for input {one}" for one in missing[:20])
    notes = (Finding("INPUT_WITHOUT_NAME", "warning", f"{names.place}.inputs", message) for message in messages)
    shown = (listed([name for name, _ in side]) for side in (inputs, outputs))
    return RewriteResult((f"signature {quoted(key)}: {' -> '.join(shown)}",), tuple(notes))


def _ends(names: TensorNames, side: Direction, pairs: Sequence[Pair], ends: Sequence[int]) -> list[tuple[str, int]]:
    if not pairs:
        return list(zip(unique_names((proper(names.names[at]) for at in ends), side[:-1]), ends, strict=True))
    found: dict[str, int] = {}
    for pair in pairs:
        name, words = split_pair(pair)
        _check_text(name)
        tensor = names.find(words)
        if tensor not in ends:
            hint = "`circletool expose` adds an output" if side == "outputs" else "name one of its inputs"
            message = f"{names.shown(tensor)} is not an {side[:-1]} of the subgraph"
            raise EditError(message, location=f"{names.place}.tensors[{tensor}]", hint=hint)
        if name in found:
            raise UsageError(f"two {side} are called {quoted(name)}", hint="give each a unique name")
        found[name] = tensor
    return list(found.items())


def _check_text(name: str) -> None:
    if not name or "\0" in name or not proper(name):
        raise UsageError(f"{quoted(name)} is not a valid signature name", hint="use nonempty UTF-8 text without NUL")


def reorder(
    edit: ModelEdit, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None, *, subgraph: int = 0
) -> RewriteResult:
    """Reorder the inputs and outputs of a subgraph; `inputs` and `outputs` list the old positions in the new order.

    Signatures do not depend on the order and do not change. Raises UsageError unless every position occurs exactly
    once, and EditError if operators call the subgraph.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.reorder(edit, outputs=(1, 0))
    ...     edit.save("out.tflite")
    """
    names = TensorNames(graph_at(model_graph(edit.model), subgraph), edit.new_names)
    _check_not_called(edit.model, subgraph, names.place)
    changes = []
    for side, order in zip(SIDES, (inputs, outputs), strict=True):
        if order is None:
            continue
        ends = edit.ends(subgraph, side)
        if sorted(order) != list(range(len(ends))):
            positions = f"0 to {len(ends) - 1}" if ends else "none"
            message = f"{','.join(map(str, order))} does not contain the position of every {side[:-1]} once"
            raise UsageError(message, location=names.place, hint=f"give each position once: {positions}")
        after = [ends[position] for position in order]
        if after != ends:
            (edit.set_inputs if side == "inputs" else edit.set_outputs)(subgraph, after)
            changes.append(f"{side}: {listed([names.names[tensor] for tensor in after])}")
    return RewriteResult(tuple(changes), tuple(_drop_description(edit)) if changes else ())


def expose(
    edit: ModelEdit, tensors: Iterable[str] = (), *, every: Iterable[str] = (), subgraph: int = 0
) -> RewriteResult:
    """Append tensors to the outputs, so that a run of the model returns their values.

    `tensors` are names, or `index:12`; `every` holds operator codes (globs) and adds all outputs of such operators.
    The subgraph's signatures get the new outputs too. Raises UsageError if a tensor or operator code does not exist,
    and EditError if a tensor cannot be an output or operators call the subgraph.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.expose(edit, every=("CONV_2D",))
    ...     edit.save("out.tflite")
    """
    graph = graph_at(model_graph(edit.model), subgraph)
    names, reach = TensorNames(graph, edit.new_names), Reach(graph)
    _ = graph.dag  # raises the errors of an invalid graph
    _check_not_called(edit.model, subgraph, names.place)
    outputs = edit.ends(subgraph, "outputs")
    wanted = [names.find(words) for words in tensors]
    for tensor in wanted:
        why = hint = ""
        if tensor not in outputs and (tensor >= len(graph.values) or reach.producer[tensor] < 0):
            why = "no operator produces it"
            hint = "leave it out: the value of an input or constant is already known"
        elif tensor < len(graph.values) and graph.is_handle[tensor]:
            why = "it holds a resource or a variant, not values"
            hint = "expose the outputs of the operators that read it"
        if why:
            raise EditError(f"{names.shown(tensor)}: {why}", location=f"{names.place}.tensors[{tensor}]", hint=hint)
    for code in every:
        chosen = Chooser(model_graph(edit.model)).choose(parse_selector(f"{subgraph}/op:{code}"))
        made = (tensor for operator in chosen.get(subgraph, ()) for tensor in reach.results[operator])
        wanted += [tensor for tensor in made if not graph.is_handle[tensor]]
    new = [tensor for tensor in dict.fromkeys(wanted) if tensor not in outputs]
    if not new:
        return RewriteResult(())
    signatures = sum(one.subgraph == subgraph for one in edit.signatures.now)
    size = sum(OBJECT_BYTES + len(names.names[at]) for at in new)
    edit.model.wire.budget.charge("the new outputs in all signatures", signatures * size)
    edit.set_outputs(subgraph, [*outputs, *new])
    for index, one in enumerate(edit.signatures.now):
        if one.subgraph == subgraph:
            own = [name for name, _ in one.outputs]
            called = unique_names([*own, *(proper(names.names[at]) for at in new)], "output")
            for name, tensor in zip(called[len(own) :], new, strict=True):
                edit.signatures.add_entry(index, "outputs", name, tensor)
    lines = (f"output {slot}: {names.shown(tensor)}" for slot, tensor in enumerate(new, len(outputs)))
    return RewriteResult(tuple(lines), tuple(_drop_description(edit)))


def _check_not_called(model: Model, subgraph: int, place: str) -> None:
    if any(subgraph in called for called in model_graph(model).callees.values()):
        raise EditError(
            "operators call this subgraph, and pass its inputs and outputs by position",
            location=place,
            hint="choose the subgraph of a signature, or subgraph 0",
        )


def _drop_description(edit: ModelEdit) -> Iterator[Finding]:
    """Remove metadata that describes inputs and outputs by position."""
    if edit.remove_metadata(ENDS_TABLE):
        message = f"metadata {ENDS_TABLE} is left out: it describes inputs and outputs by position"
        yield Finding("METADATA_LEFT_OUT", "info", "", message)
