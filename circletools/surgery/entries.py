"""The functions of `ct.metadata`: metadata entries, and descriptions of inputs and outputs in TFLITE_METADATA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import isfinite
from typing import Any

from circletools.affinity import store
from circletools.edit.archive import archive_entries
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.edit.signatures import SIDES, Direction
from circletools.errors import UsageError
from circletools.graph.build import model_graph
from circletools.inspection import MetadataSummary, metadata_summaries
from circletools.metadata.entries import write_entries
from circletools.metadata.tflite import TFLITE_METADATA, decoded, encoded, from_document
from circletools.model.model import Model
from circletools.model.views import Tensor
from circletools.origin.embed import strip
from circletools.parts.names import graph_at
from circletools.storage.documents import read_json
from circletools.surgery.rename import Pair, rename_metadata, split_pair
from circletools.surgery.setting import EndNames
from circletools.wording import Attributes, EnumName, Tabular, counted, suggestion, warn

_FILES = {"associated_files", "sentencePiece_model", "vocab_file"}
_IMAGE_RANK, _COLORS = 4, {1: "GRAYSCALE", 3: "RGB"}


@dataclass(frozen=True, slots=True, repr=False)
class Entries(Tabular):
    """The metadata entries of a model, in file order."""

    entries: tuple[MetadataSummary, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the name, buffer index and size of each entry; `bytes` is None if the buffer does not exist."""
        return [asdict(entry) for entry in self.entries]


def list_entries(model: Model) -> Entries:
    """Return the metadata entries of a model."""
    return Entries(metadata_summaries(model))


class Octets(bytes):
    """Bytes of a file. Comparison with a string, or with bytes that lack only final zero bytes, causes a warning."""

    def __eq__(self, other: object) -> bool:
        same, own = bytes.__eq__(self, other), self.rstrip(b"\0")
        if isinstance(other, str) or (same is False and other and own == other):
            way = f"value.rstrip(b'\\0'){'.decode()' * isinstance(other, str)}"
            warn(f"these bytes never equal {other[:80]!r}; compare {way}", direct=True)
        return same

    __ne__ = EnumName.__ne__
    __hash__ = bytes.__hash__


def get_entry(model: Model, name: str) -> bytes:
    """Return the value of a metadata entry; if several entries have this name, the value of the last.

    Raises UsageError if the model has no entry with this name.
    """
    value = model.metadata_value(name)
    if value is None:
        raise _unknown(model, name)
    return Octets(value)


def set_entry(edit: ModelEdit, name: str, value: bytes) -> RewriteResult:
    """Set the value of a metadata entry; a missing entry is added."""
    return write_entries(edit, {name: value})


def remove_entries(
    edit: ModelEdit, names: Iterable[str] = (), *, origins: bool = False, affinity: bool = False, files: bool = False
) -> RewriteResult:
    """Remove all metadata entries with these names; with `origins` or `affinity`, remove their tables and stamps too.

    With `files`, the archive of associated files after the model is removed, and no longer named in TFLITE_METADATA.

    The data is removed too, unless another entry or a tensor shares it. To catch typos, raises UsageError if the
    model has no entry with a given name.
    """
    changes = []
    for name in dict.fromkeys(names):
        if not edit.remove_metadata(name):
            raise _unknown(edit.model, name)
        changes.append(f"metadata {name}: removed")
    changes += strip(edit).changes if origins else ()
    changes += store.strip(edit).changes if affinity else ()
    if files and (there := archive_entries(edit.model)):
        edit.drop_associated()
        changes += [f"{entry.filename}: removed" for entry in there]
        old = edit.metadata_value(TFLITE_METADATA)
        if old is not None and (wanted := _without_files(was := decoded(bytes(old)))) != was:
            changes += write_entries(edit, {TFLITE_METADATA: encoded(from_document(wanted)[0])}).changes
    return RewriteResult(tuple(changes))


def _without_files(described: Any) -> Any:
    """Return a part of a description without its lists of associated files."""
    if isinstance(described, dict):
        return {name: _without_files(value) for name, value in described.items() if name not in _FILES}
    return [_without_files(one) for one in described] if isinstance(described, list) else described


