"""Subgraphs that runtimes recognise by their operators, such as the body of a scatter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circletools.edit.edit import ModelEdit
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.outputs.analysis import output_findings
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build
from tests.kit.callers import CALLERS, calling
from tests.kit.oracles import run_litert

LEFT = "'update' is also input 1; leave it unchanged: runtimes recognize this subgraph by its operators"


def scattering() -> bytes:
    """Return a model that writes updates at indices: the body of its scatter passes an input through."""
    build = Build()
    main, body = build.graph("main"), build.graph("body")
    operand, updates = main.tensor("operand", (4,)), main.tensor("updates", (2,))
    indices = main.constant("indices", np.array([[1], [3]], np.int32))
    result = main.tensor("result", (4,))
    main.operator(
        "STABLEHLO_SCATTER",
        [operand, indices, updates],
        [result],
        update_window_dims=np.array([], np.int64),
        inserted_window_dims=np.array([0], np.int64),
        scatter_dims_to_operand_dims=np.array([0], np.int64),
        index_vector_dim=1,
        update_computation_subgraph_index=1,
    )
    main.ends([operand, updates], [result, result])
    old, update = body.tensor("old", ()), body.tensor("update", ())
    body.ends([old, update], [update])
    return build.to_bytes("tflite")


def test_the_body_of_a_scatter_is_left_alone(tmp_path: Path) -> None:
    data = scattering()
    before, after, broken = (tmp_path / f"{name}.tflite" for name in ("before", "after", "broken"))
    before.write_bytes(data)
    with open_model(data) as model:
        with ModelEdit(model) as edit:
            result = fix_outputs(edit, "all")
            edit.save(after)
        with ModelEdit(model) as edit:
            assert len(fix_outputs(edit, [0, 1]).changes) == 2
            edit.save(broken)
        findings = [finding.message for finding in output_findings(model_graph(model))]
    assert result.changes == ("subgraphs[0].outputs[1] result: a copy of the earlier output",)
    assert [(note.severity, note.location, note.message) for note in result.notes] == [
        ("info", "subgraphs[1].outputs[0]", LEFT)
    ]
    assert findings == ["'result' is already output 0; run `circletool fix-outputs`", LEFT]
    first, second = run_litert(before), run_litert(after)
    assert first.stage == second.stage == "ok"
    assert [output[1:] for output in first.outputs] == [output[1:] for output in second.outputs]
    assert run_litert(broken).stage != "ok"


@pytest.mark.parametrize("caller", CALLERS)
def test_executed_subgraphs_are_not_patterns(caller: str) -> None:
    executed = {"CALL_ONCE", "IF", "WHILE", "CALL", "STABLEHLO_CASE", "STABLEHLO_WHILE"}
    with open_model(calling(caller)) as model:
        called = {1, 2} if CALLERS[caller][0] == 2 else {1}
        assert model_graph(model).source.patterns == (set() if caller in executed else called)
