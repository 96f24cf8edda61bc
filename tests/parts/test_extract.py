"""Which operators, inputs and outputs a part has, what goes along, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import circletools as ct
from tests.kit.build import Build, Table, floats
from tests.kit.support import bytes_of, path_of
from tests.kit.surgery_support import codes, extracted, shape, signatures, wired

DATA = wired().to_bytes()
OPERATORS = [
    "NEG x > a", "ABS a > b", "EXP a > c", "NEG k2 > fixed", "ADD b,k > d", "MUL d,c > e", "ADD e,fixed > f",
    "MUL f,z > g", "TANH c > h",
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "operators", "inputs", "outputs", "notes"),
    [
        ({"from_": ("a",), "to": ("d",)}, [1, 4], ["a"], ["d"], []),
        ({"from_": ("a",), "to": ("e",)}, [1, 2, 4, 5], ["a"], ["e"], []),
        ({"from_": ("d",), "to": ("e",)}, [5], ["d", "c"], ["e"], ["FURTHER_INPUT"]),
        ({"from_": ("c", "d"), "to": ("e",)}, [5], ["c", "d"], ["e"], []),
        ({"from_": ("e",), "to": ("g",)}, [3, 6, 7], ["e", "z"], ["g"], ["FURTHER_INPUT"]),
        ({"from_": ("c",)}, [3, 5, 6, 7, 8], ["c", "z", "d"], ["g", "h"], ["FURTHER_INPUT"]),
        ({"from_": ("c",), "to": ("h", "e")}, [5, 8], ["c", "d"], ["h", "e"], ["FURTHER_INPUT"]),
        ({"from_": ("f",)}, [7], ["f", "z"], ["g"], ["FURTHER_INPUT"]),
        ({"to": ("h",)}, [0, 2, 8], ["x"], ["h"], ["INPUT_LEFT_OUT"]),
        ({"to": ("g",)}, [0, 1, 2, 3, 4, 5, 6, 7], ["x", "z"], ["g"], []),
        ({"to": ("fixed",)}, [3], [], ["fixed"], ["INPUT_LEFT_OUT"]),
        ({"operators": "4-6"}, [3, 4, 5, 6], ["b", "c"], ["f"], []),
        ({"operators": "3-6"}, [3, 4, 5, 6], ["b", "c"], ["f"], []),
        ({"operators": "0,5"}, [0, 1, 2, 4, 5], ["x"], ["c", "e"], ["OPERATORS_BETWEEN"]),
        ({"operators": "2"}, [2], ["a"], ["c"], []),
        ({"operators": "7-8"}, [7, 8], ["z", "c", "f"], ["g", "h"], []),
        ({"signature": "run"}, list(range(9)), ["x", "z"], ["g", "h"], []),
        ({"from_": ("index:4",), "to": ("index:5",)}, [1], ["a"], ["b"], []),
    ],
)
def test_what_a_part_has(
    request_: dict[str, Any], operators: list[int], inputs: list[str], outputs: list[str], notes: list[str]
) -> None:
    after, result = extracted(DATA, **request_)
    assert shape(after) == ([OPERATORS[operator] for operator in operators], inputs, outputs)
    assert [code for code in codes(result) if code != "SIGNATURE_LEFT_OUT"] == notes
    names = tuple(inputs), tuple(outputs)
    if inputs:
        again, _ = extracted(after, from_=names[0], to=names[1])
        assert again == after, "twice is once"


def test_a_called_subgraph_is_taken_as_a_whole() -> None:
    after, _ = extracted(bytes_of("circle/if_cond"), subgraph=2)
    assert shape(after)[1:] == (["x"], ["y"])


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        ({"from_": ("h",), "to": ("g",)}, ct.EditError, "'g': it depends on none of the inputs"),
        ({"from_": ("c", "b"), "to": ("h",)}, ct.EditError, "'b': the outputs do not need it as an input"),
        ({"from_": ("a", "x"), "to": ("h",)}, ct.EditError, "'x': the outputs do not need it as an input"),
        ({"from_": ("h",)}, ct.EditError, "'h': none of the outputs depends on these inputs"),
        ({"from_": ("k",), "to": ("d",)}, ct.EditError, "'k': it is a constant"),
        ({"from_": ("a",), "to": ("a",)}, ct.EditError, "'a': it would be an input and an output"),
        ({"to": ("x",)}, ct.EditError, "'x': no operator produces it"),
        ({"to": ("k",)}, ct.EditError, "'k': no operator produces it"),
        ({"to": ("hh",)}, ct.UsageError, "no tensor is called 'hh' .did you mean 'h'"),
        ({"to": ("index:13",)}, ct.UsageError, "tensor 13 does not exist; the count is 13"),
        ({"to": ("h",), "subgraph": 1}, ct.UsageError, "subgraph 1 does not exist; the count is 1"),
        ({"operators": "9"}, ct.UsageError, "operator 9 does not exist"),
        ({"origin": "*"}, ct.UsageError, "matches no operator"),
        ({"signature": "walk"}, ct.UsageError, "no signature is called 'walk' .available: run"),
        ({}, ct.UsageError, "nothing to extract"),
        ({"to": ("h",), "operators": "1"}, ct.UsageError, "more than one"),
        ({"signature": "run", "operators": "1"}, ct.UsageError, "more than one"),
    ],
)
def test_what_is_refused(request_: dict[str, Any], error: type[ct.CircleToolsError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        extracted(DATA, **request_)
    assert caught.value.hint or "exist" in str(caught.value)


def test_operators_without_readers_produce_outputs_last() -> None:
    build = wired()
    graph = build.model.subgraphs[0]
    graph.tensors += [Table("Tensor", name=name, shape=[2, 2], type="FLOAT32") for name in ("dead", "deader")]
    for source, made in ((6, 13), (13, 14)):
        operator = Table("Operator", opcode_index=build.code("NEG"), inputs=[source], outputs=[made])
        graph.operators.append(operator)
    after, _ = extracted(build.to_bytes(), operators="9-10")
    assert shape(after) == (["NEG c > dead", "NEG dead > deader"], ["c"], ["deader"])


def test_an_input_that_an_operator_of_the_part_makes_is_refused() -> None:
    build = Build()
    graph = build.graph()
    x, left, right, y = (graph.tensor(name) for name in ("x", "left", "right", "y"))
    axis = graph.tensor("axis", (), "INT32", data=bytes(4))
    graph.operator("SPLIT", [axis, x], [left, right], num_splits=2)
    graph.operator("ADD", [left, right], [y])
    graph.ends([x], [y])
    with pytest.raises(ct.EditError, match="'left': it would be an input, but operator 0 produces it"):
        extracted(build.to_bytes(), from_=("x", "left"), to=("y",))
    after, _ = extracted(build.to_bytes(), from_=("left", "right"), to=("y",))
    assert shape(after) == (["ADD left,right > y"], ["left", "right"], ["y"])
    after, _ = extracted(build.to_bytes(), operators="0")
    assert shape(after)[1:] == (["x"], ["left", "right"])


# --- signatures -----------------------------------------------------------------------------------------------


def test_a_part_gets_a_signature_with_the_names_that_are_known() -> None:
    after, result = extracted(DATA, from_=("f", "z"), to=("g",))
    assert signatures(after) == {"run": ([("f", "f"), ("the z", "z")], [("the g", "g")])}
    assert codes(result) == ["SIGNATURE_LEFT_OUT"]
    assert result.changes == (
        "operators: 7 (1 of 9 in subgraph 0)",
        "inputs: 'f', 'z'",
        "outputs: 'g'",
        "signature 'run': new, of the cut",
    )


def test_a_signature_of_the_same_ends_is_kept() -> None:
    build = wired()
    build.signature("half", [("first", 0)], [("last", 12)])
    after, result = extracted(build.to_bytes(), to=("h",))
    assert signatures(after) == {"half": ([("first", "x")], [("last", "h")])}
    assert result.changes[-1] == "signature 'half': kept"
    assert [note.location for note in result.notes if note.code == "SIGNATURE_LEFT_OUT"] == ["signatures[0]"]


def test_names_of_a_new_signature_differ_and_are_text() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("t"), graph.tensor("t")
    outputs = [graph.tensor(name) for name in (b"\xff", "", "t", "u")]
    for source, target in zip((x, y, x, y), outputs, strict=True):
        graph.operator("NEG", [source], [target])
    graph.ends([x, y], outputs)
    after, _ = extracted(build.to_bytes(), operators="0-3")
    assert signatures(after) == {
        "serving_default": (
            [("t", "t"), ("t_1", "t")],
            [("output_0", "\udcff"), ("output_1", ""), ("t", "t"), ("u", "u")],
        )
    }
    with pytest.raises(
        ct.UsageError, match=r"3 tensors are called 't' \(select one by 0/index:0, 0/index:1, 0/index:4\)"
    ):
        extracted(build.to_bytes(), to=("t",))


def test_the_part_of_a_signature_in_another_subgraph() -> None:
    data = bytes_of("tflite/two_signatures")
    with ct.open(data) as model:
        keys = [(one.key, one.subgraph) for one in model.signatures]
    assert sorted(subgraph for _, subgraph in keys) == [0, 1]
    for key, subgraph in keys:
        after, result = extracted(data, signature=key)
        assert shape(after) == shape(data, subgraph)
        assert list(signatures(after)) == [key]
        assert signatures(after)[key] == signatures(data)[key]
        assert f"in subgraph {subgraph}" in result.changes[0]


# --- what goes along ------------------------------------------------------------------------------------------


def test_an_archive_is_left_out_and_reported() -> None:
    _, result = extracted(bytes_of("tflite/zip_tail"), operators="0")
    assert "ARCHIVE_LEFT_OUT" in codes(result)


def test_an_open_shape_is_reported() -> None:
    build = wired()
    build.model.subgraphs[0].tensors[6].shape_signature = [-1, 2]
    after, result = extracted(build.to_bytes(), from_=("c",), to=("h",))
    assert [note.location for note in result.notes if note.code == "OPEN_SHAPE"] == ["subgraphs[0].tensors[6]"]
    assert shape(after)[1] == ["c"]


# --- state ----------------------------------------------------------------------------------------------------


def stateful() -> Build:
    """Return a model with a variable that one operator sets and another reads."""
    build = Build()
    graph = build.graph()
    x, handle, again = (
        graph.tensor("x"),
        graph.tensor("handle", (1,), "RESOURCE"),
        graph.tensor("same", (1,), "RESOURCE"),
    )
    y, out, other = graph.tensor("y"), graph.tensor("out"), graph.tensor("other")
    graph.operator("VAR_HANDLE", [], [handle], shared_name="v")
    graph.operator("ASSIGN_VARIABLE", [handle, x], [])
    graph.operator("VAR_HANDLE", [], [again], shared_name="v")
    graph.operator("READ_VARIABLE", [again], [y])
    graph.operator("TANH", [y], [out])
    graph.operator("NEG", [x], [other])
    graph.ends([x], [out, other])
    return build


def test_operators_that_share_a_state_stay_together() -> None:
    data = stateful().to_bytes()
    with pytest.raises(
        ct.EditError, match="operators 1 and 3 use variable 'v', and the cut would separate them"
    ) as caught:
        extracted(data, operators="0-2")
    assert caught.value.hint == "take either all or none of the operators 1,3"
    after, result = extracted(data, to=("out",))
    assert shape(after) == (shape(data)[0][:5], ["x"], ["out"])
    assert "STATE_APART" not in codes(result)
    after, _ = extracted(data, to=("other",))
    assert shape(after)[0] == ["NEG x > other"]
    after, _ = extracted(data, operators="4")
    assert shape(after) == (["TANH y > out"], ["y"], ["out"])


def test_a_state_that_another_subgraph_sets_is_reported() -> None:
    build = stateful()
    other = build.graph("other")
    handle = other.tensor("handle", (1,), "RESOURCE")
    value = other.constant("value", floats(2, 2))
    other.operator("VAR_HANDLE", [], [handle], shared_name="v")
    other.operator("ASSIGN_VARIABLE", [handle, value], [])
    build.signature("set", [], [], 1)
    _, result = extracted(build.to_bytes(), to=("out",))
    assert codes(result).count("STATE_APART") == 1
    _, result = extracted(build.to_bytes(), to=("other",))
    assert "STATE_APART" not in codes(result)


def test_a_variable_tensor_stays_with_all_its_users() -> None:
    data = bytes_of("tflite/variable_tensor")
    with ct.open(data) as model:
        (variable,) = [tensor for tensor in model.subgraphs[0].tensors if tensor.is_variable]
    with pytest.raises(ct.EditError, match="it keeps its value between runs"):
        extracted(data, from_=(f"index:{variable.index}",))


# --- tables ---------------------------------------------------------------------------------------------------


def test_origins_and_devices_follow(annotated: bytes) -> None:
    after, _ = extracted(annotated, operators="2-6")
    with ct.open(annotated) as whole, ct.open(after) as part:
        old, new = ct.origins.read(whole), ct.origins.read(part)
        assert old is not None
        assert new is not None
        assert [new.of(0, index) for index in range(5)] == [old.of(0, index) for index in range(2, 7)]
        assert new.sources == old.sources
        assert ct.origins.check_freshness(part, new).state == "fresh"
        before, affinity = ct.affinity.read(whole), ct.affinity.read(part)
        assert before is not None
        assert affinity is not None
        assert affinity.subgraphs[0].devices.tolist() == before.subgraphs[0].devices[2:7].tolist()
        numbers = affinity.subgraphs[0].partitions.tolist()
        assert sorted(set(numbers)) == list(range(len(set(numbers))))
        assert ct.affinity.check_freshness(part, affinity).state == "fresh"
        assert [finding for finding in ct.check(part) if finding.severity != "info"] == [
            finding for finding in ct.check(part) if finding.code.endswith("OUTPUT")
        ]


def test_the_part_of_a_source(annotated: bytes) -> None:
    with ct.open(annotated) as model:
        origins = ct.origins.read(model)
        assert origins is not None
        name = origins.sources[next(iter(origins.of(0, 3)))]
    after, _ = extracted(annotated, origin=name)
    with ct.open(after) as part, ct.open(annotated) as model:
        assert part.code_names(0) == model.code_names(0)[3:4]


def test_tables_that_are_stale_are_left_out(annotated: bytes) -> None:
    with ct.open(annotated) as model, ct.edit(model) as edit:
        stamp = bytearray(edit.metadata_value("CIRCLETOOLS_stamp") or b"")
        stamp[-1] ^= 1
        edit.set_metadata("CIRCLETOOLS_stamp", bytes(stamp))
        edit.set_metadata("CIRCLETOOLS_affinity_stamp", bytes(stamp))
        edit.set_metadata("TFLITE_METADATA", b"x")
        edit.set_metadata("ONE_execution_plan_table", bytes(4))
        edit.set_metadata("mine", b"y")
        data = edit.to_bytes()
    after, result = extracted(data, operators="2-6")
    with ct.open(after) as part:
        assert [entry.name for entry in part.metadata] == ["mine"]
    assert sorted(codes(result)) == ["METADATA_LEFT_OUT"] * 2 + ["STALE_AFFINITY", "STALE_ORIGIN"]
    with pytest.raises(ct.EditError, match="the origins are stale"):
        extracted(data, origin="*")


@pytest.fixture(scope="module")
def annotated() -> bytes:
    """Return a model with origins and devices."""
    with ct.open(path_of("circle/inception")) as model, ct.edit(model) as edit:
        ct.origins.embed(edit)
        request = ct.PlanRequest(devices=("npu", "cpu"), rules=("op:CONV_2D=npu",), default="cpu")
        ct.affinity.annotate(edit, ct.plan(model, request))
        return edit.to_bytes()
