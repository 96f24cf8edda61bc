"""Edits of a whole model: entries that are removed by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from circletools.edit.edit import ModelEdit
from circletools.editing import strip_metadata
from circletools.errors import UsageError
from circletools.model.model import Model, open_model
from tests.kit.build import Build
from tests.kit.support import edited


@pytest.fixture
def model() -> Iterator[Model]:
    build = Build()
    build.graph().ends([], [])
    build.metadata("held", b"value")
    with open_model(build.to_bytes()) as opened:
        yield opened


def test_entries_are_removed_by_name(model: Model) -> None:
    change = ModelEdit(model)
    change.set_metadata("b", b"")
    assert strip_metadata(change, []).changes == ()
    assert strip_metadata(change, ["b", "held", "b"]).changes == ("metadata b: removed", "metadata held: removed")
    with open_model(change.to_bytes()) as after:
        assert after.metadata == ()


def test_a_name_that_is_not_there_is_told_with_those_that_are(model: Model) -> None:
    with pytest.raises(UsageError, match=r"^the model has no metadata entry 'hold' \(it has: held\)$"):
        strip_metadata(ModelEdit(model), ["hold"])
    data = edited(bytes(model.source.memory), lambda edit: edit.remove_metadata("held"))
    with open_model(data) as bare, pytest.raises(UsageError, match=r"\(it has: none\)$"):
        strip_metadata(ModelEdit(bare), ["held"])
