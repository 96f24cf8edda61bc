"""Edits of a whole model: several steps in one edit, and tables that follow all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circletools.affinity.store import annotate
from circletools.affinity.tables import check_freshness, read_affinity
from circletools.edit.edit import ModelEdit
from circletools.editing import edit
from circletools.entries import remove
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.read import check_freshness as check_origins
from circletools.origin.read import read_origins
from circletools.outputs.fixing import fix_outputs
from tests.kit.affinity_support import affinity
from tests.kit.difference_models import twice_listed

TWICE = twice_listed()
DEVICES = affinity(("cpu", "npu"), ((0, 0, 1), (0, 0, 1)))
Step = Callable[[ModelEdit], object]


def embedding(started: ModelEdit) -> object:
    return embed(started)


def fixing(started: ModelEdit) -> object:
    return fix_outputs(started)


def annotating(started: ModelEdit) -> object:
    return annotate(started, DEVICES)


def edited(data: bytes, *steps: Step) -> bytes:
    """Return the model after one edit of several steps; saving it twice gives the same bytes."""
    with open_model(data) as model, edit(model) as started:
        for step in steps:
            step(started)
        first = started.to_bytes()
        assert started.to_bytes() == first
        return first


@pytest.mark.parametrize(
    "steps",
    [(embedding, fixing, annotating), (fixing, embedding, annotating), (annotating, embedding, fixing)],
    ids=["last", "first", "end"],
)
def test_tables_follow_the_operators_that_one_edit_adds(steps: tuple[Step, ...]) -> None:
    data = edited(TWICE, *steps)
    with open_model(data) as model:
        origins, devices = read_origins(model), read_affinity(model)
        assert origins is not None
        assert devices is not None
        assert len(model.subgraphs[0].operators) == 4
        assert origins.operators[0] == {0: {0}, 1: {1}, 2: {2}, 3: {2}}
        assert devices.subgraphs[0].devices.tolist() == [0, 0, 1, 1]
        assert devices.subgraphs[0].partitions.tolist() == [0, 0, 1, 1]
        assert check_origins(model, origins).state == "fresh"
        assert check_freshness(model, devices).state == "fresh"


def test_one_edit_and_several_give_the_same() -> None:
    once = edited(TWICE, embedding, annotating, fixing)
    after = edited(edited(edited(TWICE, embedding), annotating), fixing)
    with open_model(once) as one, open_model(after) as other:
        assert {entry.name for entry in one.metadata} == {entry.name for entry in other.metadata}
        for entry in one.metadata:
            assert one.metadata_value(entry.name) == other.metadata_value(entry.name)


def test_operators_that_are_added_after_the_first_save_are_followed() -> None:
    with open_model(TWICE) as model, edit(model) as started:
        embed(started)
        annotate(started, DEVICES)
        fix_outputs(started)
        started.parts()
        started.add_operator(0, 0, [0, 0], [0], inherits=[0])
        data = started.to_bytes()
    with open_model(data) as model:
        origins, devices = read_origins(model), read_affinity(model)
        assert origins is not None
        assert devices is not None
        assert origins.operators[0] == {0: {0}, 1: {1}, 2: {2}, 3: {2}, 4: {0}}
        assert devices.subgraphs[0].devices.tolist() == [0, 0, 1, 1, 0]
        assert check_origins(model, origins).state == "fresh"
        assert check_freshness(model, devices).state == "fresh"


def test_tables_that_were_removed_stay_away() -> None:
    tables = edited(TWICE, embedding, annotating)
    gone = edited(tables, lambda started: remove(started, origins=True, affinity=True), fixing)
    assert gone == edited(TWICE, fixing)
