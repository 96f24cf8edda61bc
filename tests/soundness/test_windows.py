"""Windows that are larger than what they slide over."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.graph.build import graph_of
from circletools.soundness.windows import large_windows, window_findings
from tests.kit.build import Build, Graph
from tests.kit.presence import Lazy

litert = Lazy("ai_edge_litert.interpreter")
POOLS = ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D")
OPTIONS = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions", "CONV_3D": "Conv3DOptions"}


def window(
    graph: Graph, code: str, over: tuple[int, ...], size: tuple[int, ...], padding: str = "VALID", **more: Any
) -> None:
    """Append an operator whose window has this size, over an input with these dimensions."""
    signature = more.pop("signature", None)
    inputs = [graph.tensor("x", (1, *over, 2), shape_signature=signature)]
    options: dict[str, Any] = {"padding": padding, "stride_h": 1, "stride_w": 1}
    if code in POOLS:
        options |= {"filter_height": size[0], "filter_width": size[1]}
    else:
        shape = (*size, 2, 2) if code == "CONV_3D" else (1 if code.startswith("DEPTH") else 2, *size, 2)
        inputs.append(graph.tensor("w", shape, data=np.ones(shape, np.float32).tobytes()))
        options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
        options |= {"stride_d": 1, "dilation_d_factor": 1} if code == "CONV_3D" else {}
    if code.startswith("DEPTH"):
        options["depth_multiplier"] = 1
    if code.endswith("CONV_2D"):
        inputs.append(graph.tensor("b", (2,), data=np.zeros(2, np.float32).tobytes()))
    output = graph.tensor("y", (1, *[1] * len(over), 2))
    graph.operator(code, inputs, [output], OPTIONS.get(code, "Pool2DOptions"), **options | more)
    graph.ends([inputs[0]], [output])


def is_large(data: bytes) -> bool:
    with ct.open(data) as model:
        rows, *_ = large_windows(graph_of(model, 0))
    return bool(rows.tolist() == [0])


def test_an_operator_without_its_filter_or_a_shape_is_left_alone() -> None:
    build = Build()
    graph = build.graph()
    flat = graph.tensor("x", (2,))
    for inputs in ([], [-1, -1], [flat], [flat, flat]):
        graph.operator("CONV_2D", inputs, [], "Conv2DOptions", padding="VALID")
    with ct.open(build.to_bytes()) as model:
        assert large_windows(graph_of(model, 0))[0].size == 0


def test_findings_are_in_order_and_for_information_where_a_dimension_is_open() -> None:
    build = Build()
    build.graph().tensor("open", (1, 1), shape_signature=[-1, -1])
    graph = build.graph()
    window(graph, "MAX_POOL_2D", (1, 9), (2, 2))
    window(graph, "CONV_2D", (1, 1), (3, 3), signature=[1, -1, -1, 2])
    window(graph, "MAX_POOL_2D", (9, 9), (2, 2))
    window(graph, "CONV_2D", (2, 2), (4, 3), signature=[1, 2, 2, 2])
    with ct.open(build.to_bytes()) as model:
        found = list(window_findings(model))
    assert [(one.severity, one.location) for one in found] == [
        ("warning", "subgraphs[1].operators[0]"),
        ("warning", "subgraphs[1].operators[3]"),
        ("info", "subgraphs[1].operators[1]"),
    ]
    assert {one.code for one in found} == {"WINDOW_TOO_LARGE"}
    assert "dynamic dimensions" in found[2].message


@pytest.mark.runtime
def test_litert_computes_nothing_where_a_window_is_too_large() -> None:
    random, large = Random(5), 0  # noqa: S311
    for _ in range(120):
        code = random.choice([*OPTIONS, *POOLS])
        axes = 3 if code == "CONV_3D" else 2
        over, size = ([random.randint(1, most) for _ in range(axes)] for most in (6, 4))
        dilation = {} if code in POOLS else {"dilation_h_factor": random.randint(1, 3)}
        build = Build()
        window(build.graph(), code, tuple(over), tuple(size), random.choice(["VALID", "SAME"]), **dilation)
        data = build.to_bytes("tflite")
        kernels = litert.OpResolverType.BUILTIN_REF
        try:
            runtime = litert.Interpreter(model_content=data, experimental_op_resolver_type=kernels)
            runtime.allocate_tensors()
            computes = min(runtime.get_output_details()[0]["shape"]) > 0
        except RuntimeError:
            computes = False
        assert is_large(data) != computes
        large += not computes
    assert large > 20
