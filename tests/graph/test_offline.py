"""TFLM's plan of memory follows the tensors of an edit; what its interpreter computes afterwards is in tests/cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import Build

EDITS: dict[str, tuple[Callable[[ct.ModelEdit], object], list[int]]] = {
    "fix": (lambda edit: ct.outputs.fix(edit, detach_taps=True), [0, 64, 128, 192, -1, -1]),
    "expose": (lambda edit: ct.surgery.expose(edit, ["a"]), [0, -1, 128, 192]),
    "reorder": (lambda edit: edit.set_outputs(0, [3, 2]), [0, 64, 128, 192]),
    "resize": (lambda edit: edit.set_shape(0, 2, [8]), [0, 64, -1, 192]),
    "append": (lambda edit: edit.add_operator(0, 0, [1], [edit.add_tensor_like(0, 0, "n")]), [0, -1, 128, 192, -1]),
    "own": (lambda edit: edit.set_metadata("OfflineMemoryAllocation", b""), []),
}


def planned(*offsets: int) -> bytes:
    """Return x -> a -> b -> y, with the outputs b and y, and a plan."""
    build = Build()
    graph = build.graph()
    x, a, b, y = (graph.tensor(name, (4,)) for name in "xaby")
    for ends in ((x, a), (a, b), (b, y)):
        graph.operator("NEG", [ends[0]], [ends[1]], table=None)
    graph.ends([x], [b, y])
    build.metadata("OfflineMemoryAllocation", np.array([1, 0, len(offsets), *offsets], np.int32).tobytes())
    return build.to_bytes()


def plan_of(data: bytes | Path) -> list[int]:
    with ct.open(data) as model:
        value = np.frombuffer(bytes(model.metadata_value("OfflineMemoryAllocation") or b""), np.int32)
        assert not len(value) or value[2] == len(value) - 3 == len(model.subgraphs[0].tensors)
        return list(value[3:].tolist())


@pytest.mark.parametrize("name", EDITS)
def test_tensors_with_another_size_or_lifetime_have_no_offset(name: str) -> None:
    change, expected = EDITS[name]
    with ct.open(planned(0, 64, 128, 192)) as model, ct.edit(model) as edit:
        change(edit)
        assert [plan_of(edit.to_bytes()) for _ in range(2)] == [expected] * 2


def test_a_part_keeps_the_offsets_of_its_tensors(tmp_path: Path) -> None:
    with ct.open(planned(0, 64, 128, 192)) as model:
        ct.surgery.extract(model, tmp_path / "part.tflite", ct.surgery.ExtractRequest(operators="1-2"))
    assert plan_of(tmp_path / "part.tflite") == [-1, 128, 192]


def test_tflm_refuses_a_plan_for_other_tensors() -> None:
    with ct.open(planned(0, 64)) as model:
        (target,) = ct.fit(model, ct.FitRequest(on=("tflm",))).targets
    assert (target.verdict, [one.finding.code for one in target.obstacles]) == ("not_resident", ["OFFLINE_PLAN"])
