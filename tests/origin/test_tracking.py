"""Origins through tools that know nothing of them. Truths come from how a model was made, or from watching a tool."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.tracking_pairs import Pair, Score, judge, load, renumbered, rotated, shuffled, without_names
from circletools.errors import CircleToolsError
from circletools.model.model import open_model
from circletools.origin.remap import follow
from circletools.origin.tracking.constants import CLOSE, SCALED, classify
from circletools.origin.tracking.score import Evidence
from circletools.origin.tracking.side import read_side
from circletools.origin.tracking.tracker import Tracking, track
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.rewrite import fix_outputs
from tests.kit.build import Build, Graph, floats, quantization
from tests.kit.origin_support import embedded, entries, origins, origins_of
from tests.kit.program import put, run
from tests.kit.support import TESTDATA, bytes_of, edited, own_models, title


@cache
def pairs() -> list[Pair]:
    """Return the recorded pairs."""
    return list(load(TESTDATA / "tracking"))


def tracked(before: bytes, after: bytes, least: float = 0.0) -> Tracking:
    with open_model(before) as old, open_model(after) as new:
        return track(old, new, min_confidence=least)


def found(before: bytes, after: bytes) -> list[set[int]]:
    """Return the sources of each operator of subgraph 0."""
    tracking = tracked(before, after)
    with open_model(after) as model:
        return [set(tracking.origins.of(0, index)) for index in range(len(model.subgraphs[0].operators))]


# --- pairs made by tools ------------------------------------------------------------------------------------


def score_of(pairs: Sequence[Pair]) -> Score:
    score = Score()
    for pair in pairs:
        score += judge(pair)
    return score


def test_there_are_pairs_of_both_tools() -> None:
    assert Counter(pair.name.endswith(".optimised") for pair in pairs()) == {True: 3, False: 6}
    assert sum(len(sources) for pair in pairs() for sources in pair.truth.values()) > 150


def test_with_names() -> None:
    score = score_of(pairs())
    assert score.precision >= 0.99
    assert score.recall >= 0.95


@pytest.mark.parametrize("both", [False, True])
def test_without_names(both: bool) -> None:
    bare = [replace(pair, after=without_names(pair.after)) for pair in pairs()]
    score = score_of([replace(pair, before=without_names(pair.before)) for pair in bare] if both else bare)
    assert score.precision >= 0.9
    assert score.recall >= 0.8


def test_names_that_were_given_anew_are_not_believed() -> None:
    score = score_of(
        [replace(pair, before=renumbered(pair.before), after=renumbered(pair.after)) for pair in pairs()]
    )
    assert score.precision >= 0.9
    assert score.recall >= 0.8


def test_names_that_changed_places_are_not_believed() -> None:
    bare = [pair for pair in pairs() if not pair.name.startswith("variable")]
    score = score_of([replace(pair, after=rotated(pair.after)) for pair in bare])
    assert score.precision >= 0.99
    assert score.recall >= 0.95


def test_two_names_that_changed_places_among_many_that_did_not() -> None:
    codes = ["FULLY_CONNECTED", "RELU"] * 6
    swapped = {1: 5, 5: 1}
    before = chain(*codes, names=lambda n: f"dense/{n}")
    after = chain(*codes, names=lambda n: f"dense/{swapped.get(n, n)}")
    assert found(before, after) == [{number} for number in range(12)]


def test_names_that_moved_on_are_not_believed() -> None:
    """A converter that numbers its tensors drops two operators at the start: all names are those of others."""
    codes = ["FULLY_CONNECTED", "RELU"] * 6
    before = chain("NEG", "NEG", *codes, names=lambda n: f"t{n}", first=-2)
    after = chain(*codes, names=lambda n: f"t{n}")
    tracking = tracked(before, after)
    assert [max(why, key=lambda source: why[source].confidence) for why in tracking.grounds[0].values()] == [
        *range(2, 14)
    ]
    assert [set(tracking.origins.of(0, index)) for index in range(1, 12)] == [{n} for n in range(3, 14)]


def test_what_is_sure_is_right_more_often_than_what_is_not() -> None:
    sure = [right for _, confidence, right in score_of(pairs()).sure if confidence >= 0.9]
    assert sum(sure) >= 0.99 * len(sure) > 0


# --- the same model, and the same in another order ----------------------------------------------------------


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_a_model_is_itself(path: Path) -> None:
    tracking = tracked(path.read_bytes(), path.read_bytes())
    with open_model(path) as model:
        counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    number = 0
    for subgraph, count in enumerate(counts):
        for operator in range(count):
            ((source, grounds),) = tracking.grounds[subgraph][operator].items()
            assert source == number
            assert grounds.confidence == 1.0
            number += 1


CODES = {"ADD": 2, "MUL": 2, "RELU": 1, "TANH": 1, "LOGISTIC": 1}
Drawn = tuple[list[tuple[str, list[int]]], list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    """Draw operators, by code and what they take (-1 and -2 are the inputs), and which are outputs."""
    operators: list[tuple[str, list[int]]] = []
    for index in range(draw(st.integers(1, 6))):
        code = draw(st.sampled_from(sorted(CODES)))
        taken = st.lists(st.integers(-2, index - 1), min_size=CODES[code], max_size=CODES[code])
        operators.append((code, draw(taken)))
    used = {taken for _, inputs in operators for taken in inputs}
    ends = [index for index in range(len(operators)) if index not in used]
    return operators, draw(st.permutations(ends))


def built(drawn: Drawn) -> bytes:
    """Return a model without names."""
    operators, outputs = drawn
    build = Build()
    graph = build.graph("")
    tensors = {-1: graph.tensor(""), -2: graph.tensor("")}
    for index, (code, inputs) in enumerate(operators):
        tensors[index] = graph.compute(code, [tensors[taken] for taken in inputs], "")
    graph.ends([tensors[-1], tensors[-2]], [tensors[index] for index in outputs])
    return build.to_bytes()


def automorphisms(drawn: Drawn) -> int:
    """Count the ways to exchange operators that change nothing, by trying all."""
    operators, outputs = drawn
    count = 0
    for order in permutations(range(len(operators))):
        new = {**dict(enumerate(order)), -1: -1, -2: -2}
        same = all(
            operators[new[index]] == (code, [new[taken] for taken in inputs])
            for index, (code, inputs) in enumerate(operators)
        )
        count += same and [new[index] for index in outputs] == outputs
    return count


@settings(max_examples=60)
@given(graphs())
def test_without_names_a_graph_is_itself_where_it_has_no_symmetry(drawn: Drawn) -> None:
    data = built(drawn)
    tracking = tracked(data, data)
    if automorphisms(drawn) == 1:
        assert tracking.origins.operators == entries({index: {index} for index in range(len(drawn[0]))})
        assert {why.confidence for entry in tracking.grounds[0].values() for why in entry.values()} == {1.0}


@settings(max_examples=60)
@given(graphs(), st.integers(0, 2**32))
def test_the_order_of_operators_does_not_matter(drawn: Drawn, seed: int) -> None:
    data = built(drawn)
    other, (order,) = shuffled(data, seed)
    if automorphisms(drawn) == 1:
        assert tracked(data, other).origins.operators == entries({new: {old} for new, old in enumerate(order)})


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_models_in_another_order(path: Path) -> None:
    data = path.read_bytes()
    other, orders = shuffled(data, 3)
    with open_model(data) as model:
        starts = model.operator_columns.splits.tolist()
    expected = [{new: {starts[s] + old} for new, old in enumerate(order)} for s, order in enumerate(orders)]
    assert [dict(operators) for operators in tracked(data, other).origins.operators] == expected


# --- rewrites whose result is known -------------------------------------------------------------------------


def own_constants(graph: Graph, number: int) -> list[int]:
    return [graph.constant("", floats(4, 4, seed=number)), graph.constant("", floats(4, seed=50 + number))]


def chain(*codes: str, names: Callable[[int], str] = lambda _: "", first: int = 0) -> bytes:
    """Return a model whose operators take the value of the one before, FULLY_CONNECTED with constants of its own.

    Names and constants go by the number of the operator, constants by that from `first` on.
    """
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (4, 4))
    for number, code in enumerate(codes):
        constants = []
        if code == "FULLY_CONNECTED":
            constants = own_constants(graph, first + number)
        value = graph.compute(code, [value, *constants], names(number), (4, 4))
    graph.ends([start], [value])
    return build.to_bytes()


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
    """AFTER has other constants, no TRANSPOSE any more, and a SOFTMAX of its own."""
    tracking = tracked(bytes_of("circle/cnn"), bytes_of("tflite/cnn"))
    with open_model(bytes_of("circle/cnn")) as before, open_model(bytes_of("tflite/cnn")) as after:
        codes = before.code_names(0), after.code_names(0)
    found = {
        codes[1][index]: sorted(codes[0][source] for source in sources)
        for index, sources in tracking.origins.operators[0].items()
        if codes[1].count(codes[1][index]) == 1
    }
    assert found == {"RESHAPE": ["RESHAPE", "TRANSPOSE"], "FULLY_CONNECTED": ["FULLY_CONNECTED"]}


def test_strands_that_are_alike_are_told_apart_by_what_takes_them() -> None:
    """The projections of attention, each FULLY_CONNECTED -> RESHAPE -> TRANSPOSE, in another framework's words."""
    before, after = bytes_of("tflite/transformer_block"), bytes_of("circle/transformer_block")
    with open_model(before) as old, open_model(after) as new:
        projections = [
            [index for index, code in enumerate(model.code_names(0)) if code == "FULLY_CONNECTED"][:3]
            for model in (old, new)
        ]
        operators = track(old, new).origins.operators[0]
    assert [operators[index] for index in projections[1]] == [{index} for index in projections[0]]


