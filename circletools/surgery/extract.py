"""Extracting a part of a model as a model of its own, written anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from circletools.edit.archive import directory_start
from circletools.edit.extract import Excerpt, Excerpts, NewSignature, Section
from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import Model
from circletools.model.views import Signature, text
from circletools.origin.read import check_freshness, read_origins
from circletools.split.annotations import Kept
from circletools.split.state import set_elsewhere
from circletools.split.uses import UsesReader
from circletools.split.write import is_open
from circletools.storage.files import Progress, write
from circletools.surgery.cut import Cut, Cutter
from circletools.surgery.keeping import kept_entries
from circletools.surgery.needed import Needs
from circletools.surgery.signing import signatures_of
from circletools.surgery.tensors import listed, quoted
from circletools.wording import ranges, suggestion


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """What to extract: one of four ways to say it.

    Between tensors: `from_` are those that become inputs, `to` those that become outputs (names, or `index:12`);
    without `from_`, from the inputs of the subgraph, without `to`, up to its outputs. By operators: `operators` are
    indices as in `0-10,15`, `origin` is a glob over the names of sources; both together choose what either does. Or
    `signature`: the key of one. `subgraph` is where to look; a signature knows its own.
    """

    from_: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    operators: str | None = None
    origin: str | None = None
    signature: str | None = None
    subgraph: int = 0

    def check(self) -> None:
        """Raise UsageError unless it is said in one way."""
        ways = (
            bool(self.from_ or self.to),
            self.operators is not None or self.origin is not None,
            self.signature is not None,
        )
        if sum(ways) != 1:
            what = "several ways to say what to extract" if any(ways) else "nothing to extract"
            raise UsageError(what, hint="use --from and --to, or --operators and --origin, or --signature")


def extract(
    model: Model,
    target: str | os.PathLike[str],
    request: ExtractRequest,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RewriteResult:
    """Write a part of a model to `target` as a model of its own; tell what it has, and what was left out.

    Constants, called subgraphs, origins and the affinity go along, and the part gets a signature. Raises UsageError
    for a tensor, an operator or a signature that does not exist, EditError where there is no such part, or where it
    would have only some of the operators that share a state.

    >>> with ct.open("in.tflite") as model:
    ...     ct.surgery.extract(model, "head.tflite", ct.surgery.ExtractRequest(from_=("features",), to=("scores",)))
    """
    model.source.check_other(target, in_place=in_place)
    request.check()
    excerpts = Excerpts(model)
    cut = _cut(model, request)
    section = Section(cut.subgraph, cut.operators, cut.inputs, cut.outputs)
    kept: Kept = [(cut.subgraph, cut.operators), *((called, None) for called in excerpts.called([section]))]
    entries = kept_entries(model, kept, same_ends=False)
    signatures, left_out = signatures_of(model, cut)
    notes = (*_notes(model, request, cut, kept), *left_out, *entries.notes)
    parts = excerpts.take(Excerpt([section], entries.values, signatures))
    write(target, parts, source=model.source, progress=progress)
    return RewriteResult(tuple(_changes(model, cut, signatures)), notes)


def _cut(model: Model, request: ExtractRequest) -> Cut:
    if request.signature is not None:
        signature = _signature(model, request.signature)
        cutter = Cutter(model, signature.subgraph)
        inputs, outputs = ([tensor for _, tensor in side] for side in (signature.inputs, signature.outputs))
        return cutter.whole(inputs, outputs, Needs(model).of(signature.subgraph, outputs))
    cutter = Cutter(model, request.subgraph)
    if request.from_ or request.to:
        inputs, outputs = (
            list(dict.fromkeys(map(cutter.names.find, words))) for words in (request.from_, request.to)
        )
        return cutter.between(inputs, outputs) if inputs else cutter.before(outputs)
    return cutter.of(_operators(model, request))


def _signature(model: Model, key: str) -> Signature:
    found = next((one for one in model.signatures if one.key == key), None)
    if found is None:
        known = [one.key for one in model.signatures]
        hint = suggestion(key, known) if known else "the model has no signatures"
        raise UsageError(f"no signature is called {quoted(key)}", hint=hint)
    return found


def _operators(model: Model, request: ExtractRequest) -> set[int]:
    """Return the operators that are named."""
    chosen: set[int] = set()
    if request.operators is not None:
        selector = parse_selector(f"{request.subgraph}/index:{request.operators}")
        chosen.update(Chooser(model_graph(model)).choose(selector).get(request.subgraph, ()))
    if request.origin is not None:
        origins = read_origins(model)
        if origins is not None and check_freshness(model, origins).state == "stale":
            raise EditError("the origins are stale", hint="run `circletool embed-origins --replace` on the model")
        names = () if origins is None else [
            {operator: [origins.sources[source] for source in origin] for operator, origin in subgraph.items()}
            for subgraph in origins.operators
        ]  # fmt: skip
        selector = parse_selector(f"{request.subgraph}/origin:{request.origin}")
        chosen.update(Chooser(model_graph(model), names).choose(selector).get(request.subgraph, ()))
    return chosen


def _changes(model: Model, cut: Cut, signatures: Iterable[int | NewSignature]) -> Iterator[str]:
    count = len(model.subgraphs[cut.subgraph].operators)
    yield f"operators: {ranges(cut.operators) or 'none'} of {count:,} in subgraph {cut.subgraph}"
    tensors = model.subgraphs[cut.subgraph].tensors
    for what, some in (("inputs", cut.inputs), ("outputs", cut.outputs)):
        yield f"{what}: {listed([tensors[tensor].name for tensor in some])}"
    for one in signatures:
        key = text(one.key) if isinstance(one, NewSignature) else model.signatures[one].key
        yield f"signature {quoted(key)}: {'written' if isinstance(one, NewSignature) else 'kept'}"


def _notes(model: Model, request: ExtractRequest, cut: Cut, kept: Kept) -> Iterator[Finding]:
    place = f"subgraphs[{cut.subgraph}]"
    tensors = model.subgraphs[cut.subgraph].tensors
    if cut.further and (request.from_ or request.signature is not None):
        names = listed([tensors[tensor].name for tensor in cut.further])
        yield Finding(
            "FURTHER_INPUT", "warning", place, f"inputs besides those asked for, as operators read them: {names}"
        )
    if request.to and not request.from_:
        unused = [tensor for tensor in model.subgraphs[cut.subgraph].inputs.tolist() if tensor not in cut.inputs]
        if unused:
            names = listed([tensors[tensor].name for tensor in unused])
            yield Finding(
                "INPUT_LEFT_OUT", "info", place, f"inputs that the outputs do not need are left out: {names}"
            )
    if cut.between:
        message = f"operators {ranges(cut.between)} lie between those asked for, and go along"
        yield Finding("OPERATORS_BETWEEN", "info", place, message)
    given = set(model.subgraphs[cut.subgraph].inputs.tolist())
    for tensor in cut.inputs:
        if tensor not in given and is_open(tensors[tensor]):
            message = f"the shape of input {quoted(tensors[tensor].name)} is open; resize it before running"
            yield Finding("OPEN_SHAPE", "warning", f"{place}.tensors[{tensor}]", message)
    if directory_start(model.wire.memory) is not None:
        yield Finding("ARCHIVE_LEFT_OUT", "info", "", "the archive of associated files behind the model is left out")
    yield from _state_apart(model, kept)


def _state_apart(model: Model, kept: Kept) -> Iterator[Finding]:
    """Say where subgraphs that are left out write what operators that are taken use."""
    used, reader = set[str](), UsesReader(model)
    for subgraph, chosen in kept:
        naming = reader.uses(subgraph).naming
        used.update(name for operator, name in naming.items() if chosen is None or operator in set(chosen))
    taken = {subgraph for subgraph, _ in kept}
    if used:
        yield from set_elsewhere(reader, used, set(range(len(model.subgraphs))) - taken)
