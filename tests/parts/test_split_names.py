"""Names that a split makes, and digests of outputs, value for value."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.digests import ModelDigests
from circletools.parts.plan import plan_split
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build
from tests.kit.split_support import alternating, split_to, with_devices


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "'#1'"),
        (5, "'#1', '#2', '#3', '#4', '#5'"),
        (6, "'#1', '#2', '#3', '#4', '#5' and 1 more"),
        (7, "'#1', '#2', '#3', '#4', '#5' and 2 more"),
    ],
)
def test_five_made_names_are_told(count: int, said: str, tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    last = first = graph.tensor("x")
    for name in [""] * count + ["out"]:
        last = graph.compute("NEG", [last], name)
    graph.ends([first], [last])
    done = split_to(with_devices(build.to_bytes(), alternating), tmp_path / "parts", "tflite")
    (message,) = [note.message for note in done.notes if note.code == "TENSOR_RENAMED"]
    assert message == f"tensors without a unique name are called {said} in the parts"


def test_the_form_of_the_first_tensor_counts() -> None:
    digests = []
    for shape in ((2, 2), (4, 1)):
        build = Build()
        graph = build.graph()
        made, given = graph.tensor("y", shape), graph.tensor("x")
        graph.operator("NEG", [given], [made])
        graph.ends([given], [made])
        with open_model(build.to_bytes()) as model:
            digests.append(ModelDigests(model).computed(0, {given: b"x"}).operators[0])
    assert digests[0] != digests[1]


def test_in_a_model_without_buffers_no_tensor_has_data() -> None:
    digests = []
    for buffers in (1, 0):
        build = Build()
        graph = build.graph()
        graph.operator("NEG", [graph.tensor("c")], [graph.tensor("y")])
        graph.ends([], [1])
        build.model.buffers = build.model.buffers[:buffers]
        with open_model(build.to_bytes()) as model:
            assert len(model.buffers) == buffers
            digests.append(ModelDigests(model).computed(0, {}).operators[0])
    assert digests[0] == digests[1]


def test_of_several_states_the_one_that_is_torn_is_named() -> None:
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
