"""What is found and what is done, value for value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.edit.edit import ModelEdit
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.outputs.analysis import AliasedOutput, AliasKind, aliased_outputs, output_findings, reused_outputs
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build, floats
from tests.kit.outputs_support import fixed
from tests.kit.presence import need
from tests.kit.support import read


def of_every_kind() -> Build:
    """Return a model with one output of each kind, and two that are their own."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    first = graph.compute("NEG", [x], "first")
    second = graph.compute("NEG", [first], "second")
    third = graph.compute("NEG", [x], "third")
    constant, nothing = graph.constant("c", floats(2, 2)), graph.tensor("nothing")
    graph.ends([x], [second, constant, x, second, first, nothing, third])
    return build


def test_every_kind_is_found_with_what_it_shares() -> None:
    with open_model(of_every_kind().to_bytes()) as model:
        found = aliased_outputs(model)
        with_copies = aliased_outputs(model, copies=True)
        without_constants = aliased_outputs(model, constants=False)
    expected = [
        AliasedOutput(AliasKind.CONSTANT, 0, 1, 4, "c", -1),
        AliasedOutput(AliasKind.INPUT, 0, 2, 0, "x", -1, 0),
        AliasedOutput(AliasKind.DUPLICATE, 0, 3, 2, "second", 1, 0),
        AliasedOutput(AliasKind.TAP, 0, 4, 1, "first", 0, 1),
        AliasedOutput(AliasKind.UNPRODUCED, 0, 5, 5, "nothing", -1),
    ]
    assert found == expected
    assert with_copies == [AliasedOutput(AliasKind.TAP, 0, 0, 2, "second", 1, -1), *expected]
    assert without_constants == expected[1:]


def test_the_operator_that_reads_an_output_may_be_the_first_or_the_last() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.compute("ADD", [x, y], "z")
    graph.operator("NEG", [x], [y])  # not in order: operator 0 reads what operator 1 makes
    graph.ends([x], [y])
    with open_model(build.to_bytes()) as model:
        assert aliased_outputs(model) == [AliasedOutput(AliasKind.TAP, 0, 0, y, "y", 1, 0)]


def test_messages_and_severities() -> None:
    with open_model(of_every_kind().to_bytes()) as model:
        found = [(one.code, one.severity, one.location, one.message) for one in output_findings(model_graph(model))]
    run = "; run `circletool fix-outputs"
    assert found == [
        ("CONSTANT_OUTPUT", "warning", "subgraphs[0].outputs[1]", f"'c' is a constant{run}`"),
        ("INPUT_ALIASED_OUTPUT", "warning", "subgraphs[0].outputs[2]", f"'x' is also input 0{run}`"),
        ("DUPLICATE_OUTPUT", "warning", "subgraphs[0].outputs[3]", f"'second' is already output 0{run}`"),
        (
            "OUTPUT_TAP", "info", "subgraphs[0].outputs[4]",
            "'first' is also read by operator 1; onert's `infer` may reuse its memory: "
            "run `circletool fix-outputs --detach-taps`",
        ),
        (
            "UNPRODUCED_OUTPUT", "warning", "subgraphs[0].outputs[5]",
            "'nothing' is not an input or constant, and no operator produces it; fix the exporter",
        ),
    ]  # fmt: skip


