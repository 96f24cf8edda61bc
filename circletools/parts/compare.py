"""Check that the files of a split agree and together equal the source: each operator once, with equal connections.

An operator differs from the source if its inputs do. To report causes rather than consequences, an operator is
reported only if the other side computes all of its inputs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, starmap, zip_longest
from pathlib import Path

from circletools.affinity.tables import AFFINITY_TABLE
from circletools.errors import EditError, InvalidInputError, UsageError, shortened
from circletools.findings import Finding
from circletools.graph.graph import Graph
from circletools.model.model import Model, open_model
from circletools.model.views import text
from circletools.origin.tables import EXECUTION_PLAN_TABLE
from circletools.parts.digests import ModelDigests
from circletools.parts.metadata import ENDS_TABLE, read_annotations
from circletools.parts.names import graph_at, is_open
from circletools.parts.split import (
    CONNECTIONS,
    MANIFEST,
    Connections,
    Piece,
    decode_connections,
    encode_manifest,
    find_connections,
    package_obstacle,
    written,
)
from circletools.storage.documents import read_json

_SHOWN = 20  # the maximum number of findings of one kind
_UNKNOWN = "is not in the original model with these options, constants, inputs and outputs"


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The directory of a split, its connections, and the source."""

    directory: Path
    name: str
    connections: Connections
    source: Path

    def part(self, index: int) -> Path:
        """Return the file of a part."""
        return self.directory / self.connections.parts[index].file


def open_split(directory: Path, source: Path | None = None) -> SplitFiles:
    """Find the files of a split; the default `source` is the model with the recorded name in or beside the directory.

    Raises InvalidInputError if there is no split, and UsageError if the source is not found.
    """
    found = find_connections(directory)
    if found is None:
        raise InvalidInputError(
            f"not a split directory: exactly one *{CONNECTIONS} is needed", location=str(directory)
        )
    try:
        connections = decode_connections(found.read_bytes(), str(found))
    except OSError as error:
        raise InvalidInputError(f"cannot read it: {error.strerror}", location=str(found)) from error
    for piece in (connections.source, *connections.parts):
        is_long = len(piece.file.encode(errors="surrogatepass")) > 255  # longer than any file system accepts
        if is_long or "/" in piece.file or "\0" in piece.file or piece.file in ("", ".", ".."):
            raise InvalidInputError(
                f"{shortened(piece.file)!r} is not the name of a file in this directory", location=str(found)
            )
    beside = (directory / connections.source.file, directory.resolve().parent / connections.source.file)
    chosen = source or next((path for path in beside if path.is_file()), None)
    if chosen is None:
        hint = f"give {connections.source.file} as `source=`"
        raise UsageError("the model that was split is not next to the directory", location=str(directory), hint=hint)
    return SplitFiles(directory, found.name, connections, chosen)


def check_files(files: SplitFiles, subgraph: int = 0) -> list[Finding]:
    """Compare the files of a split with each other and with the source; return the differences as findings.

    Raises InvalidInputError if a model cannot be read or is broken.
    """
    connections = files.connections
    findings, without = list(islice(_unlinked(connections), _SHOWN)), list[Finding]()
    with _opened(files.source) as model:
        whole = ModelDigests(model)
        graph = graph_at(whole.graph, subgraph)
        findings += _ends(graph, connections.source, "source", exact=False)
        if findings:
            return findings
        gone = {ENDS_TABLE, EXECUTION_PLAN_TABLE, *read_annotations(whole.graph).stale}
        entries = {entry.name for entry in model.metadata} - gone
        comparison = _Comparison(connections, whole, graph)
        del whole  # its graphs take memory, and are no longer needed
    annotated = is_dynamic = False
    for index, piece in enumerate(connections.parts):
        place = f"parts[{index}]"
        with _opened(files.part(index)) as model:
            if not model.subgraphs:
                findings.append(Finding("ENDS_DIFFER", "error", place, f"{piece.file} has no subgraph"))
                continue
            names = {entry.name for entry in model.metadata}
            annotated |= AFFINITY_TABLE in names
            if missing := _listed(", ".join(sorted(entries - names))):
                message = f"{piece.file} lacks metadata that the original model has and every part needs: {missing}"
                without.append(Finding("METADATA_MISSING", "warning", f"{place}.metadata", message))
            part = ModelDigests(model)
            graph = part.graph.graphs[0]
            is_dynamic |= any(is_open(graph, tensor) for tensor in graph.inputs.tolist())
            findings += _ends(graph, piece, place, exact=True) or comparison.add(part, piece, place)
    findings = findings or [*islice([*comparison.wrong, *comparison.missing()], _SHOWN), *comparison.other_outputs()]
    findings += without[:_SHOWN]
    is_package = annotated and not (is_dynamic and len(connections.parts) > 1)
    findings += manifest_findings(files.directory, connections, expected=is_package)
    return [*findings, *islice(stray_files(files), _SHOWN)]


