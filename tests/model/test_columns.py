"""Columns and rows of models that are made for it: names by operator, buffers inside and outside the flatbuffer."""

from __future__ import annotations

import pytest

from circletools.errors import ModelFormatError
from circletools.model.model import open_model
from tests.kit.build import Build, Code


@pytest.mark.parametrize(("offset", "external"), [(0, False), (1, False), (2, True)])
def test_positions_up_to_1_mean_that_the_data_is_inside(offset: int, *, external: bool) -> None:
    build = Build()
    build.graph().ends([], [])
    index = build.buffer(b"inside", offset=offset, size=4)
    data = build.to_bytes("circle")
    with open_model(data) as model:
        buffer = model.buffers[index]
        assert (bytes(buffer.data), buffer.external) == (data[2:6] if external else b"inside", external)


@pytest.mark.parametrize("beyond", [0, 1])
def test_external_data_may_end_with_the_file(beyond: int) -> None:
    build = Build()
    build.graph().ends([], [])
    index = build.buffer(offset=8, size=0)
    size = len(build.to_bytes("circle"))
    build.model.buffers[index].size = size  # as long as the other size, so that the file does not change
    size = len(build.to_bytes("circle"))
    build.model.buffers[index].size = size - 8 + beyond
    with open_model(build.to_bytes("circle")) as model:
        if not beyond:
            assert len(model.buffers[index].data) == size - 8
            return
        with pytest.raises(ModelFormatError, match="outside the file at byte 8"):
            _ = model.buffers[index]


def test_code_and_output_names_of_each_subgraph() -> None:
    build = Build()
    every: list[list[str | Code]] = [["TANH"], ["NEG", Code("CUSTOM", custom="mine")]]
    for number, codes in enumerate(every):
        graph = build.graph()
        tensors = [graph.tensor(f"{number}.{index}") for index in range(3)]
        for code in codes:
            graph.operator(code, tensors[:1], tensors[1:] if code == "NEG" else [tensors[2], -1][: number + 1])
        graph.ends([], [])
    with open_model(build.to_bytes()) as model:
        assert [model.code_names(index) for index in (0, 1)] == [["TANH"], ["NEG", "CUSTOM:mine"]]
        assert model.output_names(0) == [(b"0.2",)]
        assert model.output_names(1) == [(b"1.1", b"1.2"), (b"1.2", b"")]
        assert model.operator_columns.first_outputs.tolist() == [2, 1, 2]


@pytest.mark.parametrize("tensor", [-2, 3])
def test_an_output_that_does_not_exist_has_no_name(tensor: int) -> None:
    build = Build()
    build.graph().tensor("other")
    graph = build.graph()
    for name in "abc":
        graph.tensor(name)
    graph.operator("TANH", [0], [tensor])
    graph.ends([], [])
    with open_model(build.to_bytes()) as model:
        assert model.operator_columns.first_outputs.tolist() == [tensor]
        with pytest.raises(ModelFormatError, match=r"^subgraphs\[1\]: an operator's output tensor does not exist"):
            model.output_names(1)


def test_a_code_that_does_not_exist_has_no_name() -> None:
    build = Build()
    graph = build.graph()
    graph.operator("TANH", [], []).opcode_index = 1
    graph.ends([], [])
    with open_model(build.to_bytes()) as model:
        assert not model.operator_columns.first_outputs[0] + 1
        with pytest.raises(ModelFormatError, match=r"^subgraphs\[0\]: operator code 1 does not exist"):
            model.code_names(0)
