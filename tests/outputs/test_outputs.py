"""Every output gets its own tensor, and runtimes see no other difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.build import Build, Code
from tests.kit.outputs_cases import CASES, while_body_passes_its_input
from tests.kit.outputs_support import (
    aliased_slots,
    assert_every_output_is_its_own,
    assert_fixed,
    assert_same_in_runtimes,
    both_formats,
    entries_of,
    findings_of,
    fixed,
    fixed_with_changes,
    plain,
    telling,
    vector,
)
from tests.kit.support import own_models, read, title

# --- aliased outputs of every kind --------------------------------------------------------------------------------


@both_formats
@pytest.mark.parametrize("case", CASES)
def test_aliased_outputs_of_every_kind(case: str, kind: str, tmp_path: Path) -> None:
    build, copies = CASES[case]
    data = build().to_bytes(kind)
    subgraph = "all" if case.startswith("while") else "entry"
    after, changes = fixed_with_changes(data, subgraph)
    assert len(changes) >= copies  # for onert, taps that copies outlive are copied too
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
    assert (found.code, found.severity, found.location) == ("INPUT_ALIASED_OUTPUT", "info", "subgraphs[2].outputs[1]")
    assert fixed(data, "2") == fixed(data, "all")
    assert fixed(data, "1") == data


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
    found = {title(path) for path in own_models() if fixed_with_changes(path.read_bytes(), "all")[1]}
    folders = {name.split("/", maxsplit=1)[0] for name in found}
    assert folders == {"tflite", "circle"}
    assert {name.split("/")[1] for name in found} >= {"constant_output", "input_as_output", "output_twice"}


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
    """No name, an empty one, one that is not UTF-8."""
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
    after = fixed(data, copy_operator="transpose")
    assert_fixed(data, after)
    assert read(after)["operatorCodes"] == read(data)["operatorCodes"]
    newer = Build()
    newer.code(Code("TRANSPOSE", 4))
    graph = newer.graph()
    x = graph.tensor("x")
    graph.ends([x], [x])
    codes = read(fixed(newer.to_bytes(), copy_operator="transpose"))["operatorCodes"]
    assert [code["version"] for code in codes] == [4, 1]


@pytest.mark.parametrize(
    ("element", "shape", "version"),
    [("FLOAT32", (2,), 1), ("UINT8", (2,), 1), ("FLOAT32", (1, 2, 1, 1, 1), 4), ("FLOAT32", (1,) * 6, 6)],
)
def test_version_of_the_copy(element: str, shape: tuple[int, ...], version: int) -> None:
    (code,) = read(fixed(plain("tflite", element, shape), copy_operator="transpose"))["operatorCodes"]
    assert (code["builtinCode"], code["version"]) == (39, version)


@both_formats
def test_operands_are_shared_and_aligned(kind: str) -> None:
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
    for value in ((-1, 2), (-1, 2, 3)):
        assert after.index(np.array(value, "<i4").tobytes()) % 16 == 0
    with open_model(after) as opened:
        places = [opened.buffers[index] for index in (1, 2)]
    assert [len(buffer.data) for buffer in places] == [8, 12]
