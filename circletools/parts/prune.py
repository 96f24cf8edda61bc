"""Pruning: writes a minimal file without unused tensors, buffers, operator codes and subgraphs.

Subgraph 0, the subgraphs of signatures, and those that they call count as used; in these, all operators or those that
outputs need, and everything they refer to. The remaining items get new indices in their old order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.edit.archive import move_archive
from circletools.edit.compact import compact_parts, tail_start
from circletools.edit.results import RewriteResult
from circletools.findings import Finding
from circletools.model.model import Model, open_model
from circletools.parts.excerpt import Excerpt, Section
from circletools.parts.needed import Needs
from circletools.parts.whole import Whole, read_whole
from circletools.storage.files import Part, Progress, write
from circletools.wording import counted


def prune(
    model: Model,
    target: str | os.PathLike[str],
    *,
    outputs: bool = False,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RewriteResult:
    """Write the model to `target` as a minimal file without unused items; return what these were.

    With `outputs`, operators that no output needs are dropped too, unless they have side effects. Raises EditError
    and UsageError as `compact` does, ModelFormatError for operators in a cycle, TableFormatError for broken origins.

    >>> with ct.open("in.tflite") as model:
    ...     ct.surgery.prune(model, "out.tflite").changes
    ('2 tensors removed', '2 buffers removed', '9200 -> 8976 bytes')
    """
    model.source.check_other(target, in_place=in_place)
    whole = read_whole(model)
    excerpt, notes = used(whole, outputs=outputs)
    contents, writer = whole.contents(excerpt), whole.writer
    del whole  # graphs use memory, and are no longer needed
    after = contents.sizes()
    fewer = {what: count - after[what] for what, count in _sizes(model).items() if count > after[what]}
    changes = [f"{counted(count, what)} removed" for what, count in fewer.items()]
    notes = notes if changes else ()
    with _written(model, writer.write(excerpt, contents)) if changes else nullcontext(model) as small:
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
    """Return everything used in a model as an excerpt, and notes on dropped metadata."""
    model, needs = whole.graph, Needs(whole.graph)
    named: dict[int, set[int]] = {}
    for signature in model.signatures:
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
    return Excerpt(sections, entries, range(len(model.signatures))), notes
