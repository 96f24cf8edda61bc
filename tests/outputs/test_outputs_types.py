"""Which tensors are copied, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import EditError
from tests.kit.build import Build, quantization, strings, unranked
from tests.kit.command_support import run_bytes as run
from tests.kit.origin_support import rebuilt
from tests.kit.outputs_cases import while_body_passes_its_input
from tests.kit.outputs_support import (
    RUNTIME_OF,
    assert_every_output_is_its_own,
    assert_fixed,
    assert_same_in_runtimes,
    both_formats,
    fixed,
    fixed_with_changes,
    passed_through,
    plain,
    telling,
)
from tests.kit.support import bytes_of


def quantized(kind: str, element: str, *, channels: bool, offset: int = 0) -> bytes:
    build = Build()
    graph = build.graph()
    scales = (0.5, 0.25, 0.125) if channels else (0.5,)
    zeros = (0,) * 3 if channels else (offset,)
    passed_through(graph, graph.tensor("x", (2, 3), element, quantization=quantization(scales, zeros, 1)))
    return build.to_bytes(kind)


def constant_of(kind: str, element: str, shape: tuple[int, ...], data: bytes) -> bytes:
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.tensor("c", shape, element, data=data)
    graph.ends([x], [graph.compute("ADD", [x, x], "total"), c, c])
    return build.to_bytes(kind)


TENSORS: dict[str, tuple[Callable[[str], bytes], set[str]]] = {
    # what it builds for a format, and the runtimes that take it as it is
    "int8 per tensor": (lambda kind: quantized(kind, "INT8", channels=False, offset=-3), {"litert", "onert"}),
    "int8 per channel": (lambda kind: quantized(kind, "INT8", channels=True), {"litert", "onert"}),
    "uint8 per tensor": (lambda kind: quantized(kind, "UINT8", channels=False, offset=7), {"litert", "onert"}),
    "int16": (lambda kind: quantized(kind, "INT16", channels=False), {"litert"}),
    "bool": (lambda kind: plain(kind, "BOOL"), {"litert", "onert"}),
    "string": (lambda kind: plain(kind, "STRING"), {"litert"}),
    "int64": (lambda kind: plain(kind, "INT64"), {"litert", "onert"}),
    "int32": (lambda kind: plain(kind, "INT32"), {"litert", "onert"}),
    "float16": (lambda kind: plain(kind, "FLOAT16"), {"litert"}),
    "scalar": (lambda kind: plain(kind, "FLOAT32", ()), {"litert", "onert"}),
    "scalar int64": (lambda kind: plain(kind, "INT64", ()), {"litert", "onert"}),
    "dynamic": (lambda kind: plain(kind, "FLOAT32", (1, 3), (-1, 3)), {"litert", "onert"}),
    "dynamic int8": (lambda kind: plain(kind, "INT8", (1, 3), (-1, 3)), {"litert", "onert"}),
    "all dynamic": (lambda kind: plain(kind, "FLOAT32", (1, 1), (-1, -1)), {"litert", "onert"}),
    "dynamic string": (lambda kind: plain(kind, "STRING", (1,), (-1,)), {"litert"}),
    "zero size": (lambda kind: plain(kind, "FLOAT32", (2, 0, 3)), {"litert", "onert"}),
    "constant int64": (lambda kind: constant_of(kind, "INT64", (2,), bytes(range(16))), {"litert", "onert"}),
    "constant bool": (lambda kind: constant_of(kind, "BOOL", (3,), b"\0\1\1"), {"litert", "onert"}),
    "constant scalar": (lambda kind: constant_of(kind, "FLOAT32", (), b"\0\0\x80?"), {"litert", "onert"}),
    "constant float16": (lambda kind: constant_of(kind, "FLOAT16", (3,), bytes(range(6))), {"litert"}),
    "constant string": (lambda kind: constant_of(kind, "STRING", (2,), strings(b"one", b"")), {"litert"}),
}


@both_formats
@pytest.mark.parametrize("tensor", list(TENSORS))
def test_tensors_of_this_kind_are_copied_exactly(tensor: str, kind: str, tmp_path: Path) -> None:
    make, takes = TENSORS[tensor]
    data = make(kind)
    after = fixed(data)
    assert_fixed(data, after)
    assert_every_output_is_its_own(after)
    assert fixed(after) == after
    assert telling(after) == []
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    runs = {name for name, outcome in now.items() if outcome.stage == "ok"}
    assert RUNTIME_OF[kind] in runs or RUNTIME_OF[kind] not in takes
    assert runs <= takes


@pytest.mark.parametrize("element", ["RESOURCE", "VARIANT"])
def test_what_cannot_be_copied(element: str, tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    passed_through(graph, x, graph.tensor("handle", (1,), element))
    data = build.to_bytes()
    with pytest.raises(EditError, match=f"'handle'.*{element}") as caught:
        fixed(data)
    assert caught.value.location == "subgraphs[0].outputs[1]"
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(data)
    ran = run("fix-outputs", source, target)
    assert ran.returncode == 4
    assert b"'handle'" in ran.stderr
    assert not target.exists()
    assert run("fix-outputs", source, "--dry-run").returncode == 4
    assert run("fix-outputs", source, "--in-place").returncode == 4
    assert source.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]


def loop_with_a_state_without_rank(element: str) -> bytes:
    """Count to three; the loop passes on what older converters give no rank."""
    build = while_body_passes_its_input()
    for number, tensors in ((0, (1, 3)), (1, (1,)), (2, (1,))):
        graph = build.model.subgraphs[number]
        for tensor in tensors:
            graph.tensors[tensor].type = element
            graph.tensors[tensor].has_rank = False
            if number:
                graph.tensors[tensor].shape = []
    return build.to_bytes()


@pytest.mark.parametrize("element", ["FLOAT32", "INT64", "BOOL", "INT8"])
def test_a_state_without_rank(element: str, tmp_path: Path) -> None:
    """It is not a scalar, though its shape is that of one."""
    data = loop_with_a_state_without_rank(element)
    after = fixed(data, "all")
    assert_fixed(data, after, [0, 1, 2])
    assert fixed(after, "all") == after
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    assert now["litert"].stage == "ok"


@pytest.mark.parametrize("element", ["RESOURCE", "VARIANT"])
def test_a_handle_without_rank_cannot_be_copied(element: str) -> None:
    with pytest.raises(EditError, match=f"'state'.*{element}"):
        fixed(loop_with_a_state_without_rank(element), "all")


def test_a_result_without_rank_that_is_listed_twice(tmp_path: Path) -> None:
    """Its rank shows at run time only."""
    build = Build()
    graph = build.graph()
    x, shape, result = graph.tensor("x"), graph.tensor("shape", (2,), "INT32"), graph.tensor("result")
    graph.operator("SHAPE", [x], [shape], out_type=2)
    graph.operator("RESHAPE", [x, shape], [result])
    unranked(graph, result)
    graph.ends([x], [result, result])
    data = build.to_bytes()
    now = assert_same_in_runtimes(data, fixed(data), tmp_path, "tflite")
    assert now["litert"].stage == "ok"


def test_an_output_that_nothing_produces_is_reported_not_copied() -> None:
    build = Build()
    graph = build.graph()
    x, lost = graph.tensor("x"), graph.tensor("lost")
    graph.ends([x], [graph.compute("NEG", [x], "negative"), lost])
    data = build.to_bytes()
    assert fixed_with_changes(data) == (data, ())
    assert [(finding.code, finding.location) for finding in telling(data)] == [
        ("UNPRODUCED_OUTPUT", "subgraphs[0].outputs[1]")
    ]


def sparse_constant() -> bytes:
    """Return a model whose second output is a sparse constant."""

    def change(model: Any) -> None:
        (graph,) = model.subgraphs
        place = next(index for index, tensor in enumerate(graph.tensors) if tensor.sparsity is not None)
        graph.outputs = [*graph.outputs, place]

    return rebuilt(bytes_of("tflite/sparse"), change)


def test_a_sparse_constant_is_not_copied_as_if_it_were_dense() -> None:
    """Its buffer has fewer elements than its shape; a copy operator would read past the end."""
    with pytest.raises(EditError, match="sparse"):
        fixed(sparse_constant())
