"""Writing a split: the parts, their connections, and the manifest that makes the directory an nnpackage."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from circletools.edit.archive import directory_start
from circletools.edit.extract import Excerpt, Excerpts, Section
from circletools.errors import CircleToolsError, UsageError
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.model.views import Tensor, text
from circletools.split.annotations import Annotations, part_metadata, part_records, read_annotations
from circletools.split.connections import Connections, Piece, decode_connections, encode_connections, encode_manifest
from circletools.split.openvino_runner import RUNNER, openvino_runner
from circletools.split.plan import PlannedPart, SplitPlan, plan_split
from circletools.split.state import set_elsewhere
from circletools.split.uses import UsesReader
from circletools.storage.directories import check_directory, write_directory
from circletools.storage.files import Part

MANIFEST = "metadata/MANIFEST"
CONNECTIONS = ".part.conn.json"
Ends = tuple[frozenset[int], frozenset[int]]
"""The tensors that go in, and those that come out, in any order."""


@dataclass(frozen=True, slots=True)
class Split:
    """What a split wrote: the plan, the connections, and `notes` of what the parts leave out."""

    plan: SplitPlan
    connections: Connections
    notes: tuple[Finding, ...]


def split(
    model: Model,
    target: str | os.PathLike[str],
    *,
    subgraph: int = 0,
    force: bool = False,
    runner: Literal["openvino"] | None = None,
) -> Split:
    """Write a model for each partition of a subgraph to the directory `target`, whole or not at all.

    With `force`, a directory that an earlier split wrote is replaced. With a `runner`, a program that runs each part
    on its device is written too. Raises EditError where the model cannot be split (see `plan_split`), or the runner
    does not read it; UsageError where the directory is not empty (with `force`, where it holds anything that
    no split wrote), OutputError when it cannot be written.

    >>> with ct.open("annotated.circle") as model:
    ...     done = ct.split(model, "parts")
    >>> [part.device for part in done.plan.parts]
    ['npu', 'cpu']
    """
    directory = Path(target)

    def may_replace(found: Path) -> bool:
        return force and _is_split(found)

    check_directory(directory, may_replace)
    if model.source.path and Path(os.path.realpath(directory)) in Path(os.path.realpath(model.source.path)).parents:
        raise UsageError("the model that is split is in the directory that is replaced", location=str(directory))
    excerpts = Excerpts(model)
    plan = plan_split(model, subgraph)
    annotations, records = read_annotations(model), part_records(model, plan)
    stem = Path(model.source.path.name).stem if model.source.path else "model"
    signatures = _signatures(model, plan)
    connections = connect(model, plan, stem)
    obstacle = package_obstacle(connections) or _open_shape(model, plan)
    program = openvino_runner(connections, plan).encode() if runner == "openvino" else None
    notes = list(_notes(model, plan, annotations))
    if obstacle is not None:
        notes.append(Finding("NO_MANIFEST", "info", "", obstacle))

    def files() -> Iterator[tuple[str, list[Part]]]:
        for part, piece in zip(plan.parts, connections.parts, strict=True):
            taken = Section(plan.subgraph, part.operators, part.inputs, part.outputs, plan.renamed)
            metadata = part_metadata(annotations, records, plan, part, excerpts.called([taken]))
            excerpt = Excerpt([taken], metadata, signatures.get(_ends(part), ()))
            yield piece.file, excerpts.take(excerpt)
        yield f"{stem}{CONNECTIONS}", [encode_connections(connections)]
        if program is not None:
            yield RUNNER, [program]
        if obstacle is None:
            yield MANIFEST, [encode_manifest(connections, model.format)]

    write_directory(directory, files(), may_replace, model.source.check_unchanged)
    return Split(plan, connections, tuple(notes))


def find_connections(directory: Path) -> Path | None:
    """Return the file with the connections in a directory, None where there is none or there are several.

    What is no regular file does not count: a pipe would be waited for.
    """
    found = sorted(path for path in directory.glob(f"*{CONNECTIONS}") if path.is_file())
    return found[0] if len(found) == 1 else None


def _is_split(directory: Path) -> bool:
    """Say whether all that is in a directory was written by a split."""
    try:
        found = find_connections(directory)
        if found is None:
            return False
        connections = decode_connections(found.read_bytes(), str(found))
    except (CircleToolsError, OSError):
        return False
    ours, folder = written(found.name, connections), directory / Path(MANIFEST).parent
    return all(
        str(path.relative_to(directory)) in ours
        and not path.is_symlink()
        and (path.is_dir() if path == folder else path.is_file())
        for path in directory.rglob("*")
    )


def written(name: str, connections: Connections) -> set[str]:
    """Return the paths that a split writes in its directory; `name` is the file of the connections."""
    return {name, RUNNER, MANIFEST, str(Path(MANIFEST).parent), *(part.file for part in connections.parts)}


def connect(model: Model, plan: SplitPlan, stem: str) -> Connections:
    def piece(file: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Piece:
        return Piece(file, *(tuple(text(plan.names[tensor]) for tensor in ends) for ends in (inputs, outputs)))

    source = model.source.path.name if model.source.path else f"{stem}.{model.format}"
    return Connections(
        piece(source, plan.inputs, plan.outputs),
        tuple(
            piece(f"{stem}.part.{number:05}_{device[:64]}.{model.format}", part.inputs, part.outputs)
            for number, part in enumerate(plan.parts, 1)
            for device in [re.sub(r"[^A-Za-z0-9._-]", "_", part.device)]
        ),
    )


def _signatures(model: Model, plan: SplitPlan) -> dict[Ends, list[int]]:
    """Return the signatures of the subgraph by the tensors of their inputs and outputs."""
    found: dict[Ends, list[int]] = {}
    for signature in model.signatures:
        if signature.subgraph == plan.subgraph:
            inputs, outputs = (
                frozenset(tensor for _, tensor in entries) for entries in (signature.inputs, signature.outputs)
            )
            found.setdefault((inputs, outputs), []).append(signature.index)
    return found


def _ends(part: PlannedPart) -> Ends:
    return frozenset(part.inputs), frozenset(part.outputs)


def package_obstacle(connections: Connections) -> str | None:
    """Return why onert could not load the parts as a package: each output goes to one place, and only one."""
    outputs = connections.source.outputs
    taken = {name for part in connections.parts for name in part.inputs}
    read = taken - set(connections.source.inputs)
    twice = next((name for name, count in Counter(outputs).items() if count > 1), None)
    tapped = next((name for name in outputs if name in read), None)
    made = (name for part in connections.parts for name in part.outputs)
    unread = next((name for name in made if name not in taken and name not in outputs), None)
    if twice is not None or tapped is not None:
        what = f"{twice!r} is listed twice" if twice is not None else f"{tapped!r} is read by a later part"
        command = "fix-outputs" if tapped is None else "fix-outputs --detach-taps"
        return f"no {MANIFEST}: output {what}, which onert does not support; run `circletool {command}` before split"
    if unread is not None:
        what = f"nothing reads {unread!r}, and onert fails on such an output of a part"
        return f"no {MANIFEST}: {what}; take out what makes it, as with `circletool extract --to`, before split"
    return None


def _open_shape(model: Model, plan: SplitPlan) -> str | None:
    """Return why onert could not run the package, where a tensor between parts has an open shape."""
    tensors = model.subgraphs[plan.subgraph].tensors
    for tensor in sorted({tensor for part in plan.parts for tensor in part.inputs}) if len(plan.parts) > 1 else ():
        found = tensors[tensor]
        if is_open(found):
            return f"no {MANIFEST}: the shape of {found.name!r} is open, which onert does not support between parts"
    return None


def is_open(tensor: Tensor) -> bool:
    """Say whether a dimension of a tensor is known only when it runs."""
    return -1 in (*tensor.shape, *(tensor.shape_signature or ()))


def _notes(model: Model, plan: SplitPlan, annotations: Annotations) -> Iterator[Finding]:
    yield from annotations.dropped
    by_ends = _signatures(model, plan)
    kept = {index for part in plan.parts for index in by_ends.get(_ends(part), ())}
    for signature in model.signatures:
        place = f"signatures[{signature.index}]"
        if signature.subgraph != plan.subgraph:
            message = (
                f"signature {signature.key!r} is left out: it calls subgraph {signature.subgraph}, "
                f"which `split --subgraph {signature.subgraph}` splits"
            )
            yield Finding("SIGNATURE_LEFT_OUT", "info", place, message)
        elif signature.index not in kept:
            message = f"signature {signature.key!r} is left out: no part has all its inputs and outputs"
            yield Finding("SIGNATURE_LEFT_OUT", "info", place, message)
    others = {signature.subgraph for signature in model.signatures} - {plan.subgraph}
    others &= set(range(len(model.subgraphs)))
    uses = UsesReader(model)
    yield from set_elsewhere(
        uses, set().union(*(one.used for one in uses.uses(plan.subgraph).by_operator.values())), others
    )
    if directory_start(model.wire.memory) is not None:
        yield Finding("ARCHIVE_LEFT_OUT", "info", "", "the archive of associated files behind the model is left out")
    if plan.renamed:
        first = ", ".join(repr(text(name)) for name in list(plan.renamed.values())[:5])
        more = f" and {len(plan.renamed) - 5} more" if len(plan.renamed) > 5 else ""
        message = f"tensors without a unique name are called {first}{more} in the parts"
        yield Finding("TENSOR_RENAMED", "info", "", message)
    readers = Counter(tensor for part in plan.parts for tensor in part.inputs)
    if any(readers[tensor] > 1 for tensor in plan.inputs):
        message = "an input that several parts read is an input of the package once for each of them"
        yield Finding("INPUT_REPEATED", "info", "", message)
