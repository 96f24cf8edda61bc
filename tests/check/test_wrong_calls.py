"""Wrong calls from Python: each is answered with a sentence that names what to do."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator, Sized
from contextlib import nullcontext
from copy import copy, deepcopy
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools
from circletools import answers, arguments, usage
from circletools.snippets import foreign
from circletools.wording import Attributes
from cli.table import GROUPS
from tests.check.remedies import ANY, follow, hollow
from tests.kit.support import TESTDATA

ct: Any = circletools  # whose types would refuse these calls
F = TESTDATA / "tflite" / "cnn.tflite"
Call = Callable[[Any, Any], Any]
"""A call with a model and an edit of it."""


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Any, Any]]:
    with ct.open(F) as model, ct.edit(model) as edit:
        yield model, edit


ARGUMENTS: list[tuple[Call, str]] = [
    (lambda m, e: ct.fit(m, on="xnnpack"), "no parameter 'on' (write ct.fit(model, ct.FitRequest(on=['xnnpack'])))"),
    (lambda m, e: ct.metadata.set(m, "n", b"t"), "with ct.edit(model) as edit: ct.metadata.set(edit, 'n', b't'); "),
    (lambda m, e: ct.metadata.set(e, a=b"b"), "write ct.metadata.set(edit, 'a', b'b')"),
    (
        lambda m, e: ct.affinity.annotate(e, {0: "npu"}),
        "ct.PlanRequest(rules=['index:0=npu'], default='npu')).to_aff",
    ),
    (lambda m, e: ct.outputs.fix(F, "o.tflite"), "ct.outputs.fix(edit); edit.save('o.tflite')"),
    (lambda m, e: ct.origins.embed(e, "o.json"), "parse(open('o.json').read(), 'o.json')"),
    (lambda m, e: ct.plan(m, rules=["op:X=a"], default="b"), "PlanRequest(rules=['op:X=a'], default='b')"),
    (lambda m, e: ct.PlanRequest(rules={"op:x": "a"}), "write ct.PlanRequest(rules=['op:x=a'])"),
    (lambda m, e: ct.surgery.extract("a.tflite", "b", ["x"], ["y"]), "extract(ct.open('a.tflite'), 'b', ct.surg"),
    (
        lambda m, e: ct.check(m, ignore=["X"]),
        "ct.checks.CheckRequest(ignore=(code,))) selects findings; it takes model, with_, ",
    ),
    (lambda m, e: ct.metadata.get(e, "a"), "write ct.metadata.get(ct.open(edit.to_bytes()), 'a')"),
    (lambda m, e: ct.origins.embed(e, ct.track_origins(m, m)), "write ct.origins.embed(edit, tracking.origins)"),
    (
        lambda m, e: ct.split(m, "o", ["npu", "cpu"]),
        "write ct.split(model, 'o'); write devices to the model first: with ct.edit(model) as e",
    ),
    (lambda m, e: ct.Model.metadata_value("x"), "be called on an object, not on the class (ct.open(path) makes one)"),
    (lambda m, e: m.subgraphs[0].tensors[0].numpy("x"), "too many positional arguments (write tensor.numpy())"),
    (lambda m, e: e.set_option(0, "stride_w", 2), "write edit.set_option(0, 0, 'stride_w', 2)"),
    (lambda m, e: ct.cost(m, by=["layer"]), "write ct.cost(model, 'operator')"),
    (lambda m, e: e.set_constant(0, 0, np.zeros((1, 16, 16, 3), "f4")), "write edit.set_inputs(0, [])"),
    (lambda m, e: e.set_metadata("a", None), "`value` must be bytes, not None (write edit.set_metadata('a', value))"),
    (lambda m, e: ct.open(model_path="a.tflite"), "'model_path' (write ct.open('a.tflite'))"),
    (lambda m, e: ct.profile(m, runs=0.5), "`runs` must be int, not 0.5 (write ct.profile(model, runs=1))"),
    (lambda m, e: ct.surgery.ShapeRequest(static=[4, 3]), "`static` must be bool, not [4, 3] (write ct.surgery.S"),
    (lambda m, e: e.set_option(0, 0, padding="SAME"), "write edit.set_option(0, 0, 'padding', 'SAME')"),
    (lambda m, e: ct.surgery.rename(e, {"a": "b"}), "ct.surgery.RenameRequest(tensors=[('a', 'b')])"),
    (lambda m, e: ct.FitRequest("xnnpack", "tflm"), "arguments (write ct.FitRequest(on=['xnnpack', 'tflm']))"),
    (lambda m, e: e.set_inputs(0, ["x"]), "write edit.set_inputs(0, [next(one.index for one in model.subgr"),
    (lambda m, e: ct.attribute("a.csv", m), "write ct.attribute(model, ct.read_profile('a.csv'))"),
]
OTHERS: list[tuple[Call, type[Exception], str]] = [
    (lambda m, e: ct.open("none.tflite"), ct.InvalidInputError, "none.tflite: cannot read it: No such file"),
    (lambda m, e: "x" in ct.cost(m).rows, TypeError, "of type CostRow, not str (no item is named 'x': write next("),
    (lambda m, e: ct.metadata.get(m, "nope"), ct.UsageError, "available: CONVERSION_METADATA, min_runtime_version"),
    (lambda m, e: m.subgraphs[0].tensors.index("x"), TypeError, "named 'x': write next(one for one in model.subgr"),
    (lambda m, e: ct.FitRequest(on=["tflm"]).targets, AttributeError, "has no attribute 'targets' (it has "),
    (lambda m, e: [*ct.cost(m)], TypeError, ".total.macs and .total.parameters"),
    (lambda m, e: m.save("x"), AttributeError, "has no attribute 'save' (write edit.save(target))"),
    (lambda m, e: ct.exporters.record().write("x"), AttributeError, "with ct.exporters.record(...) as log"),
    (lambda m, e: e.set_constant(0, 4, np.zeros(2)), ct.UsageError, "first array = array / scale + zero_point"),
    (lambda m, e: m.subgraphs[0].tensors[9999], IndexError, "has 14 items (the last index is 13)"),
    (lambda m, e: ct.check(m)[0], IndexError, "the list has 0 items (test for an empty list first)"),
    (lambda m, e: m.subgraphs[0].tensors[0].numpy(), ct.UsageError, "the file has no values for this tensor"),
    (lambda m, e: m.subgraphs[0].OperatorsLength(), AttributeError, "gth' (write len(subgraph.operators))"),
    (lambda m, e: ct.metadata.list(m)["a"], TypeError, "Entries is not a list (write ct.metadata.get(model, 'a'))"),
    (lambda m, e: setattr(m.subgraphs[0].tensors[0], "name", "x"), AttributeError, "Tensor.name is read-only"),
    (lambda m, e: list(m), TypeError, "Model is not a list (write .subgraphs[0].operators)"),
    (lambda m, e: m.subgraphs[0].tensors[0, 1], TypeError, "write [model.subgraphs[0].tensors[one] for one in ind"),
    (lambda m, e: m.subgraphs[0].operators[0].options.padding, AttributeError, "write ['padding']"),
    (lambda m, e: m.subgraphs[0].operators[0].options["pad"], KeyError, "no 'pad' (did you mean 'padding'?)"),
    (lambda m, e: m.metadata.color, AttributeError, "(it is a list of 2 Metadata objects, each with buffer, index"),
    (lambda m, e: m.subgraphs[0].operators[0].inputs[0].name, AttributeError, "subgraphs[0].tensors[index].name"),
    (lambda m, e: e.set_option(0, 0, "pad", 1), ct.UsageError, "no option 'pad' (did you mean 'padding'?)"),
    (lambda m, e: e.set_option(0, 0, "padding", "SAMME"), ct.EditError, "'SAMME' (write 'SAME' or 'VALID')"),
    (lambda m, e: ct.affinity.set(e), AttributeError, "ct.affinity.annotate(edit, plan); edit.save(target))"),
    (lambda m, e: ct.Finding("NOPE", "error", "", ""), ValueError, "there is no code 'NOPE' (available: "),
    (lambda m, e: m.subgraphs[0].tensors[-1], IndexError, "-1 marks an omitted input: "),
    (lambda m, e: ct.origins.Origins({}, ({},)).of(0, m.subgraphs[0].operators[0]), TypeError, "operator.index)"),
    (
        lambda m, e: setattr(m.subgraphs[0].tensors[0], "shape", (1,)),
        AttributeError,
        "inputs=(('serving_default_image:0', (1,)),)",
    ),
    (lambda m, e: ct.outputs.fix(e).save("x"), AttributeError, "has no attribute 'save' (write edit.save(path)"),
    (lambda m, e: m.subgraphs[0].operators[0].options["stride"], KeyError, "(write 'stride_h', 'stride_w')"),
    (lambda m, e: ct.open(TextIOWrapper(BytesIO(b"\xff"), "ascii")), ct.UsageError, "(open it in mode 'rb')"),
]


@pytest.mark.parametrize(("call", "words"), ARGUMENTS)
def test_arguments(call: Call, words: str, opened: tuple[Any, Any]) -> None:
    with pytest.raises(ct.UsageError) as raised:
        call(*opened)
    assert words in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(("call", "error", "words"), OTHERS)
def test_others(call: Call, error: type[Exception], words: str, opened: tuple[Any, Any]) -> None:
    with pytest.raises(error) as raised:
        call(*opened)
    assert words in str(raised.value)


def test_text_prints_and_severities_have_an_order(opened: tuple[Any, Any]) -> None:
    lines = ct.render.cost_text(ct.cost(opened[0]))
    assert [next(lines), *lines] == str(lines).splitlines() == lines.splitlines()
    info, warning = (ct.Finding("REPORTED", one, "", "").severity for one in ("info", "warning"))
    assert info < warning < "error"
    assert not warning >= "error"


OFFERED: list[tuple[str, Any]] = [
    (title, value)
    for title, value in answers.offered()
    if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception))
    if not title.startswith("ct.types.")
]
VALUES = (object(), "text", "2", {"a": 1}, 5, np.zeros((2, 2)), b"x", None)


@pytest.mark.parametrize("title", sorted({title.rpartition(".")[0] for title, _ in OFFERED}))
def test_what_to_write_instead_of_any_wrong_argument_fits(title: str) -> None:
    for name, call in OFFERED:
        declared = arguments.declared(call) if name.rpartition(".")[0] == title else None
        for parameter in declared[0].parameters if declared else ():
            hint = declared[1].get(parameter, Any) if declared else Any
            for value in VALUES if not arguments.words_of(hint) else ():
                if arguments.fits(value, hint):
                    continue
                code = usage.meant(value, hint, f"{name.rpartition('.')[2]}.{parameter}")
                made = follow(code or "None", value)
                fits = made is ANY or arguments.fits(made, hint) or arguments.fits([made], hint)
                assert fits or made in ([ANY], [[ANY]]) or not code, (name, parameter, code)


KINDS = {value.__name__: value for _, value in answers.offered() if isinstance(value, type)}


@pytest.mark.parametrize("kind", [name for name in KINDS if issubclass(KINDS[name], Attributes)])
def test_what_to_write_instead_of_any_name_of_an_object_exists(kind: str) -> None:
    own = hollow(KINDS[kind])
    for way, *_ in answers._ways(own):
        if not way.startswith("with ") or kind == "Model":
            code = way.replace(f"len({kind.lower()}.", "len(.").replace("(.", "(_own.")
            follow(f"_own{code}" if code[0] in ".[" else code, own)


def test_names_from_other_libraries_exist() -> None:
    for kinds, _, noted in foreign()["instead"]:
        for code in re.findall("`([^`]+)`", noted) or ([noted] if noted[0] not in "=c" or noted[:3] == "ct." else []):
            for kind in kinds.split():
                own = hollow(KINDS[kind]) if kind in KINDS else ANY
                follow(f"_own{code}" if code[0] == "." else code, own)


@pytest.mark.parametrize("command", [row.name for rows in GROUPS.values() for row in rows])
def test_names_of_commands(command: str) -> None:
    name = re.sub("[- ]", "_", command)
    with pytest.raises(AttributeError, match=r"\(write ") if name not in dir(ct) else nullcontext():
        getattr(ct, name)


def test_valid_calls_still_work(opened: tuple[Any, Any], tmp_path: Path) -> None:
    model, edit = opened
    assert model.subgraphs[0].tensors[np.int64(1)].index == 1
    assert ct.FitRequest(on=["xnnpack"], timeout_s=np.float32(3)).on == ["xnnpack"]
    lists = (model.subgraphs, model.subgraphs[0].inputs, ct.cost(model).rows)
    assert not any(map(callable, (model, ct.affinity, ct.cost(model), *lists)))  # pandas calls what it can
    assert not isinstance(model, Sized)
    for target in (str(tmp_path / "a"), tmp_path / "b"):
        edit.save(target)
    for offered in (ct.check, ct.metadata.set, ct.origins.embed):
        assert pickle.loads(pickle.dumps(offered)) is offered  # noqa: S301  (our own)
    cost = ct.cost(model)
    for value in (cost, cost.rows, model.subgraphs[0].operators[0].options, ct.requires(model), ct.check(model)):
        for again in (copy(value), deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301
            assert (again, type(again)) == (value, type(value))
        assert not hasattr(value, "nothing_like_it")
        assert getattr(value, "_repr_mimebundle_", None) is None
    assert np.array_equal(np.asarray(model.subgraphs[0].tensors[1]), model.subgraphs[0].tensors[1].numpy())
    with pytest.raises(AttributeError) as raised:
        _ = model.tensors
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # noqa: S301


PLACED = ct.PlanRequest(devices=["a"], default="a")
COMPARISONS: list[tuple[Callable[[Any], bool], str]] = [
    (lambda m: m.subgraphs[0].operators[0].code == "Conv2D", "unknown operator name 'Conv2D'; did you mean"),
    (lambda m: m.subgraphs[0].operators[0].code == 3, "unknown operator name 3; did you mean 'CONV_2D'?"),
    (lambda m: m.subgraphs[0].tensors[0].type == np.float32, "unknown tensor type float32; did you mean 'FLOAT32'?"),
    (
        lambda m: m.subgraphs[0].operators[0].options["padding"] == "same",
        "unknown Padding 'same'; did you mean 'SAME'?",
    ),
    (lambda m: ct.fit(m, ct.FitRequest(on=["xnnpack"])).targets[0].verdict == "ok", "unknown verdict 'ok'; "),
    (
        lambda m: ct.plan(m, PLACED).subgraphs[0].partitions[0].device == "a",
        "write plan.devices[partition.device] == ",
    ),
    (lambda m: ct.metadata.get(m, "min_runtime_version") == "1.5.0", "never equal '1.5.0'; compare value"),
    (lambda m: ct.metadata.get(m, "min_runtime_version") == b"1.5.0", "these bytes never equal b'1.5.0'; compare"),
    (lambda m: ct.Finding("DUPLICATE_NAME", "error", "", "").severity == "Error", "did you mean 'error'?"),
]


@pytest.mark.parametrize(("compare", "words"), COMPARISONS)
def test_what_can_never_be_equal_warns(compare: Any, words: str, opened: tuple[Any, Any]) -> None:
    with pytest.warns(ct.CallWarning, match=re.escape(words)) as warned:
        assert not compare(opened[0])
    assert warned[0].filename == __file__


def test_changes_that_are_not_saved_warn(tmp_path: Path) -> None:
    with ct.open(F) as model:
        assert model.subgraphs[0].operators[0].code not in ("RELU", "BCQ_GATHER", "CUSTOM:X", None)
        edit = ct.edit(model)
        edit.save(tmp_path / "out.tflite")
        for number in range(2):
            edit.set_metadata("note", bytes(number))
            with pytest.warns(ct.CallWarning, match="not saved"):
                edit.__exit__(None)
            edit.save(tmp_path / "out.tflite")
        with pytest.warns(ct.CallWarning, match="not saved"):
            ct.metadata.set(ct.edit(model), "note", b"lost")


def test_origins_by_the_place_that_an_operator_names() -> None:
    with ct.open(TESTDATA / "origins" / "tico.circle") as model:
        origins = ct.origins.collect(model)
        places = [(0, one.index, one.subgraph) for one in model.subgraphs[0].operators]
    assert all(origins.of(0, index) == origins.of(place, np.int64(index)) != set() for _, index, place in places)


def test_a_wrong_call_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        ct.check("m.tflite")
