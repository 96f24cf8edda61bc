"""Pruning: a minimal file without the tensors, buffers, operator codes and subgraphs that nothing uses.

Used are subgraph 0, those of signatures, and those that they call; of these, all operators or those that outputs
need, with all that these name. Everything that is left gets new indices in its old order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.edit.archive import move_archive
from circletools.edit.compact import compact_parts, tail_start
from circletools.edit.extract import Excerpt, Excerpts, Section
from circletools.edit.results import RewriteResult
from circletools.model.model import Model, open_model
from circletools.storage.files import Progress, write
from circletools.surgery.keeping import Entries, kept_entries
from circletools.surgery.needed import Needs
from circletools.wording import counted


def prune(
    model: Model,
    target: str | os.PathLike[str],
    *,
    outputs: bool = False,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RewriteResult:
    """Write the model to `target` as a minimal file without what nothing uses; tell what that was.

    With `outputs`, operators go too that no output needs, unless they do more than compute. Raises EditError and
    UsageError as `compact` does, ModelFormatError for operators in a cycle, TableFormatError for broken origins.

    >>> with ct.open("in.tflite") as model:
    ...     ct.surgery.prune(model, "out.tflite").changes
    ('2 tensors removed', '2 buffers removed', '9200 -> 8976 bytes')
    """
    model.source.check_other(target, in_place=in_place)
    with _pruned(model, outputs=outputs) as (small, result):
        parts = compact_parts(small)
        write(target, parts, source=model.source, progress=progress)
    before, after = model.wire.size, sum(map(len, parts))
    sizes = (f"{before} -> {after} bytes",) if before != after else ()
    return RewriteResult((*result.changes, *sizes), result.notes)


@contextmanager
def _pruned(model: Model, *, outputs: bool) -> Iterator[tuple[Model, RewriteResult]]:
    """Give the model without what nothing uses, not yet minimal: itself where all is used."""
    excerpts = Excerpts(model)
    excerpt, entries = _used(model, outputs=outputs)
    before, after = _sizes(model), excerpts.sizes(excerpt)
    changes = tuple(
        f"{counted(count - after[what], what)} removed" for what, count in before.items() if count > after[what]
    )
    if not changes:
        yield model, RewriteResult(())
        return
    parts = excerpts.take(excerpt)
    start = tail_start(model)
    parts += move_archive(model, start, sum(map(len, parts)) - start)
    with TemporaryDirectory(prefix="circletools-") as directory:
        path = Path(directory) / f"model.{model.format}"
        write(path, parts, source=model.source)
        with open_model(path, schema=model.newer) as small:
            yield small, RewriteResult(changes, entries.notes)


def _sizes(model: Model) -> dict[str, int]:
    return {
        "subgraph": len(model.subgraphs),
        "operator": len(model.operator_columns.tables),
        "tensor": len(model.tensor_columns.tables),
        "buffer": len(model.buffers),
        "operator code": len(model.operator_codes),
    }


def _used(model: Model, *, outputs: bool) -> tuple[Excerpt, Entries]:
    needs = Needs(model)
    named: dict[int, set[int]] = {}
    for signature in model.signatures:
        named.setdefault(signature.subgraph, set()).update(at for _, at in (*signature.inputs, *signature.outputs))
    operators: dict[int, list[int]] = {}
    pending = [*range(min(1, len(model.subgraphs))), *named]
    while pending:
        subgraph = pending.pop()
        if subgraph in operators:
            continue
        rows = model.operator_columns.rows_of(subgraph)
        wanted = {*model.subgraphs[subgraph].outputs.tolist(), *named.get(subgraph, ())}
        operators[subgraph] = needs.of(subgraph, wanted) if outputs else list(range(len(rows)))
        pending += {called for one in operators[subgraph] for called in needs.calls.named(rows[one])}
    sections = []
    for subgraph, chosen in sorted(operators.items()):
        view = model.subgraphs[subgraph]
        ends = view.inputs.tolist(), view.outputs.tolist()
        sections.append(Section(subgraph, chosen, *ends, replaces=True, further=sorted(named.get(subgraph, ()))))
    entries = kept_entries(model, [(one.subgraph, one.operators) for one in sections], same_ends=True)
    return Excerpt(sections, entries.values, range(len(model.signatures))), entries
