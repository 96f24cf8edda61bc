"""What belongs together in two models although its index changed."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.kit.difference_models import fix_all, renumbered, twice_listed
from tests.kit.difference_support import differences, paths
from tests.kit.partition_support import seeded
from tests.kit.support import edited, generated, own_models, packed, title, unpacked


@pytest.mark.parametrize("path", [path for path in own_models() if "external" not in path.stem], ids=title)
def test_another_order_is_only_moves(path: Path) -> None:
    data = path.read_bytes()
    names = [[tensor.name for tensor in graph.tensors] for graph in unpacked(data).subgraphs]
    if any(len(set(row)) < len(row) for row in names):
        pytest.skip("tensors of one name")
    base = packed(unpacked(data), data[4:8])
    found = paths(base, renumbered(data, seeded(3)), "structure", "metadata")
    assert {kind for kind, _ in found} <= {"moved"}
    assert {path.split("[")[0] if "tensors" not in path else "tensors" for _, path in found} <= {
        *("tensors", "buffers", "operator_codes")
    }


def test_an_operator_in_front() -> None:
    """All that is behind it has another index, and is not a difference."""
    model = unpacked(twice_listed())
    graph = model.subgraphs[0]
    graph.tensors.insert(0, copy.deepcopy(graph.tensors[0]))
    graph.tensors[0].name, graph.tensors[1].name = "x", "negated"
    for owner in (graph, *graph.operators):
        owner.inputs, owner.outputs = ([index + 1 for index in field] for field in (owner.inputs, owner.outputs))
    for entry in (*model.signatureDefs[0].inputs, *model.signatureDefs[0].outputs):
        entry.tensorIndex += 1
    graph.inputs, model.signatureDefs[0].inputs[0].tensorIndex = [0], 0
    model.operatorCodes.insert(0, generated("OperatorCodeT", b"CIR0")())
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 59  # NEG
    for operator in graph.operators:
        operator.opcodeIndex += 1
    graph.operators.insert(0, generated("OperatorT", b"CIR0")())
    graph.operators[0].inputs, graph.operators[0].outputs = [0], [1]
    assert paths(twice_listed(), packed(model, b"CIR0")) == [
        ("added", "operator_codes[0]"),
        ("added", "subgraphs[0].tensors[1]"),
        ("changed", "subgraphs[0].operators[0].inputs[0]"),
        ("added", "subgraphs[0].operators[0]"),
    ]


def test_what_fix_outputs_does() -> None:
    before = twice_listed()
    after = edited(before, fix_all)
    assert paths(before, after) == [
        ("added", "operator_codes[3]"),
        ("added", "subgraphs[0].tensors[6]"),
        ("added", "subgraphs[0].tensors[7]"),
        ("changed", "subgraphs[0].outputs[1]"),
        ("added", "subgraphs[0].operators[3]"),
        ("added", "buffers[3]"),
        ("changed", "signature_defs[0].outputs[1].tensor_index"),
    ]
    (added,) = [one for one in differences(before, after) if one.path == "subgraphs[0].operators[3]"]
    assert (added.before, added.after) == (None, {"opcode_index": 3, "inputs": [5, 7], "outputs": [6]})
