"""The operator that is chosen to copy a tensor: its code, version and second input; or the words of the refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from circletools.errors import EditError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.outputs.analysis import AliasKind, aliased_outputs
from circletools.outputs.copyops import CopyChoice, CopyOperator, choose_copy_operator
from tests.kit.build import Build, Table, quantization, unranked


def passing(kind: str, element: str, shape: Sequence[int] = (2, 3), **fields: Any) -> bytes:
    """Return a model whose only output is its only input."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", shape, element, **fields)
    graph.ends([x], [x])
    return build.to_bytes(kind)


def chosen(data: bytes, choice: CopyChoice = "auto", subgraphs: str = "all") -> list[CopyOperator]:
    """Return the operators that copy the outputs of a model which share their tensors."""
    with open_model(data) as model:
        return [
            choose_copy_operator(model_graph(model), output, choice) for output in aliased_outputs(model, subgraphs)
        ]


def refused(data: bytes, choice: CopyChoice = "auto", subgraphs: str = "all") -> tuple[str, str | None, str | None]:
    """Return the message, place and hint with which copying is refused."""
    with pytest.raises(EditError) as caught:
        chosen(data, choice, subgraphs)
    return caught.value.message, caught.value.location, caught.value.hint


DETAILED = Table("QuantizationParameters", scale=[0.5], zero_point=[0], details=Table("CustomQuantization"))
ANY = "docs/copy-operators.md lists the tensors that can be copied"


@pytest.mark.parametrize(
    ("given", "words", "hint"),
    [
        (None, "", "`copy_operator=reshape` does"),
        (quantization(()), "", "`copy_operator=reshape` does"),
        (quantization((0.5,)), "per tensor quantized ", "`copy_operator=reshape` does"),
        (quantization((0.5,), (3,)), "per tensor offset quantized ", "`copy_operator=reshape` does"),
        (quantization((0.5, 0.25)), "per channel quantized ", "`copy_operator=reshape` does"),
        (quantization((0.5, 0.25), (0, 3)), "per channel quantized ", "`copy_operator=reshape` does"),
        (DETAILED, "detailed quantized ", ANY),
    ],
)
def test_a_refusal_names_the_quantization(given: Table | None, words: str, hint: str) -> None:
    assert refused(passing("circle", "INT8", quantization=given), "transpose") == (
        f"TRANSPOSE does not copy the output 'x' exactly in onert: {words}INT8 of rank 2",
        "subgraphs[0].outputs[0]",
        hint,
    )


@pytest.mark.parametrize(
    ("element", "versions"),
    [
        ("FLOAT32", [1, 1, 1, 1, 4, 6, 8, 8]),
        ("INT8", [2, 2, 2, 2, 4, 6, 8, 8]),
        ("BOOL", [3, 3, 3, 3, 4, 6, 8, 8]),
        ("INT16", [5, 5, 5, 5, 5, 6, 8, 8]),
        ("INT4", [7, 7, 7, 7, 7, 7, 8, 8]),
        ("BFLOAT16", [8] * 8),
        ("FLOAT16", [9] * 8),
    ],
)
def test_transpose_has_the_version_that_the_type_and_rank_need(element: str, versions: list[int]) -> None:
    for rank, version in enumerate(versions, 1):
        expected = CopyOperator("TRANSPOSE", version, tuple(range(rank)), "TransposeOptions")
        assert chosen(passing("tflite", element, (2,) * rank), "transpose") == [expected]
    assert refused(passing("tflite", element, (2,) * 9)) == (
        f"no operator copies the output 'x' exactly in LiteRT: {element} of rank 9",
        "subgraphs[0].outputs[0]",
        ANY,
    )


@pytest.mark.parametrize(
    ("shape", "signature", "operand"),
    [
        ((1, 3), (-1, 3), (-1, 3)),
        ((3, 1), (3, -1), (3, -1)),
        ((1, 3), None, (-1, 3)),
        ((4,), None, (-1,)),
        ((0, 3), None, (0, 3)),
        ((3, 0), None, (3, 0)),
    ],
)
def test_reshape_is_given_the_shape_with_what_is_unknown(
    shape: tuple[int, ...], signature: tuple[int, ...] | None, operand: tuple[int, ...]
) -> None:
    data = passing("circle", "INT8", shape, shape_signature=signature)
    assert chosen(data, "reshape") == [CopyOperator("RESHAPE", 1, operand, None)]