def test_what_a_tool_puts_in_continues_what_is_before_it() -> None:
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
    """What `fix-outputs` says of its copies, tracking finds out from the models."""
    before = embedded(bytes_of(f"circle/{name}"))

    def fix(edit: Any) -> object:
        follow(edit)
        return fix_outputs(edit, choose_subgraphs(edit.model, "entry"))

    after = edited(before, fix)
    assert tracked(before, after).origins.operators == origins_of(after).operators


def test_sources_come_from_the_tables_of_before() -> None:
    wanted = origins({7: "seven", 9: "nine"}, {0: {7}, 1: {7, 9}})
    before = embedded(chain("TANH", "NEG", "RELU"), wanted)
    tracking = tracked(before, chain("TANH", "NEG", "RELU"))
    assert tracking.origins.sources == wanted.sources
    assert tracking.origins.operators == wanted.operators


# --- constants ----------------------------------------------------------------------------------------------


def holding(*values: tuple[NDArray[Any], str, Sequence[float]]) -> bytes:
    build = Build()
    graph: Graph = build.graph()
    for value, kind, scales in values:
        graph.tensor(
            "", value.shape, kind, data=value.tobytes(), quantization=quantization(scales) if len(scales) else None
        )
    return build.to_bytes()


def kinds(before: bytes, after: bytes) -> list[tuple[int, int] | None]:
    """Return for each constant of AFTER which of BEFORE's it is, and how it was found."""
    with open_model(before) as old, open_model(after) as new:
        classes = classify(read_side(old), read_side(new))
        position = {number: index for index, number in enumerate(classes.before.tolist())}
        return [
            (position[number], int(classes.how[number])) if number in position else None
            for number in classes.after.tolist()
        ]


