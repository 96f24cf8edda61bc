"""An edited model is the same model: to a reader and to runtimes that nobody here wrote."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from circletools.edit.edit import ModelEdit
from circletools.flatbuf.verify import walk
from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.oracles import Outcome, is_deterministic, run_litert, run_onert, same_behavior
from tests.kit.presence import have, need
from tests.kit.support import edited, ends_with, read, value_of, with_entry

ENTRIES = {"conformance.first": b"\x00\x01 a value", "conformance.second": bytes(range(256)) * 7}


def test_an_edited_model_is_the_same_model(any_model: Path, tmp_path: Path) -> None:
    data, target = any_model.read_bytes(), tmp_path / any_model.name
    with open_model(any_model) as model:
        before = check_model(model)
        edit = ModelEdit(model)
        for name, value in ENTRIES.items():
            edit.set_metadata(name, value)
        edit.save(target)
    after = target.read_bytes()
    assert ends_with(after, data)
    with open_model(target) as model:
        walk(model.wire, model.schema)
        assert check_model(model) == before
        assert {name: value_of(model, name) for name in ENTRIES} == ENTRIES
    expected = read(data)
    for name, value in ENTRIES.items():
        expected = with_entry(expected, name.encode(), value)
    assert read(after) == expected


def test_taking_the_entries_back_gives_the_old_file(any_model: Path) -> None:
    data = any_model.read_bytes()
    with open_model(data) as model:
        if not model.buffers:
            pytest.skip("has no buffers; test_overlay tells about that")
    after = edited(data, *(partial(set_entry, name, value) for name, value in ENTRIES.items()))
    assert edited(after, lambda edit: [edit.remove_metadata(name) for name in ENTRIES]) == data


def set_entry(name: str, value: bytes, edit: ModelEdit) -> None:
    edit.set_metadata(name, value)


def runtimes_of(path: Path) -> dict[str, Callable[[Path], Outcome]]:
    """LiteRT knows one of the formats, onert knows both."""
    both: dict[str, Callable[[Path], Outcome]] = {"onert": run_onert} if have("onert") else {}
    return both | ({"litert": run_litert} if path.suffix == ".tflite" else {})


def test_an_edited_model_behaves_the_same(any_model: Path, tmp_path: Path) -> None:
    if "conv3d_huge_im2col" in any_model.name:
        pytest.skip("takes 3.4 GB of memory")
    target = tmp_path / any_model.name
    with open_model(any_model) as model:
        edit = ModelEdit(model)
        for name, value in ENTRIES.items():
            edit.set_metadata(name, value)
        edit.save(target)
    different, runtimes = {}, runtimes_of(any_model)
    if not runtimes:
        need("onert")
    for name, run in runtimes.items():
        difference = same_behavior(run(any_model), run(target))
        if difference is not None and is_deterministic(any_model, name):
            different[name] = difference
    assert different == {}


def test_the_runtimes_would_notice(tmp_path: Path) -> None:
    """The comparison itself: one weight less."""
    for folder, run in (("tflite", run_litert), ("circle", run_onert)):
        path = Path(__file__).parents[2] / "testdata" / folder / f"cnn.{folder}"
        with open_model(path) as model:
            sizes = [len(buffer.data) for buffer in model.buffers]
            largest = model.buffers[sizes.index(max(sizes))].data
            data = bytearray(model.source.octets)
            start = bytes(data).index(bytes(largest))
        data[start : start + len(largest)] = bytes(len(largest))
        changed = tmp_path / path.name
        changed.write_bytes(data)
        assert run(path).stage == "ok"
        assert same_behavior(run(path), run(changed)) is not None
