"""Apply the remedies of findings that have exactly one remedy; `codes.json` marks these findings.

Findings that make a program refuse the model are always repaired; others only on request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

from circletools.check import check
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.edit.signatures import SIDES
from circletools.errors import UsageError
from circletools.findings import Finding, explain, explanations
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.outputs.fixing import fix_outputs, judged
from circletools.parts.names import TensorNames, proper, quoted, unique_names
from circletools.surgery.rename import RenameRequest, rename
from circletools.wording import counted


def repair(edit: ModelEdit, only: Sequence[str] = (), *, with_: Sequence[str] = ()) -> RewriteResult:
    """Apply the remedies of findings that make programs refuse the model, or of findings with the codes in `only`.

    `with_` names programs (docs/runtimes.md): a program that accepts the model as it was opened must accept the
    result and return the same outputs. Raises UsageError if a code does not have exactly one remedy, and EditError if
    a program no longer accepts the model.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.surgery.repair(edit)
    ...     edit.save("out.tflite")
    """
    for code in only:
        if not explain(code).repair:
            hint = f"repairable codes: {', '.join(_codes())}"
            raise UsageError(f"{code} cannot be repaired automatically", hint=hint)
    chosen = only or [code for code, kind in _codes().items() if kind == "always"]
    changes: dict[str, None] = {}
    notes: list[Finding] = []
    remedies = dict.fromkeys(REMEDIES[code] for code in _codes() if code in chosen)
    if _taps in remedies:
        remedies.pop(fix_outputs, None)  # `_taps` copies those outputs too
    for remedy in remedies:
        result = remedy(edit)
        changes.update(dict.fromkeys(result.changes))
        notes += result.notes
    if changes:
        notes += judged(edit, with_, "repair fewer codes with `only`")
    return RewriteResult(tuple(changes), tuple(notes if changes else (*notes, *_left(edit.model))))


def _left(model: Model) -> Iterator[Finding]:
    """Yield a note, with the remedy, for each code of errors and warnings that `check` reports."""
    for code, number in Counter(one.code for one in check(model) if one.severity in ("error", "warning")).items():
        rule = explain(code)
        remedy = f"run `repair --only {code}`" if rule.repair == "asked" else rule.remedy
        yield Finding(code, "info", "model", f"{counted(number, 'finding')} not repaired: {remedy}")


def _codes() -> dict[str, str]:
    return {code: rule.repair for code, rule in explanations().items() if rule.repair}


def _quantized_dimensions(edit: ModelEdit) -> RewriteResult:
    """Replace an invalid quantized dimension if exactly one dimension's size is the number of scales."""
    lines = []
    for subgraph in edit.model.subgraphs:
        for tensor in subgraph.tensors:
            found = tensor.quantization
            if not found or not tensor.shape or 0 <= found.axis < len(tensor.shape):
                continue
            scales = len(found.scale)
            able = [0] if scales == 1 else [axis for axis, size in enumerate(tensor.shape) if size == scales]
            if len(able) == 1 and len(found.zero_point) == scales:
                edit.set_quantized_dimension(subgraph.index, tensor.index, able[0])
                place = f"subgraphs[{subgraph.index}].tensors[{tensor.index}]"
                lines.append(f"{place}: quantized_dimension {found.axis} -> {able[0]}")
    return RewriteResult(tuple(lines))


def _names(edit: ModelEdit) -> RewriteResult:
    """Give a unique name to each tensor that has the name of an earlier one."""
    changes: list[str] = []
    new = edit.new_names
    for graph in model_graph(edit.model).graphs:
        names = TensorNames(graph, new)
        twice = [tensor for found in names.found.values() for tensor in found[1:] if names.names[tensor]]
        pairs, numbers = [], defaultdict[str, Iterator[int]](lambda: count(1))
        for tensor in sorted(twice):
            tries = (f"{names.names[tensor]}_{number}" for number in numbers[names.names[tensor]])
            pairs.append((f"index:{tensor}", next(new for new in tries if new not in names.found)))
        if pairs:
            changes += rename(edit, RenameRequest(tensors=tuple(pairs), subgraph=graph.index)).changes
    return RewriteResult(tuple(changes))


def _signatures(edit: ModelEdit) -> RewriteResult:
    """Name unnamed inputs and outputs, and rename entries with an empty or repeated name."""
    lines = []
    new, graphs = edit.new_names, model_graph(edit.model).graphs
    known = {at: TensorNames(graphs[at], new) for at in {one.subgraph for one in edit.signatures.now}}
    for index, one in enumerate(edit.signatures.now):
        names = known[one.subgraph]
        for side in SIDES:
            ends, maps = edit.ends(one.subgraph, side), one.side(side)
            if any(tensor not in ends for _, tensor in maps):
                continue  # the intended tensor is unknown
            named = {tensor for _, tensor in maps}
            missing = [tensor for tensor in dict.fromkeys(ends) if tensor not in named]
            wanted = [name or proper(names.names[tensor]) for name, tensor in maps]
            called = unique_names([*wanted, *(proper(names.names[tensor]) for tensor in missing)], side[:-1])
            for slot, (name, _) in enumerate(list(maps)):
                if name != called[slot]:
                    edit.signatures.set_entry(index, side, slot, name=called[slot])
                    lines.append(f"signature {quoted(one.key)}: {side[:-1]} {slot} is {quoted(called[slot])}")
            for name, tensor in zip(called[len(wanted) :], missing, strict=True):
                edit.signatures.add_entry(index, side, name, tensor)
                lines.append(f"signature {quoted(one.key)}: {side[:-1]} {quoted(name)} added")
    return RewriteResult(tuple(lines))


_taps = partial(fix_outputs, detach_taps=True)
REMEDIES: dict[str, Callable[[ModelEdit], RewriteResult]] = {
    "INVALID_QUANTIZATION": _quantized_dimensions,
    "CONSTANT_OUTPUT": fix_outputs,
    "INPUT_ALIASED_OUTPUT": fix_outputs,
    "DUPLICATE_OUTPUT": fix_outputs,
    "OUTPUT_TAP": _taps,
    "CROSS_DEVICE_TAP": _taps,
    "INVALID_SIGNATURE": _signatures,
    "INCOMPLETE_SIGNATURE": _signatures,
    "DUPLICATE_NAME": _names,
}
"""The remedy of each repairable code in codes.json."""
