"""The options of fixing outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.copyops import CopyChoice
from tests.kit.build import row
from tests.kit.outputs_cases import (
    constant_beside_an_add,
    constant_listed_three_times,
    input_twice_beside_neg,
    result_listed,
    while_body_passes_its_input,
)
from tests.kit.outputs_support import (
    assert_every_output_is_its_own,
    assert_fixed,
    assert_same_in_runtimes,
    both_formats,
    findings_of,
    fixed,
    fixed_with_changes,
    plain,
    vector,
)
from tests.kit.support import read


@both_formats
def test_keep_constants(kind: str, tmp_path: Path) -> None:
    """A constant is then as good as a computed tensor: it may be an output, but only once."""
    data = constant_listed_three_times().to_bytes(kind)
    after = fixed(data, keep_constants=True)
    assert_fixed(data, after, keep_constants=True)
    assert len(fixed_with_changes(data, keep_constants=True)[1]) == 2
    assert_same_in_runtimes(data, after, tmp_path, kind)
    assert fixed(after, keep_constants=True) == after
    once = constant_beside_an_add().to_bytes(kind)
    assert fixed_with_changes(once, keep_constants=True) == (once, ())


@both_formats
def test_a_kept_constant_is_no_tap(kind: str) -> None:
    """It is read as before; only its second and third slot get a copy."""
    data = constant_listed_three_times().to_bytes(kind)
    kept = fixed(data, keep_constants=True)
    assert fixed(data, keep_constants=True, detach_taps=True) == kept
    (graph,) = read(kept)["subgraphs"]
    assert vector(graph["outputs"])[0] == vector(read(data)["subgraphs"][0]["outputs"])[0]


@both_formats
def test_detach_taps(kind: str, tmp_path: Path) -> None:
    build = row("NEG", "NEG")
    build.model.subgraphs[0].outputs = [1, 2]
    data = build.to_bytes(kind)
    assert fixed_with_changes(data) == (data, ())
    after, changes = fixed_with_changes(data, detach_taps=True)
    assert changes == ("subgraphs[0].outputs[0] t0: a copy of the tensor that operators read",)
    assert_fixed(data, after, detach_taps=True)
    assert [finding.code for finding in findings_of(data)] == ["OUTPUT_TAP"]
    assert findings_of(after) == []
    assert fixed_with_changes(after, detach_taps=True) == (after, ())
    assert_same_in_runtimes(data, after, tmp_path, kind)


@both_formats
def test_detach_taps_leaves_no_tap_behind(kind: str) -> None:
    """The first of equal outputs keeps the tensor, but the copies of the others read it."""
    data = result_listed(3).to_bytes(kind)
    after = fixed(data, detach_taps=True)
    assert_every_output_is_its_own(after)
    assert findings_of(after) == []
    assert fixed(after, detach_taps=True) == after


@both_formats
@pytest.mark.parametrize("operator", ["transpose", "reshape", "concatenation"])
def test_copy_operator_of_choice(operator: CopyChoice, kind: str, tmp_path: Path) -> None:
    data = input_twice_beside_neg().to_bytes(kind)
    after = fixed(data, copy_operator=operator)
    assert_fixed(data, after)
    with open_model(after) as model:
        names = [model.operator_codes[index].name for index in model.subgraphs[0].code_indices()]
    assert names == ["NEG", operator.upper(), operator.upper()]
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    assert {outcome.stage for outcome in now.values()} == {"ok"}
    assert fixed(after) == after


def test_copy_operator_that_does_not_fit() -> None:
    data = plain("tflite", "FLOAT32", ())
    with pytest.raises(EditError, match=r"CONCATENATION.*'x'.*FLOAT32 of rank 0"):
        fixed(data, copy_operator="concatenation")


@pytest.mark.parametrize("choice", [*("", "main", "3", "-1", "1.0", "²"), pytest.param("9" * 5000, id="long")])
def test_subgraph_that_is_none(choice: str) -> None:
    with open_model(while_body_passes_its_input().to_bytes()) as model, pytest.raises(UsageError, match="subgraphs="):
        choose_subgraphs(model_graph(model), choice)