def rename_entries(edit: ModelEdit, names: Mapping[str, str] | Iterable[Pair]) -> RewriteResult:
    """Rename metadata entries, given a mapping of names or strings `OLD=NEW`, in one step, so names can be swapped.

    Raises UsageError if the model has no entry with an old name, and EditError if it already has one with a new name.
    """
    pairs = names.items() if isinstance(names, Mapping) else names
    return RewriteResult(tuple(rename_metadata(edit, pairs)))


def document(model: Model) -> dict[str, Any]:
    """Return the whole TFLITE_METADATA as JSON, with the field names of flatc and tflite-support.

    Raises UsageError if the model has none, and ModelFormatError if the entry is broken.
    """
    return decoded(get_entry(model, TFLITE_METADATA))


def set_document(
    edit: ModelEdit, document: Mapping[str, Any] | bytes, files: Mapping[str, bytes] | None = None
) -> RewriteResult:
    """Write TFLITE_METADATA, in the form that `document()` returns, and add `files` to the archive in the model file.

    `min_parser_version` is computed. If `document` is bytes, it is parsed as JSON. Raises UsageError, with the
    location, for fields that the schema does not define, for numbers of inputs or outputs that differ from the
    model's, and for missing files; and InvalidInputError for broken JSON.
    """
    wanted = read_json(document, "") if isinstance(document, bytes) else document
    root, named = from_document(wanted)
    for described, side in product(wanted.get("subgraph_metadata", ())[:1], SIDES):
        found, ends = len(described.get(f"{side[:-1]}_tensor_metadata", ())), len(edit.ends(0, side))
        if found != ends:
            place = f"subgraph_metadata[0].{side[:-1]}_tensor_metadata"
            raise UsageError(f"it describes {counted(found, side[:-1])}, but the model has {ends}", location=place)
    given, value = files or {}, encoded(root)
    there = {*given, *(entry.filename for entry in archive_entries(edit.model) or ())}
    if missing := [name for name in named if name not in there]:
        raise UsageError(f"it lists files that do not exist: {', '.join(missing[:8])}", hint="pass these files too")
    old = edit.metadata_value(TFLITE_METADATA)
    if old is not None and decoded(bytes(old)) == decoded(value):
        value = bytes(old)
    added = [f"{name}: {len(data)} bytes" for name, data in given.items() if edit.associate(name, data)]
    return RewriteResult((*write_entries(edit, {TFLITE_METADATA: value}).changes, *added))


@dataclass(frozen=True, slots=True)
class Description(Attributes):
    """A description for TFLITE_METADATA; `inputs` and `outputs` are pairs of a name or position and a text."""

    name: str | None = None
    description: str | None = None
    version: str | None = None
    author: str | None = None
    license: str | None = None
    inputs: tuple[Pair, ...] = ()
    outputs: tuple[Pair, ...] = ()


def describe(edit: ModelEdit, description: Description) -> RewriteResult:
    """Describe a model, its inputs and outputs, for tflite-support and MediaPipe; other metadata does not change.

    Raises UsageError if an input or output does not exist, and ModelFormatError if the entry is broken.
    """
    found = _Described(edit)
    for field in ("name", "description", "version", "author", "license"):
        if (value := getattr(description, field)) is not None:
            found.document[field] = value
    for side in SIDES:
        for name, words in map(split_pair, getattr(description, side)):
            found.tensor(side, name)[1]["description"] = words
    return set_document(edit, found.document)


