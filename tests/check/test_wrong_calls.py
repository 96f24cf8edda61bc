"""Wrong calls from Python: each is answered with a sentence that names what to do."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy, deepcopy
from io import BytesIO, TextIOWrapper
from operator import attrgetter, setitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools
from cli.table import GROUPS
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
    (lambda m, e: ct.check(F), "ct.open(path) makes one"),
    (lambda m, e: ct.FitRequest(on="xnnpack"), "write on=['xnnpack']"),
    (lambda m, e: ct.FitRequest(), "missing a required argument: 'on' (write ct.FitRequest(on=…))"),
    (lambda m, e: ct.fit(m, on="xnnpack"), "no parameter 'on' (write ct.fit(model, ct.FitRequest(on=…)))"),
    (lambda m, e: ct.cost(m, by="op"), "one of 'code', 'operator', 'source', 'module', not 'op'"),
    (lambda m, e: ct.diff(m, m, "structure"), "write sections=['structure']"),
    (lambda m, e: ct.metadata.set(m, "note", b"text"), "ct.edit(model) makes one"),
    (lambda m, e: ct.attribute(m, "trace.csv"), "ct.read_profile(source) makes one"),
    (lambda m, e: ct.affinity.annotate(e, {0: "npu"}), "`what` must be Affinity or Planned, not {0: 'npu'}"),
    (lambda m, e: ct.checks.CheckRequest(fail_on="warn"), "did you mean 'warning'?"),
    (lambda m, e: ct.Model(F), "ct.open(path)"),
    (lambda m, e: ct.Model.metadata_value("x"), "be called on an object, not on the class (ct.open(path) makes one)"),
    (lambda m, e: ct.render.cost_json(m), "Model is not a result, such as that of `ct.cost`"),
    (lambda m, e: ct.origins.collect(m, "best"), "NameSource, one of 'auto', 'tensor-names', "),
    (lambda m, e: m.subgraphs[0].tensors[0].numpy("x"), "too many positional arguments (write .numpy())"),
    (lambda m, e: e.set_constant(0, 1, [1.0]), "`data` must be bytes or a numpy array, not [1.0]"),
    (lambda m, e: e.set_metadata("a", "b"), "`value` must be bytes, not 'b' (write value='b'.encode())"),
    (lambda m, e: ct.surgery.RenameRequest(tensors={"a": "b"}), "(write tensors=[*{'a': 'b'}.items()])"),
    (lambda m, e: list(ct.render.cost_text(m)), "`found` must be Cost, not <Model "),
]
OTHERS: list[tuple[Call, type[Exception], str]] = [
    (lambda m, e: ct.open("none.tflite"), ct.InvalidInputError, "none.tflite: cannot read it: No such file"),
    (lambda m, e: ct.metadata.get(m, "nope"), ct.UsageError, "available: CONVERSION_METADATA, min_runtime_version"),
    (lambda m, e: m.subgraphs[0].tensors[9999], IndexError, "there is no item 9999: there are 14"),
    (lambda m, e: m.subgraphs[0].tensors[0].numpy(), ct.UsageError, "the file has no values for this tensor"),
    (lambda m, e: e.sve, AttributeError, "ModelEdit has no attribute 'sve' (write .save(target))"),
    (lambda m, e: m.tensors, AttributeError, "Model has no attribute 'tensors' (write model.subgraphs[0].tensors)"),
    (lambda m, e: m.subgraphs[0].operators[0].name, AttributeError, "(write .code.name)"),
    (lambda m, e: setattr(m.subgraphs[0].tensors[0], "name", "x"), AttributeError, "Tensor.name is read only"),
    (lambda m, e: m.subgraphs[0].tensors[0].data, AttributeError, "(write .numpy())"),
    (lambda m, e: list(m), TypeError, "Model is not a list (its lists are .metadata, "),
    (lambda m, e: m.subgraphs.operators, AttributeError, "(write [0].operators)"),
    (lambda m, e: m.subgraphs[0].tensors[0, 1], TypeError, "[items[one] for one in indices]"),
    (lambda m, e: m.subgraphs[0].operators[0].options.padding, AttributeError, "write ['padding']"),
    (lambda m, e: m.subgraphs[0].operators[0].options["pad"], KeyError, "no 'pad' (did you mean 'padding'?)"),
    (lambda m, e: setattr(m, "description", "x"), AttributeError, "read only (ct.edit(model) changes a model; "),
    (
        lambda m, e: m.metadata.colour,
        AttributeError,
        "(it is a list of 2 Metadata, each with buffer, index",
    ),
    (lambda m, e: m.subgraphs[0].operators[0].inputs[0].name, AttributeError, "write subgraph.tensors[0].name"),
    (lambda m, e: m.subgraphs[0].tensors.index("x"), TypeError, "one.name == 'x'"),
    (lambda m, e: len(m), TypeError, "Model is not a list (its lists are "),
    (lambda m, e: ct.affinity(m), TypeError, "is not a function (it has annotate, "),
    (lambda m, e: e.set_option(0, 0, "pad", 1), ct.UsageError, "no option 'pad' (did you mean 'padding'?)"),
    (lambda m, e: e.set_option(0, 0, "stride_w", "2"), ct.UsageError, "stride_w is a number, not '2'"),
    (lambda m, e: e.set_option(0, 0, "padding", "SAMME"), ct.EditError, "(did you mean 'SAME'?)"),
    (lambda m, e: setitem(m.subgraphs[0].operators[0].options, "a", 1), TypeError, "read only"),
    (lambda m, e: ct.cost(m)["macs"], TypeError, "Cost is not a list (write .total.macs or .rows[0].macs)"),
    (lambda m, e: m.save("x"), AttributeError, "(write with ct.edit(model) as edit: edit.save(path))"),
    (
        lambda m, e: ct.FitRequest(on=["tflm"]).targets,
        AttributeError,
        "has no attribute 'targets' (it has ",
    ),
    (lambda m, e: ct.types.Model, AttributeError, "(write ct.Model)"),
    (lambda m, e: ct.affinity.set(e), AttributeError, "(write ct.affinity.annotate(edit, plan))"),
    (lambda m, e: ct.Finding("NOPE", "error", "", ""), ValueError, "there is no code 'NOPE' (available: "),
    (lambda m, e: ct.open(TextIOWrapper(BytesIO(b"\xff"), "ascii")), ct.UsageError, "(open it as 'rb')"),
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


def test_what_stands_for_names_of_other_libraries_exists(opened: tuple[Any, Any]) -> None:
    operator, tensor = opened[0].subgraphs[0].operators[0], opened[0].subgraphs[0].tensors[1]
    known = {"ct": ct, "model": opened[0], "edit": opened[1], "operator": operator, "tensor": tensor}
    written = Path(circletools.__file__).with_name("foreign.json").read_text()
    for first, names in re.findall(rf"\b({'|'.join(known)})\.([\w.]*\w)", written):
        attrgetter(names)(known[first])


@pytest.mark.parametrize("command", [row.name for rows in GROUPS.values() for row in rows])
def test_names_of_commands(command: str) -> None:
    name = re.sub("[- ]", "_", command)
    with pytest.raises(AttributeError, match=r"\(write ") if name not in dir(ct) else nullcontext():
        getattr(ct, name)


def test_what_works_stays(opened: tuple[Any, Any], tmp_path: Path) -> None:
    model, edit = opened
    assert model.subgraphs[0].tensors[np.int64(1)].index == 1
    assert ct.FitRequest(on=["xnnpack"], timeout_s=np.float32(3)).on == ["xnnpack"]
    assert ct.cost(model, by=np.str_("code")).total.macs
    assert ct.CompareRequest(runs=np.int8(3)).runs == 3
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


def test_a_wrong_call_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        ct.check("m.tflite")
