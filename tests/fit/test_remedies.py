"""What to change, from the words of the capability tables; each condition that they can have is known."""

from __future__ import annotations

import json
import re
import shlex
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.affinity.capability.comparison import Term
from circletools.affinity.capability.file import FORM_KEYS, parse_capability
from circletools.affinity.capability.table import Refusal, refusals
from circletools.affinity.capability.traits import OperatorTraits, TensorTraits
from circletools.fit.remedies import (
    FIX_SHAPES,
    FIX_SIZES,
    FOLD,
    GENERAL,
    MEASURE,
    is_consequence,
    needed_by,
    remedy_of,
    size_remedies,
)
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.presence import need
from tests.kit.program import run
from tools.measure.capability.single import Operand, Probe

FLOAT = TensorTraits("FLOAT32", "", 5, True, False)
WEIGHT = TensorTraits("INT8", "per_channel", 2, False, True)
OPTIONS: dict[Term, float] = {"fused_activation_function": 4.0, "stride_w": 3.0, "stride_h": 1.0}
ADD = OperatorTraits("ADD", 4, (FLOAT, WEIGHT, None), (FLOAT,), OPTIONS)


def refused(*forms: dict[str, Any]) -> Refusal:
    table = parse_capability(json.dumps({"device": "npu", "operators": {"ADD": forms}}).encode(), "t")
    found = table.why_not(ADD)
    assert found is not None
    return found


ROWS = Path(__file__).with_name("remedies.txt").read_text().splitlines()
CASES: list[tuple[dict[str, Any], str]] = [literal_eval(row) for row in ROWS]


@pytest.mark.parametrize(("form", "remedy"), CASES, ids=[remedy for _, remedy in CASES])
def test_remedies(form: dict[str, Any], remedy: str) -> None:
    assert remedy_of(refused(form), "ADD") == remedy


def test_every_condition_has_a_remedy() -> None:
    """Any key added to forms must be listed here, and its words among the known ones."""
    tried = {key for form, _ in CASES for key in form}
    assert set(FORM_KEYS) - tried == {"unpacks"}  # which is not a condition
    assert not any(GENERAL in remedy for _, remedy in CASES)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("stride_w is 3, but must be <= filter_width (2)", "change it so that stride_w <= filter_width"),
        ("block_size is 1, but must be > 1", "change it so that block_size > 1"),
        ("input1.value has no value, but must be >= 0", "change it so that input1.value >= 0"),
        (
            "input0.scale / output0.scale is 0.0001, but must be >= 2^-10",
            "quantize it so that input0.scale / output0.scale >= 2^-10",
        ),
        (
            "inputs.zero_point is 3, but must be == output0.zero_point (-4)",
            "quantize it so that inputs.zero_point == output0.zero_point",
        ),
    ],
)
def test_comparisons(reason: str, remedy: str) -> None:
    assert remedy_of(Refusal(reason), "ADD") == remedy


def test_three_places() -> None:
    reason = "; ".join(f"{place} has an unknown dimension" for place in ("input 0", "input 1", "output 0"))
    assert remedy_of(Refusal(reason), "ADD") == "fix the shape of input 0, input 1 and output 0"


def test_an_operator_that_is_not_there() -> None:
    assert remedy_of(refused(), "ADD") == "replace ADD with operators that npu supports"
    assert remedy_of(Refusal("a does not support b does not support CUSTOM:x; y"), "CUSTOM:x; y") == GENERAL
    assert "CUSTOM:x; y with" in remedy_of(Refusal("npu does not support CUSTOM:x; y"), "CUSTOM:x; y")
    assert remedy_of(Refusal("npu does not support DENSIFY"), "DENSIFY") == "export the model with dense weights"


def test_what_is_not_known_is_not_guessed() -> None:
    assert remedy_of(Refusal("the moon is new"), "ADD") == GENERAL == "change the property that the reason names"
    assert remedy_of(Refusal("the moon is new; input 0 has an unknown dimension"), "ADD") == (
        "change the property that the reason names; fix the shape of input 0"
    )
    assert remedy_of(Refusal("npu does not support ADD", measured=False), "ADD") == MEASURE


@pytest.mark.parametrize(
    ("link", "own", "remedy"),
    [
        ("feeds", {"remedy": "use ABS"}, "use ABS"),
        ("feeds", {}, "put another operator between it and operator 0, NEG, or replace one of the two"),
        ("shares", {}, "give it an input other than operator 0, NEG, or replace one of the two"),
    ],
)
def test_operators_not_supported_together(link: str, own: dict[str, str], remedy: str) -> None:
    sides = {"first": {"operators": ["NEG"]}, "then": {"operators": ["COS"]}}
    rule = {**sides, "link": link, "reason": "it is late; and dark", **own}
    operators: dict[str, Any] = {"NEG": [{}], "COS": [{}]}
    table = parse_capability(json.dumps({"operators": operators, "context": [rule]}).encode(), "t")
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    graph.compute("COS", [x if link == "shares" else y], "z")
    with open_model(build.to_bytes()) as model:
        _, found = refusals(table, model)
    assert found is not None
    assert remedy_of(found, "COS") == remedy


