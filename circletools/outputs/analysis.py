"""Find outputs of a subgraph whose tensor is also used for something else.

A runtime lets its user pass a separate buffer for every input and output, so each output needs its own tensor,
computed by an operator. Files can violate this:

    CONSTANT_OUTPUT         the output is a constant
    INPUT_ALIASED_OUTPUT    the output is also an input of the subgraph
    DUPLICATE_OUTPUT        an earlier output is the same tensor
    OUTPUT_TAP              an operator also reads the output
    UNPRODUCED_OUTPUT       the output is neither produced by an operator nor an input or constant

For each output, the first kind that applies is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from circletools.errors import UsageError, shortened
from circletools.findings import Finding, Severity
from circletools.graph.build import model_graph
from circletools.graph.columns import Uses
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.wording import Attributes, Word


class AliasKind(Word):
    """The other use of an output's tensor; the value is the code of the finding."""

    CONSTANT = "CONSTANT_OUTPUT"
    INPUT = "INPUT_ALIASED_OUTPUT"
    DUPLICATE = "DUPLICATE_OUTPUT"
    TAP = "OUTPUT_TAP"
    UNPRODUCED = "UNPRODUCED_OUTPUT"


_REUSED = "onert's `infer` may reuse its memory"
LEFT_ALONE = "leave it unchanged: runtimes recognize this subgraph by its operators"
_MESSAGES = {
    AliasKind.CONSTANT: "is a constant",
    AliasKind.INPUT: "is also input {other}",
    AliasKind.DUPLICATE: "is already output {other}",
    AliasKind.TAP: "is also read by operator {other}",
    AliasKind.UNPRODUCED: "is not an input or constant, and no operator produces it",
}


@dataclass(frozen=True, slots=True)
class AliasedOutput(Attributes):
    """An output (`slot`) whose tensor is not used for that output alone.

    `producer` is the operator that computes the tensor. `other` is the index of whatever else uses it: the input
    (INPUT), the earlier output (DUPLICATE) or the last operator that reads it (TAP). Each is -1 if it does not apply.
    """

    kind: AliasKind
    subgraph: int
    slot: int
    tensor: int
    name: str
    producer: int
    other: int = -1

    def finding(self, severity: Severity, remedy: str) -> Finding:
        """Return the finding for this output, with a remedy."""
        message = f"{shortened(self.name)!r} {_MESSAGES[self.kind].format(other=self.other)}; {remedy}"
        return Finding(self.kind.value, severity, f"subgraphs[{self.subgraph}].outputs[{self.slot}]", message)


def choose_subgraphs(model: ModelGraph, choice: str | Iterable[int]) -> list[int]:
    """Return the subgraphs given as `entry`, `all`, an index as text, or several indices. Raises UsageError."""
    if not isinstance(choice, str):
        return list(choice)
    if choice == "entry":
        return model.entries
    if choice == "all":
        return list(range(len(model)))
    if choice.isascii() and choice.isdigit() and len(choice) < 10 and int(choice) < len(model):
        return [int(choice)]
    raise UsageError(
        f"`subgraphs={choice[:40]}` is not `entry`, `all` or the index of a subgraph",
        hint="edit.save(path) writes the model" if "." in choice else "`circletool inspect` lists them",
    )


def aliased_outputs(
    model: Model | ModelGraph,
    subgraphs: str | Iterable[int] = "entry",
    *,
    constants: bool = True,
    copies: bool = False,
) -> list[AliasedOutput]:
    """Return the outputs of these subgraphs whose tensor is also used for something else, by subgraph and slot.

    `subgraphs` are indices, or a choice as in `choose_subgraphs`. Without `constants`, a constant is reported only if
    it is also an earlier output. With `copies`, the first of several equal outputs counts as a tap, because the
    copies for the others will read it.
    """
    graphs = model_graph(model)
    chosen = [graphs.graphs[index] for index in choose_subgraphs(graphs, subgraphs)]
    return [output for graph in chosen for output in _of_graph(graph, constants, copies)]


