"""Every output gets a tensor of its own, and no runtime can tell the difference otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.errors import EditError, UsageError
from circletools.model.model import open_model
from circletools.model.verify import check_model
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.copyops import CopyChoice
from tests.kit.build import Build, Code, Graph, floats, quantization, strings, unranked
from tests.kit.oracles import is_deterministic
from tests.kit.origin_support import embedded, entries, freshness_of, origins, origins_of, rebuilt
from tests.kit.outputs_cases import (
    CASES,
    constant_beside_an_add,
    constant_listed_three_times,
    input_twice_beside_neg,
    result_listed,
    while_body_passes_its_input,
)
from tests.kit.outputs_support import (
    RUNTIME_OF,
    aliased_slots,
    assert_every_output_is_its_own,
    assert_fixed,
    assert_same_in_runtimes,
    entries_of,
    findings_of,
    fixed,
    fixed_with_changes,
    outcomes,
    telling,
    vector,
)
from tests.kit.support import bytes_of, edited, own_models, path_of, read, title

TOOL = Path(sys.executable).with_name("circletool")
KINDS = ("tflite", "circle")
both_formats = pytest.mark.parametrize("kind", KINDS)


# --- aliased outputs of every kind --------------------------------------------------------------------------------


@both_formats
@pytest.mark.parametrize("case", CASES)
def test_aliased_outputs_of_every_kind(case: str, kind: str, tmp_path: Path) -> None:
    build, copies = CASES[case]
    data = build().to_bytes(kind)
    subgraph = "all" if case.startswith("while") else "entry"
    after, changes = fixed_with_changes(data, subgraph)
    assert len(changes) == copies
    every = list(range(len(read(data)["subgraphs"])))
    assert_fixed(data, after, every if subgraph == "all" else None)
    assert_every_output_is_its_own(after, every)
    assert fixed_with_changes(after, subgraph) == (after, ())
    assert telling(after) == []
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    assert {outcome.stage for outcome in now.values()} == {"ok"}, now


def test_a_body_is_left_alone_unless_asked() -> None:
    data = while_body_passes_its_input().to_bytes()
    assert fixed_with_changes(data) == (data, ())
    (found,) = (finding for finding in findings_of(data) if finding.code != "OUTPUT_TAP")
    assert (found.code, found.severity, found.location) == (
        "INPUT_ALIASED_OUTPUT",
        "info",
        "subgraphs[2].outputs[1]",
    )
    assert fixed(data, "2") == fixed(data, "all")
    assert fixed(data, "1") == data


def test_what_changed_is_told() -> None:
    _, changes = fixed_with_changes(constant_listed_three_times().to_bytes())
    assert changes == tuple(f"subgraphs[0].outputs[{slot}] c: a copy of the constant" for slot in (0, 2, 3))
    _, changes = fixed_with_changes(input_twice_beside_neg().to_bytes())
    assert changes == tuple(f"subgraphs[0].outputs[{slot}] x: a copy of the input" for slot in (0, 1))
    _, changes = fixed_with_changes(result_listed(2).to_bytes())
    assert changes == ("subgraphs[0].outputs[1] total: a copy of the earlier output",)


# --- models of others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("subgraph", ["entry", "all"])
def test_models_with_aliased_outputs(any_model: Path, subgraph: str, tmp_path: Path) -> None:
    data = any_model.read_bytes()
    old = read(data)
    chosen = entries_of(old) if subgraph == "entry" else list(range(len(old["subgraphs"])))
    slots = {index: aliased_slots(old, index) for index in chosen}
    after, changes = fixed_with_changes(data, subgraph)
    assert len(changes) == sum(map(len, slots.values()))
    if not changes:
        assert after == data
        return
    assert_fixed(data, after, chosen)
    assert fixed_with_changes(after, subgraph) == (after, ())
    with open_model(data) as before, open_model(after) as model:
        assert check_model(model) == check_model(before)
    codes = {"CONSTANT_OUTPUT", "INPUT_ALIASED_OUTPUT", "DUPLICATE_OUTPUT"}
    places = tuple(f"subgraphs[{index}]." for index in chosen)
    assert not [found for found in findings_of(after) if found.code in codes and found.location.startswith(places)]
    assert_same_in_runtimes(data, after, tmp_path, any_model.parent.name)


def test_testdata_has_aliased_outputs() -> None:
    """The test above has something to do."""
    found = {}
    for path in own_models():
        _, changes = fixed_with_changes(path.read_bytes(), "all")
        if changes:
            found[title(path)] = len(changes)
    folders = {name.split("/", maxsplit=1)[0] for name in found}
    assert folders == {"tflite", "circle"}
    assert {name.split("/")[1] for name in found} >= {"constant_output", "input_as_output", "output_twice"}


# --- types --------------------------------------------------------------------------------------------------


def passed_through(graph: Graph, *tensors: int) -> None:
    """Have the inputs come out again, the first one twice."""
    graph.ends(tensors, [*tensors, tensors[0]])


def quantized(kind: str, element: str, *, channels: bool, offset: int = 0) -> bytes:
    build = Build()
    graph = build.graph()
    scales = (0.5, 0.25, 0.125) if channels else (0.5,)
    zeros = (0,) * 3 if channels else (offset,)
    passed_through(graph, graph.tensor("x", (2, 3), element, quantization=quantization(scales, zeros, 1)))
    return build.to_bytes(kind)


def plain(
    kind: str, element: str, shape: tuple[int, ...] = (2, 3), signature: tuple[int, ...] | None = None
) -> bytes:
    build = Build()
    graph = build.graph()
    passed_through(graph, graph.tensor("x", shape, element, shape_signature=signature))
    return build.to_bytes(kind)


def constant_of(kind: str, element: str, shape: tuple[int, ...], data: bytes) -> bytes:
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.tensor("c", shape, element, data=data)
    graph.ends([x], [graph.compute("ADD", [x, x], "total"), c, c])
    return build.to_bytes(kind)


TENSORS: dict[str, tuple[Callable[[str], bytes], set[str]]] = {
    # what it builds for a format, and the runtimes that take it as it is
    "int8 per tensor": (lambda kind: quantized(kind, "INT8", channels=False, offset=-3), {"litert", "onert"}),
    "int8 per channel": (lambda kind: quantized(kind, "INT8", channels=True), {"litert", "onert"}),
    "uint8 per tensor": (lambda kind: quantized(kind, "UINT8", channels=False, offset=7), {"litert", "onert"}),
    "int16": (lambda kind: quantized(kind, "INT16", channels=False), {"litert"}),
    "bool": (lambda kind: plain(kind, "BOOL"), {"litert", "onert"}),
    "string": (lambda kind: plain(kind, "STRING"), {"litert"}),
    "int64": (lambda kind: plain(kind, "INT64"), {"litert", "onert"}),
    "int32": (lambda kind: plain(kind, "INT32"), {"litert", "onert"}),
    "float16": (lambda kind: plain(kind, "FLOAT16"), {"litert"}),
    "scalar": (lambda kind: plain(kind, "FLOAT32", ()), {"litert", "onert"}),
    "scalar int64": (lambda kind: plain(kind, "INT64", ()), {"litert", "onert"}),
    "dynamic": (lambda kind: plain(kind, "FLOAT32", (1, 3), (-1, 3)), {"litert", "onert"}),
    "dynamic int8": (lambda kind: plain(kind, "INT8", (1, 3), (-1, 3)), {"litert", "onert"}),
    "all dynamic": (lambda kind: plain(kind, "FLOAT32", (1, 1), (-1, -1)), {"litert", "onert"}),
    "dynamic string": (lambda kind: plain(kind, "STRING", (1,), (-1,)), {"litert"}),
    "zero size": (lambda kind: plain(kind, "FLOAT32", (2, 0, 3)), {"litert", "onert"}),
    "constant int64": (lambda kind: constant_of(kind, "INT64", (2,), bytes(range(16))), {"litert", "onert"}),
    "constant bool": (lambda kind: constant_of(kind, "BOOL", (3,), b"\0\1\1"), {"litert", "onert"}),
    "constant scalar": (lambda kind: constant_of(kind, "FLOAT32", (), b"\0\0\x80?"), {"litert", "onert"}),
    "constant float16": (lambda kind: constant_of(kind, "FLOAT16", (3,), bytes(range(6))), {"litert"}),
    "constant string": (lambda kind: constant_of(kind, "STRING", (2,), strings(b"one", b"")), {"litert"}),
}


@both_formats
@pytest.mark.parametrize(
    "tensor",
    list(TENSORS),
)
def test_tensors_of_this_kind_are_copied_exactly(tensor: str, kind: str, tmp_path: Path) -> None:
    make, takes = TENSORS[tensor]
    data = make(kind)
    after = fixed(data)
    assert_fixed(data, after)
    assert_every_output_is_its_own(after)
    assert fixed(after) == after
    assert telling(after) == []
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    runs = {name for name, outcome in now.items() if outcome.stage == "ok"}
    assert RUNTIME_OF[kind] in runs or RUNTIME_OF[kind] not in takes
    assert runs <= takes


@pytest.mark.parametrize("element", ["RESOURCE", "VARIANT"])
def test_what_cannot_be_copied(element: str, tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    passed_through(graph, x, graph.tensor("handle", (1,), element))
    data = build.to_bytes()
    with pytest.raises(EditError, match=f"'handle'.*{element}") as caught:
        fixed(data)
    assert caught.value.location == "subgraphs[0].outputs[1]"
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(data)
    ran = run("fix-outputs", source, target)
    assert ran.returncode == 4
    assert b"'handle'" in ran.stderr
    assert not target.exists()
    assert run("fix-outputs", source, "--dry-run").returncode == 4
    assert run("fix-outputs", source, "--in-place").returncode == 4
    assert source.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]


def loop_with_a_state_without_rank(element: str) -> bytes:
    """Count to three; the loop passes on what older converters give no rank."""
    build = while_body_passes_its_input()
    for number, tensors in ((0, (1, 3)), (1, (1,)), (2, (1,))):
        graph = build.model.subgraphs[number]
        for tensor in tensors:
            graph.tensors[tensor].type = element
            graph.tensors[tensor].has_rank = False
            if number:
                graph.tensors[tensor].shape = []
    return build.to_bytes()


@pytest.mark.parametrize("element", ["FLOAT32", "INT64", "BOOL", "INT8"])
def test_a_state_without_rank(element: str, tmp_path: Path) -> None:
    """It is no scalar, though its shape is that of one."""
    data = loop_with_a_state_without_rank(element)
    after = fixed(data, "all")
    assert_fixed(data, after, [0, 1, 2])
    assert fixed(after, "all") == after
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    assert now["litert"].stage == "ok"


@pytest.mark.parametrize("element", ["RESOURCE", "VARIANT"])
def test_a_handle_without_rank_cannot_be_copied(element: str) -> None:
    with pytest.raises(EditError, match=f"'state'.*{element}"):
        fixed(loop_with_a_state_without_rank(element), "all")


def test_a_result_without_rank_that_is_listed_twice(tmp_path: Path) -> None:
    """Its rank shows at run time only."""
    build = Build()
    graph = build.graph()
    x, shape, result = graph.tensor("x"), graph.tensor("shape", (2,), "INT32"), graph.tensor("result")
    graph.operator("SHAPE", [x], [shape], out_type=2)
    graph.operator("RESHAPE", [x, shape], [result])
    unranked(graph, result)
    graph.ends([x], [result, result])
    data = build.to_bytes()
    now = assert_same_in_runtimes(data, fixed(data), tmp_path, "tflite")
    assert now["litert"].stage == "ok"


def test_an_output_that_nothing_produces_is_reported_not_copied() -> None:
    build = Build()
    graph = build.graph()
    x, lost = graph.tensor("x"), graph.tensor("lost")
    graph.ends([x], [graph.compute("NEG", [x], "negative"), lost])
    data = build.to_bytes()
    assert fixed_with_changes(data) == (data, ())
    assert [(finding.code, finding.location) for finding in telling(data)] == [
        ("UNPRODUCED_OUTPUT", "subgraphs[0].outputs[1]")
    ]


def sparse_constant() -> bytes:
    """Return a model whose second output is a sparse constant."""

    def change(model: Any) -> None:
        (graph,) = model.subgraphs
        place = next(index for index, tensor in enumerate(graph.tensors) if tensor.sparsity is not None)
        graph.outputs = [*graph.outputs, place]

    return rebuilt(bytes_of("tflite/sparse"), change)


def test_a_sparse_constant_is_not_copied_as_if_it_were_dense() -> None:
    """Its buffer has fewer elements than its shape; a copy operator would read past the end."""
    with pytest.raises(EditError, match="sparse"):
        fixed(sparse_constant())


# --- options ------------------------------------------------------------------------------------------------


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


def tapped() -> Build:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    total = graph.compute("ADD", [x, x], "total")
    graph.ends([x], [total, graph.compute("NEG", [total], "negative")])
    return build


@both_formats
def test_detach_taps(kind: str, tmp_path: Path) -> None:
    data = tapped().to_bytes(kind)
    assert fixed_with_changes(data) == (data, ())
    after, changes = fixed_with_changes(data, detach_taps=True)
    assert changes == ("subgraphs[0].outputs[0] total: a copy of the tensor that operators read",)
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
        names = [model.operator_codes[index].name for index in model.subgraphs[0].operators.code_indices()]
    assert names == ["NEG", operator.upper(), operator.upper()]
    now = assert_same_in_runtimes(data, after, tmp_path, kind)
    assert {outcome.stage for outcome in now.values()} == {"ok"}
    assert fixed(after) == after


def test_copy_operator_that_does_not_fit() -> None:
    data = plain("tflite", "FLOAT32", ())
    with pytest.raises(EditError, match=r"CONCATENATION.*'x'.*FLOAT32 of rank 0"):
        fixed(data, copy_operator="concatenation")


@pytest.mark.parametrize(
    "choice",
    [
        *("", "main", "3", "-1", "1.0", "²"),
        pytest.param("9" * 5000, id="long"),
    ],
)
def test_subgraph_that_is_none(choice: str) -> None:
    with open_model(while_body_passes_its_input().to_bytes()) as model, pytest.raises(UsageError, match="--subgraph"):
        choose_subgraphs(model, choice)


# --- names, operator codes, constants -----------------------------------------------------------------------


def test_names_are_unique() -> None:
    build = Build()
    graph = build.graph()
    x, taken = graph.tensor("x"), graph.tensor("x_permute")
    graph.operator("NEG", [x], [taken])
    further = graph.compute("NEG", [x], "x_permute_3")
    operand = graph.compute("NEG", [x], "copy_operand_0_1")
    graph.ends([x], [x, taken, x, further, operand, x])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    (graph_after,) = read(after)["subgraphs"]
    names = [tensor["name"] for tensor in graph_after["tensors"]]
    assert len(set(names)) == len(names)
    assert [names[tensor] for tensor in graph_after["outputs"]] == [
        b"x_permute_2",
        b"x_permute",
        b"x_permute_4",
        b"x_permute_3",
        b"copy_operand_0_1",
        b"x_permute_5",
    ]


def test_names_without_sense() -> None:
    """No name, an empty one, one that is no UTF-8."""
    build = Build()
    graph = build.graph()
    tensors = [graph.tensor("a"), graph.tensor("b"), graph.tensor("c")]
    for tensor, name in zip(graph.table.tensors, (None, b"", b"\xff\xfe"), strict=True):
        tensor.name = name
    graph.ends(tensors, tensors)
    after = fixed(build.to_bytes())
    (graph_after,) = read(after)["subgraphs"]
    names = [graph_after["tensors"][tensor]["name"] for tensor in graph_after["outputs"]]
    assert names == [b"_permute", b"_permute_2", b"\xff\xfe_permute"]


def test_operator_codes_are_used_again() -> None:
    build = Build()
    graph = build.graph()
    x, order = graph.tensor("x"), graph.constant("order", np.array([1, 0], np.int32))
    turned = graph.tensor("turned")
    graph.operator("TRANSPOSE", [x, order], [turned])
    graph.ends([x], [x, turned, turned])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    assert read(after)["operatorCodes"] == read(data)["operatorCodes"]
    newer = Build()
    newer.code(Code("TRANSPOSE", 4))
    graph = newer.graph()
    x = graph.tensor("x")
    graph.ends([x], [x])
    codes = read(fixed(newer.to_bytes()))["operatorCodes"]
    assert [code["version"] for code in codes] == [4, 1]


@pytest.mark.parametrize(
    ("element", "shape", "version"),
    [("FLOAT32", (2,), 1), ("UINT8", (2,), 1), ("FLOAT32", (1, 2, 1, 1, 1), 4), ("FLOAT32", (1,) * 6, 6)],
)
def test_version_of_the_copy(element: str, shape: tuple[int, ...], version: int) -> None:
    (code,) = read(fixed(plain("tflite", element, shape)))["operatorCodes"]
    assert (code["builtinCode"], code["version"]) == (39, version)


@both_formats
def test_permutations_are_shared_and_aligned(kind: str) -> None:
    build = Build()
    graph = build.graph()
    two, three = graph.tensor("two"), graph.tensor("three", (1, 2, 3))
    graph.ends([two, three], [two, three, two, three])
    data = build.to_bytes(kind)
    after = fixed(data)
    assert_fixed(data, after)
    model = read(after)
    (graph_after,) = model["subgraphs"]
    operands = [vector(operator["inputs"])[1] for operator in graph_after["operators"]]
    assert operands[0] == operands[2] != operands[1] == operands[3]
    assert len(model["buffers"]) == 3
    for value in ((0, 1), (0, 1, 2)):
        assert after.index(np.array(value, "<i4").tobytes()) % 16 == 0
    with open_model(after) as opened:
        places = [opened.buffers[index] for index in (1, 2)]
    assert [len(buffer.data) for buffer in places] == [8, 12]


# --- signatures ---------------------------------------------------------------------------------------------


def test_several_names_for_one_tensor(tmp_path: Path) -> None:
    """The k-th name goes with the k-th slot; a name more than slots goes with the last."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    total, negative = graph.compute("ADD", [x, x], "total"), graph.compute("NEG", [x], "negative")
    graph.ends([x], [total, negative, total, x])
    names = [("z", total), ("n", negative), ("a", total), ("m", total), ("same", x)]
    build.signature("serving_default", [("x", x)], names)
    build.signature("one", [("x", x)], [("only", total)])
    build.signature("none", [("x", x)], [])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    first, second, third = read(after)["signatureDefs"]
    outputs = vector(read(after)["subgraphs"][0]["outputs"])
    assert [entry["tensorIndex"] for entry in first["outputs"]] == [outputs[slot] for slot in (0, 1, 2, 2, 3)]
    assert [entry["name"] for entry in first["outputs"]] == [b"z", b"n", b"a", b"m", b"same"]
    assert [entry["tensorIndex"] for entry in second["outputs"]] == [outputs[0]]
    assert not third["outputs"]
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    signatures = {key: [name for name, *_ in values] for key, values in now["litert"].signatures.items()}
    assert signatures["serving_default"] == ["a", "m", "n", "same", "z"]


