"""Targets that read the files of a split: the model, the connections and the parts.

They write to a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from circletools.affinity.store import annotate
from circletools.edit.edit import ModelEdit
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.split import MANIFEST, split
from circletools.planning.measuring import plan_of_parts
from fuzz.models import plan_of
from fuzz.seeds import model_seed
from fuzz.target import no_refusal

_MODEL = "circle/inception"


def _annotated(data: bytes) -> bytes:
    with open_model(data) as model:
        edit = ModelEdit(model)
        annotate(edit, plan_of(model))
        return edit.to_bytes()


@cache
def annotated() -> bytes:
    """Return a model of testdata with an affinity."""
    return _annotated(model_seed(_MODEL))


def split_model(data: bytes) -> None:
    """Split a model by its own devices or by assigned ones; the parts together must equal the whole."""
    if crc32(data) % 2:
        data = _annotated(data)
    with TemporaryDirectory() as name, open_model(data) as model:
        folder, source = Path(name) / "parts", Path(name) / "model.circle"
        done = split(model, folder)
        source.write_bytes(data)
        with no_refusal("what was split cannot be read"):
            findings = check_files(open_split(folder, source))
        assert not findings, findings
        assert {path.name for path in Path(name).iterdir()} == {"parts", "model.circle"}
        written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        named = {piece.file for piece in done.connections.parts}
        assert len(named) == len(done.connections.parts)
        assert named <= written <= named | {"model.part.conn.json", MANIFEST}


@cache
def split_files() -> dict[str, bytes]:
    """Return the files of a split, by path in its folder."""
    with TemporaryDirectory() as name, open_model(annotated()) as model:
        folder = Path(name) / "parts"
        split(model, folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def connections_seeds() -> list[bytes]:
    """Return documents of connections."""
    return [data for name, data in split_files().items() if name.endswith(".json")]


def part_seeds() -> list[bytes]:
    """Return parts."""
    return [data for name, data in split_files().items() if name.endswith(".circle")]


@contextmanager
def _with(name: str, data: bytes) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of a split with one file replaced, and the source of the split."""
    with TemporaryDirectory() as root:
        folder, source = Path(root) / "parts", Path(root) / "model.circle"
        (folder / MANIFEST).parent.mkdir(parents=True)
        for file, content in {**split_files(), name: data}.items():
            (folder / file).write_bytes(content)
        source.write_bytes(annotated())
        yield folder, source


def connections(data: bytes) -> None:
    """Verify a split with hostile connections or a hostile manifest."""
    documents = sorted(name for name in split_files() if not name.endswith(".circle"))
    with _with(documents[crc32(data) % 4 > 0], data) as (folder, source):
        files = open_split(folder, source)
        with open_model(source) as model:
            plan_of_parts(model, files.connections, str(folder))
        check_files(files)


def replaced_part(data: bytes) -> None:
    """Verify a split in which one part is replaced by another model."""
    parts = sorted(name for name in split_files() if name.endswith(".circle"))
    with _with(parts[crc32(data) % len(parts)], data) as (folder, source):
        check_files(open_split(folder, source))