def test_concatenation_has_one_input() -> None:
    data = passing("circle", "INT8", (1, 1), shape_signature=(-1, -1))
    assert chosen(data) == [CopyOperator("CONCATENATION", 2, None, "ConcatenationOptions")]


def test_a_constant_may_have_a_single_byte() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x")], [graph.tensor("c", (1,), "BOOL", data=b"\1")])
    with open_model(build.to_bytes()) as model:
        (found,) = aliased_outputs(model)
    assert found.kind is AliasKind.CONSTANT


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_constant_without_data_is_one_if_it_has_no_elements(size: int) -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x")], [graph.tensor("c", (size, 3))])
    with open_model(build.to_bytes()) as model:
        (found,) = aliased_outputs(model)
    assert found.kind is (AliasKind.UNPRODUCED if size else AliasKind.CONSTANT)


ASKED = CopyOperator("RESHAPE", 1, None, None, reads_shape=True)
SCALAR = CopyOperator("RESHAPE", 1, (), None)


def called(kind: str, caller: str, role: str, *, ranked: bool, signature: bool = False) -> bytes:
    """Return a model whose second subgraph has an output without a shape, which is an input, computed or stored."""
    build = Build()
    main, inner = build.graph(), build.graph("inner")
    x, y = main.tensor("x"), main.tensor("y")
    if caller == "WHILE":
        main.operator("WHILE", [x], [y], cond_subgraph_index=1, body_subgraph_index=1)
    else:
        main.operator("IF", [x, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    main.ends([x], [y])
    a = inner.tensor("a")
    output = {"input": a, "computed": inner.tensor("b"), "stored": inner.tensor("c", data=bytes(4))}[role]
    inner.operator("NEG", [a], [1])
    unranked(inner, output)
    inner.table.tensors[output].has_rank = ranked
    inner.ends([a], [output, output])
    if signature:
        build.signature("inner", [("a", a)], [("o", output)], subgraph=1)
    return build.to_bytes(kind)


@pytest.mark.parametrize(
    ("kind", "caller", "role", "ranked", "signature", "expected"),
    [
        ("tflite", "WHILE", "input", False, False, [ASKED, ASKED]),
        ("tflite", "WHILE", "input", True, False, [ASKED, ASKED]),
        ("tflite", "WHILE", "computed", False, False, [ASKED]),
        ("tflite", "WHILE", "computed", True, False, [ASKED]),
        ("tflite", "WHILE", "stored", False, False, [ASKED, ASKED]),
        ("tflite", "IF", "input", False, False, [ASKED, ASKED]),
        ("circle", "WHILE", "input", False, False, [ASKED, ASKED]),
        ("circle", "WHILE", "input", False, True, [ASKED, ASKED]),
        ("circle", "WHILE", "computed", False, False, [ASKED]),
        ("circle", "WHILE", "stored", False, False, [ASKED, ASKED]),
        ("circle", "IF", "input", True, False, [SCALAR, SCALAR]),
        ("circle", "IF", "input", False, True, [ASKED, ASKED]),
        ("circle", "IF", "computed", False, True, [ASKED]),
    ],
)
def test_shapes_of_unknown_rank_are_computed_unless_onert_may_crash(
    kind: str, caller: str, role: str, ranked: bool, signature: bool, expected: list[CopyOperator]
) -> None:
    assert chosen(called(kind, caller, role, ranked=ranked, signature=signature), "auto", "1") == expected


def test_onert_copies_nothing_of_unknown_rank_in_a_model_with_if() -> None:
    for role, slot in (("input", 0), ("computed", 1)):
        name = "a" if role == "input" else "b"
        assert refused(called("circle", "IF", role, ranked=False), "auto", "1") == (
            f"no operator copies the output '{name}' exactly in onert: FLOAT32 of unknown rank in a model with IF",
            f"subgraphs[1].outputs[{slot}]",
            "use `subgraphs=entry`, or the number of another subgraph, to leave this one alone",
        )


def test_litert_transposes_the_constants_of_a_branch() -> None:
    """Its scalars are refused: TRANSPOSE copies none."""
    assert refused(called("tflite", "IF", "stored", ranked=True), "auto", "1") == (
        "no operator copies the output 'c' exactly in LiteRT: FLOAT32 of rank 0, constant in a branch of IF",
        "subgraphs[1].outputs[0]",
        "`keep_constants=True` leaves constants unchanged",
    )
