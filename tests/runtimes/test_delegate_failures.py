"""An operator that LiteRT's delegate chooses, and of which it then finds that it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import Build, quantization
from tests.kit.presence import need


@pytest.mark.runtime
def test_what_fails_to_be_delegated_is_refused(tmp_path: Path) -> None:
    """XNNPACK takes INT8 TRANSPOSE with two scales first, and fails when it is prepared."""
    need("ai_edge_litert")
    build = Build()
    graph = build.graph()
    at = first = graph.tensor("x", (2, 3), "INT8", quantization=quantization([0.5], [0], 0))
    order = graph.tensor("order", (2,), "INT32", data=np.array([1, 0], np.int32).tobytes())
    for number, scale in enumerate((0.5, 0.25, 0.25)):
        shape = (3, 2) if number % 2 == 0 else (2, 3)
        after = graph.tensor(f"t{number}", shape, "INT8", quantization=quantization([scale], [0], 0))
        graph.operator("TRANSPOSE", [at, order], [after], "TransposeOptions")
        at = after
    graph.ends([first], [at])
    path = tmp_path / "m.tflite"
    path.write_bytes(build.to_bytes("tflite"))
    with ct.open(path) as model:
        (target,) = ct.fit(model, ct.FitRequest(on=("xnnpack",), with_=("litert:xnnpack",))).targets
    (asked,) = target.asked
    assert "failed to delegate TRANSPOSE node #1" in asked.words
    assert (target.verdict, asked.verdict, asked.disagreements) == ("not_resident", "not_resident", ())
    assert [misfit.operator for misfit in target.misfits] == [1]
