"""Signatures and names that an edit writes, also where one is there already, and the buffers of its metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import UsageError
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.edit_support import two_subgraphs


def built() -> Build:
    """Return a model of two subgraphs with two signatures, the second of both for the second subgraph."""
    build = two_subgraphs()
    build.signature("run", [("in", 0)], [("out", 1)])
    build.signature("other", [("in", 0)], [("out", 1)], 1)
    return build


@pytest.fixture
def edit() -> Iterator[ModelEdit]:
    with open_model(built().to_bytes()) as model:
        yield ModelEdit(model)


def signatures(edit: ModelEdit) -> list[tuple[str, int, object, object]]:
    with open_model(edit.to_bytes()) as model:
        return [(one.key, one.subgraph, one.inputs, one.outputs) for one in model.signatures]


RUN, OTHER = ("run", 0, (("in", 0),), (("out", 1),)), ("other", 1, (("in", 0),), (("out", 1),))


def test_a_signature_is_written_in_place_of_all_of_its_key(edit: ModelEdit) -> None:
    edit.set_signature("run", [("in", 0)], [("out", 1)])
    assert len(edit.to_bytes()) == len(edit.model.wire.memory)  # it is there as it is
    edit.set_signature("run", [("in", 0), ("more", 1)], [])
    assert signatures(edit) == [OTHER, ("run", 0, (("in", 0), ("more", 1)), ())]
    edit.set_signature("run", [("in", 0)], [("out", 1)], 1)
    assert signatures(edit) == [OTHER, ("run", 1, (("in", 0),), (("out", 1),))]


def test_signatures_are_counted_when_they_go() -> None:
    build = built()
    build.signature("run", [], [], 1)
    with open_model(build.to_bytes()) as model:
        edit = ModelEdit(model)
        assert [edit.signatures.remove(key) for key in ("none", "run", "run")] == [0, 2, 0]
        assert signatures(edit) == [OTHER]


def test_a_signature_is_renamed(edit: ModelEdit) -> None:
    edit.signatures.rename(1, "other")
    assert len(edit.to_bytes()) == len(edit.model.wire.memory)
    edit.signatures.rename(1, "new")
    assert signatures(edit) == [RUN, ("new", *OTHER[1:])]


def test_an_entry_keeps_what_it_is_not_given(edit: ModelEdit) -> None:
    edit.signatures.set_entry(0, "inputs", 0, name="x")
    assert edit.signatures.now[0].inputs == [("x", 0)]
    edit.signatures.set_entry(0, "inputs", 0, tensor=1)
    assert edit.signatures.now[0].inputs == [("x", 1)]
    edit.signatures.add_entry(0, "outputs", "more", 0)
    assert signatures(edit) == [("run", 0, (("x", 1),), (("out", 1), ("more", 0))), OTHER]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_invalid_names(edit: ModelEdit, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name"):
        edit.rename_tensor(0, 0, name)


def test_a_tensor_is_renamed_in_its_own_subgraph(edit: ModelEdit) -> None:
    edit.rename_tensor(1, 0, "second.x")
    assert edit.renamed == {}
    assert len(edit.to_bytes()) == len(edit.model.wire.memory)
    edit.rename_tensor(1, 0, "z")
    with open_model(edit.to_bytes()) as model:
        names = [tensor.name for subgraph in model.subgraphs for tensor in subgraph.tensors]
    assert names == ["first.x", "first.y", "z", "second.y"]
    assert edit.renamed == {(1, 0): b"z"}


def test_buffers_that_an_edit_wrote_are_free_again(edit: ModelEdit) -> None:
    """What a second edit removes in front of the file is taken again, and the original buffers stay."""
    before = len(edit.model.buffers)
    edit.set_metadata("a", b"1")
    edit.set_metadata("b", b"2")
    with open_model(edit.to_bytes()) as model:
        assert len(model.buffers) == before + 2
        again = ModelEdit(model)
        again.remove_metadata("a")
        again.set_metadata("c", b"3")
        with open_model(again.to_bytes()) as after:
            assert len(after.buffers) == before + 2
            assert [bytes(after.metadata_value(name) or b"") for name in ("b", "c")] == [b"2", b"3"]
