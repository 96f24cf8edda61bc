"""TFLM's arena, against its own recording allocator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.cost.micro import micro_memory
from circletools.graph.build import model_graph
from tests.kit.build import Build, quantization
from tests.kit.support import ROOT

MODELS = sorted(path for path in (ROOT / "testdata" / "tflite").glob("*.tflite") if "external" not in path.name)[::2]


def made(code: str) -> bytes:
    """Return a reduction, whose kernel asks for scratch buffers, between two other operators.

    Or operators that read a tensor which nothing produces, as in models of Vela, with and without a plan of offsets.
    """
    graph = (build := Build()).graph()
    if code in ("unproduced", "planned"):
        x, scratch, end = (graph.tensor(name, (1, 40), "FLOAT32") for name in ("x", "scratch", "end"))
        graph.tensor("unused", (1, 999), "FLOAT32")
        graph.operator("ADD", [x, scratch], [end])
        graph.ends([x], [end])
        if code == "planned":
            build.metadata("OfflineMemoryAllocation", np.array([1, 0, 4, 4096, 0, -1, -1], np.int32).tobytes())
        return build.to_bytes()
    x, y, z, end = (graph.tensor(name, shape, "FLOAT32") for name, shape in (
        ("x", (1, 4, 4)), ("y", (1, 4, 4)), ("z", (1, 4)), ("end", (1, 4))))  # fmt: skip
    graph.operator("ABS", [x], [y])
    graph.operator(code, [y, graph.constant("axis", np.array([1], np.int32))], [z])
    graph.operator("ABS", [z], [end])
    graph.ends([x], [end])
    return build.to_bytes()


@pytest.mark.runtime
@pytest.mark.parametrize("name", [*(path.name for path in MODELS), "SUM", "REDUCE_MAX", "unproduced", "planned"])
def test_the_arena_is_what_its_allocator_lays_out(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = ROOT / "testdata" / "tflite" / name
    if "." not in name:
        path = tmp_path / "made.tflite"
        path.write_bytes(made(name))
    with ct.open(path) as model:
        target = ct.fit(model, ct.FitRequest(on=("tflm",), with_=("tflm",))).targets[0]
        found = micro_memory(model_graph(model), model.wire.size)
    if target.memory is None or not target.memory.is_measured or found is None or found.unknown:
        pytest.skip("TFLM does not take it, or has operators of unknown size")
    assert target.memory.arena_bytes <= found.arena_bytes <= target.memory.arena_bytes * 1.02


def test_a_model_that_calls_itself_ends() -> None:
    graph = (build := Build()).graph()
    x, y = graph.tensor("x", (100,)), graph.tensor("y", (100,))
    graph.operator("WHILE", [x], [y], cond_subgraph_index=0, body_subgraph_index=0)
    graph.ends([x], [y])
    with ct.open(build.to_bytes()) as model:
        found = micro_memory(model_graph(model), 0)
    assert found is not None
    assert found.activation_bytes == 800


def channels(code: str, made: str) -> bytes:
    """Return a model that converts a tensor with a scale for each channel."""
    graph = (build := Build()).graph()
    x = graph.tensor("x", (2, 4), "INT8", quantization=quantization([0.5, 1]))
    y = graph.tensor("y", (2, 4), made, quantization=quantization([1.0]) if made == "INT8" else None)
    graph.operator(code, [x], [y], table=None)
    graph.ends([x], [y])
    return build.to_bytes()


@pytest.mark.parametrize(("target", "data", "reason"), [
    ("tflm", channels("DEQUANTIZE", "FLOAT32"), "one scale is used"),
    ("tflm", channels("QUANTIZE", "INT8"), "one scale is used"),
    ("tflm", (ROOT / "testdata/tflite/cnn_external.tflite").read_bytes(), "data outside the flatbuffer"),
    ("litert-cpu", channels("QUANTIZE", "INT8"), "scales of channels are read as 0"),
])  # fmt: skip
def test_what_is_computed_wrongly_is_refused(target: str, data: bytes, reason: str) -> None:
    with ct.open(data) as model:
        (found,) = ct.fit(model, ct.FitRequest(on=(target,))).targets
    assert found.memory is None
    assert all(one.wrong and one.reason.startswith(reason) for one in found.misfits)
