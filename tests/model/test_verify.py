"""Indices that lead nowhere are found, and data outside of the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circletools.errors import ModelFormatError
from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.build import Build, Graph
from tests.kit.soundness import verify
from tests.kit.support import bytes_of, field_at, locate, packed, put, unpacked


def broken(name: str, change: Callable[[Any], None]) -> list[tuple[str, str, str]]:
    """Return the findings about a test model after `change` of its objects."""
    data = bytes_of(name)
    model = unpacked(data)
    change(model)
    return [(found.code, found.severity, found.location) for found in verify(packed(model, data[4:8]))]


def test_packing_again_is_no_finding() -> None:
    for name in ("tflite/if_cond", "circle/while_loop", "tflite/composite", "tflite/variable"):
        assert broken(name, lambda _: None) == []


def put_in(owner: str, path: str, value: int) -> Callable[[Any], None]:
    """Return a function that sets the attribute or element `path` of an object of the model to `value`."""

    def change(model: Any) -> None:
        holder, name = owner.rsplit(".", 1) if path.isdecimal() else (owner, path)
        thing = eval(f"model.{holder}", {"model": model})  # noqa: S307 - the text is in this file
        if path.isdecimal():
            values = getattr(thing, name).tolist()
            values[int(path)] = value
            setattr(thing, name, values)
        else:
            setattr(thing, name, value)

    return change


INDICES = [
    ("tflite/if_cond", "subgraphs[0].tensors[1]", "buffer", "subgraphs[0].tensors[1].buffer"),
    ("tflite/if_cond", "subgraphs[1].operators[0]", "opcodeIndex", "subgraphs[1].operators[0].opcode_index"),
    ("tflite/if_cond", "subgraphs[1].operators[0].inputs", "0", "subgraphs[1].operators[0].inputs[0]"),
    ("tflite/if_cond", "subgraphs[1].operators[0].outputs", "0", "subgraphs[1].operators[0].outputs[0]"),
    ("tflite/if_cond", "subgraphs[2].inputs", "1", "subgraphs[2].inputs[1]"),
    ("tflite/if_cond", "subgraphs[2].outputs", "0", "subgraphs[2].outputs[0]"),
    ("tflite/if_cond", "metadata[0]", "buffer", "metadata[0].buffer"),
    ("tflite/if_cond", "signatureDefs[0]", "subgraphIndex", "signature_defs[0].subgraph_index"),
    ("tflite/if_cond", "signatureDefs[0].inputs[1]", "tensorIndex", "signature_defs[0].inputs[1].tensor_index"),
    ("tflite/if_cond", "signatureDefs[0].outputs[0]", "tensorIndex", "signature_defs[0].outputs[0].tensor_index"),
    (
        "circle/two_signatures", "signatureDefs[1].inputs[0]", "tensorIndex",
        "signature_defs[1].inputs[0].tensor_index",
    ),
]  # fmt: skip
CALLS = [
    ("tflite/if_cond", "IF", "thenSubgraphIndex", "builtin_options.then_subgraph_index"),
    ("tflite/if_cond", "IF", "elseSubgraphIndex", "builtin_options.else_subgraph_index"),
    ("circle/while_loop", "WHILE", "condSubgraphIndex", "builtin_options.cond_subgraph_index"),
    ("tflite/while_loop", "WHILE", "bodySubgraphIndex", "builtin_options.body_subgraph_index"),
    ("tflite/variable", "CALL_ONCE", "initSubgraphIndex", "builtin_options.init_subgraph_index"),
    (
        "tflite/composite", "STABLEHLO_COMPOSITE", "decompositionSubgraphIndex",
        "builtin_options_2.decomposition_subgraph_index",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "owner", "path", "location"), INDICES)
def test_the_first_index_that_does_not_exist_is_found(name: str, owner: str, path: str, location: str) -> None:
    model = unpacked(bytes_of(name))
    if owner.startswith("signatureDefs"):
        subgraph = model.signatureDefs[int(owner[14])].subgraphIndex
    else:
        subgraph = int(owner[10]) if owner.startswith("subgraphs") else 0
    bound = {
        "buffer": len(model.buffers),
        "opcodeIndex": len(model.operatorCodes),
        "subgraphIndex": len(model.subgraphs),
    }.get(path, len(model.subgraphs[subgraph].tensors))
    assert broken(name, put_in(owner, path, bound)) == [("INDEX_OUT_OF_RANGE", "warning", location)]
    below = [finding for finding in broken(name, put_in(owner, path, bound - 1)) if finding[2] == location]
    assert below == []


@pytest.mark.parametrize(("name", "code", "field", "location"), CALLS)
@pytest.mark.parametrize("index", [-2, 1000])
def test_a_called_subgraph_that_does_not_exist_is_found(
    name: str, code: str, field: str, location: str, index: int
) -> None:
    with open_model(bytes_of(name)) as model:
        found = [operator.index for operator in model.subgraphs[0].operators if operator.code.name == code]
    operator = f"subgraphs[0].operators[{found[0]}]"

    def change(model: Any) -> None:
        made = model.subgraphs[0].operators[found[0]]
        setattr(made.builtinOptions or made.builtinOptions2, field, index)

    assert broken(name, change) == [("INDEX_OUT_OF_RANGE", "warning", f"{operator}.{location}")]


def test_an_input_may_be_left_out_but_not_a_subgraphs() -> None:
    assert broken("tflite/if_cond", put_in("subgraphs[1].operators[0].inputs", "0", -1)) == []
    assert broken("tflite/if_cond", put_in("subgraphs[1].operators[0].inputs", "0", -2)) != []
    assert broken("tflite/if_cond", put_in("subgraphs[2].inputs", "1", -1)) != []


def test_external_data_outside_the_file_is_found() -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = int(np.argmax(model.buffers.offsets))
    found = verify(data[:-1])
    assert [(f.code, f.severity, f.location) for f in found] == [
        ("EXTERNAL_DATA_OUTSIDE_FILE", "warning", f"buffers[{last}]")
    ]


@pytest.mark.parametrize(("slot", "value"), [(1, 2**64 - 8), (2, 2**64 - 1), (1, 10**6), (2, 10**6)])
def test_external_data_with_hostile_numbers_is_found(slot: int, value: int) -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = int(np.argmax(model.buffers.offsets))
    data = put(data, field_at(data, locate(data, "buffers", last), slot), value.to_bytes(8, "little"))
    assert [(f.code, f.location) for f in verify(data)] == [("EXTERNAL_DATA_OUTSIDE_FILE", f"buffers[{last}]")]


def test_external_custom_options_outside_the_file_are_found() -> None:
    found = verify(bytes_of("tflite/custom_options_external")[:-1])
    place = "subgraphs[0].operators[1].large_custom_options"
    assert [(f.code, f.severity, f.location) for f in found] == [("EXTERNAL_DATA_OUTSIDE_FILE", "warning", place)]


def test_a_first_buffer_with_data_is_found() -> None:
    def fill(model: Any) -> None:
        model.buffers[0].data = np.frombuffer(b"data", np.uint8)

    assert broken("circle/mlp", fill) == [("SENTINEL_BUFFER_NOT_EMPTY", "warning", "buffers[0]")]


def test_many_findings_of_one_kind_are_listed_in_short() -> None:
    def break_all(model: Any) -> None:
        for tensor in model.subgraphs[0].tensors:
            tensor.buffer = 999

    found = broken("circle/transformer_block", break_all)
    assert len(found) == 21


@pytest.mark.parametrize(("count", "listed"), [(1, 1), (19, 19), (20, 20), (21, 21), (30, 21)])
def test_findings_of_one_kind_are_listed_up_to_a_number(count: int, listed: int) -> None:
    def change(model: Any) -> None:
        model.subgraphs[0].outputs = [99] * count

    data = bytes_of("circle/mlp")
    model = unpacked(data)
    change(model)
    found = verify(packed(model, data[4:8]))
    assert [finding.location for finding in found] == [f"subgraphs[0].outputs[{at}]" for at in range(listed)]
    answer = ["tensor 99 does not exist; the count is 8"] * min(count, 20)
    assert [finding.message for finding in found] == [
        *answer, *[f"and {count - 20} more of the same kind: {answer[0]}"] * (count > 20)
    ]  # fmt: skip


@pytest.mark.parametrize(("length", "hint"), [(0, True), (4, True), (7, True), (8, False), (9, False)])
def test_files_that_are_not_models(length: int, hint: bool) -> None:
    with pytest.raises(ModelFormatError) as caught:
        open_model(bytes(length)).__enter__()
    words = "an empty or truncated file, or another format" if hint else "is it another format?"
    assert str(caught.value).endswith(f"neither a TFLite nor a Circle model: no TFL3 or CIR0 at byte 4 ({words})")


def test_data_of_operators_outside_the_file_is_listed_by_subgraph() -> None:
    build = Build()
    for name, count in (("first", 3), ("second", 2), ("third", 1)):
        graph = Graph(build, name)
        for operator in [graph.operator("TANH", [], []) for _ in range(count)]:
            operator.large_custom_options_offset, operator.large_custom_options_size = 1 << 20, 5
        graph.ends([], [])
    with open_model(build.to_bytes("circle")) as model:
        found = [one for one in check_model(model) if one.code == "EXTERNAL_DATA_OUTSIDE_FILE"]
    assert [one.location for one in found] == [
        f"subgraphs[{subgraph}].operators[{operator}].large_custom_options"
        for subgraph, count in enumerate((3, 2, 1))
        for operator in range(count)
    ]