def normalize(edit: ModelEdit, mean: Sequence[float], std: Sequence[float], *, of: str = "0") -> RewriteResult:
    """Describe the normalization of an input: the model expects (value - mean) / std, by channel or for all channels.

    An input of rank 4 with one or three channels counts as an image. Like tflite-support, this writes bounds only for
    FLOAT32 and UINT8. Raises UsageError if the input does not exist, or `mean` and `std` differ in length.
    """
    if len(mean) != len(std) or not all(map(isfinite, [*mean, *std])) or not mean or min(std) <= 0:
        raise UsageError("mean and std must have the same length and be finite, and std must be above 0")
    found = _Described(edit)
    tensor, described = found.tensor("inputs", of)
    units, kind = described.setdefault("process_units", []), {"options_type": "NormalizationOptions"}
    if not any(kind.items() <= one.items() for one in units):
        units.append(kind)
    next(one for one in units if kind.items() <= one.items())["options"] = {"mean": [*mean], "std": [*std]}
    shape = tensor.open_shape or ()
    if len(shape) == _IMAGE_RANK and shape[-1] in _COLORS:
        colors = {"color_space": _COLORS[shape[-1]]}
        image = {"content_properties_type": "ImageProperties", "content_properties": colors}
        described["content"] = {**image, **described.get("content", {})}
        pairs = {"FLOAT32": [*zip(mean, std, strict=True)], "UINT8": [(0.0, 1.0)]}.get(tensor.type)
        bounds = {"max": 255.0, "min": 0.0} if pairs else {}
        stats = {name: [(pixel - one) / by for one, by in pairs or ()] for name, pixel in bounds.items()}
        described["stats"] = {**described.get("stats", {}), **stats}
    return set_document(edit, found.document)


def labels(
    edit: ModelEdit,
    names: Iterable[str],
    *,
    output: str = "0",
    file: str | None = None,
    locale: str = "",
    values: bool = False,
) -> RewriteResult:
    """Add a file with labels for the entries of an output to the model's archive; each `locale` has its own file.

    The file replaces one with the same name or locale; the default name is that of the replaced file. With `values`,
    the labels are for class numbers in the output, as detectors return them. Raises UsageError if the output does not
    exist, or its last dimension is not the number of labels.
    """
    lines, found = list(names), _Described(edit)
    tensor, described = found.tensor("outputs", output)
    size = (tensor.open_shape or (0,))[-1]
    if not values and size not in (-1, len(lines)):
        hint = "choose another output, or use `values=True` if it contains class numbers"
        raise UsageError(f"{counted(len(lines), 'label')} for {size} entries of output {output}", hint=hint)
    new = {"type": "TENSOR_VALUE_LABELS" if values else "TENSOR_AXIS_LABELS", "locale": locale}
    files = described.setdefault("associated_files", [])
    same = [one for one in files if one.get("name") == file]
    same += [one for one in files if (one.get("type"), one.get("locale", "")) == (new["type"], locale)]
    file = file or (same[0].get("name") if same else None) or f"labels{locale and '_'}{locale}.txt"
    new["name"] = file
    files += [] if same else [{}]
    (same or files[-1:])[0].update({key: value for key, value in new.items() if value})
    text = "\n".join([*lines, ""])
    return set_document(edit, found.document, {file: text.encode("utf-8", "surrogateescape")})


class _Described:
    """TFLITE_METADATA of the main subgraph in an edit, as a mutable `document`."""

    def __init__(self, edit: ModelEdit) -> None:
        graph = graph_at(model_graph(edit.model), 0)
        self._ends = {side: EndNames(edit.model, graph, side) for side in SIDES}
        self._graph, data = edit.model.subgraphs[0], edit.metadata_value(TFLITE_METADATA)
        self.document: dict[str, Any] = {} if data is None else decoded(bytes(data))

    def tensor(self, side: Direction, name: str) -> tuple[Tensor, dict[str, Any]]:
        """Return an input or output and its description. Raises UsageError if there is no such input or output."""
        graphs = self.document.setdefault("subgraph_metadata", [])
        graphs += [] if graphs else [{}]
        for one, ends in self._ends.items():  # MediaPipe ignores them if there are too few
            known = graphs[0].setdefault(f"{one[:-1]}_tensor_metadata", [])
            known += [{"name": name} for name in ends.names[len(known) :]]
        position = self._ends[side].find(name)
        tensor = int(getattr(self._graph, side)[position])
        return self._graph.tensors[tensor], graphs[0][f"{side[:-1]}_tensor_metadata"][position]


def _unknown(model: Model, name: str) -> UsageError:
    known = {entry.name for entry in model.metadata}
    hint = suggestion(name, known) if known else "it has none"
    if (edit := model.editing()) is not None and name in edit.metadata_names:
        hint = f"a model shows no edits: write edit.metadata_value({name!r}), or open the file that the edit saved"
    return UsageError(f"the model has no metadata entry {name!r}", hint=hint)