@contextmanager
def _opened(path: Path) -> Iterator[Model]:
    """Open a model; errors in it become an InvalidInputError that names the file."""
    if path.exists() and not path.is_file():
        raise InvalidInputError("not a regular file", location=str(path))
    try:
        with open_model(path) as model:
            yield model
    except (InvalidInputError, EditError) as error:  # EditError: an index out of range
        place = str(path) if error.location in (None, str(path)) else f"{path}: {error.location}"
        raise InvalidInputError(error.message, location=place, hint=error.hint) from error


class _Comparison:
    """The operators of the source, and the operators and tensors (by name) of the parts added so far.

    Operators that depend only on constants, and those that name or initialize resources, may be in several parts.
    """

    def __init__(self, connections: Connections, whole: ModelDigests, graph: Graph) -> None:
        inputs, given = graph.inputs.tolist(), whole.inputs(graph.index)
        self._connections, self._codes = connections, graph.operators.code_names
        self._source, self._state = whole.computed(graph.index, given), whole.resources.state(graph.index)
        ends = zip(connections.source.inputs, inputs, strict=True)
        self._known = {name: (given[tensor], whole.form(graph.index, tensor)) for name, tensor in ends}
        self._expected = [self._source.tensors[tensor] for tensor in graph.outputs.tolist()]
        self._place = f"source.{graph.place()}"
        self._left, self._seen = Counter(self._source.operators.values()), set[bytes]()
        self._copied = {self._source.operators[operator] for operator in (*graph.folded, *self._state.copied)}
        self.wrong: list[Finding] = []

    def add(self, part: ModelDigests, piece: Piece, place: str) -> list[Finding]:
        """Add a part: count its operators, and record the tensors that it produces. Return its wrong inputs.

        The results of a wrong part are unknown, so nothing that is computed from them is compared.
        """
        if not self._known.keys() >= set(piece.inputs):
            return []
        graph, findings = part.graph.graphs[0], []
        inputs = list(zip(piece.inputs, graph.inputs.tolist(), strict=True))
        for slot, (name, tensor) in enumerate(inputs):
            if part.form(0, tensor) != self._known[name][1]:
                message = (
                    f"{name!r} differs in type, shape or quantization from the output of the part that produces it"
                )
                findings.append(Finding("FORM_DIFFERS", "error", f"{place}.inputs[{slot}]", message))
        found = part.computed(0, {tensor: self._known[name][0] for name, tensor in inputs})
        for name, tensor in zip(piece.outputs, graph.outputs.tolist(), strict=True):
            self._known[name] = found.tensors[tensor], part.form(0, tensor)
        source, here = self._source.operators, set(found.operators.values())
        known, computed = set(source.values()), set(self._source.tensors.values())
        self._seen.update(found.tensors.values())
        for index, operator in found.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
            elif operator not in self._copied and computed.issuperset(found.reads[index]):
                problem = "is duplicated" if operator in known else _UNKNOWN
                message = f"{graph.operators.code_names[index]} of {piece.file} {problem}"
                self.wrong.append(Finding("OPERATORS_DIFFER", "error", f"{place}.operators[{index}]", message))
        for index, users in self._state.copied.items():
            if source[index] not in here and any(source[user] in here for user in users):
                message = f"{self._codes[index]} is not in {piece.file}, whose operators need it"
                self.wrong.append(Finding("OPERATORS_DIFFER", "error", f"{self._place}.operators[{index}]", message))
        return findings

    def missing(self) -> Iterator[Finding]:
        """Yield the operators of the source that no part contains."""
        for index, operator in self._source.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
                if self._seen.issuperset(self._source.reads[index]):
                    place = f"{self._place}.operators[{index}]"
                    yield Finding("OPERATORS_DIFFER", "error", place, f"{self._codes[index]} is in no part")

    def other_outputs(self) -> Iterator[Finding]:
        """Yield the outputs that the parts compute differently from the source."""
        for slot, (name, expected) in enumerate(zip(self._connections.source.outputs, self._expected, strict=True)):
            if self._known[name][0] != expected:
                message = f"{name!r} differs from that of the original model; split again"
                yield Finding("OUTPUT_DIFFERS", "error", f"source.outputs[{slot}]", message)