FLOATS = [floats(24, 36, seed=seed) for seed in range(5)]
BEFORE = holding(*((value, "FLOAT32", ()) for value in FLOATS))


def test_quantized_constants() -> None:
    steps = [np.abs(value).max(axis=1) / 127 for value in FLOATS]
    after = holding(
        *((np.round(v / s[:, None]).astype(np.int8), "INT8", s.tolist()) for v, s in zip(FLOATS, steps, strict=True))
    )
    assert kinds(BEFORE, after) == [(index, CLOSE) for index in range(5)]


def test_transposed_constants() -> None:
    after = holding(*((np.ascontiguousarray(value.T), "FLOAT32", ()) for value in FLOATS))
    assert kinds(BEFORE, after) == [(index, CLOSE) for index in range(5)]


def test_half_floats() -> None:
    assert kinds(BEFORE, holding(*((v.astype(np.float16), "FLOAT16", ()) for v in FLOATS))) == [
        (index, CLOSE) for index in range(5)
    ]


@pytest.mark.parametrize("axis", [0, 1])
def test_constants_scaled_by_channel(axis: int) -> None:
    """As a folded batch normalization leaves them; factors may be negative."""
    factors = [np.random.default_rng(seed).uniform(-3, 3, value.shape[axis]) for seed, value in enumerate(FLOATS)]
    scaled = [v * np.expand_dims(f, 1 - axis) for v, f in zip(FLOATS, factors, strict=True)]
    after = holding(*((value.astype(np.float32), "FLOAT32", ()) for value in scaled))
    assert kinds(BEFORE, after) == [(index, SCALED) for index in range(5)]


def test_other_constants_are_not_taken_for_these() -> None:
    assert kinds(BEFORE, holding(*((floats(24, 36, seed=s), "FLOAT32", ()) for s in range(20, 25)))) == [None] * 5


# --- what belongs to nothing --------------------------------------------------------------------------------


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


@settings(max_examples=30)
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


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    put(tmp_path / "before.tflite", chain("TANH", "FULLY_CONNECTED", "RELU"))
    put(tmp_path / "after.tflite", chain("TANH", "QUANTIZE", "FULLY_CONNECTED", "RELU", first=-1))
    put(tmp_path / "other.tflite", chain("TANH", "CEIL", "COS"))
    return tmp_path


