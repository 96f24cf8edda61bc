"""Capability tables: what they may say, and that the matcher means what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.capability.comparison import Term
from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import Capability, Refusal, why_not
from circletools.affinity.capability.traits import QUANTIZABLE, OperatorTraits, TensorTraits
from circletools.errors import ModelFormatError
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from tests.kit.build import Build
from tests.kit.support import bytes_of, read


def parsed(operators: Any) -> Capability:
    return parse_capability(
        json.dumps({"schema_version": "1", "device": "npu", "operators": operators}).encode(), "t"
    )


TYPES = ("FLOAT32", "INT8", "INT32", "BOOL")
WORDS = ("unquantized", "per_tensor", "per_channel")


@st.composite
def tensors(draw: st.DrawFn) -> TensorTraits:
    kind = draw(st.sampled_from(TYPES))
    word = draw(st.sampled_from(WORDS)) if kind in QUANTIZABLE else ""
    return TensorTraits(kind, word, draw(st.integers(0, 3)), draw(st.booleans()), draw(st.booleans()))


@st.composite
def patterns(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(("*", *TYPES)))
    words = [kind]
    if kind in {*QUANTIZABLE, "*"}:
        words += draw(st.sampled_from(([], *([word] for word in WORDS))))
    words += draw(st.sampled_from(([], ["constant"], ["computed"])))
    return " ".join(words)


places = st.lists(
    patterns() | st.just("none") | st.lists(patterns() | st.just("none"), min_size=1, max_size=3), max_size=3
)
number = st.integers(1, 3)
values = st.lists(st.integers(0, 2), min_size=1, max_size=2) | st.fixed_dictionaries(
    {}, optional={"min": st.integers(0, 2), "max": st.integers(0, 2)}
).filter(bool)
forms = st.fixed_dictionaries(
    {},
    optional={
        "types": st.lists(patterns(), min_size=1, max_size=3),
        "inputs": places | places.filter(bool).map(lambda some: [*some, "..."]),
        "outputs": places | places.filter(bool).map(lambda some: [*some, "..."]),
        "min_rank": st.integers(0, 2),
        "max_rank": st.integers(2, 3),
        "min_version": st.integers(1, 2),
        "max_version": st.integers(2, 3),
        "max_inputs": st.integers(1, 3),
        "min_outputs": st.integers(0, 2),
        "static": st.booleans(),
        "options": st.dictionaries(st.sampled_from(("axis", "keep_dims")), values, max_size=2),
    },
)
operators = st.builds(
    OperatorTraits,
    st.sampled_from(("ADD", "MUL", "CUSTOM:x")),
    number,
    st.lists(st.none() | tensors(), max_size=3).map(tuple),
    st.lists(tensors(), max_size=2).map(tuple),
    st.dictionaries(st.sampled_from(("axis", "keep_dims")), st.integers(0, 2).map(float), max_size=2),
)


def is_one_of(tensor: TensorTraits | None, texts: str | list[str]) -> bool:
    for text in [texts] if isinstance(texts, str) else texts:
        if tensor is None or text == "none":
            if tensor is None and text == "none":
                return True
            continue
        kind, *words = text.split()
        message = {tensor.quantization or "unquantized", "constant" if tensor.constant else "computed"}
        if kind in {"*", tensor.type} and set(words) <= message:
            return True
    return False


def fits_places(document: dict[str, Any], what: str, found: tuple[TensorTraits | None, ...]) -> bool:
    if not document.get(f"min_{what}", 0) <= len(found) <= document.get(f"max_{what}", math.inf):
        return False
    if what not in document:
        return True
    wanted = list(document[what])
    if wanted[-1:] == ["..."]:
        wanted = wanted[:-1] + [wanted[-2]] * (len(found) - len(wanted) + 1)
    return len(wanted) == len(found) and all(map(is_one_of, found, wanted))


def fits_tensor(document: dict[str, Any], tensor: TensorTraits) -> bool:
    known = not (document.get("static") and tensor.dynamic)
    ranked = document.get("min_rank", 0) <= tensor.rank <= document.get("max_rank", math.inf)
    return known and ranked and is_one_of(tensor, document.get("types", ["*"]))


def fits_option(allowed: Any, value: float) -> bool:
    if isinstance(allowed, dict):
        return bool(allowed.get("min", -math.inf) <= value <= allowed.get("max", math.inf))
    return value in allowed


def literally(document: dict[str, Any], operator: OperatorTraits) -> bool:
    computed = [tensor for tensor in operator.inputs if tensor and not tensor.constant]
    return (
        document.get("min_version", 1) <= operator.version <= document.get("max_version", math.inf)
        and fits_places(document, "inputs", operator.inputs)
        and fits_places(document, "outputs", operator.outputs)
        and all(fits_tensor(document, tensor) for tensor in (*computed, *filter(None, operator.outputs)))
        and all(
            fits_option(allowed, operator.settings.get(name, 0))
            for name, allowed in document.get("options", {}).items()
        )
    )


@given(st.dictionaries(st.sampled_from(("ADD", "*", "CUSTOM:x")), st.lists(forms, max_size=3)), operators)
def test_the_matcher_agrees_with_the_table(document: dict[str, Any], operator: OperatorTraits) -> None:
    reason = parsed(document).why_not(operator)
    of_code = [*document.get(operator.code, ()), *document.get("*", ())]
    assert (reason is None) == any(literally(form, operator) for form in of_code)
    assert reason is None or reason.reason


REASONS: list[tuple[dict[str, Any], str]] = [
        ({"types": ["INT8"]}, "input 0 is FLOAT32 computed, not INT8"),
        ({"inputs": ["FLOAT32", "FLOAT32 computed"]}, "input 1 is FLOAT32 constant, not FLOAT32 computed"),
        ({"inputs": ["FLOAT32"]}, "2 inputs, not 1"),
        ({"max_rank": 1}, "input 0 has rank 2, not 0 to 1"),
        ({"min_version": 3}, "version 1, not at least 3"),
        ({"max_inputs": 1}, "2 inputs, not 0 to 1"),
        ({"static": True}, "input 0 has an unknown dimension"),
        ({"options": {"fused_activation_function": ["NONE", "RELU"]}}, "function is TANH, not NONE or RELU"),
        ({"outputs": ["INT8 per_tensor"]}, "output 0 is FLOAT32 computed, not INT8 per_tensor"),
    ]  # fmt: skip


def test_the_reason_names_the_condition() -> None:
    for form, reason in REASONS:
        dynamic = TensorTraits("FLOAT32", "", 2, True, False)
        constant = TensorTraits("FLOAT32", "", 2, False, True)
        options: dict[Term, float] = {"fused_activation_function": 4.0}
        operator = OperatorTraits("ADD", 1, (dynamic, constant), (dynamic,), options)
        assert reason in str(parsed({"ADD": [form]}).why_not(operator))


def test_the_nearest_form_gives_the_reason() -> None:
    operator = OperatorTraits("ADD", 2, (), (), {})
    far = {"min_version": 3, "min_inputs": 1}
    assert parsed({"ADD": [far, {"max_version": 1}, far]}).why_not(operator) == Refusal("version 2, not 1")
    assert parsed({}).why_not(operator) == Refusal("npu does not support ADD")
    operator = OperatorTraits("ADD", 2, (TensorTraits("UINT8", "per_tensor", 2, False, False),), (), {})
    forms = [{"inputs": ["FLOAT32"]}, {"inputs": ["INT8 per_tensor"], "max_version": 1}]
    assert "not INT8 per_tensor" in str(parsed({"ADD": forms}).why_not(operator))


def test_unmeasured_forms_are_neither_supported_nor_refused() -> None:
    floats = {"types": ["FLOAT32"]}
    document = {
        "measured": [{"operators": ["ADD", "MUL"], "types": ["FLOAT32", "BOOL"]}],
        "operators": {"ADD": [floats], "DIV": [floats]},
    }
    table = parse_capability(json.dumps(document).encode(), "npu.json")

    def answer(code: str, kind: str) -> Refusal | None:
        tensor = TensorTraits(kind, "", 2, False, False)
        return table.why_not(OperatorTraits(code, 1, (tensor,), (tensor,), {}))

    assert [answer(code, "FLOAT32") for code in ("ADD", "DIV")] == [None, None]
    assert answer("ADD", "BOOL") == Refusal(
        "input 0 is BOOL computed, not FLOAT32; output 0 is BOOL computed, not FLOAT32"
    )
    assert answer("MUL", "FLOAT32") == Refusal("npu does not support MUL")
    unknown = [answer(code, kind) for code, kind in (("ADD", "INT64"), ("DIV", "BOOL"), ("SUB", "FLOAT32"))]
    assert all(str(found) == f"not measured: {found and found.reason}" for found in unknown)


def test_other_options_and_more_outputs_than_tested_are_not_measured() -> None:
    tensor = TensorTraits("FLOAT32", "", 2, False, False)
    form = {"outputs": ["FLOAT32"], "options": {"padding": ["SAME"]}}
    document = {"measured": [{"operators": ["CONV_2D"]}], "operators": {"CONV_2D": [form]}}
    table = parse_capability(json.dumps(document).encode(), "npu.json")
    for padding, outputs, known in ((0, 1, True), (1, 1, True), (7, 1, False), (1, 0, True), (1, 2, False)):
        found = table.why_not(OperatorTraits("CONV_2D", 1, (tensor,), (tensor,) * outputs, {"padding": padding}))
        assert (found is None, "not measured" not in str(found)) == (padding == 0, known)
        assert found is None or not found.wrong


@pytest.mark.parametrize("reason", ["types must be one of {INT8}", "quantization parameters differ", "it is slow"])
def test_conditions_in_a_reason_are_not_repeated(reason: str) -> None:
    rules = [{"operators": ["ADD"], "needs": {"types": ["INT8"]}, "reason": reason}]
    table = parse_capability(json.dumps({"operators": {}, "rules": rules}).encode(), "npu.json")
    tensor = TensorTraits("FLOAT32", "", 2, False, False)
    extra = "" if "slow" not in reason else ", not INT8"
    found = table.why_not(OperatorTraits("ADD", 1, (tensor,), (), {}))
    assert str(found) == f"{reason}: input 0 is FLOAT32 computed{extra}"


def test_mixed_quantization_needs_a_measured_form_with_outputs() -> None:
    tensors = [TensorTraits("INT8", word, 2, False, False) for word in ("unquantized", "per_tensor")]
    plain = {"operators": ["ADD"], "types": ["INT8"]}
    mix = {"operators": ["ADD"], "inputs": ["* unquantized computed"], "outputs": ["* per_tensor"]}
    for groups, known in (([plain], False), ([plain, mix], True), ([mix], False), ([{"operators": ["ADD"]}], True)):
        table = parse_capability(json.dumps({"measured": groups, "operators": {}}).encode(), "npu.json")
        found = table.why_not(OperatorTraits("ADD", 1, (tensors[0],), (tensors[1],), {}))
        assert ("not measured" not in str(found)) == known


def test_an_unknown_rank_is_not_measured() -> None:
    document = {"measured": [{"operators": ["ADD"]}], "operators": {"ADD": [{"min_rank": 1, "types": ["INT8"]}]}}
    table = parse_capability(json.dumps(document).encode(), "npu.json")

    def answer(kind: str, rank: int) -> Refusal | None:
        tensor = TensorTraits(kind, "", rank, False, False)
        return table.why_not(OperatorTraits("ADD", 1, (tensor,), (), {}))

    assert answer("INT8", 1) is None
    assert answer("INT8", 0) == Refusal("not tested with: input 0 has rank 0", measured=False)
    assert "not measured" not in str(answer("INT16", 0) or "not measured")


def by_views(model: Model, subgraph: int) -> list[OperatorTraits]:
    """Return the traits of each operator from the views, one by one."""
    tensors, buffers = model.subgraphs[subgraph].tensors, model.buffers
    raw = read(bytes(model.wire.memory))["subgraphs"][subgraph]["tensors"]

    def traits(index: int) -> TensorTraits | None:
        if index < 0:
            return None
        tensor = tensors[index]
        scales = (raw[index]["quantization"] or {}).get("scale")
        count = len(scales or b"") // 4  # float32
        word = WORDS[min(count, 2)] if tensor.type in QUANTIZABLE else ""
        constant = len(buffers[tensor.buffer].data) > 0 and not tensor.is_variable
        dynamic = -1 in tensor.shape or -1 in (tensor.shape_signature or ())
        return TensorTraits(tensor.type, word, len(tensor.shape), dynamic, constant)

    return [
        OperatorTraits(
            operator.code.name,
            operator.code.version,
            tuple(map(traits, operator.inputs)),
            tuple(map(traits, operator.outputs)),
            {},
        )
        for operator in model.subgraphs[subgraph].operators
    ]


def test_columns_agree_with_views(own_model: Path) -> None:
    """Forms without options and unpacking see the same operators, whichever way they are read."""
    some = {"types": ["FLOAT32", "INT8 per_tensor"], "static": True, "max_rank": 3}
    constants = {"inputs": ["* computed", "* constant", "..."], "max_version": 2}
    table = parsed({"*": [some, constants]})
    with open_model(own_model) as model:
        for subgraph in range(len(model.subgraphs)):
            expected = [table.why_not(operator) for operator in by_views(model, subgraph)]
            assert why_not(table, graph_of(model, subgraph)) == expected


def test_a_table_can_accept_everything(any_model: Path) -> None:
    table = parsed({"*": [{}]})
    with open_model(any_model) as model:
        for subgraph in range(len(model.subgraphs)):
            assert set(why_not(table, graph_of(model, subgraph))) <= {None}


@pytest.mark.parametrize("name", ["tflite/cnn", "circle/inverted_residual"])
def test_options_are_read_from_the_model(name: str) -> None:
    data = bytes_of(name)
    published = [operator["builtinOptions"] or {} for operator in read(data)["subgraphs"][0]["operators"]]
    table = parsed({"*": [{"options": {"padding": ["VALID"], "stride_w": {"max": 1}}}]})
    with open_model(data) as model:
        reasons = why_not(table, graph_of(model, 0))
    wanted = [options.get("padding", 0) == 1 and options.get("strideW", 0) <= 1 for options in published]
    assert [reason is None for reason in reasons] == wanted


def test_a_composite_is_known_by_its_name() -> None:
    def reason(*names: str) -> Refusal | None:
        table = parsed({"STABLEHLO_COMPOSITE": [{"options": {"name": list(names)}}]})
        with open_model(bytes_of("tflite/composite")) as model:
            return why_not(table, graph_of(model, 0))[0]

    assert reason("test.fold", "test.bend") is None
    assert reason("test.fold", "") == Refusal("name is another, not test.fold or ")


def test_data_outside_the_flatbuffer() -> None:
    table = parsed({"*": [{"where": ["inputs.external == 0"]}]})
    with open_model(bytes_of("tflite/cnn_external")) as model:
        reasons = zip(model.code_names(0), why_not(table, graph_of(model, 0)), strict=True)
        assert [code for code, one in reasons if one] == ["CONV_2D", "CONV_2D", "RESHAPE", "FULLY_CONNECTED"]


def test_an_unpacked_constant_counts_as_one_and_stays_with_its_readers() -> None:
    form = {"inputs": ["FLOAT16 constant"], "outputs": ["FLOAT32"], "unpacks": True}
    with_constants = {"inputs": ["* computed", "* constant", "* constant"]}
    unpacking = {"DEQUANTIZE": [form], "CONV_2D": [with_constants]}
    with open_model(bytes_of("tflite/cnn_float16")) as model:
        names = model.code_names(0)
        reasons = why_not(parsed(unpacking), graph_of(model, 0))
        conv = [reason for name, reason in zip(names, reasons, strict=True) if name == "CONV_2D"]
        assert conv == [None] * len(conv) != []
        kept = [reason for name, reason in zip(names, reasons, strict=True) if name == "DEQUANTIZE"]
        assert None in kept  # the weights of the convolutions
        assert any("which reads the unpacked constant" in str(reason) for reason in kept)  # those of the others
        for_every = {"*": [form], "CONV_2D": [with_constants]}
        assert why_not(parsed(for_every), graph_of(model, 0))[names.index("CONV_2D")] is None
        plain = why_not(parsed({**unpacking, "DEQUANTIZE": [{**form, "unpacks": False}]}), graph_of(model, 0))
        assert all(reason for name, reason in zip(names, plain, strict=True) if name == "CONV_2D")


def test_a_code_that_is_not_there_is_an_error() -> None:
    build = Build()
    graph = build.graph()
    graph.operator("ADD", [graph.tensor("a")], [graph.tensor("b")]).opcode_index = 1
    with open_model(build.to_bytes()) as model, pytest.raises(ModelFormatError, match="code 1 does not exist"):
        why_not(parsed({"*": [{}]}), graph_of(model, 0))


@pytest.mark.parametrize("tensor", [2, -2])
def test_a_tensor_that_is_not_there_is_an_error(tensor: int) -> None:
    build = Build()
    graph = build.graph()
    graph.operator("ADD", [graph.tensor("a"), tensor], [graph.tensor("b")])
    with open_model(build.to_bytes()) as model, pytest.raises(ModelFormatError, match="does not exist"):
        why_not(parsed({"*": [{}]}), graph_of(model, 0))