def _of_graph(graph: Graph, constants: bool, copies: bool) -> list[AliasedOutput]:
    outputs = graph.outputs.tolist()
    if not outputs:
        return []
    inputs = {tensor: slot for slot, tensor in reversed(list(enumerate(graph.inputs.tolist())))}
    producers, readers = (_last_operator(uses, len(graph.values)) for uses in (graph.definitions, graph.uses))
    values, filled, variable = graph.values, graph.values.model.buffers.filled, graph.values.is_variable
    times = Counter(outputs)
    found, seen, names = [], dict[int, int](), dict[int, str]()
    for slot, tensor in enumerate(outputs):
        producer, reader = int(producers[tensor]), int(readers[tensor])
        kind, other = None, -1
        unproduced = producer < 0 and tensor not in inputs and not variable[tensor]
        constant = unproduced and (filled[values.buffers[tensor]] or 0 in values.shapes.row(tensor))
        if unproduced and not constant:
            kind = AliasKind.UNPRODUCED
        elif constant and constants:
            kind = AliasKind.CONSTANT
        elif tensor in inputs:
            kind, other = AliasKind.INPUT, inputs[tensor]
        elif tensor in seen:
            kind, other = AliasKind.DUPLICATE, seen[tensor]
        elif not constant and (reader >= 0 or (copies and times[tensor] > 1)):
            kind, other = AliasKind.TAP, reader
        seen.setdefault(tensor, slot)
        if kind is not None:
            if tensor not in names:
                names[tensor] = graph.values.name(tensor)
            found.append(AliasedOutput(kind, graph.index, slot, tensor, names[tensor], producer, other))
    return found


def _last_operator(uses: Uses, tensors: int) -> NDArray[np.int64]:
    """Return the last operator in `uses` for each tensor, -1 for none."""
    last = np.full(tensors, -1, np.int64)
    present = uses.values < tensors
    last[uses.values[present]] = uses.operators[present]
    return last


def output_findings(model: ModelGraph) -> list[Finding]:
    """Return the aliased outputs as findings.

    In the bodies of WHILE and IF, all kinds except UNPRODUCED_OUTPUT are normal, and a tap is harmless in most
    runtimes; these are infos. In Circle, onert's format, an OUTPUT_TAP whose memory may be reused is a warning.
    """
    entries, patterns = set(model.entries), model.source.patterns
    findings = []
    reused = reused_outputs(model.graphs[0]) if len(model) else frozenset[int]()
    for output in aliased_outputs(model, "all"):
        entry, tap = output.subgraph in entries, output.kind is AliasKind.TAP
        again = tap and output.subgraph == 0 and output.tensor in reused
        is_info = not entry or (tap and not (again and model.source.format == "circle"))
        severity: Severity = "info" if is_info and output.kind is not AliasKind.UNPRODUCED else "warning"
        remedy = LEFT_ALONE if output.subgraph in patterns else _remedy(output, entry)
        findings.append(output.finding(severity, f"{_REUSED}: {remedy}" if again else remedy))
    return findings


def reused_outputs(graph: Graph, copied: Sequence[int] = ()) -> frozenset[int]:
    """Return the outputs that operators read and whose memory onert may reuse for a later operator.

    onert frees a tensor, even an output, after its last reader, unless the caller provides its memory. The order of
    execution depends on hash tables, so any operator whose results are unread may run last: an output is safe if no
    operator reads it, or if all operators that may run last read it. Each tensor in `copied` has a further reader,
    whose result is unread.
    """
    count = len(graph.operators) + len(copied)
    operators = np.append(graph.uses.operators, np.arange(len(graph.operators), count))
    values = np.append(graph.uses.values, np.array(copied, np.int64))
    is_read = np.zeros(len(graph.values), np.bool_)
    is_read[values] = True
    makers, made = graph.definitions
    is_last = np.ones(count, np.bool_)
    is_last[makers[is_read[made]]] = False
    pairs = np.unique(np.stack([operators, values])[:, is_last[operators]], axis=1)
    outlived = np.bincount(pairs[1], minlength=len(graph.values)) < is_last.sum()
    made_outputs = np.intersect1d(graph.outputs, made)
    return frozenset(made_outputs[is_read[made_outputs] & outlived[made_outputs]].tolist())


def _remedy(output: AliasedOutput, entry: bool) -> str:
    if output.kind is AliasKind.UNPRODUCED:
        return "fix the exporter"
    which = "" if entry else f" --subgraph {output.subgraph}"
    return f"run `circletool fix-outputs{which}{' --detach-taps' if output.kind is AliasKind.TAP else ''}`"
