"""The documents of a split directory: connections by tensor name, and the manifest of an nnpackage.

`<stem>.part.conn.json` has the format of circle-partitioner:

    {"source": {"file", "inputs", "outputs"}, "parts": [{"file", "inputs", "outputs"}, ...]}

The manifest (ONE, nnpackage/spec) has `models`, `model-types`, and inputs and outputs as "model:subgraph:slot".
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.storage.documents import read_json

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
