"""Signatures added and removed, inputs and outputs in another order, tensors exposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import Build
from tests.kit.callers import calling
from tests.kit.presence import need
from tests.kit.program import put, run
from tests.kit.support import bytes_of
from tests.kit.surgery_support import Changed, codes, edited, shape, signatures, wired

DATA = wired().to_bytes()
RUN = ([("the x", "x"), ("the z", "z")], [("the g", "g"), ("the h", "h")])


def signed(data: bytes, **request: Any) -> Changed:
    return edited(data, lambda edit: ct.surgery.sign(edit, ct.surgery.SignatureRequest(**request)))


def reordered(data: bytes, **orders: Any) -> Changed:
    return edited(data, lambda edit: ct.surgery.reorder(edit, **orders))


def exposed(data: bytes, *tensors: str, **more: Any) -> Changed:
    return edited(data, lambda edit: ct.surgery.expose(edit, tensors, **more))


# --- signatures -----------------------------------------------------------------------------------------------


def test_a_signature_is_added() -> None:
    after, result = signed(DATA, add="new", inputs=("i=x", "j=index:1"), outputs=("o=h",))
    assert signatures(after) == {"run": RUN, "new": ([("i", "x"), ("j", "z")], [("o", "h")])}
    assert result == ct.types.RewriteResult(("signature 'new': 'i', 'j' -> 'o'",))
    assert after.endswith(DATA)
    again, nothing = signed(after, add="new", inputs=("i=x", "j=index:1"), outputs=("o=h",))
    assert (again, nothing.changes) == (after, ())
    assert signed(after, remove=("new",))[0] == DATA


def test_a_signature_of_all_inputs_and_outputs() -> None:
    after, _ = signed(DATA, add="all")
    assert signatures(after)["all"] == ([("x", "x"), ("z", "z")], [("g", "g"), ("h", "h")])
    build = Build()
    graph = build.graph("one")
    graph = build.graph("two")
    x, y = graph.tensor("t"), graph.tensor(b"\xff")
    graph.ends([x, x], [y, graph.tensor("t")])
    after, _ = signed(build.to_bytes(), add="two", subgraph=1)
    assert signatures(after) == {"two": ([("t", "t")], [("output_0", "\udcff"), ("t", "t")])}
    assert signed(after, remove=("two",))[0] == build.to_bytes()


def test_an_input_without_a_name_is_reported() -> None:
    _, result = signed(DATA, add="new", inputs=("i=z",))
    assert [(note.code, note.message) for note in result.notes] == [
        ("INPUT_WITHOUT_NAME", "signature 'new' has no name for input 'x'")
    ]


def test_a_signature_is_replaced() -> None:
    after, result = signed(DATA, remove=("run",), add="run", outputs=("o=h",))
    assert signatures(after) == {"run": ([("x", "x"), ("z", "z")], [("o", "h")])}
    assert result.changes == ("signature 'run': removed", "signature 'run': 'x', 'z' -> 'o'")
    assert signed(after, remove=("run",), add="run", outputs=("o=h",))[0] == after
    after, _ = signed(DATA, remove=("run", "run"))
    assert signatures(after) == {}


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        ({"add": "run"}, ct.EditError, "there is already a signature 'run' .use another key, or add `remove=run`"),
        ({"add": "n", "inputs": ("i=a",)}, ct.EditError, "'a' is not an input of the subgraph"),
        ({"add": "n", "outputs": ("o=a",)}, ct.EditError, "'a' is not an output.*`circletool expose` adds"),
        ({"add": "n", "outputs": ("o=x",)}, ct.EditError, "'x' is not an output"),
        ({"add": "n", "outputs": ("o=g", "o=h")}, ct.UsageError, "two outputs are called 'o'"),
        ({"add": "n", "outputs": ("o=q",)}, ct.UsageError, "no tensor is called 'q'"),
        ({"add": "n", "outputs": ("g",)}, ct.UsageError, "'g' has no ="),
        ({"add": "n", "outputs": ("=g",)}, ct.UsageError, "'' is not a valid signature name"),
        ({"add": "n", "outputs": ("\udcff=g",)}, ct.UsageError, "is not a valid signature name"),
        ({"add": ""}, ct.UsageError, "'' is not a valid signature name"),
        ({"add": "n", "subgraph": 1}, ct.UsageError, "subgraph 1 does not exist"),
        ({"remove": ("walk",)}, ct.UsageError, "no signature is called 'walk' .available: run"),
        ({"remove": ("run", "walk")}, ct.UsageError, "no signature is called 'walk' .there are none"),
    ],
)
def test_impossible_signatures(request_: dict[str, Any], error: type[ct.CircleToolsError], words: str) -> None:
    with pytest.raises(error, match=words):
        signed(DATA, **request_)


def test_litert_runs_a_new_signature(tmp_path: Path) -> None:
    need("ai_edge_litert")
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    data = bytes_of("tflite/cnn")
    after, _ = signed(
        data, add="two", inputs=("picture=serving_default_image:0",), outputs=("result=PartitionedCall:0",)
    )
    path = put(tmp_path / "m.tflite", after)
    image = np.random.default_rng(0).uniform(-1, 1, (1, 16, 16, 3)).astype(np.float32)
    new = Interpreter(model_path=str(path)).get_signature_runner("two")(picture=image)
    old = Interpreter(model_path=str(path)).get_signature_runner("serving_default")(image=image)
    assert new["result"].tobytes() == old["scores"].tobytes()


# --- order ----------------------------------------------------------------------------------------------------


def test_another_order() -> None:
    after, result = reordered(DATA, inputs=(1, 0), outputs=(1, 0))
    assert shape(after) == (shape(DATA)[0], ["z", "x"], ["h", "g"])
    assert result == ct.types.RewriteResult(("inputs: 'z', 'x'", "outputs: 'h', 'g'"))
    assert signatures(after) == {"run": RUN}
    assert reordered(after, inputs=(1, 0), outputs=(1, 0))[0] == DATA
    assert reordered(DATA, inputs=(0, 1)) == (DATA, ct.types.RewriteResult(()))
    assert shape(reordered(DATA, outputs=(1, 0))[0])[1:] == (["x", "z"], ["h", "g"])


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 2), (0, 1, 2), (), (-1, 0)])
def test_invalid_orders(order: tuple[int, ...]) -> None:
    with pytest.raises(ct.UsageError, match=r"every input once .give each position once: 0 to 1"):
        reordered(DATA, inputs=order)


def test_a_subgraph_that_is_called_keeps_its_order() -> None:
    data = calling("WHILE")
    for subgraph in (1, 2):
        with pytest.raises(ct.EditError, match="operators call this subgraph"):
            reordered(data, inputs=(0,), subgraph=subgraph)
        with pytest.raises(ct.EditError, match="operators call this subgraph"):
            exposed(data, "WHILE0.0", subgraph=subgraph)
    assert reordered(data, inputs=(0,))[0] == data


# --- more outputs ---------------------------------------------------------------------------------------------


def test_tensors_are_exposed() -> None:
    after, result = exposed(DATA, "d", "index:4", "g", "d")
    assert shape(after) == (shape(DATA)[0], ["x", "z"], ["g", "h", "d", "a"])
    assert signatures(after)["run"] == (RUN[0], [*RUN[1], ("d", "d"), ("a", "a")])
    assert result == ct.types.RewriteResult(("output 2: 'd'", "output 3: 'a'"))
    assert after.endswith(DATA)
    assert exposed(after, "d", "index:4") == (after, ct.types.RewriteResult(()))


def test_every_operator_of_a_code_is_exposed() -> None:
    assert shape(exposed(DATA, every=("ADD",))[0])[2] == ["g", "h", "d", "f"]
    assert shape(exposed(DATA, "e", every=("*",))[0])[2] == ["g", "h", "e", "a", "b", "c", "fixed", "d", "f"]
    assert exposed(DATA, every=("TANH",))[0] == DATA
    with pytest.raises(ct.UsageError, match="0/op:SUB matches no operator"):
        exposed(DATA, every=("SUB",))


def test_names_in_signatures_differ() -> None:
    build = wired()
    build.signature("odd", [], [("d", 11)])
    after, _ = exposed(build.to_bytes(), "d")
    assert signatures(after)["odd"][1] == [("d", "g"), ("d_1", "d")]


@pytest.mark.parametrize("tensor", ["x", "k"])
def test_what_is_known_already_is_not_exposed(tensor: str) -> None:
    with pytest.raises(ct.EditError, match=f"'{tensor}': no operator produces it"):
        exposed(DATA, tensor)


def test_resources_are_not_exposed() -> None:
    data = bytes_of("tflite/variable")
    with ct.open(data) as model:
        held = next(tensor.index for tensor in model.subgraphs[0].tensors if tensor.type == "RESOURCE")
    with pytest.raises(ct.EditError, match="it holds a resource or a variant"):
        exposed(data, f"index:{held}")
    after, _ = exposed(data, every=("*",))
    with ct.open(after) as model:
        types = {model.subgraphs[0].tensors[tensor].type for tensor in model.subgraphs[0].outputs.tolist()}
    assert "RESOURCE" not in types


def test_steps_of_one_edit_see_each_other() -> None:
    def steps(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        ct.surgery.rename(edit, ct.surgery.RenameRequest(tensors=("d=seen",), inputs=("0=image",)))
        ct.surgery.reorder(edit, inputs=(1, 0), outputs=(1, 0))
        ct.surgery.expose(edit, ("seen",))
        ct.surgery.rename(edit, ct.surgery.RenameRequest(outputs=("2=last", "0=first")))
        return ct.surgery.sign(edit, ct.surgery.SignatureRequest("all"))

    after, _ = edited(DATA, steps)
    assert shape(after)[1:] == (["z", "image"], ["first", "g", "last"])
    assert signatures(after)["all"] == (
        [("z", "z"), ("image", "image")], [("first", "first"), ("g", "g"), ("last", "last")],
    )  # fmt: skip
    one_by_one = DATA
    for step in (
        lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(tensors=("d=seen",), inputs=("0=image",))),
        lambda edit: ct.surgery.reorder(edit, inputs=(1, 0), outputs=(1, 0)),
        lambda edit: ct.surgery.expose(edit, ("seen",)),
        lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(outputs=("2=last", "0=first"))),
        lambda edit: ct.surgery.sign(edit, ct.surgery.SignatureRequest("all")),
    ):
        one_by_one, _ = edited(one_by_one, step)
    assert one_by_one == after


def test_steps_of_one_edit_see_added_tensors() -> None:
    def steps(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        ct.outputs.fix(edit)
        with pytest.raises(ct.EditError, match="this edit has changed the outputs"):
            ct.outputs.fix(edit)
        ct.surgery.rename(edit, ct.surgery.RenameRequest(outputs=("0=copy",)))
        ct.surgery.expose(edit, ("copy",))
        ct.surgery.reorder(edit, outputs=(1, 0))
        return ct.surgery.sign(edit, ct.surgery.SignatureRequest("all"))

    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [x, graph.compute("NEG", [x], "y")])
    after, _ = edited(build.to_bytes(), steps)
    assert signatures(after)["all"] == ([("x", "x")], [("y", "y"), ("copy", "copy")])


def test_a_tensor_that_is_called_like_an_index() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("index:0")
    graph.ends([x], [graph.compute("NEG", [graph.compute("ABS", [x], "a")], "b")])
    assert y == 1
    with pytest.raises(ct.EditError, match="'index:0': no operator produces it"):
        exposed(build.to_bytes(), "index:0")
    assert shape(exposed(build.to_bytes(), "0/index:3")[0])[2] == ["b"]
    assert shape(exposed(build.to_bytes(), "0/index:2")[0])[2] == ["b", "a"]
    with pytest.raises(ct.UsageError, match="no tensor is called '1/index:2'"):
        exposed(build.to_bytes(), "1/index:2")


# --- tables, commands -----------------------------------------------------------------------------------------


def test_a_description_of_the_ends_is_left_out() -> None:
    with ct.open(DATA) as model, ct.edit(model) as edit:
        edit.set_metadata("TFLITE_METADATA", b"x")
        edit.set_metadata("other", b"y")
        data = edit.to_bytes()
    for after, result in (reordered(data, outputs=(1, 0)), exposed(data, "d")):
        assert codes(result) == ["METADATA_LEFT_OUT"]
        with ct.open(after) as model:
            assert [entry.name for entry in model.metadata] == ["other"]
    assert reordered(data, outputs=(0, 1)) == (data, ct.types.RewriteResult(()))


def test_the_commands(tmp_path: Path) -> None:
    source, out = put(tmp_path / "in.tflite", DATA), tmp_path / "out.tflite"
    assert run("signature", source, out, "--add", "n", "--input", "i=x", "--output", "o=h").status == 0
    assert signatures(out.read_bytes())["n"] == ([("i", "x")], [("o", "h")])
    assert run("signature", source, out, "--remove", "run").err == "signature 'run': removed\n"
    assert run("reorder", source, out, "--inputs", "1,0", "--outputs", "1,0").status == 0
    assert shape(out.read_bytes())[1:] == (["z", "x"], ["h", "g"])
    assert run("expose", source, out, "--tensor", "d", "--every", "NEG").status == 0
    assert shape(out.read_bytes())[2] == ["g", "h", "d", "a", "fixed"]
    for words in (
        ("signature",), ("signature", "--input", "i=x"), ("signature", "--remove", "run", "--output", "o=h"),
        ("reorder",), ("reorder", "--inputs", "1;0"), ("expose",),
    ):  # fmt: skip
        assert run(words[0], source, out, *words[1:]).status == 2, words
    ran = run("extract", source, out, "--from", "c", "--to", "h", "--to", "e", "--subgraph", "0")
    assert ran.err.splitlines()[:3] == [
        "operators: 5,8 (2 of 9 in subgraph 0)",
        "inputs: 'c', 'd'",
        "outputs: 'h', 'e'",
    ]
    assert "warning: " in ran.err
    assert run("extract", source, source, "--operators", "0").status == 2
    assert run("extract", source, "--operators", "0", "--in-place").status == 0
    assert shape(source.read_bytes())[0] == ["NEG x > a"]
