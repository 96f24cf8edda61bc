"""Tracking through rewrites whose result is known, constants, and models that have nothing in common."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.embed import follow
from circletools.origin.tracking.ends import Evidence
from circletools.origin.tracking.tracker import track
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build
from tests.kit.origin_support import embedded, entries, origins, origins_of
from tests.kit.support import TESTDATA, bytes_of, edited, own_models, title
from tests.kit.tracking_support import chain, found, own_constants, tracked


def test_a_fused_activation() -> None:
    before = chain("TANH", "FULLY_CONNECTED", "RELU", "LOGISTIC", "FULLY_CONNECTED")
    build = Build()
    graph = build.graph()
    first = graph.tensor("x", (4, 4))
    value = graph.compute("TANH", [first], "", (4, 4))
    for number, codes in ((1, ["FULLY_CONNECTED", "LOGISTIC"]), (4, ["FULLY_CONNECTED"])):
        value = graph.compute(codes[0], [value, *own_constants(graph, number)], "", (4, 4))
        for code in codes[1:]:
            value = graph.compute(code, [value], "", (4, 4))
    graph.ends([first], [value])
    assert found(before, build.to_bytes()) == [{0}, {1, 2}, {3}, {4}]


def test_many_for_one_and_one_for_many() -> None:
    many = chain("FULLY_CONNECTED", "NEG", "EXP", "NEG", "TANH")
    one = chain("FULLY_CONNECTED", "GELU", "TANH")
    assert found(many, one) == [{0}, {1, 2, 3}, {4}]
    assert found(one, many) == [{0}, {1}, {1}, {1}, {2}]


def test_what_is_at_the_end_of_another_form_of_a_model_has_no_origin() -> None:
    """AFTER has other constants, no TRANSPOSE (the operator before it took that in), and a SOFTMAX of its own."""
    tracking = tracked(bytes_of("circle/cnn"), bytes_of("tflite/cnn"))
    with open_model(bytes_of("circle/cnn")) as before, open_model(bytes_of("tflite/cnn")) as after:
        codes = before.code_names(0), after.code_names(0)
    found = {
        codes[1][index]: sorted(codes[0][source] for source in sources)
        for index, sources in tracking.origins.operators[0].items()
        if codes[1].count(codes[1][index]) == 1
    }
    assert found == {"RESHAPE": ["RESHAPE"], "FULLY_CONNECTED": ["FULLY_CONNECTED"]}


def test_equal_strands_are_distinguished_by_their_readers() -> None:
    """The projections of attention, each FULLY_CONNECTED -> RESHAPE -> TRANSPOSE, in another framework's words."""
    before, after = bytes_of("tflite/transformer_block"), bytes_of("circle/transformer_block")
    with open_model(before) as old, open_model(after) as new:
        projections = [
            [index for index, code in enumerate(model.code_names(0)) if code == "FULLY_CONNECTED"][:3]
            for model in (old, new)
        ]
        operators = track(old, new).origins.operators[0]
    assert [operators[index] for index in projections[1]] == [{index} for index in projections[0]]


def test_inserted_operators_continue_the_one_before() -> None:
    before = chain("TANH", "FULLY_CONNECTED")
    after = chain("QUANTIZE", "TANH", "QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE")
    assert found(before, after) == [{0}, {0}, {0}, {1}, {1}]
    assert tracked(before, after).grounds[0][2][0].evidence is Evidence.CONTINUED


def test_names_of_a_fused_operator() -> None:
    """The converter names a fused operator after the last of its parts, and joins names by semicolons."""
    before = chain("TANH", "NEG", "RELU", "NEG", names="abcd".__getitem__)
    after = chain("TANH", "NEG", "NEG", names=["a", "c", "d"].__getitem__)
    assert found(before, after) == [{0}, {1, 2}, {3}]


@pytest.mark.parametrize("name", ["output_twice", "input_as_output", "constant_output", "unused_input"])
def test_fixed_outputs(name: str) -> None:
    """Tracking finds from the models what `fix-outputs` reports about its copies."""
    before = embedded(bytes_of(f"circle/{name}"))

    def fix(edit: Any) -> object:
        follow(edit)
        return fix_outputs(edit, choose_subgraphs(model_graph(edit.model), "entry"))

    after = edited(before, fix)
    assert tracked(before, after).origins.operators == origins_of(after).operators


def test_sources_come_from_the_tables_of_before() -> None:
    wanted = origins({7: "seven", 9: "nine"}, {0: {7}, 1: {7, 9}})
    before = embedded(chain("TANH", "NEG", "RELU"), wanted)
    tracking = tracked(before, chain("TANH", "NEG", "RELU"))
    assert tracking.origins.sources == wanted.sources
    assert tracking.origins.operators == wanted.operators


def strangers() -> list[tuple[Path, Path]]:
    """Return pairs of models that are not forms of one: those are called alike up to the first underscore."""
    every = [
        (before, after)
        for before in own_models()
        for after in own_models()
        if before.stem.split("_")[0] != after.stem.split("_")[0]
    ]
    worst = [
        ("circle/transformer_block", "circle/mlp"), ("tflite/cnn", "tflite/zip_tail"),
        ("tflite/cnn", "tflite/while_loop"), ("circle/rms_norm", "circle/cnn"),
        ("circle/output_twice", "circle/lstm_cell"),
        ("tflite/transformer_block", "tflite/custom_op"), ("circle/transformer_block", "circle/embedding_int64"),
        ("circle/inception", "circle/inverted_residual"),
    ]  # fmt: skip
    named = [tuple(TESTDATA / f"{name}.{name.split('/')[0]}" for name in pair) for pair in worst]
    return [(before, after) for before, after in named] + Random(0).sample(every, 80)  # noqa: S311 - no secret


@pytest.mark.parametrize(("before", "after"), strangers(), ids=title)
def test_unrelated_models_have_nothing_in_common(before: Path, after: Path) -> None:
    tracking = tracked(before.read_bytes(), after.read_bytes(), 0.5)
    assert [dict(operators) for operators in tracking.grounds if operators] == []


def test_a_part_without_constants_is_known_by_its_names() -> None:
    codes = ["TANH", "NEG", "EXP", "COS"] * 5
    part = chain(*codes[7:11], names=lambda n: f"tower/{n + 7}")
    sure = tracked(chain(*codes, names=lambda n: f"tower/{n}"), part, 0.5).origins
    assert sure.operators == entries({0: {7}, 1: {8}, 2: {9}, 3: {10}})


@given(st.sampled_from(own_models()), st.sampled_from(own_models()), st.data())
def test_any_two_files_give_a_value_or_one_error(before: Path, after: Path, data: st.DataObject) -> None:
    broken = bytearray(after.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        broken[data.draw(st.integers(8, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        tracking = tracked(before.read_bytes(), bytes(broken))
    except CircleToolsError:
        return
    for operators in tracking.grounds:
        for sources in operators.values():
            assert all(source in tracking.origins.sources for source in sources)
            assert all(0 <= why.confidence <= 1 for why in sources.values())
