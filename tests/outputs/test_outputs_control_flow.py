"""Outputs of IF and WHILE, and of their bodies, where runtimes are at their most fragile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import EditError
from tests.kit.build import Build, Code, floats, quantization, unranked
from tests.kit.oracles import run_litert, run_onert
from tests.kit.outputs_cases import Branch, conditional, loop_with_a_repeated_result, result_listed
from tests.kit.outputs_support import (
    RUNTIME_OF,
    assert_fixed,
    assert_same_in_runtimes,
    both_formats,
    code_name,
    fixed,
    fixed_with_changes,
    run_onert_allocating,
    telling,
    vector,
)
from tests.kit.support import read


def chosen_twice(then: Branch, otherwise: Branch) -> Build:
    """Return the first result of IF twice, and the second."""
    build = conditional(then, otherwise)
    graph = build.model.subgraphs[0]
    graph.outputs = [*graph.outputs, graph.outputs[0]]
    return build


def values(data: bytes, folder: Path, kind: str) -> tuple[bytes, ...]:
    """Return what onert computes into buffers of its user."""
    path = folder / f"bound.{kind}"
    path.write_bytes(data)
    outcome = run_onert(path)
    assert outcome.stage == "ok", outcome.message
    return tuple(value for *_, value in outcome.outputs)


def allocated(data: bytes, folder: Path, kind: str) -> tuple[bytes, ...] | int:
    """Return what onert computes into buffers of its own."""
    path = folder / f"allocated.{kind}"
    path.write_bytes(data)
    return run_onert_allocating(path)


REPEATED: dict[str, tuple[Callable[[], Build], list[int]]] = {
    # what it builds, and the slots that get a copy
    "while": (loop_with_a_repeated_result, [1, 2, 3]),
    "if": (lambda: chosen_twice(["negative", "input"], ["input", "constant"]), [0, 2]),
    "if, the other way": (lambda: chosen_twice(["input", "constant"], ["negative", "input"]), [0, 2]),
}


@both_formats
@pytest.mark.parametrize("case", REPEATED)
def test_repeated_results(case: str, kind: str, tmp_path: Path) -> None:
    """When onert allocates the outputs, an operator that reads a result of IF or WHILE among them reads zeros."""
    build, slots = REPEATED[case]
    data = build().to_bytes(kind)
    after, changes = fixed_with_changes(data)
    assert [f"outputs[{slot}]" in change for slot, change in zip(slots, changes, strict=True)] == [True] * len(slots)
    assert_fixed(data, after)
    assert fixed(after) == after
    assert telling(after) == []
    expected = values(data, tmp_path, kind)
    assert len(set(expected)) == len(expected) - len(slots) + 1
    assert any(expected[slots[0]])
    assert allocated(data, tmp_path, kind) == allocated(after, tmp_path, kind) == expected
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    assert {outcome.stage for outcome in now.values()} == {"ok"}, now


def test_other_repeated_results_keep_their_tensor(tmp_path: Path) -> None:
    """Elsewhere such an output can be read, and a copy more would be for nothing."""
    data = result_listed(2).to_bytes("circle")
    after = fixed(data)
    assert vector(read(after)["subgraphs"][0]["outputs"])[0] == vector(read(data)["subgraphs"][0]["outputs"])[0]
    assert allocated(after, tmp_path, "circle") == values(data, tmp_path, "circle")


BRANCHES: list[tuple[Branch, Branch]] = [
    (["constant"], ["input"]),
    (["input"], ["constant"]),
    (["input", "constant"], ["input", "constant"]),
    (["constant", "constant"], ["constant", "input"]),
]


@both_formats
@pytest.mark.parametrize("element", ["FLOAT32", "INT8", "INT64", "BOOL"])
def test_constants_of_branches(element: str, kind: str, tmp_path: Path) -> None:
    """LiteRT corrupts its heap when RESHAPE or CONCATENATION copies a constant to the output of a branch."""
    for then, otherwise in BRANCHES:
        data = conditional(then, otherwise, element).to_bytes(kind)
        after = fixed(data, "all")
        assert_fixed(data, after, [0, 1, 2])
        now = assert_same_in_runtimes(data, after, tmp_path, kind)
        assert now[RUNTIME_OF[kind]].stage == "ok"
    if kind == "circle":
        assert allocated(after, tmp_path, kind) == values(data, tmp_path, kind)


def test_constants_of_branches_are_only_transposed(tmp_path: Path) -> None:
    data = conditional(["constant"], ["input"]).to_bytes()
    for operator in ("reshape", "concatenation"):
        with pytest.raises(EditError, match=rf"{operator.upper()} .*'c'.* constant in a branch of IF") as caught:
            fixed(data, "all", copy_operator=operator)
        assert caught.value.hint == "`copy_operator=transpose` does"
    model = read(fixed(data, "all"))
    assert [code_name(model, operator) for operator in model["subgraphs"][1]["operators"]] == ["TRANSPOSE"]
    path = tmp_path / "model.tflite"
    path.write_bytes(fixed(data, "2", copy_operator="reshape"))
    assert run_litert(path).stage == "ok"


@pytest.mark.parametrize(("code", "ones"), [("FULLY_CONNECTED", ()), ("CONV_2D", (1, 1))])
def test_weights_of_products_are_concatenated(code: str, ones: tuple[int, ...], tmp_path: Path) -> None:
    """XNNPACK takes INT8 weights to be quantized per channel, and does not prepare other copies of them."""
    build, steps = Build(), {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
    graph, scale = build.graph(), quantization([0.5], [0])
    x, y = (graph.tensor(name, (1, *ones, 4)) for name in "xy")
    weights = graph.tensor("w", (4, *ones, 4), "INT8", data=bytes(range(16)), quantization=scale)
    graph.operator(Code(code, 5), [x, weights, graph.constant("b", floats(4))], [y], "", **steps if ones else {})
    graph.ends([x], [y, weights])
    (path := tmp_path / "model.tflite").write_bytes(fixed(build.to_bytes()))
    assert run_litert(path).stage == "ok"
    with pytest.raises(EditError, match="that an operator reads as weights"):
        fixed(build.to_bytes(), copy_operator="reshape")


@pytest.mark.parametrize("element", ["FLOAT32", "INT64"])
def test_constant_scalars_of_branches_cannot_be_copied(element: str, tmp_path: Path) -> None:
    """LiteRT cannot transpose them either."""
    data = conditional(["constant"], ["input"], element, ()).to_bytes()
    with pytest.raises(EditError, match=r"'c'.*rank 0, constant in a branch of IF.*`keep_constants=True`") as caught:
        fixed(data, "all")
    assert caught.value.location == "subgraphs[1].outputs[0]"
    after = fixed(data, "all", keep_constants=True)
    assert after != data
    assert_same_in_runtimes(data, after, tmp_path, "tflite")
    twice = conditional(["constant", "constant"], ["input", "input"], element, ()).to_bytes()
    with pytest.raises(EditError, match="'c'"):
        fixed(twice, "all", keep_constants=True)


def without_ranks(build: Build) -> Build:
    """Forget the ranks of the floats that a loop carries."""
    for index, graph in enumerate(build.model.subgraphs):
        for tensor in graph.tensors:
            if tensor.name in ("state", "y") and (index or tensor.name == "y"):
                tensor.shape, tensor.has_rank = [], False
    return build


def test_a_loop_without_ranks_in_circle(tmp_path: Path) -> None:
    data = without_ranks(loop_with_a_repeated_result()).to_bytes("circle")
    after = fixed(data, "all")
    assert_fixed(data, after, [0, 1, 2])
    codes = {code_name(read(after), operator) for operator in read(after)["subgraphs"][2]["operators"]}
    assert codes == {"ADD", "SHAPE", "RESHAPE"}
    assert allocated(after, tmp_path, "circle") == values(data, tmp_path, "circle")
    assert_same_in_runtimes(data, after, tmp_path, "circle")


@pytest.mark.parametrize("element", ["FLOAT32", "INT8", "INT64", "BOOL"])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_a_result_without_rank_in_circle(element: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", shape, element), graph.tensor("y", shape, element)
    sizes = graph.constant("sizes", np.array(shape, np.int32))
    graph.operator("RESHAPE", [x, sizes], [y])
    unranked(graph, y)
    graph.ends([x], [y, y])
    data = build.to_bytes("circle")
    after = fixed(data)
    assert allocated(after, tmp_path, "circle") == values(data, tmp_path, "circle")
    assert values(after, tmp_path, "circle") == values(data, tmp_path, "circle")


def test_branches_without_ranks() -> None:
    """LiteRT runs the copies; onert dies of them in one of the two branches, when it allocates the outputs."""
    build = conditional(["input", "negative"], ["negative", "input"], ranked=False)
    message = r"'x'.*FLOAT32 of unknown rank in a model with IF.*`subgraphs=entry`"
    with pytest.raises(EditError, match=message) as caught:
        fixed(build.to_bytes("circle"), "all")
    assert caught.value.location == "subgraphs[1].outputs[0]"


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_branches_without_ranks_in_litert(shape: tuple[int, ...], tmp_path: Path) -> None:
    data = conditional(["input", "negative"], ["negative", "input"], shape=shape, ranked=False).to_bytes()
    after = fixed(data, "all")
    assert_fixed(data, after, [0, 1, 2])
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    assert now["litert"].stage == "ok"
