"""Findings whose remedy is certain: what is mended, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import circletools as ct
from circletools.findings import explanations
from circletools.runtimes.worker import Worker
from circletools.surgery.repair import REMEDIES
from tests.kit.build import Build, floats, quantization
from tests.kit.presence import need
from tests.kit.program import put, run
from tests.kit.support import edited, own_models, title


def repaired(data: bytes, *only: str) -> bytes:
    after = edited(data, lambda edit: ct.surgery.repair(edit, only))
    assert edited(after, lambda edit: ct.surgery.repair(edit, only)) == after
    return after


def codes(data: bytes) -> set[str]:
    with ct.open(data) as model:
        return {finding.code for finding in ct.check(model)}


def quantized(axis: int, scales: int, shape: tuple[int, ...]) -> bytes:
    """Return a convolution whose bias has a quantized dimension."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", [1, 2, 2, 3], "INT8", quantization=quantization([0.5], [0]))
    per = [0.25 * (1 + index) for index in range(scales)]
    weights = graph.tensor(
        "w", [2, 1, 1, 3], "INT8", data=bytes(range(6)), quantization=quantization([0.5, 0.5], [0, 0])
    )
    bias = graph.tensor("b", shape, "INT32", data=bytes(8), quantization=quantization(per, [0] * scales, axis))
    y = graph.tensor("y", [1, 2, 2, 2], "INT8", quantization=quantization([0.5], [0]))
    graph.operator("CONV_2D", [x, weights, bias], [y], stride_w=1, stride_h=1)
    graph.ends([x], [y])
    return build.to_bytes()


@pytest.mark.parametrize(
    ("axis", "scales", "shape", "expected"),
    [(3, 2, (2,), 0), (3, 1, (2,), 0), (-1, 2, (2,), 0), (2, 2, (1, 2), 1), (3, 2, (2, 2), 3), (3, 3, (2,), 3)],
)
def test_a_quantized_dimension_that_only_one_can_be(
    axis: int, scales: int, shape: tuple[int, ...], expected: int
) -> None:
    data = quantized(axis, scales, shape)
    assert "INVALID_QUANTIZATION" in codes(data)
    after = repaired(data)
    with ct.open(after) as model:
        found = model.subgraphs[0].tensors[2].quantization
        assert found is not None
        assert found.axis == expected
    assert (after == data) == (expected == axis)


@pytest.mark.runtime
def test_litert_takes_what_it_refused(tmp_path: Path) -> None:
    need("ai_edge_litert")

    before = put(tmp_path / "before.tflite", quantized(3, 2, (2,)))
    after = tmp_path / "after.tflite"
    ran = run("repair", before, after, "--with", "litert")
    assert (ran.status, ran.err) == (0, "subgraphs[0].tensors[2]: quantized_dimension 3 -> 0\n")
    with Worker("litert", 60) as litert:
        assert litert.run(before).failure
        assert not litert.run(after).failure


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_a_model_that_runs_stays(path: Path) -> None:
    assert repaired(path.read_bytes()) == path.read_bytes()


def test_names_that_are_there_twice() -> None:
    build = Build()
    graph = build.graph()
    x, other = graph.tensor("x"), graph.tensor("x_1")
    y = graph.compute("NEG", [x], "x")
    graph.ends([x, other], [graph.compute("ADD", [y, other], "x")])
    after = repaired(build.to_bytes(), "DUPLICATE_NAME")
    with ct.open(after) as model:
        assert [tensor.name for tensor in model.subgraphs[0].tensors] == ["x", "x_1", "x_2", "x_3"]
    assert "DUPLICATE_NAME" not in codes(after)


def test_signatures_name_all_ends() -> None:
    build = Build()
    graph = build.graph()
    x, z = graph.tensor("x"), graph.tensor("z")
    y = graph.compute("ADD", [x, z], "y")
    graph.ends([x, z], [y, graph.compute("NEG", [x], "n")])
    build.signature("run", [("in", x), ("in", z)], [("", y)])
    assert {"INVALID_SIGNATURE", "INCOMPLETE_SIGNATURE"} <= codes(build.to_bytes())
    after = repaired(build.to_bytes(), "INVALID_SIGNATURE")
    with ct.open(build.to_bytes()) as model, ct.edit(model) as edit:
        changes = ct.surgery.repair(edit, ["INVALID_SIGNATURE"]).changes
    lines = ("input 1 is 'in_1'", "output 0 is 'y'", "output 'n' added")
    assert changes == tuple(f"signature 'run': {line}" for line in lines)
    with ct.open(after) as model:
        assert model.signatures[0].inputs == (("in", x), ("in_1", z))
        assert model.signatures[0].outputs == (("y", y), ("n", 3))
    assert not {"INVALID_SIGNATURE", "INCOMPLETE_SIGNATURE"} & codes(after)


@pytest.mark.parametrize("code", ["CONSTANT_OUTPUT", "INPUT_ALIASED_OUTPUT", "DUPLICATE_OUTPUT", "OUTPUT_TAP"])
def test_outputs_are_mended_as_fix_outputs_does(code: str) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    constant = graph.constant("c", floats(2, 2))
    graph.ends([x], [y, y, x, constant, graph.compute("ABS", [y], "z")])
    build.signature("run", [("in", x)], [("out", y)])
    assert {code, "INCOMPLETE_SIGNATURE"} <= codes(build.to_bytes())
    assert code not in codes(repaired(build.to_bytes(), code))
    assert not {code, "INCOMPLETE_SIGNATURE"} & codes(repaired(build.to_bytes(), code, "INCOMPLETE_SIGNATURE"))


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_all_remedies_twice_are_once(path: Path) -> None:
    assert repaired(path.read_bytes(), *REMEDIES)


def test_each_code_that_can_be_repaired_has_a_remedy() -> None:

    assert {code for code, rule in explanations().items() if rule.repair} == REMEDIES.keys()
    with ct.open(quantized(3, 2, (2,))) as model, pytest.raises(ct.UsageError, match="cannot be repaired"):
        ct.surgery.repair(ct.edit(model), ["NOT_USED"])
