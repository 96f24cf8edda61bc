"""Whether parts are what their connections say, and together the source: every operator once, wired alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from circletools.errors import EditError, InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.model import Model, open_model
from circletools.model.views import text
from circletools.split.connections import Connections, Piece, decode_connections, encode_manifest
from circletools.split.contents import Contents
from circletools.split.write import CONNECTIONS, MANIFEST, find_connections

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
            raise InvalidInputError(f"{piece.file!r} is no name of a file in this directory", location=str(found))
    beside = (directory / connections.source.file, directory.resolve().parent / connections.source.file)
    chosen = source or next((path for path in beside if path.is_file()), None)
    if chosen is None:
        hint = f"name {connections.source.file} with --source"
        raise UsageError("the model that was split is not beside the directory", location=str(directory), hint=hint)
    return SplitFiles(directory, found.name, connections, chosen)


def verify_split(files: SplitFiles, subgraph: int = 0) -> list[Finding]:
    """Compare the files of a split with each other and with the source; an empty list is good.

    Raises InvalidInputError where a model cannot be read or is broken.
    """
    connections = files.connections
    findings = [*_unlinked(connections), *_manifest(files)]
    with _opened(files.source) as model:
        if subgraph >= len(model.subgraphs):
            raise UsageError(f"subgraph {subgraph} does not exist; there are {len(model.subgraphs)}")
        whole = Contents(model)
        view = model.subgraphs[subgraph]
        findings += _ends(model, subgraph, connections.source, "source", exact=False)
        inputs = view.inputs.tolist()
        if findings:
            return findings
        known = {
            name: whole.input(subgraph, slot, tensor)
            for slot, (name, tensor) in enumerate(zip(connections.source.inputs, inputs, strict=True))
        }
        forms = {
            name: whole.form(subgraph, tensor) for name, tensor in zip(connections.source.inputs, inputs, strict=True)
        }
        given = dict(zip(inputs, known.values(), strict=True))
        flow = whole.flow(subgraph, given)
        expected = {
            name: flow.tensors[tensor]
            for name, tensor in zip(connections.source.outputs, view.outputs.tolist(), strict=True)
        }
    operators: Counter[bytes] = Counter()
    for index in range(len(connections.parts)):
        found, counts = _check_part(files, index, known, forms)
        operators += counts
        findings += found
    if not findings:
        findings += _operators(flow.operators, operators)
        findings += [
            Finding("OUTPUT_DIFFERS", "error", f"source.outputs[{slot}]", f"{name!r} is not what the source computes")
            for slot, name in enumerate(connections.source.outputs)
            if known[name] != expected[name]
        ]
    return findings


@contextmanager
def _opened(path: Path) -> Iterator[Model]:
    """Open a model; what is wrong in it is an InvalidInputError that names the file."""
    try:
        with open_model(path) as model:
            yield model
    except (InvalidInputError, EditError) as error:  # EditError: an index that leads nowhere
        place = str(path) if error.location in (None, str(path)) else f"{path}: {error.location}"
        raise InvalidInputError(error.message, location=place, hint=error.hint) from error


def _check_part(
    files: SplitFiles, index: int, known: dict[str, bytes], forms: dict[str, bytes]
) -> tuple[list[Finding], Counter[bytes]]:
    """Check a part, and add what it makes to `known` and `forms`, both by name.

    Nothing is known of what a part makes whose ends are others, nor of what is made of that.
    """
    piece = files.connections.parts[index]
    with _opened(files.part(index)) as model:
        if not model.subgraphs:
            return [Finding("ENDS_DIFFER", "error", piece.file, "the model has no subgraph")], Counter()
        contents, view = Contents(model), model.subgraphs[0]
        findings = _ends(model, 0, piece, f"parts[{index}]", exact=True)
        if findings or not known.keys() >= set(piece.inputs):
            return findings, Counter()
        inputs = list(zip(piece.inputs, view.inputs.tolist(), strict=True))
        for slot, (name, tensor) in enumerate(inputs):
            if contents.form(0, tensor) != forms[name]:
                findings.append(
                    Finding(
                        "FORM_DIFFERS", "error", f"parts[{index}].inputs[{slot}]",
                        f"{name!r} has another type, shape or quantization than where it is made",
                    )
                )  # fmt: skip
        flow = contents.flow(0, {tensor: known[name] for name, tensor in inputs})
        for name, tensor in zip(piece.outputs, view.outputs.tolist(), strict=True):
            known[name], forms[name] = flow.tensors[tensor], contents.form(0, tensor)
        return findings, flow.operators


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
        findings.append(Finding("MADE_TWICE", "error", "source.inputs", "two inputs have one name"))
    for index, part in enumerate(connections.parts):
        for slot, name in enumerate(part.inputs):
            if name not in known:
                why = "a later part makes it" if name in makers else "nobody makes it"
                place = f"parts[{index}].inputs[{slot}]"
                findings.append(Finding("NOT_MADE_BEFORE", "error", place, f"{name!r} is needed, and {why}"))
        for slot, name in enumerate(part.outputs):
            # A part may hand an input of the whole model on.
            if name in known and not (name in fed and name in part.inputs):
                place = f"parts[{index}].outputs[{slot}]"
                findings.append(Finding("MADE_TWICE", "error", place, f"{name!r} is made by two"))
        known.update(part.outputs)
    for slot, name in enumerate(connections.source.outputs):
        if name not in known:
            findings.append(Finding("NOT_MADE", "error", f"source.outputs[{slot}]", f"no part makes {name!r}"))
    return findings[:_SHOWN]


def _operators(expected: Mapping[bytes, int], found: Mapping[bytes, int]) -> Iterator[Finding]:
    missing = sum((Counter(expected) - Counter(found)).values())
    further = sum((Counter(found) - Counter(expected)).values())
    if missing or further:
        message = (
            f"{missing} operators of the source are in no part, and {further} of the parts are not in the source"
        )
        yield Finding("OPERATORS_DIFFER", "error", "parts", message)


def _manifest(files: SplitFiles) -> Iterator[Finding]:
    path = files.directory / MANIFEST
    if not path.exists():
        return
    try:
        model_type = Path(files.connections.parts[0].file).suffix[1:] if files.connections.parts else ""
        agrees = path.read_bytes() == encode_manifest(files.connections, model_type)
    except (OSError, KeyError):
        agrees = False
    if not agrees:
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, f"it is not what {text(files.name.encode())} says")
