"""Check that parts agree with their connections, and together equal the source: every operator once, wired alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from circletools.affinity.tables import AFFINITY_TABLE
from circletools.errors import EditError, InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.split.annotations import read_annotations
from circletools.split.connections import Connections, Piece, decode_connections
from circletools.split.contents import Contents
from circletools.split.directory import manifest_findings, stray_files
from circletools.split.operators import Comparison
from circletools.split.state import read_state
from circletools.split.write import CONNECTIONS, find_connections, is_open

_SHOWN = 20  # findings of one kind


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """A directory that holds a split, what connects it, and the source."""

    directory: Path
    name: str
    connections: Connections
    source: Path

    def part(self, index: int) -> Path:
        """Return the file of a part."""
        return self.directory / self.connections.parts[index].file


def open_split(directory: Path, source: Path | None = None) -> SplitFiles:
    """Find what belongs to a split; without `source`, its model in the directory or beside it.

    Raises InvalidInputError where there is no split, UsageError where the source is not found.
    """
    found = find_connections(directory)
    if found is None:
        raise InvalidInputError(
            f"not the directory of a split: one *{CONNECTIONS} is needed", location=str(directory)
        )
    try:
        connections = decode_connections(found.read_bytes(), str(found))
    except OSError as error:
        raise InvalidInputError(f"cannot read it: {error.strerror}", location=str(found)) from error
    for piece in (connections.source, *connections.parts):
        if "/" in piece.file or "\0" in piece.file or piece.file in ("", ".", ".."):
            raise InvalidInputError(
                f"{piece.file!r} is not the name of a file in this directory", location=str(found)
            )
    beside = (directory / connections.source.file, directory.resolve().parent / connections.source.file)
    chosen = source or next((path for path in beside if path.is_file()), None)
    if chosen is None:
        hint = f"name {connections.source.file} with --source"
        raise UsageError("the model that was split is not beside the directory", location=str(directory), hint=hint)
    return SplitFiles(directory, found.name, connections, chosen)


def check_files(files: SplitFiles, subgraph: int = 0) -> list[Finding]:
    """Compare the files of a split with each other and with the source; an empty list means no difference.

    Raises InvalidInputError where a model cannot be read or is broken.
    """
    connections = files.connections
    findings = list(_unlinked(connections))
    with _opened(files.source) as model:
        if subgraph >= len(model.subgraphs):
            raise UsageError(f"subgraph {subgraph} does not exist; there are {len(model.subgraphs)}")
        findings += _ends(model, subgraph, connections.source, "source", exact=False)
        if findings:
            return findings
        parts = _Parts(files, model, subgraph)
    for index in range(len(connections.parts)):
        findings += parts.check(index)
    if not findings:
        findings += _first([*parts.further, *parts.comparison.missing()])
        findings += parts.other_outputs()
    findings += _first(parts.without)
    crossing_open = parts.open and len(connections.parts) > 1
    findings += manifest_findings(files.directory, connections, expected=parts.annotated and not crossing_open)
    findings += _first(stray_files(files.directory, files.name, connections, files.source))
    return findings


def _first(findings: Iterable[Finding]) -> list[Finding]:
    return list(islice(findings, _SHOWN))


@contextmanager
def _opened(path: Path) -> Iterator[Model]:
    """Open a model; what is wrong in it is an InvalidInputError that names the file."""
    if path.exists() and not path.is_file():
        raise InvalidInputError("not a regular file", location=str(path))
    try:
        with open_model(path) as model:
            yield model
    except (InvalidInputError, EditError) as error:  # EditError: an index that leads nowhere
        place = str(path) if error.location in (None, str(path)) else f"{path}: {error.location}"
        raise InvalidInputError(error.message, location=place, hint=error.hint) from error


class _Parts:
    """What is known of the source and of the parts that were checked; what they make by name."""

    def __init__(self, files: SplitFiles, model: Model, subgraph: int) -> None:
        self._files = files
        source, whole, view = files.connections.source, Contents(model), model.subgraphs[subgraph]
        inputs = dict(zip(source.inputs, view.inputs.tolist(), strict=True))
        given = whole.inputs(subgraph)
        flow = whole.flow(subgraph, given)
        self._known = {name: given[tensor] for name, tensor in inputs.items()}
        self._forms = {name: whole.form(subgraph, tensor) for name, tensor in inputs.items()}
        self._expected = [flow.tensors[tensor] for tensor in view.outputs.tolist()]
        self._inherited = frozenset(read_annotations(model).entries.values())
        self.comparison = Comparison(
            flow,
            model.code_names(subgraph),
            f"source.subgraphs[{subgraph}]",
            read_state(model, subgraph),
            graph_of(model, subgraph).dag.constants,
        )
        self.further: list[Finding] = []
        self.without: list[Finding] = []
        self.annotated = self.open = False

    def check(self, index: int) -> list[Finding]:
        """Check a part, and add what it makes to what is known.

        Nothing is known of what a part makes whose ends are others, nor of what is made of that.
        """
        piece, place = self._files.connections.parts[index], f"parts[{index}]"
        with _opened(self._files.part(index)) as model:
            if not model.subgraphs:
                return [Finding("ENDS_DIFFER", "error", place, f"{piece.file} has no subgraph")]
            contents, view = Contents(model), model.subgraphs[0]
            self._look_at_metadata(model, piece.file, place)
            findings = _ends(model, 0, piece, place, exact=True)
            if findings or not self._known.keys() >= set(piece.inputs):
                return findings
            inputs = list(zip(piece.inputs, view.inputs.tolist(), strict=True))
            findings += [
                Finding(
                    "FORM_DIFFERS", "error", f"{place}.inputs[{slot}]",
                    f"{name!r} has another type, shape or quantization than in the part that produces it",
                )
                for slot, (name, tensor) in enumerate(inputs)
                if contents.form(0, tensor) != self._forms[name]
            ]  # fmt: skip
            self.open |= any(is_open(view.tensors[tensor]) for _, tensor in inputs)
            flow = contents.flow(0, {tensor: self._known[name] for name, tensor in inputs})
            for name, tensor in zip(piece.outputs, view.outputs.tolist(), strict=True):
                self._known[name], self._forms[name] = flow.tensors[tensor], contents.form(0, tensor)
            self.further += self.comparison.add(flow, model.code_names(0), piece.file, place)
            self.further += self.comparison.lacking(flow, piece.file)
            return findings

    def other_outputs(self) -> Iterator[Finding]:
        """Yield the outputs that the parts compute in another way than the source."""
        outputs = self._files.connections.source.outputs
        for slot, (name, expected) in enumerate(zip(outputs, self._expected, strict=True)):
            if self._known[name] != expected:
                message = f"{name!r} is computed otherwise than in the source; split again"
                yield Finding("OUTPUT_DIFFERS", "error", f"source.outputs[{slot}]", message)

    def _look_at_metadata(self, model: Model, file: str, place: str) -> None:
        names = {entry.name for entry in model.metadata}
        self.annotated |= AFFINITY_TABLE in names
        missing = ", ".join(sorted(self._inherited - names))
        if missing:
            message = f"{file} has no {_listed(missing)}, as the source and every part of it"
            self.without.append(Finding("METADATA_MISSING", "warning", f"{place}.metadata", message))


def _ends(model: Model, subgraph: int, piece: Piece, place: str, *, exact: bool) -> list[Finding]:
    """Compare inputs and outputs with those in the model: their number, and where it is `exact` their names."""
    view, findings = model.subgraphs[subgraph], []
    for what, names, tensors in (
        ("inputs", piece.inputs, view.inputs.tolist()),
        ("outputs", piece.outputs, view.outputs.tolist()),
    ):
        real = [view.tensors[tensor].name for tensor in tensors]
        if len(real) != len(names) or (exact and real != list(names)):
            message = f"the model has {_listed(real)}, not {_listed(names)}"
            findings.append(Finding("ENDS_DIFFER", "error", f"{place}.{what}", message))
    return findings


def _listed(names: object) -> str:
    words = repr(list(names)) if isinstance(names, list | tuple) else str(names)
    return words if len(words) <= 200 else f"{words[:200]}..."


def _unlinked(connections: Connections) -> list[Finding]:
    """Return the ends that lead nowhere: every input must have been made before, and every name once."""
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
            # A part may hand an input of the whole model on.
            if name in known and not (name in fed and name in part.inputs):
                place = f"parts[{index}].outputs[{slot}]"
                findings.append(Finding("MADE_TWICE", "error", place, f"{name!r} is produced by two parts"))
        known.update(part.outputs)
    for slot, name in enumerate(connections.source.outputs):
        if name not in known:
            findings.append(Finding("NOT_MADE", "error", f"source.outputs[{slot}]", f"no part produces {name!r}"))
    return findings[:_SHOWN]
