"""Write a split: the parts, their connections, and the manifest that makes the directory an nnpackage."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from circletools.errors import CircleToolsError, EditError, InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.flatbuf.columns import OBJECT_BYTES
from circletools.graph.graph import Graph
from circletools.metadata.stamp import operator_record
from circletools.model.model import Model
from circletools.model.views import text
from circletools.parts.contents import Excerpt, Section, called_by
from circletools.parts.metadata import Annotations, SubgraphSelection, new_values, whole_model_notes
from circletools.parts.names import is_open, with_ends
from circletools.parts.plan import SplitPlan, checked_affinity, planned
from circletools.parts.whole import Whole, read_whole
from circletools.storage.directories import check_directory, write_directory
from circletools.storage.documents import read_json
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
    connections = connect(plan, whole.model.source.path, whole.graph.source.format)
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
            yield MANIFEST, [encode_manifest(connections, whole.graph.source.format)]

    write_directory(directory, files(), may_replace, whole.model.source.check_unchanged)
    return Split(plan, connections, tuple(notes), tuple(sizes))


def connect(plan: SplitPlan, path: Path | None, model_format: str) -> Connections:
    """Return the connections of a plan's parts; `path` is the model's file, or None if it has none."""

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
        signatures = with_ends(whole.graph.source.signatures, plan.subgraph, part.inputs, part.outputs)
        excerpts.append(Excerpt([section], entries, signatures))
        signed.update(signatures)
    return excerpts, [*gone.values(), *annotations.notes, *_notes(whole, plan, signed)]


def _notes(whole: Whole, plan: SplitPlan, signed: set[int]) -> Iterator[Finding]:
    """Yield notes on everything that no part contains; `signed` holds the signatures that some part contains."""
    for signature in whole.graph.source.signatures:
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


# --- a Python program that runs the parts in OpenVINO, each compiled for its device -----------------------------
# OpenVINO's HETERO plugin assigns nodes to devices by the names of nodes after conversion; only some of these names
# match operators of the model. A part that is compiled for a device runs there as a whole, whatever its nodes' names.


def openvino_runner(connections: Connections, plan: SplitPlan) -> str:
    """Return the text of the program. Raises EditError for Circle models, which OpenVINO does not read."""
    if connections.source.file.endswith(".circle"):
        raise EditError("OpenVINO reads TFLite models, not Circle", location=connections.source.file)
    parts = parts_json(plan, connections)
    whole = {"inputs": connections.source.inputs, "outputs": connections.source.outputs, "parts": parts}
    template = (resources.files(__package__) / "run_openvino.txt").read_text("utf-8")
    before, between, after = template.split("@@")[::2]
    return f"{before}{json.dumps(connections.source.file)[1:-1]}{between}{json.dumps(whole, indent=1)}{after}"


def parts_json(plan: SplitPlan, connections: Connections) -> list[dict[str, Any]]:
    """Return the parts as JSON, in execution order."""
    return [
        {
            "file": piece.file,
            "device": part.device,
            "operators": list(part.operators),
            "inputs": list(piece.inputs),
            "outputs": list(piece.outputs),
        }
        for part, piece in zip(plan.parts, connections.parts, strict=True)
    ]


# --- the documents of a split directory: connections by tensor name, and the manifest of an nnpackage -------------
# `<stem>.part.conn.json` has the format of circle-partitioner:
#
#     {"source": {"file", "inputs", "outputs"}, "parts": [{"file", "inputs", "outputs"}, ...]}
#
# The manifest (ONE, nnpackage/spec) has `models`, `model-types`, and inputs and outputs as "model:subgraph:slot".


MANIFEST = "metadata/MANIFEST"
CONNECTIONS = ".part.conn.json"
RUNNER = "run_openvino.py"


@dataclass(frozen=True, slots=True)
class Piece:
    """A model file and the names of its inputs and outputs, in order."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connections:
    """The whole model, and its parts in execution order."""

    source: Piece
    parts: tuple[Piece, ...]


def encode_connections(connections: Connections) -> bytes:
    """Return the document of connections. Bytes of a name that are not valid UTF-8 become lone surrogates."""
    return _document(asdict(connections))


def decode_connections(data: bytes, name: str) -> Connections:
    """Parse a document of connections. Raises InvalidInputError, with the file and the place of the error."""
    document = read_json(data, name)
    if not isinstance(document, dict) or not isinstance(document.get("parts"), list):
        raise InvalidInputError(
            "not a document of connections: an object with `source` and `parts` is needed", location=name
        )
    parts = [_piece(part, f"{name}: parts[{index}]") for index, part in enumerate(document["parts"])]
    return Connections(_piece(document.get("source"), f"{name}: source"), tuple(parts))


def _piece(value: object, place: str) -> Piece:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str):
        raise InvalidInputError("an object with `file`, `inputs` and `outputs` is needed", location=place)
    ends = []
    for name in ("inputs", "outputs"):
        names = value.get(name)
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise InvalidInputError("a list of names is needed", location=f"{place}.{name}")
        ends.append(tuple(names))
    return Piece(value["file"], ends[0], ends[1])


def encode_manifest(connections: Connections, model_type: str) -> bytes:
    """Return the manifest. An input that several parts read is listed for each of them, in the order of parts."""
    made = {
        name: f"{index}:0:{slot}"
        for index, part in reversed(list(enumerate(connections.parts)))
        for slot, name in enumerate(part.outputs)
    }
    readers: dict[str, list[str]] = {}
    for index, part in enumerate(connections.parts):
        for slot, name in enumerate(part.inputs):
            readers.setdefault(name, []).append(f"{index}:0:{slot}")
    return _document(
        {
            "major-version": "1",
            "minor-version": "2",
            "patch-version": "0",
            "models": [part.file for part in connections.parts],
            "model-types": [model_type] * len(connections.parts),
            "pkg-inputs": [end for name in connections.source.inputs for end in readers.pop(name, ())],
            "pkg-outputs": [made[name] for name in connections.source.outputs],
            "model-connect": [{"from": made[name], "to": ends} for name, ends in readers.items()],
        }
    )


def package_obstacle(connections: Connections) -> str | None:
    """Return why onert could not load the parts as a package, or None if it could."""
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
        return f"no {MANIFEST}: output {what}, which onert does not support; run `circletool {command}` first"
    if unread is not None:
        what = f"nothing reads {unread!r}, and onert fails if a part has such an output"
        return f"no {MANIFEST}: {what}; remove its producer first, for example with `circletool extract --to`"
    return None


def _document(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


# --- the files in a directory


def find_connections(directory: Path) -> Path | None:
    """Return a directory's file of connections, or None if there is none or there are several.

    Only regular files count: opening a pipe would block.
    """
    found = sorted(path for path in directory.glob(f"*{CONNECTIONS}") if path.is_file())
    return found[0] if len(found) == 1 else None


def written(name: str, connections: Connections) -> set[str]:
    """Return the paths that a split writes in its directory; `name` is the file of the connections."""
    return {name, RUNNER, MANIFEST, str(Path(MANIFEST).parent), *(part.file for part in connections.parts)}


def is_split(directory: Path) -> bool:
    """Return whether everything in a directory was written by a split."""
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