def _chain(kind: str, *outputs: int, side: str = "") -> bytes:
    """Return x -> 1 -> 2 -> 3, beside it x -> 4 where there is a `side`."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    last = x
    for code in ("NEG", "ABS", "EXP"):
        last = graph.compute(code, [last], code)
    if side:
        graph.compute(side, [x], "side")
    graph.ends([x], outputs)
    return build.to_bytes(kind)


@pytest.mark.parametrize(
    ("outputs", "side", "reused"),
    [((1, 3), "", {1}), ((2, 3), "", set()), ((1, 2, 3), "", {1}), ((2, 3, 4), "ABS", {2}), ((3,), "", set())],
)
def test_onert_may_use_the_memory_of_a_tap_again(outputs: tuple[int, ...], side: str, reused: set[int]) -> None:
    for kind in ("circle", "tflite"):
        data = _chain(kind, *outputs, side=side)
        with open_model(data) as model:
            assert reused_outputs(model_graph(model).graphs[0]) == reused
            taps = {one.location: one.severity for one in ct.check(model) if one.code == "OUTPUT_TAP"}
            errors = [one.location for one in ct.check(model, for_=["onert"]) if one.severity == "error"]
        places = [f"subgraphs[0].outputs[{outputs.index(tensor)}]" for tensor in sorted(reused)]
        assert errors == places
        assert [place for place, severity in taps.items() if severity == "warning"] == places * (kind == "circle")


@pytest.mark.parametrize("outputs", [(1, 3), (2, 3), (2, 3, 3)])
def test_the_calls_of_onert_differ_where_it_uses_memory_again(outputs: tuple[int, ...], tmp_path: Path) -> None:
    need("onert")
    path, mended = tmp_path / "model.circle", tmp_path / "mended.circle"
    path.write_bytes(_chain("circle", *outputs))
    mended.write_bytes(fixed(path.read_bytes(), detach_taps=outputs == (1, 3)))
    with ct.runtimes.Worker("onert") as worker:
        assert worker.called(path).status == ("differs" if outputs == (1, 3) else "ok")
        assert worker.called(mended).status == "ok"


def test_default_options_of_a_fix() -> None:
    with open_model(of_every_kind().to_bytes()) as model:
        result = fix_outputs(ModelEdit(model))
    assert result.changes == (
        "subgraphs[0].outputs[1] c: a copy of the constant",
        "subgraphs[0].outputs[2] x: a copy of the input",
        "subgraphs[0].outputs[3] second: a copy of the earlier output",
    )
    (note,) = result.notes
    assert (note.code, note.severity, note.location) == ("UNPRODUCED_OUTPUT", "info", "subgraphs[0].outputs[5]")
    assert note.message == "'nothing' is not an input or constant, and no operator produces it; it is not copied"


def test_with_taps_the_first_of_equal_outputs_is_copied_too() -> None:
    with open_model(of_every_kind().to_bytes()) as model:
        result = fix_outputs(ModelEdit(model), keep_constants=True, detach_taps=True)
    assert [change.split()[0] for change in result.changes] == [
        f"subgraphs[0].outputs[{slot}]" for slot in (0, 2, 3, 4)
    ]


def looping(*outputs: int) -> bytes:
    """Return a model whose outputs are those of WHILE, by their position, and which reads both."""
    build = Build()
    main, condition, body = (build.graph(name) for name in ("main", "condition", "body"))
    i, x = main.tensor("i", (1,), "INT32"), main.tensor("x", (1,), "INT32")
    ends = [main.tensor(name, (1,), "INT32") for name in ("count", "value")]
    main.operator("WHILE", [i, x], ends, cond_subgraph_index=1, body_subgraph_index=2)
    main.operator("ADD", ends, [main.tensor("sum", (1,), "INT32")])
    main.ends([i, x], [ends[position] for position in outputs])
    for graph in (condition, body):
        for name in ("i", "state"):
            graph.tensor(name, (1,), "INT32")
    limit, less = condition.constant("limit", np.array([3], np.int32)), condition.tensor("less", (1,), "BOOL")
    condition.operator("LESS", [0, limit], [less])
    condition.ends([0, 1], [less])
    following = [body.tensor(name, (1,), "INT32") for name in ("following", "other")]
    for own, new in enumerate(following):
        body.operator("NEG", [own], [new])
    body.ends([0, 1], following)
    return build.to_bytes()


def test_only_repeated_outputs_of_control_flow_are_copied_from_the_first_on() -> None:
    done = {}
    for outputs in ((0, 1), (0, 0), (1, 0, 1)):
        with open_model(looping(*outputs)) as model:
            changes = fix_outputs(ModelEdit(model)).changes
        done[outputs] = [change.split("] ")[0].rpartition("[")[2] for change in changes]
    assert done == {(0, 1): [], (0, 0): ["0", "1"], (1, 0, 1): ["0", "2"]}


def test_a_tensor_that_does_not_exist_shares_nothing() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    graph.operator("ADD", [x, y + 1], [x])
    graph.ends([x], [y])
    with open_model(build.to_bytes()) as model:
        assert aliased_outputs(model) == []


def test_names_of_copies_are_numbered_past_those_that_are_taken() -> None:
    build = Build()
    graph = build.graph()
    tensors = [graph.tensor(name) for name in ("x", "x_permute", "x", "y_permute_2", "y", "y")]
    graph.ends(tensors, [tensors[place] for place in (0, 2, 0, 4, 5)])
    (after,) = read(fixed(build.to_bytes()))["subgraphs"]
    assert [tensor["name"] for tensor in after["tensors"][6:]] == [
        b"x_permute_2", b"copy_operand_-1_2", b"x_permute_3", b"x_permute_4", b"y_permute", b"y_permute_3",
    ]  # fmt: skip


def test_the_names_of_a_signature_take_the_slots_of_a_tensor_in_turn() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [x, x, x])
    build.signature("four", [("x", x)], [(name, x) for name in "abcd"])
    after = read(fixed(build.to_bytes()))
    outputs = list(after["subgraphs"][0]["outputs"])
    (signature,) = after["signatureDefs"]
    assert [entry["tensorIndex"] for entry in signature["outputs"]] == [*outputs, outputs[2]]


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_a_copy_in_onert_is_written_where_buffer_0_has_an_empty_vector(kind: str, tmp_path: Path) -> None:
    """Onert takes tensors of such a buffer for constants: the copies were memory that nothing wrote."""
    need("onert")
    build = Build()
    build.model.buffers[0].data = b""
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    graph.ends([x], [y, y])
    path = tmp_path / f"model.{kind}"
    path.write_bytes(build.to_bytes(kind))
    with open_model(path) as model:
        edit = ModelEdit(model)
        assert fix_outputs(edit).changes[0] == "buffers[0]: removed the empty data vector"
        after = edit.to_bytes()
    assert fixed(after) == after
    path.write_bytes(after)
    with ct.runtimes.Worker("onert") as worker:
        answer = worker.run(path)
    assert not answer.failure
    assert [one.tobytes() for one in answer.outputs] == [(-answer.inputs[0]).tobytes()] * 2