def _ends(graph: Graph, piece: Piece, place: str, *, exact: bool) -> list[Finding]:
    """Compare inputs and outputs with those in the model: their number and, if `exact`, their names."""
    findings = []
    for what, names, tensors in (("inputs", piece.inputs, graph.inputs), ("outputs", piece.outputs, graph.outputs)):
        real = [text(graph.values.names[tensor]) for tensor in tensors.tolist()]
        if len(real) != len(names) or (exact and real != list(names)):
            message = f"the model has {_listed(real)}, not {_listed(names)}"
            findings.append(Finding("ENDS_DIFFER", "error", f"{place}.{what}", message))
    return findings


def _listed(names: object) -> str:
    words = repr(list(names)) if isinstance(names, list | tuple) else str(names)
    return words if len(words) <= 200 else f"{words[:200]}..."


def _unlinked(connections: Connections) -> Iterator[Finding]:
    """Report invalid connections: an earlier part must produce each input, and names and files must be unique."""
    makers = Counter(name for part in connections.parts for name in set(part.outputs))
    fed = set(connections.source.inputs)
    known, files = set(fed), set[str]()
    if len(fed) < len(connections.source.inputs):
        yield Finding("MADE_TWICE", "error", "source.inputs", "two inputs have the same name")
    for index, part in enumerate(connections.parts):
        if part.file in files:
            yield Finding("MADE_TWICE", "error", f"parts[{index}].file", f"{part.file!r} is also an earlier part")
        files.add(part.file)
        for slot, name in enumerate(part.inputs):
            if name not in known:
                why = "only a later part produces it" if name in makers else "no part produces it"
                place = f"parts[{index}].inputs[{slot}]"
                yield Finding("NOT_MADE_BEFORE", "error", place, f"{name!r} is an input, but {why}")
        for slot, name in enumerate(part.outputs):
            # A part may pass on an input of the whole model.
            if name in known and not (name in fed and name in part.inputs):
                place = f"parts[{index}].outputs[{slot}]"
                yield Finding("MADE_TWICE", "error", place, f"{name!r} is produced by two parts")
        known.update(part.outputs)
    for slot, name in enumerate(connections.source.outputs):
        if name not in known:
            yield Finding("NOT_MADE", "error", f"source.outputs[{slot}]", f"no part produces {name!r}")


def manifest_findings(directory: Path, connections: Connections, *, expected: bool) -> Iterator[Finding]:
    """Compare the manifest with the connections; if `expected`, report a missing one if onert could run it."""
    path = directory / MANIFEST
    if not os.path.lexists(path):
        if expected and package_obstacle(connections) is None:
            message = "missing, so onert cannot load the directory as a package; split again"
            yield Finding("MANIFEST_MISSING", "warning", MANIFEST, message)
        return
    if not path.is_file():
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, "not a regular file")
        return
    model_type = Path(connections.parts[0].file).suffix[1:] if connections.parts else ""
    try:
        wanted = read_json(encode_manifest(connections, model_type), MANIFEST)
        difference = _difference("", read_json(path.read_bytes(), MANIFEST), wanted)
    except InvalidInputError as error:
        difference = error.message
    except OSError as error:
        difference = f"cannot read it: {error.strerror}"
    except KeyError as error:
        difference = f"no part produces the output {error}"
    if difference is not None:
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, difference)


def _difference(place: str, ours: object, theirs: object) -> str | None:
    """Return the first difference between two JSON values, where None stands for a missing value."""
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(f"{place}[{index}]", *pair) for index, pair in enumerate(zip_longest(ours, theirs))]
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(f"{place}.{key}".lstrip("."), ours.get(key), theirs.get(key)) for key in theirs | ours]
    elif ours == theirs:
        return None
    else:
        here, there = ("absent" if value is None else json.dumps(value)[:100] for value in (ours, theirs))
        return f"{place or 'the manifest'} is {here}; according to the connections, it must be {there}"
    return next(filter(None, starmap(_difference, pairs)), None)


def stray_files(files: SplitFiles) -> Iterator[Finding]:
    """Yield a finding for each file, except the source, that the split did not write; a directory gets only one."""
    ours, whole = written(files.name, files.connections), os.path.realpath(files.source)
    stray: set[Path] = set()
    for path in sorted(files.directory.rglob("*")):
        place = path.relative_to(files.directory)
        if str(place) in ours or os.path.realpath(path) == whole:
            continue
        if stray.isdisjoint(place.parents):
            yield Finding(
                "STRAY_FILE", "warning", str(place), "not in the connections, so split did not write it; remove it"
            )
        stray.add(place)
