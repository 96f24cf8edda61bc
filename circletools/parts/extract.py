"""Extract a part of a model into a new file, as a separate model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.edit.archive import move_archive
from circletools.edit.compact import compact_parts, tail_start
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import Model, open_model
from circletools.model.views import text
from circletools.origin.embed import ORIGIN_ENTRIES
from circletools.parts.contents import Excerpt, NewSignature, Section, called_by
from circletools.parts.cut import Cut, Cutter, Needs
from circletools.parts.metadata import SubgraphSelection
from circletools.parts.names import TensorNames, graph_at, is_open, listed, new_signature, quoted, with_ends
from circletools.parts.whole import Whole, read_whole
from circletools.storage.files import Part, Progress, write
from circletools.wording import Attributes, counted, ranges, suggestion

# --- pruning: write a minimal file without unused tensors, buffers, operator codes and subgraphs --------------
# Subgraph 0, the subgraphs of signatures, and those that they call count as used. So do their operators (or only
# those that outputs need) and everything that these refer to. The remaining items get new indices in their old order.


def prune(
    model: Model,
    target: str | os.PathLike[str],
    *,
    outputs: bool = False,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RewriteResult:
    """Write the model to `target` as a minimal file without unused items; return a list of the removed items.

    With `outputs`, operators that no output needs are removed too, unless they have side effects. Raises the errors
    of `compact`, ModelFormatError for operators in a cycle, and TableFormatError for broken origins.

    >>> with ct.open("in.tflite") as model:
    ...     ct.surgery.prune(model, "out.tflite").changes
    ('2 tensors removed', '2 buffers removed', '9200 -> 8976 bytes')
    """
    model.source.check_other(target, in_place=in_place)
    whole = read_whole(model)
    excerpt, notes = used(whole, outputs=outputs)
    after = whole.contents(excerpt).sizes()
    fewer = {what: count - after[what] for what, count in _sizes(model).items() if count > after[what]}
    changes = [f"{counted(count, what)} removed" for what, count in fewer.items()]
    notes = notes if changes else ()
    with _written(model, whole.bytes_of(excerpt)) if changes else nullcontext(model) as small:
        parts = compact_parts(small)
        write(target, parts, source=model.source, progress=progress)
    before, size = model.wire.size, sum(map(len, parts))
    changes += [f"{before} -> {size} bytes"] if before != size else []
    return RewriteResult(tuple(changes), notes)


def _sizes(model: Model) -> dict[str, int]:
    return {
        "subgraph": len(model.subgraphs),
        "operator": len(model.operator_columns.tables),
        "tensor": len(model.tensor_columns.tables),
        "buffer": len(model.buffers),
        "operator code": len(model.operator_codes),
    }


@contextmanager
def _written(model: Model, parts: Sequence[Part]) -> Iterator[Model]:
    """Yield the model of an excerpt, with the data after the old flatbuffer."""
    start = tail_start(model)
    parts = [*parts, *move_archive(model, start, sum(map(len, parts)) - start)]
    with TemporaryDirectory(prefix="circletools-") as directory:
        path = Path(directory) / f"model.{model.format}"
        write(path, parts, source=model.source)
        with open_model(path) as small:
            yield small


def used(whole: Whole, *, outputs: bool) -> tuple[Excerpt, tuple[Finding, ...]]:
    """Return an excerpt of everything that a model uses, and notes on dropped metadata."""
    model, needs = whole.graph, Needs(whole.graph)
    named: dict[int, set[int]] = {}
    for signature in model.source.signatures:
        named.setdefault(signature.subgraph, set()).update(at for _, at in (*signature.inputs, *signature.outputs))
    operators: dict[int, list[int]] = {}
    pending = [*range(min(1, len(model.graphs))), *named]
    while pending:
        index = pending.pop()
        if index in operators:
            continue
        graph = model.graphs[index]
        wanted = {*graph.outputs.tolist(), *named.get(index, ())}
        operators[index] = needs.of(index, wanted) if outputs else list(range(len(graph)))
        pending += graph.called(operators[index])
    sections = [
        Section(
            index, chosen, model.graphs[index].inputs.tolist(), model.graphs[index].outputs.tolist(),
            replaces=True, further=sorted(named.get(index, ())),
        )
        for index, chosen in sorted(operators.items())
    ]  # fmt: skip
    entries, notes = whole.entries([(one.subgraph, one.operators) for one in sections], same_ends=True)
    return Excerpt(sections, entries, range(len(model.source.signatures))), notes


@dataclass(frozen=True, slots=True)
class ExtractRequest(Attributes):
    """The operators to extract, given in one of three ways.

    Between tensors: the tensors `from_` become inputs, the tensors `to` become outputs (names, or `index:12`); the
    defaults are the inputs and outputs of the subgraph. By operators: `operators` are indices, as in `0-10,15`, and
    `origin` is a glob over the names of sources; if both are given, operators that match either are selected. By
    signature: `signature` is its key. `subgraph` is the subgraph to search; a signature has its own. One that is not
    the first may be the only selection: it is extracted as a whole.
    """

    from_: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    operators: str | None = None
    origin: str | None = None
    signature: str | None = None
    subgraph: int = 0


def extract(
    model: Model,
    target: str | os.PathLike[str],
    request: ExtractRequest,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RewriteResult:
    """Write a part of a model to `target` as a separate model; return its contents, and notes on omissions.

    Constants, called subgraphs, origins and affinity are included, and the part gets a signature. Raises UsageError
    for a tensor, operator or signature that does not exist, and EditError if there is no such part, or if it would
    contain only some of the operators that share state.

    >>> with ct.open("in.tflite") as model:
    ...     ct.surgery.extract(model, "head.tflite", ct.surgery.ExtractRequest(from_=("features",), to=("scores",)))
    """
    model.source.check_other(target, in_place=in_place)
    by_operators = request.operators is not None or request.origin is not None
    is_whole = request.subgraph and not by_operators and request.signature is None
    ways = bool(request.from_ or request.to or is_whole), by_operators, request.signature is not None
    if sum(ways) != 1:
        what = "more than one selection is given" if any(ways) else "nothing to extract"
        raise UsageError(what, hint="use `from_=` and `to=`, or `operators=` and `origin=`, or `signature=`")
    whole = read_whole(model)
    excerpt, result = extraction(whole, request)
    write(target, whole.bytes_of(excerpt), source=model.source, progress=progress)
    return result


def extraction(whole: Whole, request: ExtractRequest) -> tuple[Excerpt, RewriteResult]:
    """Return the excerpt for a request, and its description. Raises the errors of `extract`."""
    index, cut = select(whole, request)
    graph, signatures = whole.graph.graphs[index], whole.graph.source.signatures
    section = Section(index, cut.operators, cut.inputs, cut.outputs)
    kept: SubgraphSelection = [
        (index, cut.operators),
        *((called, None) for called in called_by(whole.graph, [section])),
    ]
    ends = graph.inputs.tolist(), graph.outputs.tolist()
    entries, left_out = whole.entries(kept, same_ends=(list(cut.inputs), list(cut.outputs)) == ends)
    known = with_ends(signatures, index, cut.inputs, cut.outputs)
    written: list[int | NewSignature] = [*known] or [new_signature(signatures, graph, cut.inputs, cut.outputs)]
    names = [text(graph.values.names[tensor]) for tensor in (*cut.inputs, *cut.outputs)]
    changes = [
        f"operators: {ranges(cut.operators) or 'none'} ({len(cut.operators)} of {len(graph):,} in subgraph {index})",
        f"inputs: {listed(names[: len(cut.inputs)])}",
        f"outputs: {listed(names[len(cut.inputs) :])}",
    ]
    for one in written:
        key = text(one.key) if isinstance(one, NewSignature) else signatures[one].key
        changes.append(f"signature {quoted(key)}: {'new, of the cut' if isinstance(one, NewSignature) else 'kept'}")
    notes = [*_notes(graph, request, cut), *whole.notes(kept)]
    for signature in signatures:
        if signature.index not in known:
            why = "its inputs and outputs are not those of the cut"
            message = f"the model's signature {quoted(signature.key)} is left out: {why}"
            notes.append(Finding("SIGNATURE_LEFT_OUT", "info", f"signatures[{signature.index}]", message))
    return Excerpt([section], entries, written), RewriteResult(tuple(changes), (*notes, *left_out))


def select(whole: Whole, request: ExtractRequest) -> tuple[int, Cut]:
    """Return the subgraph of a request, and the cut. Raises the errors of `extract`."""
    if request.signature is not None:
        signatures = {one.key: one for one in reversed(whole.graph.source.signatures)}
        if request.signature not in signatures:
            hint = suggestion(request.signature, signatures) if signatures else "the model has no signatures"
            raise UsageError(f"no signature is called {quoted(request.signature)}", hint=hint)
        signature = signatures[request.signature]
        inputs, outputs = ([at for _, at in side] for side in (signature.inputs, signature.outputs))
        return signature.subgraph, _whole(whole, signature.subgraph, inputs, outputs)
    graph = graph_at(whole.graph, request.subgraph)
    cutter = _cutter(whole, graph.index)
    if request.from_ or request.to:
        names = TensorNames(graph)
        inputs, outputs = (list(dict.fromkeys(map(names.find, words))) for words in (request.from_, request.to))
        return graph.index, cutter.between(inputs, outputs) if inputs else cutter.before(outputs)
    if request.operators is None and request.origin is None:
        return graph.index, _whole(whole, graph.index, graph.inputs.tolist(), graph.outputs.tolist())
    return graph.index, cutter.of(_operators(whole, request))


def _whole(whole: Whole, index: int, inputs: list[int], outputs: list[int]) -> Cut:
    return _cutter(whole, index).whole(inputs, outputs, Needs(whole.graph).of(index, outputs))


def _cutter(whole: Whole, index: int) -> Cutter:
    graph = whole.graph.graphs[index]
    _ = graph.dag  # this raises for a cycle, or for a tensor that two operators produce
    return Cutter(graph, whole.resources.state(index))


def _operators(whole: Whole, request: ExtractRequest) -> set[int]:
    """Return the operators that a request selects."""
    chosen: set[int] = set()
    if request.operators is not None:
        selector = parse_selector(f"{request.subgraph}/index:{request.operators}")
        chosen.update(Chooser(whole.graph).choose(selector).get(request.subgraph, ()))
    if request.origin is not None:
        origins = whole.annotations.origins
        if not whole.annotations.stale.isdisjoint(ORIGIN_ENTRIES):
            raise EditError("the origins are stale", hint="run `circletool embed-origins --replace` on the model")
        names = () if origins is None else [
            {operator: [origins.sources[source] for source in origin] for operator, origin in subgraph.items()}
            for subgraph in origins.operators
        ]  # fmt: skip
        selector = parse_selector(f"{request.subgraph}/origin:{request.origin}")
        chosen.update(Chooser(whole.graph, names).choose(selector).get(request.subgraph, ()))
    return chosen


def _notes(graph: Graph, request: ExtractRequest, cut: Cut) -> Iterator[Finding]:
    place, given = graph.place(), graph.inputs.tolist()

    def shown(tensors: Iterable[int]) -> str:
        return listed([text(graph.values.names[tensor]) for tensor in tensors])

    if cut.further and (request.from_ or request.signature is not None):
        message = f"additional inputs that operators read: {shown(cut.further)}"
        yield Finding("FURTHER_INPUT", "warning", place, message)
    unused = [tensor for tensor in given if tensor not in cut.inputs]
    if request.to and not request.from_ and unused:
        message = f"inputs that the outputs do not need are left out: {shown(unused)}"
        yield Finding("INPUT_LEFT_OUT", "info", place, message)
    if cut.between:
        message = f"operators between the requested ones are included: {ranges(cut.between)}"
        yield Finding("OPERATORS_BETWEEN", "info", place, message)
    for tensor in cut.inputs:
        if tensor not in given and is_open(graph, tensor):
            message = f"the shape of input {shown([tensor])} is dynamic; resize the input before running"
            yield Finding("OPEN_SHAPE", "warning", f"{place}.tensors[{tensor}]", message)