def test_for_the_sake_of_another_operator() -> None:
    words = "operator 12, which reads the unpacked constant, is not supported"
    assert remedy_of(Refusal(words), "DEQUANTIZE") == "change operator 12"
    assert is_consequence(words)
    assert not is_consequence("npu does not support ADD")


def of(element: str, *shape: int, kind: str = "computed", data: tuple[int, ...] | None = None) -> Operand:
    return Operand(element, shape, kind, data)


def mean(*shape: int) -> Probe:
    axis = of("INT32", 1, kind="constant", data=(len(shape) - 1,))
    made = of("INT8/t", *shape[:-1], 1)
    return Probe("MEAN", (of("INT8/t", *shape), axis), (made,), (("keep_dims", True),), "ReducerOptions")


def resized(times: int, batch: int = 1) -> Probe:
    size = of("INT32", 2, kind="constant", data=(4 * times, 4 * times))
    made = of("INT8/t", batch, 4 * times, 4 * times, 8)
    return Probe("RESIZE_BILINEAR", (of("INT8/t", batch, 4, 4, 8), size), (made,), (), "ResizeBilinearOptions")


def thinned(*strides: int) -> Probe:
    rank = len(strides)
    lists = [of("INT32", rank, kind="constant", data=data) for data in ((0,) * rank, (4,) * rank, strides)]
    made = of("INT8/t", *(4 // stride for stride in strides))
    return Probe("STRIDED_SLICE", (of("INT8/t", *(4,) * rank), *lists), (made,), (), "StridedSliceOptions")


def unary(element: str, rank: int, code: str = "Abs", made: int | None = None) -> Probe:
    """Return an operator whose result has another rank in the file if `made` is given."""
    result = (2,) * (rank if made is None else made)
    return Probe(code.upper(), (of(element, *(2,) * rank),), (of(element, *result),), (), f"{code}Options")


def product(kind: str) -> Probe:
    inputs = (of("INT8/t", 2, 4), of("INT8/c", 3, 4, kind=kind), of("INT32/c", 3, kind="constant"))
    return Probe("FULLY_CONNECTED", inputs, (of("INT8/t", 2, 3),), (("weights_format", 0),), "FullyConnectedOptions")


@pytest.mark.parametrize(
    ("on", "with_", "package", "before", "words", "after"),
    [
        ("ethos-u55", "vela", "ethosu", mean(1, 4, 16, 32), "reshape input 0", mean(1, 64, 32)),
        ("ethos-u85", "vela", "ethosu", mean(2, 16, 32), "reshape input 0", mean(1, 32, 32)),
        ("ethos-u65", "vela", "ethosu", resized(3), "resize by 2, 4 or 8", resized(4)),
        ("ethos-u55", "vela", "ethosu", resized(2, 2), "one image at a time", resized(2)),
        ("ethos-u85", "vela", "ethosu", thinned(1, 1, 1, 2), "a stride of 1", thinned(1, 2, 2, 1)),
        ("xnnpack", "litert", "ai_edge_litert", unary("INT32", 2), "convert input 0", unary("FLOAT32", 2)),
        ("xnnpack", "litert", "ai_edge_litert", unary("FLOAT32", 7), "at most rank 6", unary("FLOAT32", 6)),
        ("xnnpack", "litert", "ai_edge_litert", product("computed"), "input 1 a constant", product("constant")),
        ("tflm", "tflm", "tflite_micro", unary("FLOAT32", 2, "Exp", 0), "set-shape", unary("FLOAT32", 2, "Exp")),
    ],
    ids=["mean of 4", "mean of 3", "resize", "batch", "stride", "type", "rank", "constant", "shape"],
)
def test_a_remedy_that_is_applied_makes_the_program_take_it(
    on: str, with_: str, package: str, before: Probe, words: str, after: Probe
) -> None:
    need(package)
    for probe, verdict in ((before, "not_resident"), (after, "resident")):
        with ct.open(probe.model) as model:
            (found,) = ct.fit(model, ct.FitRequest(on=(on,), with_=(with_,))).targets
        assert (found.verdict, [one.verdict for one in found.asked]) == (verdict, [verdict])
        assert verdict == "resident" or words in found.misfits[0].remedy


@pytest.mark.parametrize(
    ("size", "read", "words"),
    [((1, 4), "x", FOLD), ((-1, 4), "x", FIX_SIZES), ((1, 4), "open", "cut it with `extract --from open`")],
)
def test_a_remedy_of_shape_arithmetic_depends_on_where_sizes_come_from(
    size: tuple[int, ...], read: str, words: str
) -> None:
    build = Build()
    graph = build.graph()
    x, shape, sizes = graph.tensor("x", size), graph.tensor("shape", (2,), "INT32"), graph.tensor("s", (2,), "INT32")
    tensors = {"x": x, "open": graph.compute("RESHAPE", [x, shape], "open", size if read == "x" else (-1, 4))}
    graph.operator("SHAPE", [tensors[read]], [sizes], out_type=2)
    most = graph.tensor("most", (2,), "INT32")
    graph.operator("ADD", [sizes, sizes], [most])
    y, z = graph.compute("RESHAPE", [x, most], "y", (2, 8)), graph.compute("COS", [x], "z", (1, 4))
    graph.ends([x, shape], [y, z])
    with ct.open(build.to_bytes()) as model:
        (target,) = ct.fit(model, ct.FitRequest(on=("litert-gpu",))).targets
        request = ct.PlanRequest(devices=("gpu", "cpu"), default="cpu", capabilities=("gpu=litert-gpu",))
        planned = {at: one.remedy for one in ct.plan(model, request).summary.refusals for _, at in one.operators}
    remedies = {one.operator: one.remedy for one in target.misfits}
    assert [at for at in (1, 3) if words not in remedies[at]] == []
    assert {at: remedies[at] for at in planned} == planned
    assert FIX_SIZES != remedies.get(4) != FIX_SHAPES


def fitted(source: Path | bytes, on: str = "litert-gpu") -> Any:
    with ct.open(source) as model:
        (found,) = ct.fit(model, ct.FitRequest(on=(on,))).targets
    return found


@pytest.mark.parametrize("name", ["b", "b;1 'of' c", "7", "b" * 99])
def test_commands_of_a_remedy_can_be_typed(name: str, tmp_path: Path) -> None:
    graph = (build := Build()).graph()
    tensors = [graph.tensor("x", (4, 6)), graph.tensor("k", (2,), "INT32")]
    tensors.append(graph.compute("RESHAPE", tensors, "a", (-1, -1)))
    tensors.append(graph.compute("RESHAPE", [tensors[2], tensors[1]], name, (-1, 6)))
    graph.operator("SHAPE", tensors[3:], [sizes := graph.tensor("sizes", (2,), "INT32")], out_type=2)
    squared = graph.compute("MUL", tensors[3:] * 2, "c", (-1, 6))
    graph.ends(tensors[:2], [graph.compute("RESHAPE", [squared, sizes], "y", (-1, 6))])
    (model := tmp_path / "0.tflite").write_bytes(build.to_bytes())
    (remedy,) = {one.remedy for one in fitted(model).misfits}
    for number, words in enumerate(re.findall("`(.+?)`", remedy), 1):
        command, *options = shlex.split(words.replace("N,6", "4,6"))
        before, model = model, tmp_path / f"{number}.tflite"
        assert run(command, before, model, *options).status == 0
    assert (fitted(model).verdict, fitted(model).operators) == ("resident", 2)


@pytest.mark.parametrize("returned", [0, 1])
@pytest.mark.parametrize(
    ("kind", "second", "at"), [("INT32", "RESHAPE", 0), ("FLOAT32", "DEQUANTIZE", 1), ("FLOAT32", "", 0)]
)
def test_operators_needed_only_by_a_refused_one(kind: str, second: str, at: int, returned: int) -> None:
    build = Build()
    graph = build.graph()
    x, i = graph.tensor("x", (4,)), graph.tensor("i", (4,), kind)
    first, index, last = graph.tensor("a", (4,), kind), graph.tensor("b", (4,), kind), graph.tensor("y", (4,))
    for code, read, made in (
        ("SELECT_V2", [i], first),
        (second or "RESHAPE", [first], index),
        ("GATHER_ND", [x, index], last),
    ):
        graph.operator(code, read, [made])
    graph.ends([x, i], [last, index][: 1 + returned])
    with ct.open(build.to_bytes()) as model:
        facts = model_graph(model).graphs[0]
        refusals, needed = {at: Refusal("a"), 2: Refusal("b")}, {at: 2} if second and not returned else {}
        assert needed_by(facts, refusals) == needed
        assert needed_by(facts, {at: Refusal("a")}) == {}
        remedies = size_remedies(facts, refusals)
    words = "the only one that" if second == "RESHAPE" else "which"
    assert remedies == dict.fromkeys(needed, f"first change operator 2 (GATHER_ND), {words} uses its result")


def test_operators_at_the_ends_can_run_outside_the_model() -> None:
    build = Build()
    graph = build.graph()
    values = [graph.tensor("x", (1, 4))]
    for code in ("GELU", "TANH", "NEG", "TANH", "GELU"):
        values.append(graph.compute(code, values[-1:], f"v{len(values)}", (1, 4)))
    graph.ends(values[:1], values[-1:])
    target = fitted(build.to_bytes(), "tflm")
    cut = ", or run it outside the model: `extract IN OUT --operators 1-3` keeps the others"
    assert [(one.operator, one.remedy.endswith(cut)) for one in target.misfits] == [(0, True), (4, True)]
