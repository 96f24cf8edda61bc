"""Shapes and values by the rules for single operators, compared with LiteRT's kernels."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.shapes.call import Call, DoubtfulError, RefusedError, UndelegatedError, check_needs
from circletools.shapes.infer import Inference
from circletools.shapes.table import RULES
from circletools.shapes.windows import STATES
from tests.kit.build import Build, Code, floats
from tests.kit.presence import need
from tests.shapes.test_set_shape import cases, constant, interpret, loaded, shaped

COMPARED = ("EQUAL", "NOT_EQUAL", "LESS", "GREATER")
KINDS: dict[str, list[str]] = {name: ["BOOL"] for name in COMPARED}
KINDS |= {"ARG_MAX": ["INT32"], "TOPK_V2": ["FLOAT32", "INT32"], "RFFT2D": ["COMPLEX64"]}


def built(code: str, given: list[Any], options: dict[str, Any], results: int = 1) -> bytes:
    graph = (build := Build()).graph()
    slots, inputs = [], []
    for at, one in enumerate(given):
        if isinstance(one, tuple):
            is_state = at in STATES.get(code, ())
            slots.append(graph.tensor(f"x{at}", one, is_variable=is_state))
            inputs += [] if is_state else slots[-1:]
        else:
            slots.append(-1 if one is None else graph.constant(f"c{at}", constant(one)))
    kinds = KINDS.get(code, ["FLOAT32" if inputs else "INT32"] * results)
    last = [graph.tensor(f"y{at}", (1, 1), kind, shape_signature=[-1, -1]) for at, kind in enumerate(kinds)]
    graph.operator(Code(code, 2 if code == "BROADCAST_TO" else 1), slots, last, **options)
    graph.ends(inputs, last)
    return build.to_bytes()


@pytest.mark.runtime
@pytest.mark.parametrize("case", cases("kernel_cases.txt"), ids=lambda case: case[0])
def test_shapes_and_values_are_those_of_the_kernel(case: tuple[Any, ...]) -> None:
    need("ai_edge_litert")
    data, expected = built(*case), None
    with suppress(RuntimeError, ValueError):
        (interpreter := interpret(model_content=data)).allocate_tensors()
        interpreter.invoke()
        expected = [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]
    with ct.open(data) as model:
        graph = model.subgraphs[0]
        run = Inference(model, strict=True)
        found = run.run(0, [graph.tensors[index].shape for index in graph.inputs])
        value, are_constant = run.found.values.get((0, int(graph.outputs[0]))), not len(graph.inputs)
    error = run.refused.get((0, 0))
    if error is not None:
        is_refused = isinstance(error, UndelegatedError) or not isinstance(error, DoubtfulError)
        assert is_refused == (expected is None)
        return
    assert expected is not None
    assert found == [one.shape for one in expected]
    unfolded = case[0] == "ONE_HOT" or case[2].get("fused_activation_function") or case[2].get("batch_dims")
    assert (value is not None) == (are_constant and not unfolded)
    assert value is None or value.tolist() == expected[0].tolist()


@pytest.mark.runtime
@pytest.mark.parametrize("case", cases("mended_cases.txt"), ids=lambda case: case[0])
def test_a_mended_operator_has_the_values_of_single_runs(case: tuple[Any, ...]) -> None:
    need("ai_edge_litert")
    data = built(*case)
    after = shaped(data, batch=3, mend=True)
    (given,) = (floats(*item["shape"]) for item in interpret(model_content=after).get_input_details())
    single = [loaded(data, [given[at : at + 1]])[0] for at in range(3)]
    np.testing.assert_allclose(loaded(after, [given])[0], np.concatenate(single), rtol=1e-5)


def outcome(code: str, given: list[Any], options: dict[str, Any], results: int) -> list[Any]:
    """Return the shapes by a rule, or its error and the input that causes it."""
    values = [None if one is None or isinstance(one, tuple) else constant(one) for one in given]
    sizes = [one if value is None else value.shape for one, value in zip(given, values, strict=True)]
    call = Call(code, options, sizes, values, results)
    try:
        check_needs(call)
        return [*RULES[code](call)]
    except RefusedError as error:
        return [type(error).__name__, error.slot]


def test_a_rule_gives_shapes_or_the_input_that_does_not_fit() -> None:
    for code, given, options, expected, *results in cases("rule_cases.txt"):
        count = results[0] if results else len(expected) if isinstance(expected[0], tuple) else 1
        assert outcome(code, given, options, count) == expected, (code, given, options)
