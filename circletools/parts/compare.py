"""Check that the files of a split agree and together equal the source: each operator once, with equal connections.

An operator differs from the source if its inputs do. To report causes rather than consequences, an operator is
reported only if the other side computes all of its inputs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from circletools.affinity.tables import AFFINITY_TABLE
from circletools.errors import EditError, InvalidInputError, UsageError, shortened
from circletools.findings import Finding
from circletools.graph.graph import Graph
from circletools.graph.resources import State
from circletools.model.model import Model, open_model
from circletools.model.views import text
from circletools.origin.tables import EXECUTION_PLAN_TABLE
from circletools.parts.digests import Computed, ModelDigests
from circletools.parts.metadata import ENDS_TABLE, read_annotations
from circletools.parts.names import graph_at, is_open
from circletools.parts.package import (
    CONNECTIONS,
    MANIFEST,
    Connections,
    Piece,
    decode_connections,
    encode_manifest,
    find_connections,
    manifest_difference,
    package_obstacle,
    written,
)

_SHOWN = 20  # the most findings of one kind
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

    Raises InvalidInputError if there is no split, UsageError if the source is not found.
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
        is_long = len(piece.file.encode(errors="surrogatepass")) > 255  # which no file system accepts
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
    findings = list(_unlinked(connections))
    with _opened(files.source) as model:
        whole = ModelDigests(model)
        findings += _ends(graph_at(whole.graph, subgraph), connections.source, "source", exact=False)
        if findings:
            return findings
        gone = {ENDS_TABLE, EXECUTION_PLAN_TABLE, *read_annotations(whole.graph).stale}
        names = frozenset(entry.name for entry in model.metadata)
        parts = _Parts(files, whole, subgraph, names - gone)
        del whole  # its graphs take memory, and are no longer needed
    for index in range(len(connections.parts)):
        findings += parts.check(index)
    if not findings:
        findings += _first([*parts.further, *parts.comparison.missing()])
        findings += parts.other_outputs()
    findings += _first(parts.without)
    crossing_open = parts.open and len(connections.parts) > 1
    findings += manifest_findings(files.directory, connections, expected=parts.annotated and not crossing_open)
    findings += _first(stray_files(files))
    return findings


def _first(findings: Iterable[Finding]) -> list[Finding]:
    return list(islice(findings, _SHOWN))


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


class _Parts:
    """The source, the parts checked so far, and the tensors that these produce, by name."""

    def __init__(self, files: SplitFiles, whole: ModelDigests, subgraph: int, expected: frozenset[str]) -> None:
        self._files, self._entries = files, expected
        graph, given = whole.graph.graphs[subgraph], whole.inputs(subgraph)
        inputs = list(zip(files.connections.source.inputs, graph.inputs.tolist(), strict=True))
        computed = whole.computed(subgraph, given)
        self._known = {name: given[tensor] for name, tensor in inputs}
        self._forms = {name: whole.form(subgraph, tensor) for name, tensor in inputs}
        self._expected = [computed.tensors[tensor] for tensor in graph.outputs.tolist()]
        self.comparison = Comparison(graph, computed, whole.resources.state(subgraph))
        self.further: list[Finding] = []
        self.without: list[Finding] = []
        self.annotated = self.open = False

    def check(self, index: int) -> list[Finding]:
        """Check a part, and record the tensors that it produces.

        If the inputs or outputs of a part are wrong, its results and everything computed from them count as unknown.
        """
        piece, place = self._files.connections.parts[index], f"parts[{index}]"
        with _opened(self._files.part(index)) as model:
            if not model.subgraphs:
                return [Finding("ENDS_DIFFER", "error", place, f"{piece.file} has no subgraph")]
            part = ModelDigests(model)
            graph = part.graph.graphs[0]
            self._check_metadata({entry.name for entry in model.metadata}, piece.file, place)
            findings = _ends(graph, piece, place, exact=True)
            if findings or not self._known.keys() >= set(piece.inputs):
                return findings
            inputs = list(zip(piece.inputs, graph.inputs.tolist(), strict=True))
            message = "differs in type, shape or quantization from the output of the part that produces it"
            findings += [
                Finding("FORM_DIFFERS", "error", f"{place}.inputs[{slot}]", f"{name!r} {message}")
                for slot, (name, tensor) in enumerate(inputs)
                if part.form(0, tensor) != self._forms[name]
            ]
            self.open |= any(is_open(graph, tensor) for _, tensor in inputs)
            computed = part.computed(0, {tensor: self._known[name] for name, tensor in inputs})
            for name, tensor in zip(piece.outputs, graph.outputs.tolist(), strict=True):
                self._known[name], self._forms[name] = computed.tensors[tensor], part.form(0, tensor)
            self.further += self.comparison.add(computed, graph.operators.code_names, piece.file, place)
            self.further += self.comparison.lacking(computed, piece.file)
            return findings

    def other_outputs(self) -> Iterator[Finding]:
        """Yield the outputs that the parts compute differently from the source."""
        outputs = self._files.connections.source.outputs
        for slot, (name, expected) in enumerate(zip(outputs, self._expected, strict=True)):
            if self._known[name] != expected:
                message = f"{name!r} differs from the original model; split again"
                yield Finding("OUTPUT_DIFFERS", "error", f"source.outputs[{slot}]", message)

    def _check_metadata(self, names: set[str], file: str, place: str) -> None:
        self.annotated |= AFFINITY_TABLE in names
        missing = ", ".join(sorted(self._entries - names))
        if missing:
            message = f"{file} lacks metadata that the original model has and every part needs: {_listed(missing)}"
            self.without.append(Finding("METADATA_MISSING", "warning", f"{place}.metadata", message))


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


def _unlinked(connections: Connections) -> list[Finding]:
    """Report invalid connections: an earlier part must produce each input, and names must be unique."""
    findings: list[Finding] = []
    makers = Counter(name for part in connections.parts for name in set(part.outputs))
    fed = set(connections.source.inputs)
    known = set(fed)
    if len(fed) < len(connections.source.inputs):
        findings.append(Finding("MADE_TWICE", "error", "source.inputs", "two inputs have the same name"))
    for index, part in enumerate(connections.parts):
        for slot, name in enumerate(part.inputs):
            if name not in known:
                why = "only a later part produces it" if name in makers else "no part produces it"
                place = f"parts[{index}].inputs[{slot}]"
                findings.append(Finding("NOT_MADE_BEFORE", "error", place, f"{name!r} is an input, but {why}"))
        for slot, name in enumerate(part.outputs):
            # A part may pass on an input of the whole model.
            if name in known and not (name in fed and name in part.inputs):
                place = f"parts[{index}].outputs[{slot}]"
                findings.append(Finding("MADE_TWICE", "error", place, f"{name!r} is produced by two parts"))
        known.update(part.outputs)
    for slot, name in enumerate(connections.source.outputs):
        if name not in known:
            findings.append(Finding("NOT_MADE", "error", f"source.outputs[{slot}]", f"no part produces {name!r}"))
    return findings[:_SHOWN]


class Comparison:
    """The operators of the source, and those of the parts checked so far.

    Operators that depend only on constants, and those that `state` lists as copied, may be in several parts.
    """

    def __init__(self, graph: Graph, source: Computed, state: State) -> None:
        self._source, self._codes, self._state = source, graph.operators.code_names, state
        self._place = f"source.{graph.place()}"
        self._left = Counter(source.operators.values())
        self._known = set(source.operators.values())
        self._computed = set(source.tensors.values())
        self._seen: set[bytes] = set()
        self._copied = {source.operators[operator] for operator in (*graph.folded, *state.copied)}

    def add(self, part: Computed, codes: Sequence[str], file: str, place: str) -> Iterator[Finding]:
        """Count the operators of a part, and yield a finding for each that occurs too often."""
        self._seen.update(part.tensors.values())
        for index, operator in part.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
            elif operator not in self._copied and self._computed.issuperset(part.reads[index]):
                problem = "is duplicated" if operator in self._known else _UNKNOWN
                where = f"{place}.operators[{index}]"
                yield Finding("OPERATORS_DIFFER", "error", where, f"{codes[index]} of {file} {problem}")

    def lacking(self, part: Computed, file: str) -> Iterator[Finding]:
        """Yield the operators that a part lacks although they name or initialize resources that it uses."""
        source, there = self._source.operators, set(part.operators.values())
        for operator, users in self._state.copied.items():
            if source[operator] not in there and any(source[user] in there for user in users):
                where = f"{self._place}.operators[{operator}]"
                message = f"{self._codes[operator]} is not in {file}, whose operators need it"
                yield Finding("OPERATORS_DIFFER", "error", where, message)

    def missing(self) -> Iterator[Finding]:
        """Yield the operators of the source that no part contains."""
        for index, operator in self._source.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
                if self._seen.issuperset(self._source.reads[index]):
                    place = f"{self._place}.operators[{index}]"
                    yield Finding("OPERATORS_DIFFER", "error", place, f"{self._codes[index]} is in no part")


def manifest_findings(directory: Path, connections: Connections, *, expected: bool) -> Iterator[Finding]:
    """Compare the manifest with the connections. With `expected`, a manifest must exist if these allow a package."""
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
        difference = manifest_difference(path.read_bytes(), encode_manifest(connections, model_type))
    except OSError as error:
        difference = f"cannot read it: {error.strerror}"
    except KeyError as error:  # an output that no part produces
        difference = f"no part produces the output {error}"
    if difference is not None:
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, difference)


def stray_files(files: SplitFiles) -> Iterator[Finding]:
    """Yield a finding for each file, except the source, that the split did not write; only one for a directory."""
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
