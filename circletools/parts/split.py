"""Write a split: the parts, their connections, and the manifest that makes the directory an nnpackage."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.flatbuf.columns import OBJECT_BYTES
from circletools.graph.graph import Graph
from circletools.metadata.stamp import operator_record
from circletools.model.model import Model
from circletools.model.views import text
from circletools.parts.contents import Excerpt, Section, called_by
from circletools.parts.metadata import Annotations, SubgraphSelection, new_values, whole_model_notes
from circletools.parts.names import is_open, with_ends
from circletools.parts.openvino_runner import openvino_runner
from circletools.parts.package import (
    CONNECTIONS,
    MANIFEST,
    RUNNER,
    Connections,
    Piece,
    encode_connections,
    encode_manifest,
    is_split,
    package_obstacle,
)
from circletools.parts.plan import SplitPlan, checked_affinity, planned
from circletools.parts.whole import Whole, read_whole
from circletools.storage.directories import check_directory, write_directory
from circletools.storage.files import Part, view
from circletools.wording import Attributes

_MOST_TIMES, _MOST_BYTES = 10, 128 << 20  # the limit for all parts: this many times the file, plus this many bytes
_PART_BYTES = 4 << 10  # bytes charged for each part, because it takes time
_FEWER = "each part has a copy of the constants that it reads; make fewer partitions (--min-size)"


@dataclass(frozen=True, slots=True)
class Split(Attributes):
    """The result of a split: plan, connections, `sizes` of parts in bytes, and `notes` on what no part contains."""

    plan: SplitPlan
    connections: Connections
    notes: tuple[Finding, ...]
    sizes: tuple[int, ...]


def split(
    model: Model,
    target: str | os.PathLike[str],
    *,
    subgraph: int = 0,
    force: bool = False,
    runner: Literal["openvino"] | None = None,
) -> Split:
    """Write a model for each partition of a subgraph to the directory `target`, or nothing on failure.

    With `force`, a directory written by an earlier split is replaced. With a `runner`, a program that runs each part
    on its device is written too. Raises EditError if the model cannot be split (see `plan_split`), or the runner
    cannot read it; UsageError if the directory is not empty (with `force`, if it contains files that no split wrote),
    and OutputError if it cannot be written.

    >>> with ct.open("annotated.circle") as model:
    ...     done = ct.split(model, "parts")
    >>> [part.device for part in done.plan.parts]
    ['npu', 'cpu']
    """
    directory = Path(target)

    def may_replace(found: Path) -> bool:
        return force and is_split(found)

    check_directory(directory, may_replace)
    if model.source.path and Path(os.path.realpath(directory)) in Path(os.path.realpath(model.source.path)).parents:
        raise UsageError("the model to split is in the directory to replace", location=str(directory))
    whole = read_whole(model)
    affinity = checked_affinity(whole.graph, subgraph)
    graph = whole.graph.graphs[subgraph]
    plan = planned(graph, whole.resources.state(subgraph), affinity)
    connections = connect(plan, whole.model.source.path, whole.graph.format)
    excerpts, notes = excerpts_of(whole, plan)
    obstacle = package_obstacle(connections) or _open_shape(graph, plan)
    if obstacle is not None:
        notes.append(Finding("NO_MANIFEST", "info", "", obstacle))
    program = openvino_runner(connections, plan) if runner == "openvino" else None

    most = _MOST_TIMES * len(whole.model.source.octets) + _MOST_BYTES
    sizes: list[int] = []

    def files() -> Iterator[tuple[str, list[Part]]]:
        left = most
        for excerpt, piece in zip(excerpts, connections.parts, strict=True):
            data = whole.bytes_of(excerpt)
            sizes.append(sum(len(view(one)) for one in data))
            left -= sizes[-1]
            if left < 0:
                raise EditError(f"the parts take more than {most} bytes in total", hint=_FEWER)
            yield piece.file, data
        yield f"{_stem(whole.model.source.path)}{CONNECTIONS}", [encode_connections(connections)]
        if program is not None:
            yield RUNNER, [program.encode()]
        if obstacle is None:
            yield MANIFEST, [encode_manifest(connections, whole.graph.format)]

    write_directory(directory, files(), may_replace, whole.model.source.check_unchanged)
    return Split(plan, connections, tuple(notes), tuple(sizes))


def connect(plan: SplitPlan, path: Path | None, model_format: str) -> Connections:
    """Return the connections of a plan's parts; `path` is the file of the model, or None if it has none."""

    def piece(file: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Piece:
        return Piece(file, *(tuple(text(plan.names[tensor]) for tensor in ends) for ends in (inputs, outputs)))

    stem = _stem(path)
    return Connections(
        piece(path.name if path else f"{stem}.{model_format}", plan.inputs, plan.outputs),
        tuple(
            piece(f"{stem}.part.{number:05}_{device[:64]}.{model_format}", part.inputs, part.outputs)
            for number, part in enumerate(plan.parts, 1)
            for device in [re.sub(r"[^A-Za-z0-9._-]", "_", part.device)]
        ),
    )


def _stem(path: Path | None) -> str:
    return Path(path.name).stem if path else "model"


def excerpts_of(whole: Whole, plan: SplitPlan) -> tuple[list[Excerpt], list[Finding]]:
    """Return the parts of a plan as excerpts, and notes on everything that these leave out."""
    annotations = _renamed(whole, plan)
    gone = whole_model_notes(whole.names, same_order=False, same_ends=False)
    inherited = [
        (index, name) for index, name in enumerate(whole.names) if name not in gone and name not in annotations.stale
    ]
    excerpts, signed = [], set[int]()
    charge = whole.graph.source.wire.budget.tally("the parts and all subgraphs that they call")
    for part in plan.parts:
        section = Section(plan.subgraph, part.operators, part.inputs, part.outputs, plan.renamed)
        called = called_by(whole.graph, [section])
        graphs = whole.graph.graphs
        charge(_PART_BYTES + OBJECT_BYTES * sum(len(graphs[one]) + len(graphs[one].values) for one in called))
        kept: SubgraphSelection = [(plan.subgraph, part.operators), *((one, None) for one in called)]
        values = new_values(annotations, kept, every_source=False, device=part.device_id)
        entries = {index: values.get(name) for index, name in inherited}
        signatures = with_ends(whole.graph.signatures, plan.subgraph, part.inputs, part.outputs)
        excerpts.append(Excerpt([section], entries, signatures))
        signed.update(signatures)
    return excerpts, [*gone.values(), *annotations.notes, *_notes(whole, plan, signed)]


def _notes(whole: Whole, plan: SplitPlan, signed: set[int]) -> Iterator[Finding]:
    """Yield notes on everything that no part contains; `signed` holds the signatures that some part contains."""
    for signature in whole.graph.signatures:
        if signature.index not in signed:
            why = "no part has all its inputs and outputs"
            if signature.subgraph != plan.subgraph:
                command = f"split --subgraph {signature.subgraph}"
                why = f"it calls subgraph {signature.subgraph}, which `{command}` splits"
            message = f"signature {signature.key!r} is left out: {why}"
            yield Finding("SIGNATURE_LEFT_OUT", "info", f"signatures[{signature.index}]", message)
    yield from whole.notes([(index, None) for index in sorted(whole.graph.reached([plan.subgraph]))])
    if plan.renamed:
        first = ", ".join(repr(text(name)) for name in list(plan.renamed.values())[:5])
        more = f" and {len(plan.renamed) - 5} more" if len(plan.renamed) > 5 else ""
        message = f"tensors without a unique name are called {first}{more} in the parts"
        yield Finding("TENSOR_RENAMED", "info", "", message)
    readers = Counter(tensor for part in plan.parts for tensor in part.inputs)
    if any(readers[tensor] > 1 for tensor in plan.inputs):
        message = "an input that several parts read is listed in the package once for each part"
        yield Finding("INPUT_REPEATED", "info", "", message)


def _open_shape(graph: Graph, plan: SplitPlan) -> str | None:
    """Return why onert could not run the package (a tensor between parts has a dynamic shape), or None."""
    tensors = sorted({tensor for part in plan.parts for tensor in part.inputs}) if len(plan.parts) > 1 else ()
    found = next((tensor for tensor in tensors if is_open(graph, tensor)), None)
    if found is None:
        return None
    name = text(graph.values.names[found])
    return f"no {MANIFEST}: the shape of {name!r} is dynamic, which onert does not support between parts"


def _renamed(whole: Whole, plan: SplitPlan) -> Annotations:
    """Return the metadata of a model as if its tensors had their names in the parts, since stamps cover the names."""
    graph, records = whole.graph.graphs[plan.subgraph], list(whole.annotations.records)
    own, old = list(records[plan.subgraph]), [*graph.values.names, b""]  # the last element is for omitted slots
    for operator, tensors in enumerate(graph.results.lists()) if plan.renamed else ():
        if not plan.renamed.keys().isdisjoint(tensors):
            names = [plan.renamed.get(tensor, old[tensor]) for tensor in tensors]
            own[operator] = operator_record(graph.operators.code_names[operator], names)
    records[plan.subgraph] = own
    return replace(whole.annotations, records=tuple(records))
