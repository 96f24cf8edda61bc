"""The command compact."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.oracles import run_litert, run_onert, same_behavior
from tests.kit.origin_support import embedded
from tests.kit.program import Ran, compacted, put, run
from tests.kit.support import bytes_of, edited, noted, packed, path_of, read, unpacked


def spacious(data: bytes) -> bytes:
    """Return a model with dead bytes: two edits in front of it, with values that are gone again."""
    return noted(
        edited(noted(data, "long", bytes(500)), lambda edit: edit.remove_metadata("long")), "short", b"x" * 99
    )


@pytest.mark.parametrize("name", ["circle/mlp", "tflite/cnn_external", "tflite/zip_tail"])
def test_compact_writes_this(name: str, tmp_path: Path) -> None:
    data = spacious(bytes_of(name))
    source, target = put(tmp_path / "in", data), tmp_path / "out"
    ran = run("compact", source, target)
    assert target.read_bytes() == compacted(data)
    assert ran == Ran(0, b"", f"{len(data)} -> {target.stat().st_size} bytes\n")
    assert run("check", "--structure-only", target).status == 0
    assert run("compact", source, "--in-place").status == 0
    assert source.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("before", [bytes, spacious, embedded], ids=["as it is", "edited", "with origins"])
def test_compact(own_model: Path, before: Callable[[bytes], bytes]) -> None:
    data = before(own_model.read_bytes())
    small = compacted(data)
    assert len(small) <= len(data)
    assert compacted(small) == small
    assert read(small) == read(data)  # every field of every table, as the published object API sees them


def test_compact_is_no_larger_than_a_repack(own_model: Path) -> None:
    data = own_model.read_bytes()
    small, repacked = compacted(data), packed(unpacked(data), data[4:8])
    if own_model.stem.endswith("_external") or own_model.stem.startswith("zip_tail"):
        # A repack loses what lies behind the flatbuffer, and compacting keeps it: every byte, but for the offsets
        # of an archive that count from the start of the file.
        first = min(at for at in tails(data) if at > 1)
        end = data.find(b"PK\1\2") if own_model.stem == "zip_tail" else len(data)
        moved = len(data) - len(small)
        assert small[first - moved : end - moved] == data[first:end]
        assert len(repacked) < len(small)
    else:
        assert len(small) <= len(repacked)


@pytest.mark.parametrize("name", ["tflite/cnn_external", "circle/cnn_external", "tflite/custom_options_external"])
def test_compact_keeps_the_alignment_of_external_data(name: str) -> None:
    data = bytes_of(name)
    small = compacted(data)
    old, new = ([at for at in tails(file) if at > 1] for file in (data, small))
    assert {before - after for before, after in zip(old, new, strict=True)} == {len(data) - len(small)}
    assert (len(data) - len(small)) % 64 == 0


def tails(data: bytes) -> list[int]:
    """Return where external data begins, and the archive."""
    model = unpacked(data)
    operators = [operator for graph in model.subgraphs for operator in graph.operators or ()]
    places = [buffer.offset for buffer in model.buffers]
    return [*places, *(operator.largeCustomOptionsOffset for operator in operators), data.find(b"PK\3\4")]


@pytest.mark.parametrize(
    "name",
    [
        *(f"circle/{name}" for name in ("mlp", "cnn", "quantized_linear", "while_loop", "two_signatures")),
        *(f"tflite/{name}" for name in ("cnn", "cnn_external", "sparse", "two_signatures", "variable", "composite")),
        *("circle/dynamic_batch", "tflite/zip_tail", "tflite/custom_options_external"),
    ],
)
def test_compact_behaves_in_its_runtime(name: str, tmp_path: Path) -> None:
    path, runs = path_of(name), run_litert if name.startswith("tflite") else run_onert
    small = put(tmp_path / path.name, compacted(spacious(path.read_bytes())))
    before = runs(path)
    assert before.stage == "ok"
    assert same_behavior(before, runs(small)) is None


def archive_start(data: bytes) -> int:
    """Return what is to be added to the offsets in a ZIP archive; negative offsets are none that unzip accepts."""
    end = data.rindex(b"PK\5\6")
    size, offset = (int.from_bytes(data[end + at : end + at + 4], "little") for at in (12, 16))
    return end - size - offset


@pytest.mark.parametrize("name", ["zip_tail", "zip_tail_joined"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(embedded, id="embed"),
        pytest.param(lambda data: compacted(embedded(data)), id="embed, compact"),
        pytest.param(compacted, id="compact"),
    ],
)
def test_an_archive_stays_readable(name: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    before, after = path_of(f"tflite/{name}"), put(tmp_path / "a.tflite", change(bytes_of(f"tflite/{name}")))
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        assert {file: new.read(file) for file in new.namelist()} == {file: old.read(file) for file in old.namelist()}
    assert archive_start(after.read_bytes()) >= 0


@pytest.mark.parametrize("fields", [bytes(18), bytes(8) + b"\x10\0\0\0\xff\xff\xff\x7f\0\0"], ids=["empty", "broken"])
def test_constants_that_look_like_an_archive(fields: bytes) -> None:
    data = bytes_of("tflite/cnn_external")
    model = unpacked(data)
    place = max(buffer.offset for buffer in model.buffers if buffer.size >= 32)
    fields = fields[:12] + b"\xff\xff\xff\x7f" + fields[16:]
    data = data[:place] + b"PK\5\6" + fields + data[place + 22 :]
    assert read(compacted(data)) == read(data)
