"""What keeps a model from being executed is found, where it is, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from circletools.findings import Finding
from tests.kit.build import CODES, Build, Code, Graph, Table, quantization
from tests.kit.soundness_support import Change, chain, of

Found = tuple[str, str, str]


def places(found: Sequence[Finding]) -> list[Found]:
    return [(finding.code, finding.severity, finding.location.removeprefix("subgraphs[0].")) for finding in found]


def update(table: Table, fields: dict[str, object]) -> None:
    for name, value in fields.items():
        setattr(table, name, value)


def operator(index: int, field: str, value: object) -> Change:
    return lambda graph: update(graph.table.operators[index], {field: value})


def tensor(index: int, **fields: object) -> Change:
    return lambda graph: update(graph.table.tensors[index], fields)


def code(index: int, **fields: object) -> Change:
    return lambda graph: update(graph.build.model.operator_codes[index], fields)


def short(graph: Graph) -> None:
    graph.build.model.buffers[1].data = b"\0" * 15


def long(graph: Graph) -> None:
    graph.build.model.buffers[1].data = b"\0" * 17


def outside(graph: Graph) -> None:
    graph.build.model.buffers[1] = Table("Buffer", offset=8, size=15)


def without_codes(graph: Graph) -> None:
    graph.build.model.operator_codes = None
    graph.table.operators.clear()


def swap(graph: Graph) -> None:
    graph.table.operators.reverse()


def signed(inputs: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]], key: str = "a") -> Change:
    return lambda graph: graph.build.signature(key, inputs, outputs)


def with_options(kind: str, code_name: str, **fields: object) -> Change:
    options = {"builtin_options" + "_2" * kind.startswith("Stablehlo"): Table(kind, **fields)}
    return lambda graph: update(graph.table.operators[1], options | {"opcode_index": graph.build.code(code_name)})


SOUND: list[Change] = [
    lambda _: None,
    tensor(1, is_variable=True),
    tensor(0, shape=[1, 2], shape_signature=[-1, 2]),
    tensor(0, quantization=quantization([0.5])),
    tensor(0, quantization=quantization([0.5, 1], axis=1)),
    tensor(0, shape=[], quantization=quantization([0.5], axis=3)),
    tensor(0, quantization=Table("QuantizationParameters", min=[0.0], max=[1.0], quantized_dimension=9)),
    operator(1, "inputs", [1, 2]),
    code(1, version=6),
    signed([("x", 0)], [("z", 3)]),
    with_options("AddOptions", "ADD", fused_activation_function=5),
    with_options("Conv2DOptions", "ADD", stride_w=0),
    lambda graph: graph.operator("CONCATENATION", [0] * 40, [graph.tensor("o")]),
    lambda graph: graph.operator(Code("CUSTOM", custom="mine"), [0], [-1]),
    lambda graph: graph.operator(Code("CUSTOM", custom="mine"), [-1], [graph.tensor("o")]),
    lambda graph: graph.operator(Code("CUSTOM", custom="mine"), [graph.tensor("t", type="STRING", data=b"1")], []),
    lambda graph: graph.operator("READ_VARIABLE", [graph.tensor("r", type="RESOURCE")], [graph.tensor("o")]),
]


@pytest.mark.parametrize("change", range(len(SOUND)))
def test_a_sound_model_has_none(change: int) -> None:
    assert places(chain(SOUND[change])) == []


W, E, INFO = "warning", "error", "info"
BROKEN: dict[str, tuple[Change, list[Found], str]] = {
    "unproduced": (
        lambda graph: operator(1, "inputs", [graph.tensor("lost"), 2])(graph),
        [("UNPRODUCED_TENSOR", W, "operators[1]")],
        "no operator produces tensor 4 (lost), which is not an input or constant",
    ),
    "twice": (
        lambda graph: graph.operator("NEG", [0], [1]),
        [("PRODUCED_TWICE", INFO, "operators[2]")],
        "operator 0 already produces tensor 1 (y)",
    ),
    "by one": (
        operator(0, "outputs", [1, 1]),
        [("PRODUCED_TWICE", W, "operators[0]")],
        "0 already produces tensor 1",
    ),
    "input": (lambda graph: graph.ends([0, 1], [3]), [("PRODUCED_INPUT", W, "operators[0]")], "which is an input"),
    "constant": (
        operator(0, "outputs", [2]),
        [("WRITTEN_CONSTANT", W, "operators[0]")],
        "2 (c), which is a constant",
    ),
    "constant input": (
        lambda graph: graph.ends([0, 2], [3]),
        [("WRITTEN_CONSTANT", W, "tensors[2]")],
        "an input of the subgraph is a constant",
    ),
    "in place": (
        lambda graph: graph.operator("NEG", [3], [3]),
        [("IN_PLACE_OPERATOR", W, "operators[2]"), ("PRODUCED_TWICE", W, "operators[2]")],
        "a tensor is both an input and an output of the operator",
    ),
    "in place, and nobody else": (
        lambda graph: graph.operator("NEG", [4], [graph.tensor("own")]),
        [("IN_PLACE_OPERATOR", W, "operators[2]")],
        "a tensor is both an input and an output of the operator",
    ),
    "left out on both sides": (
        lambda graph: graph.operator(Code("CUSTOM", custom="mine"), [-1], [-1]),
        [("IN_PLACE_OPERATOR", W, "operators[2]")],
        "a tensor is both an input and an output of the operator",
    ),
    "left out": (
        lambda graph: graph.operator("NEG", [0], [-1]),
        [("OUTPUT_LEFT_OUT", W, "operators[2]")],
        "an output",
    ),
    "order": (swap, [("OPERATOR_ORDER", W, "operators[0]")], "reads tensor 1 (y) before operator 1 produces it"),
    "cycle": (operator(0, "inputs", [3]), [("CYCLIC_OPERATORS", W, "operators[0]")], "depend on each other"),
    "repeated input": (
        lambda graph: graph.ends([0, 0], [3]),
        [("DUPLICATE_INPUT", W, "tensors[0]")],
        "listed more than once among the inputs of the subgraph",
    ),
    "type": (tensor(2, type=99), [("UNKNOWN_TENSOR_TYPE", W, "tensors[2]")], "the type 99 is unknown"),
    "negative": (tensor(0, shape=[-1, 2]), [("NEGATIVE_DIMENSION", W, "tensors[0]")], "the shape is [-1, 2]"),
    "rank of signature": (
        tensor(0, shape_signature=[-1]),
        [("SHAPE_SIGNATURE_MISMATCH", W, "tensors[0]")],
        "the shape has rank 2, but the shape signature has rank 1",
    ),
    "large": (
        tensor(0, shape=[1 << 29]),
        [("TENSOR_TOO_LARGE", W, "tensors[0]")],
        "the shape [536870912] takes 2.147e+09 bytes",
    ),
    "short": (short, [("CONSTANT_TOO_SHORT", W, "tensors[2]")], "shape [2, 2] takes 16 bytes, but buffer 1 has 15"),
    "short outside": (outside, [("CONSTANT_TOO_SHORT", W, "tensors[2]")], "takes 16 bytes, but buffer 1 has 15"),
    "long": (long, [("CONSTANT_TOO_LONG", INFO, "tensors[2]")], "shape [2, 2] takes 16 bytes, but buffer 1 has 17"),
    "variable with data": (
        tensor(2, is_variable=True),
        [("INVALID_VARIABLE", W, "tensors[2]")],
        "a variable has data",
    ),
    "zero points": (
        tensor(0, quantization=Table("QuantizationParameters", scale=[0.5])),
        [("INVALID_QUANTIZATION", W, "tensors[0]")],
        "the numbers of scales and zero points differ: 1 and 0",
    ),
    "axis": (
        tensor(0, quantization=quantization([0.5], axis=2)),
        [("INVALID_QUANTIZATION", W, "tensors[0]")],
        "quantized_dimension is 2, but the tensor has rank 2",
    ),
    "negative axis": (
        tensor(0, quantization=quantization([0.5], axis=-1)),
        [("INVALID_QUANTIZATION", W, "tensors[0]")],
        "quantized_dimension is -1, but the tensor has rank 2",
    ),
    "scales": (
        tensor(0, shape=[4, 2], quantization=quantization([1, 1, 1], axis=1)),
        [("INVALID_QUANTIZATION", W, "tensors[0]")],
        "dimension 1 of size 2 has 3 scales",
    ),
    "scale": (
        tensor(0, quantization=quantization([0.0])),
        [("INVALID_QUANTIZATION", W, "tensors[0]")],
        "a scale is not a positive number",
    ),
    "operator": (
        code(0, builtin_code=500),
        [("UNKNOWN_OPERATOR", W, "operator_codes[0]")],
        "no operator has the code 500",
    ),
    "custom": (
        code(0, builtin_code=32, deprecated_builtin_code=32),
        [("UNKNOWN_OPERATOR", W, "operator_codes[0]")],
        "a custom operator has no name",
    ),
    "version": (
        code(1, version=7),
        [("OPERATOR_VERSION", W, "operator_codes[1].version")],
        "no kernel for version 7 of ADD, only for versions 1 to 6",
    ),
    "unused version": (
        lambda graph: graph.build.code(Code("FLOOR", 2)),
        [("OPERATOR_VERSION", W, "operator_codes[2].version"), ("NOT_USED", INFO, "operator_codes[2]")],
        "no kernel for version 2 of FLOOR, only for version 1",
    ),
    "no kernel": (
        code(0, builtin_code=CODES["STABLEHLO_LOGISTIC"], deprecated_builtin_code=127),
        [("OPERATOR_VERSION", W, "operator_codes[0].version")],
        "no kernel for any version of STABLEHLO_LOGISTIC",
    ),
    "inputs": (
        operator(1, "inputs", [1]),
        [("OPERATOR_SLOTS", W, "operators[1]"), ("NOT_USED", INFO, "tensors[2]")],
        "ADD has 1 input; LiteRT's kernel takes 2!",
    ),
    "types": (
        tensor(2, type="INT32"),
        [("OPERATOR_TYPES", W, "operators[1]")],
        "LiteRT's kernel for ADD does not support FLOAT32, INT32 -> FLOAT32",
    ),
    "enum": (
        with_options("AddOptions", "ADD", fused_activation_function=6),
        [("UNKNOWN_OPTION", W, "AddOptions.fused_activation_function")],
        "is 6, which is not a member of ActivationFunctionType",
    ),
    "stride": (
        with_options("Pool2DOptions", "MAX_POOL_2D", stride_w=0, stride_h=1 << 16),
        [("UNKNOWN_OPTION", W, f"Pool2DOptions.stride_{side}") for side in "wh"],
        "the value is 0, which is not a valid stride or dilation",
    ),
    "called": (
        with_options("WhileOptions", "WHILE", cond_subgraph_index=0, body_subgraph_index=-1),
        [("UNKNOWN_OPTION", W, "WhileOptions.body_subgraph_index")],
        "is -1, which is not a subgraph",
    ),
    "branches": (
        with_options("StablehloCaseOptions", "STABLEHLO_CASE", branch_subgraph_indices=[0, -1]),
        [("UNKNOWN_OPTION", W, "StablehloCaseOptions.branch_subgraph_indices")],
        "is -1, which is not a subgraph",
    ),
    "no codes": (without_codes, [("NO_OPERATOR_CODES", INFO, "model")], "there is no list of operator codes"),
    "names": (tensor(1, name="x"), [("DUPLICATE_NAME", INFO, "tensors[1]")], "tensor 1 has the same name as an"),
    "unused tensor": (
        lambda graph: graph.tensor("left"),
        [("NOT_USED", INFO, "tensors[4]")],
        "nothing uses tensor 4; `circletool compact --prune`",
    ),
    "unused code": (
        lambda graph: graph.build.code("MUL"),
        [("NOT_USED", INFO, "operator_codes[2]")],
        "nothing uses operator code 2",
    ),
    "unused buffer": (
        lambda graph: graph.build.buffer(b"1"),
        [("NOT_USED", INFO, "buffers[2]")],
        "nothing uses buffer 2",
    ),
    "signature": (
        signed([("x", 1)], [("z", 3)]),
        [
            ("INVALID_SIGNATURE", W, "signature_defs[0].inputs[0]"),
            ("INCOMPLETE_SIGNATURE", INFO, "signature_defs[0].inputs"),
        ],
        "tensor 1 ('x') is not an input of the subgraph",
    ),
    "an equal signature": (
        lambda graph: [signed([("x", 0)], [("z", 3)])(graph) for _ in range(2)],
        [("INVALID_SIGNATURE", INFO, "signature_defs[1]")],
        "another signature already has the key 'a'",
    ),
    "no name": (
        signed([("x", 0)], [("", 3)]),
        [("INVALID_SIGNATURE", W, "signature_defs[0].outputs[0].name")],
        "the output has no name",
    ),
    "same names": (
        signed([("x", 0), ("x", 0)], [("z", 3)]),
        [
            ("INVALID_SIGNATURE", INFO, "signature_defs[0].inputs[1]"),
            ("INCOMPLETE_SIGNATURE", INFO, "signature_defs[0].inputs"),
        ],
        "another input has the name 'x'",
    ),
    "an output twice": (
        signed([("x", 0)], [("z", 3), ("again", 3)]),
        [("INCOMPLETE_SIGNATURE", INFO, "signature_defs[0].outputs")],
        "the signature names 2 outputs, but the subgraph has 1",
    ),
    "empty signature": (
        signed([], []),
        [("INCOMPLETE_SIGNATURE", INFO, f"signature_defs[0].{side}") for side in ("inputs", "outputs")],
        "the signature has no name for the input of the subgraph",
    ),
    "version of the schema": (
        lambda graph: update(graph.build.model, {"version": 2}),
        [("SCHEMA_VERSION", W, "model.version")],
        "the schema version is 2, not 3",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_found(case: str) -> None:
    change, expected, words = BROKEN[case]
    found = chain(change)
    company = [one for one in places(found) if one[0] != "NOT_USED" or one in expected]
    assert set(expected) <= set(company)
    others = {"UNPRODUCED_TENSOR", "OPERATOR_TYPES", "OPERATOR_SLOTS", "UNKNOWN_OPTION"}
    assert {one[0] for one in company} - {one[0] for one in expected} <= others
    assert [one for one in found if places([one]) == expected[:1] and words in one.message + "!"]


def test_circle_has_other_kernels() -> None:
    """What LiteRT takes does not count for models that it does not read."""
    for change in (code(1, version=7), operator(1, "outputs", [3, 0]), tensor(2, type="INT32")):
        codes = {found.code for found in chain(change, "circle")}
        assert not any(one.startswith("OPERATOR_") or one in ("SCHEMA_VERSION", "NO_BUFFERS") for one in codes)


def test_no_subgraph_and_no_buffers() -> None:
    build = Build()
    assert places(of(build.to_bytes())) == [("NO_SUBGRAPH", E, "model")]
    build.model.buffers = []
    assert places(of(build.to_bytes())) == [("NO_SUBGRAPH", E, "model"), ("NO_BUFFERS", W, "model")]
    assert places(of(build.to_bytes("circle"))) == [("NO_SUBGRAPH", E, "model"), ("NO_BUFFERS", W, "model")]


def test_keys_of_signatures() -> None:
    def change(graph: Graph) -> None:
        for key in ("a", "b", "a", "a"):
            signed([("x", 0)], [("z", 3)], key)(graph)
        graph.build.model.signature_defs[1].signature_key = None

    found = chain(change)
    assert [(one.location, "no key" in one.message) for one in found] == [
        ("signature_defs[1]", True),
        ("signature_defs[2]", False),
    ]


def test_scratch_of_custom_operators_is_nobodys() -> None:
    def change(graph: Graph) -> None:
        graph.operator(Code("CUSTOM", custom="npu"), [graph.tensor("scratch")], [graph.tensor("o")])

    assert chain(change) == []


def test_a_tensor_without_elements_needs_no_data() -> None:
    assert chain(lambda graph: operator(1, "inputs", [1, graph.tensor("none", (0,))])(graph))[0].code == "NOT_USED"
