"""A model of a later schema (testdata/newer, by flatc): edits carry what only that schema knows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circletools.edit.compact import compact, compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.excerpt import Excerpt, Section
from circletools.parts.prune import prune
from circletools.parts.whole import read_whole
from circletools.storage.files import view
from tests.kit.newer_reader import CONTENT, MODEL, SCHEMA, content
from tests.kit.support import edited

Content = dict[str, Any]


def with_schema(data: bytes, change: Callable[[ModelEdit], object]) -> bytes:
    with open_model(data, schema=SCHEMA) as model:
        edit = ModelEdit(model)
        change(edit)
        return edit.to_bytes()


def small(data: bytes, schema: bytes | None = SCHEMA) -> bytes:
    with open_model(data, schema=schema) as model:
        return b"".join(map(view, compact_parts(model)))


def changed(change: Callable[[Content], object]) -> Content:
    now = copy.deepcopy(CONTENT)
    change(now)
    return now


def test_the_reader_reads_what_flatc_wrote() -> None:
    assert content(MODEL) == CONTENT


def renamed(now: Content) -> None:
    now["subgraphs"][0]["tensors"][0]["name"] = "other"


def noted(now: Content) -> None:
    now["metadata"].append({"name": "new", "buffer": 3})
    now["buffers"].append({"data": [7]})


def replaced(now: Content) -> None:
    now["buffers"][2]["data"] = [7]


EDITS: dict[str, tuple[Callable[[ModelEdit], object], Callable[[Content], object]]] = {
    "rename": (lambda edit: edit.rename_tensor(0, 0, "other"), renamed),
    "note": (lambda edit: edit.set_metadata("new", b"\7"), noted),
    "replace": (lambda edit: edit.set_metadata("note", b"\7"), replaced),
    "outputs": (lambda edit: edit.set_outputs(0, [1]), lambda now: now["subgraphs"][0].update(outputs=[1])),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_carries_what_only_the_newer_schema_knows(name: str) -> None:
    change, expected = EDITS[name]
    after = with_schema(MODEL, change)
    assert content(after) == changed(expected)
    assert after.endswith(MODEL)
    assert with_schema(after, change) == after
    twice = with_schema(with_schema(after, EDITS["note"][0]), lambda edit: edit.remove_metadata("new"))
    assert content(small(twice)) == content(with_schema(after, lambda edit: edit.remove_metadata("new")))


def test_undoing_all_gives_the_file_that_flatc_wrote() -> None:
    after = with_schema(MODEL, EDITS["rename"][0])
    assert after != MODEL
    assert with_schema(after, lambda edit: edit.rename_tensor(0, 0, "x")) == MODEL


def test_compacting_carries_it_once(tmp_path: Path) -> None:
    after = small(MODEL)
    assert content(after) == CONTENT
    assert small(after) == after
    assert small(with_schema(MODEL, EDITS["rename"][0])) == small(small(with_schema(after, EDITS["rename"][0])))
    with open_model(MODEL, schema=SCHEMA) as model:
        assert compact(model, tmp_path / "small.tflite") == len(after)
    with open_model(MODEL, schema=SCHEMA) as model:
        edit = ModelEdit(model)
        edit.remove_metadata("note")
        edit.save(tmp_path / "erased.tflite", erase=True)
    erased = (tmp_path / "erased.tflite").read_bytes()
    assert b"value" not in erased
    assert content(erased)["metadata"] == []
    assert content(erased)["new_leaf"] == CONTENT["new_leaf"]


def test_bytes_behind_the_flatbuffer_stay_behind_it() -> None:
    after = small(MODEL + b"behind all")
    assert after == small(MODEL).ljust(len(after) - 10, b"\0") + b"behind all"


def test_without_the_schema_what_could_be_a_reference_is_refused() -> None:
    with pytest.raises(EditError, match=r"^Model at byte .* does not know .*`schema=FILE.bfbs`"):
        edited(MODEL, EDITS["note"][0])
    with pytest.raises(EditError, match=r"at byte .* does not know|unknown union code 200"):
        small(MODEL, None)


def test_what_could_be_an_index_does_not_go_where_indices_change() -> None:
    with open_model(MODEL, schema=SCHEMA) as model:
        whole = read_whole(model)
        with pytest.raises(EditError, match=r"Model.new_number is of a newer schema and could hold indices"):
            whole.bytes_of(Excerpt([Section(0, [0], [0], [1])], {}))


def test_an_excerpt_carries_what_is_no_index() -> None:
    plain = with_schema(MODEL, lambda edit: edit._overlay.root.set("new_number", None))
    with open_model(plain, schema=SCHEMA) as model:
        parts = read_whole(model).bytes_of(Excerpt([Section(0, [1], [0, 1], [2])], {}))
    found = content(b"".join(map(view, parts)))
    subgraph, before = found["subgraphs"][0], CONTENT["subgraphs"][0]
    assert subgraph["tensors"] == before["tensors"]
    assert subgraph["operators"] == [before["operators"][1]]
    assert found["new_leaf"] == CONTENT["new_leaf"]
    assert found["operator_codes"] == CONTENT["operator_codes"]


def test_pruning_carries_it(tmp_path: Path) -> None:
    plain = with_schema(MODEL, lambda edit: edit._overlay.root.set("new_number", None))
    with open_model(plain, schema=SCHEMA) as model:
        prune(model, tmp_path / "out.tflite")
    found = content((tmp_path / "out.tflite").read_bytes())
    assert found["subgraphs"] == CONTENT["subgraphs"]
