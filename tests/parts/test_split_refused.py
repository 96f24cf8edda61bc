"""Models that are not split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.plan import plan_split
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, Graph
from tests.kit.split_support import alternating, split_to, with_devices
from tests.kit.support import bytes_of, field_at, locate, put_u32, vtable_of


def stateful(*, variable: bool) -> bytes:
    build = Build()
    graph = Graph(build, "main")
    x = graph.tensor("x")
    state = graph.tensor("state", is_variable=True) if variable else graph.tensor("state", (), "RESOURCE")
    a, b = graph.tensor("a"), graph.tensor("b")
    graph.operator("ADD", [x, x if not variable else state], [a])
    graph.operator("ADD" if variable else "READ_VARIABLE", [a, state] if variable else [state], [b])
    if not variable:
        graph.operator("ASSIGN_VARIABLE", [state, a], [])
        graph.table.inputs = []
        x = graph.tensor("unused")
    graph.ends([x], [a, b])
    return build.to_bytes()


def test_operators_that_share_a_state_stay_together(tmp_path: Path) -> None:
    with pytest.raises(
        EditError, match=r"variable tensor 'state' is used by operator 0 on .*--keep-together variables"
    ):
        split_to(with_devices(stateful(variable=True), alternating), tmp_path / "parts", "tflite")
    with pytest.raises(EditError, match=r"an unknown resource is used by operator 1 on"):
        split_to(with_devices(stateful(variable=False), alternating), tmp_path / "parts", "tflite")
    assert not (tmp_path / "parts").exists()
    request = ct.PlanRequest(devices=("npu", "cpu"), rules=("index:0=npu",), default="cpu")
    with ct.open(stateful(variable=True)) as model:
        torn, whole = (ct.plan(model, replace(request, keep_together=words)) for words in ((), ("variables",)))
    assert ([note.code for note in torn.notes], whole.notes) == (["NOT_SPLIT"], ())
    assert (torn.subgraphs[0].numbers, whole.subgraphs[0].numbers) == ([0, 1], [0, 0])


def test_a_called_subgraph_uses_resources_for_its_caller(tmp_path: Path) -> None:
    build = Build()
    graph = Graph(build, "main")
    once, x, y = graph.tensor("once"), graph.tensor("x"), graph.tensor("y")
    state = graph.tensor("state", (), "RESOURCE")
    graph.operator("NEG", [x], [y])
    graph.operator("CALL", [x], [once], subgraph=1)
    graph.operator("READ_VARIABLE", [state], [graph.tensor("value")])
    graph.ends([x], [y, once])
    inner = build.graph("inner")
    inner_x, inner_state = inner.tensor("x"), inner.tensor("state", (), "RESOURCE")
    inner.operator("ASSIGN_VARIABLE", [inner_state, inner_x], [])
    inner.ends([inner_x], [inner_x])
    with pytest.raises(EditError, match="an unknown resource is used by operator 1 on"):
        split_to(
            with_devices(build.to_bytes(), lambda subgraph, operator: operator % 2 if not subgraph else 0),
            tmp_path / "parts",
            "tflite",
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "the model has no affinity"),
        ("stale", "the affinity is stale"),
        ("no device", "no device is set for"),
        ("cycle", "wait for each other"),
    ],
)
def test_affinity_that_is_no_split(change: str | None, message: str, tmp_path: Path) -> None:
    data = bytes_of("circle/diamond")
    if change is not None:
        data = broken_affinity(data, change)
    with pytest.raises(EditError, match=message):
        split_to(data, tmp_path / "parts", "circle")
    assert not (tmp_path / "parts").exists()


def broken_affinity(data: bytes, change: str) -> bytes:
    from circletools.affinity.tables import (  # noqa: PLC0415
        AFFINITY_STAMP,
        AFFINITY_TABLE,
        NONE,
        decode_affinity,
        encode_affinity,
    )

    annotated = with_devices(data, alternating)
    with open_model(annotated) as model:
        edit = ModelEdit(model)
        ids = decode_affinity(model.metadata_value(AFFINITY_TABLE) or b"")[0]
        if change == "stale":
            edit.set_metadata(AFFINITY_STAMP, bytes.fromhex("01000000 01000000 06000000") + bytes(14))
        elif change == "no device":
            ids.devices[0] = NONE
        else:
            ids.partitions[:] = np.arange(len(ids.partitions))
            ids.partitions[0] = ids.partitions[5] = 0
            ids.devices[0] = ids.devices[5] = 0
        edit.set_metadata(AFFINITY_TABLE, encode_affinity({0: ids}))
        return edit.to_bytes()


def test_a_field_of_a_newer_schema_is_not_lost_silently(tmp_path: Path) -> None:
    data = with_devices(bytes_of("tflite/cnn"), alternating)
    table = locate(data, "subgraphs", 0, "operators", 0)
    assert field_at(data, table, 1)
    vtable = vtable_of(data, table)
    # A vtable in which a slot past those of the schema is set, in front of the old one's table.
    size = int.from_bytes(data[vtable + 2 : vtable + 4], "little")
    entries = data[vtable + 4 : vtable + int.from_bytes(data[vtable : vtable + 2], "little")]
    new = entries.ljust(2 * 20, b"\0") + (4).to_bytes(2, "little")
    longer = (4 + len(new)).to_bytes(2, "little") + size.to_bytes(2, "little") + new
    place = len(data) + len(data) % 2
    data = put_u32(data, table, (table - place) % 2**32).ljust(place, b"\0") + longer
    with pytest.raises(EditError, match=r"Operator at byte .* has a field that the tflite schema does not know"):
        split_to(data, tmp_path / "parts", "tflite")
    assert not (tmp_path / "parts").exists()


def test_the_separated_state_is_named() -> None:
    build = Build()
    graph = build.graph()
    last = first = graph.tensor("x")
    states = [graph.tensor(name, is_variable=True) for name in ("whole", "torn")]
    for number, state in enumerate((states[0], states[0], states[1], states[1])):
        last = graph.compute("ADD", [last, state], f"y{number}")
    graph.ends([first], [last])
    parts = [0, 0, 0, 1]
    data = annotated(build.to_bytes(), affinity(["a", "b"], (parts, parts)))
    with (
        open_model(data) as model,
        pytest.raises(
            EditError, match="the variable tensor 'torn' is used by operator 2 on a and by operator 3 on b"
        ),
    ):
        plan_split(model)
