"""How parts belong together, as files: the connections by tensor name, and the manifest of an nnpackage.

`<stem>.part.conn.json` is what circle-partitioner writes:

    {"source": {"file", "inputs", "outputs"}, "parts": [{"file", "inputs", "outputs"}, ...]}

The manifest is that of an nnpackage (ONE, nnpackage/spec): `models`, `model-types`, ends as "model:subgraph:slot".
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from circletools.errors import InvalidInputError
from circletools.storage.strict_json import read_json


@dataclass(frozen=True, slots=True)
class Piece:
    """A model file and the names of its inputs and outputs, in order."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connections:
    """The whole model, and its parts in the order they run."""

    source: Piece
    parts: tuple[Piece, ...]


def encode_connections(connections: Connections) -> bytes:
    """Return the document. Bytes of a name that are no UTF-8 are lone surrogates, as everywhere in JSON here."""
    return _document(asdict(connections))


def decode_connections(data: bytes, name: str) -> Connections:
    """Read such a document. Raises InvalidInputError, naming the file and what is wrong."""
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
    """Return the manifest. An input that several parts read stands once for each of them, in the order of parts."""
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


def manifest_difference(found: bytes, expected: bytes) -> str | None:
    """Return what a manifest first says otherwise than `expected`, None where both say the same."""
    try:
        ours, theirs = read_json(found, "manifest"), read_json(expected, "manifest")
    except InvalidInputError as error:
        return error.message
    if not isinstance(ours, dict):
        return "this is no object"
    for key in (*theirs, *ours):
        difference = _difference(key, ours.get(key), theirs.get(key))
        if difference is not None:
            return difference
    return None


def _difference(place: str, ours: object, theirs: object) -> str | None:
    """Return the first of two values that is not the same; None is one that is absent."""
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = enumerate(zip_longest(ours, theirs))
        return next((said for index, pair in pairs if (said := _difference(f"{place}[{index}]", *pair))), None)
    if ours == theirs:
        return None
    here, there = ("nothing" if value is None else json.dumps(value)[:100] for value in (ours, theirs))
    return f"{place} is {here}, and by the connections {there}"


def _document(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