def test_a_subgraph_of_its_own_for_each_signature(tmp_path: Path) -> None:
    build = Build()
    for index, key in enumerate(("first", "second")):
        graph = build.graph(key)
        x, c = graph.tensor("x"), graph.constant("c", floats(2, 2, seed=index))
        graph.ends([x], [graph.compute("ADD", [x, c], "total"), c, x])
        build.signature(key, [("x", x)], [("y", 2), ("c", c), ("x", x)], index)
    build.graph("nobody calls").ends([], [])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    assert_every_output_is_its_own(after)
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    assert sorted(now["litert"].signatures) == ["first", "second"]
    only = fixed(data, "1")
    assert_fixed(data, only, [1])
    assert_same_in_runtimes(data, only, tmp_path, "tflite")


# --- origins ------------------------------------------------------------------------------------------------


def test_origins_follow() -> None:
    """A copy comes from where the copied value comes from; inputs and constants come from nowhere."""
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.constant("c", floats(2, 2))
    total = graph.compute("ADD", [x, c], "total")
    negative = graph.compute("NEG", [total], "negative")
    graph.ends([x], [total, x, c, negative, total, negative])
    data = embedded(build.to_bytes(), origins({0: "sum", 1: "minus", 5: "both"}, {0: {0, 5}, 1: {1}}))
    after = fixed(data)
    assert_fixed(data, after, metadata=False)
    found = origins_of(after)
    assert found.operators == entries({0: {0, 5}, 1: {1}, 4: {0, 5}, 5: {1}})
    assert found.sources == {0: "sum", 1: "minus", 5: "both"}
    assert freshness_of(after).state == "fresh"
    assert telling(after) == []
    assert fixed(after) == after


