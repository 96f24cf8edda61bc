"""Files that somebody changed: any gives a value or our error; one that is accepted can be read and edited."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given

from circletools.errors import CircleToolsError, EditError, InvalidInputError, ModelFormatError
from circletools.model.model import Model, open_model
from circletools.model.verify import is_dangling
from tests.kit.damage import Damage, damages
from tests.kit.soundness import USES, is_sound, verify
from tests.kit.support import bytes_of, noted, read_everything, value_of, within


@given(damages)
def test_any_file_gives_a_value_or_our_error(damage: Damage) -> None:
    data = damage.done()
    with within(2):
        try:
            open_model(data).close()
        except CircleToolsError:
            return
    for use in USES.values():
        with within(2), open_model(data) as model, suppress(CircleToolsError):
            use(model)


def accepted(data: bytes) -> bool:
    try:
        return not any(map(is_dangling, verify(data)))
    except ModelFormatError:
        return False


@given(damages)
def test_an_accepted_file_can_be_read_and_edited(damage: Damage) -> None:
    data = damage.done()
    if not accepted(data):
        return
    with open_model(data) as model:
        read_everything(model)
    try:
        after = noted(data)
    except (EditError, InvalidInputError):
        return
    assert accepted(after)
    with open_model(data) as old, open_model(after) as new:
        assert views(new) == views(old)
        assert value_of(new, "note") == b"a value"


def views(model: Model) -> list[object]:
    """Return what an edit of the metadata entry `note` must leave alone."""
    buffers = model.buffers
    return [
        model.version,
        model.description,
        model.operator_codes,
        model.signatures,
        [(subgraph.name, list(subgraph.operators)) for subgraph in model.subgraphs],
        [list(subgraph.tensors) for subgraph in model.subgraphs],
        [(subgraph.inputs.tolist(), subgraph.outputs.tolist()) for subgraph in model.subgraphs],
        [[bytes(buffers[t.buffer].data) for t in subgraph.tensors if len(buffers)] for subgraph in model.subgraphs],
        [(entry.name, bytes(buffers[entry.buffer].data)) for entry in model.metadata if entry.name != "note"],
    ]


@pytest.mark.parametrize("name", ["circle/mlp_external", "tflite/zip_tail"])
def test_a_cut_file_is_sound_while_all_that_is_reached_is_there(name: str) -> None:
    data = bytes_of(name)
    with open_model(data) as model:
        end = model.reachable.end
    assert [cut for cut in (*range(0, end, 7), end - 1) if is_sound(data[:cut])] == []
    assert is_sound(data[:end])
