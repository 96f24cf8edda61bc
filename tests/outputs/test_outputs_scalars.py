"""Scalars in subgraphs beside the main one, which onert prepares as the file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

import circletools as ct
from circletools.outputs.copyops import CopyRuntime
from circletools.runtimes.worker import Worker
from tests.kit.build import Build
from tests.kit.presence import need


@pytest.mark.runtime
@pytest.mark.parametrize("kind", ["tflite", "circle"])
@pytest.mark.parametrize("runtime", ["onert", "both"])
def test_a_scalar_of_another_subgraph_is_copied_so_that_onert_prepares_it(
    kind: str, runtime: CopyRuntime, tmp_path: Path
) -> None:
    need("onert")
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (2,))
    y = graph.compute("ABS", [x], "y", (2,))
    graph.ends([x], [y, y])
    beside = build.graph("beside")
    scalar = beside.tensor("scalar", ())
    beside.ends([scalar], [scalar])
    path = tmp_path / f"m.{kind}"
    with ct.open(build.to_bytes(kind)) as model, ct.edit(model) as edit:
        ct.outputs.fix(edit, "all", runtime=runtime)
        edit.save(path)
    with Worker("onert:cpu", 60) as onert:
        assert onert.loads(path).status == "ok"