def test_origins_follow_in_several_subgraphs() -> None:
    build = Build()
    for index, key in enumerate(("first", "second")):
        graph = build.graph(key)
        x = graph.tensor("x")
        total = graph.compute("ADD", [x, x], "total")
        graph.ends([x], [total, total])
        build.signature(key, [("x", x)], [("y", total)], index)
    data = embedded(build.to_bytes(), origins({0: "a", 1: "b"}, {0: {0}}, {0: {1}}))
    after = fixed(data)
    assert_fixed(data, after, metadata=False)
    assert origins_of(after).operators == entries({0: {0}, 1: {0}}, {0: {1}, 1: {1}})
    assert freshness_of(after).state == "fresh"


@pytest.mark.parametrize("name", ["circle/output_twice", "circle/input_as_output", "tflite/output_twice"])
def test_origins_of_models_of_others_follow(name: str) -> None:
    data = embedded(bytes_of(name))
    before = origins_of(data)
    after = fixed(data)
    assert after != data
    assert freshness_of(after).state == "fresh"
    (described,) = origins_of(after).operators
    assert {index: described[index] for index in before.operators[0]} == before.operators[0]
    assert origins_of(after).sources == before.sources


# --- the command line ---------------------------------------------------------------------------------------


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([TOOL, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    path.write_bytes(constant_listed_three_times().to_bytes())
    return path


def test_the_command_writes_what_the_library_does(source: Path, tmp_path: Path) -> None:
    target, data = tmp_path / "out.tflite", source.read_bytes()
    for arguments, expected in (
        ([], fixed(data)),
        (["--keep-constants"], fixed(data, keep_constants=True)),
        (["--detach-taps", "--keep-constants"], fixed(data, keep_constants=True, detach_taps=True)),
        (["--copy-op", "concatenation"], fixed(data, copy_operator="concatenation")),
        (["--subgraph", "all", "--copy-op", "reshape"], fixed(data, "all", copy_operator="reshape")),
        (["--subgraph", "0"], fixed(data, "0")),
    ):
        ran = run("fix-outputs", source, target, *arguments)
        assert (ran.returncode, ran.stdout) == (0, b""), ran.stderr
        assert target.read_bytes() == expected
    assert source.read_bytes() == data


def test_the_command_in_place_and_in_a_pipe(source: Path) -> None:
    data = source.read_bytes()
    ran = run("fix-outputs", "-", "-", stdin=data)
    assert ran.stdout == fixed(data)
    assert ran.stderr.decode().splitlines() == list(fixed_with_changes(data)[1])
    assert run("fix-outputs", source, "--in-place").returncode == 0
    assert source.read_bytes() == fixed(data)
    again = run("fix-outputs", source, "--in-place")
    assert (again.returncode, again.stderr) == (0, b"nothing to change\n")
    assert source.read_bytes() == fixed(data)


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    for arguments in ([], ["--in-place"], [tmp_path / "out.tflite"], ["-"]):
        ran = run("fix-outputs", source, *arguments, "--dry-run")
        assert (ran.returncode, ran.stdout) == (0, b"")
        assert ran.stderr.decode().splitlines() == list(fixed_with_changes(data)[1])
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]
    assert source.read_bytes() == data
    shutil.copy(path_of("circle/mlp"), tmp_path / "clean.circle")
    assert run("fix-outputs", tmp_path / "clean.circle", "--dry-run").stderr == b"nothing to change\n"


def test_json(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tflite"
    changes = list(fixed_with_changes(source.read_bytes())[1])
    for arguments in ([target], ["--dry-run"], ["-", "--dry-run"]):
        ran = run("fix-outputs", source, *arguments, "--json")
        assert ran.returncode == 0
        document = json.loads(ran.stdout)
        assert sorted(document) == ["changes", "schema_version"]
        assert document["changes"] == changes
    assert json.loads(run("fix-outputs", target, "--dry-run", "--json").stdout)["changes"] == []
    assert run("fix-outputs", source, "-", "--json").returncode == 2


def test_json_tells_of_no_change_that_was_not_made(source: Path, tmp_path: Path) -> None:
    ran = run("fix-outputs", source, tmp_path / "missing" / "out.tflite", "--json")
    assert ran.returncode == 4
    assert ran.stdout == b""


@pytest.mark.parametrize("target", ["in.tflite", "missing/out.tflite", "folder", "nul\udc80/\udc80", "loop"])
def test_dry_run_looks_where_it_would_write(target: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    would, does = (run("fix-outputs", source, tmp_path / target, *more) for more in (["--dry-run"], []))
    assert would.returncode in (2, 4)
    assert (would.returncode, would.stdout, would.stderr) == (does.returncode, does.stdout, does.stderr)
    assert run("fix-outputs", source, tmp_path / "other", "--in-place", "--dry-run").returncode == 2


def test_an_output_that_nothing_produces_is_noted(tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x, lost = graph.tensor("x"), graph.tensor("lost")
    graph.ends([x], [x, lost])
    path = tmp_path / "in.tflite"
    path.write_bytes(build.to_bytes())
    for arguments in (["--dry-run"], [tmp_path / "out.tflite"]):
        ran = run("fix-outputs", path, *arguments)
        assert (ran.returncode, ran.stderr.decode().splitlines()) == (
            0,
            [
                "subgraphs[0].outputs[0] x: a copy of the input",
                "note: subgraphs[0].outputs[1] lost: nothing produces it, so there is nothing to copy",
            ],
        )


def test_dry_run_fails_where_the_run_would(tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes(edited(result_listed(2).to_bytes(), lambda edit: edit.set_metadata("ONE_op_table", b"?")))
    assert run("fix-outputs", path, tmp_path / "out.tflite").returncode == 3
    assert run("fix-outputs", path, "--dry-run").returncode == 3


def test_wrong_use(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tflite"
    for arguments in (
        [source],
        [source, source],
        [source, target, "--in-place"],
        [source, target, "--subgraph", "7"],
        [source, target, "--subgraph", "main"],
        [source, target, "--copy-op", "permute"],
    ):
        assert run("fix-outputs", *arguments).returncode == 2, arguments
    assert b"(name a file" in run("fix-outputs", source, "-", "--json").stderr
    assert b"(`circletool inspect` lists them)" in run("fix-outputs", source, target, "--subgraph", "7").stderr
    assert run("fix-outputs", tmp_path / "missing.tflite", target).returncode == 3
    assert not target.exists()


def test_the_runtimes_take_part(tmp_path: Path) -> None:
    """The comparison itself: a fix that copied another tensor would be seen."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.ends([x, y], [x, y])
    right = fixed(build.to_bytes())
    graph.ends([x, y], [y, x])
    wrong = fixed(build.to_bytes())
    for name, outcome in outcomes(right, tmp_path, "tflite").items():
        assert is_deterministic(tmp_path / "model.tflite", name)
        assert outcome.stage == "ok"
        assert outcome.outputs != outcomes(wrong, tmp_path, "tflite")[name].outputs