def test_the_command_shows_and_writes(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "after.tflite", "out.tflite", cwd=files)
    assert ran.status == 0
    assert [line.split() for line in ran.out.decode().splitlines()][1:3] == [
        ["0", "TANH", "0", "(noname)", "position", "1.00"],
        ["1", "QUANTIZE", "0", "(noname)", "continued", "1.00"],
    ]
    assert origins_of((files / "out.tflite").read_bytes()).operators[0] == {0: {0}, 1: {0}, 2: {1}, 3: {2}}
    again = run("track-origins", "before.tflite", "out.tflite", "twice.tflite", "--replace", cwd=files)
    assert again.status == 0
    assert (files / "twice.tflite").read_bytes() == (files / "out.tflite").read_bytes()


def test_the_json_is_accepted_by_embed_origins(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "after.tflite", "out.tflite", "--json", cwd=files)
    document = json.loads(ran.out)
    assert document["schema_version"] == 1
    assert document["operators"][1]["grounds"] == [{"source": 0, "evidence": "continued", "confidence": 1.0}]
    put(files / "origins.json", ran.out)
    assert run("embed-origins", "after.tflite", "same.tflite", "--origins", "origins.json", cwd=files).status == 0
    assert (files / "same.tflite").read_bytes() == (files / "out.tflite").read_bytes()


def test_what_has_no_origin_is_told(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "other.tflite", "--dry-run", "--min-confidence", "0.9", cwd=files)
    assert ran.status == 1
    assert "3 of 3 operators have no origin" in ran.err
    some = files / "some.tflite"
    put(some, chain("TANH", "FULLY_CONNECTED", "CONV_2D", "RELU", "ARG_MAX"))
    loose = run("track-origins", "before.tflite", some, "--dry-run", "--min-confidence", "0.95", cwd=files)
    assert (loose.status, "operators have no origin" in loose.err) == (0, True)
    assert run(
        "track-origins", "before.tflite", some, "--dry-run", "--min-confidence", "0.95", "--strict", cwd=files
    ).status == 1  # fmt: skip


def test_tables_that_were_carried_along_are_replaced(files: Path) -> None:
    tables = embedded((files / "before.tflite").read_bytes())
    put(files / "tables.tflite", tables)
    carried = embedded((files / "after.tflite").read_bytes(), origins_of(tables))
    put(files / "carried.tflite", carried)
    assert run("track-origins", "tables.tflite", "carried.tflite", "--in-place", cwd=files).status == 0
    assert origins_of((files / "carried.tflite").read_bytes()).operators[0] == {0: {0}, 1: {0}, 2: {1}, 3: {2}}
    own = embedded((files / "after.tflite").read_bytes())
    put(files / "own.tflite", own)
    assert run("track-origins", "tables.tflite", "own.tflite", "out.tflite", cwd=files).status == 4
    assert run("track-origins", "tables.tflite", "own.tflite", "out.tflite", "--replace", cwd=files).status == 0


def test_an_error_names_the_file_that_it_is_about(files: Path) -> None:
    def first_line(*names: str) -> str:
        ran = run("track-origins", *names, "out.tflite", cwd=files)
        assert ran.status in (3, 4)
        return ran.err.splitlines()[0]

    put(files / "own.tflite", embedded((files / "after.tflite").read_bytes()))
    good = bytes_of("tflite/cnn_external")
    put(files / "cut.tflite", good[:-64])  # the data of the constants lies at the end
    assert first_line("before.tflite", "nosuch.tflite").startswith("error: nosuch.tflite: cannot")
    assert first_line("nosuch.tflite", "after.tflite").startswith("error: nosuch.tflite: cannot")
    assert first_line("before.tflite", "own.tflite").startswith("error: own.tflite: the model has origins")
    assert first_line("before.tflite", "cut.tflite").startswith("error: cut.tflite: buffers")
    assert first_line("cut.tflite", "after.tflite").startswith("error: cut.tflite: buffers")


def test_the_help_speaks_of_its_own_files(files: Path) -> None:
    words = " ".join(run("track-origins", "--help", cwd=files).out.decode().replace("│", " ").split())
    assert "Write over AFTER" in words
    assert "IN is" not in words


def test_standard_streams(files: Path) -> None:
    after = (files / "after.tflite").read_bytes()
    ran = run("track-origins", "before.tflite", "-", "-", stdin=after, cwd=files)
    assert ran.status == 0
    assert ran.out[4:8] == b"TFL3"
    assert len(origins_of(ran.out).operators[0]) == 4
    assert run("track-origins", "-", "-", "x.tflite", stdin=after, cwd=files).status == 2
    assert run("track-origins", "before.tflite", "after.tflite", "-", "--json", cwd=files).status == 2
