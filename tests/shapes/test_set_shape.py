"""Shapes that are set: what LiteRT's resizing gives, and what is refused."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import circletools as ct
from circletools.edit.edit import ModelEdit
from circletools.runtimes.worker import Worker
from circletools.shapes.call import Call
from circletools.shapes.infer import folded
from circletools.surgery import setting
from tests.kit.build import Build, Code, floats
from tests.kit.presence import need
from tests.kit.program import run
from tests.kit.support import own_models, path_of, title

Array = NDArray[Any]
TFLITE = [path for path in own_models() if path.suffix == ".tflite"]


def cases(name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a file: an operator, its inputs, its options, and the number of its outputs.

    An input is the shape of a float tensor, in parentheses, that of some constant floats, or an integer constant.
    """
    return [literal_eval(line) for line in Path(__file__).with_name(name).read_text().splitlines()]


def constant(value: Any) -> Array:
    """Return a constant of a row: floats of the shape 2x3, or integers or truth values."""
    if isinstance(value, str):
        return floats(*map(int, value.split("x")))
    found: Array = np.array(value)
    return found if found.dtype == bool else found.astype(np.int32)


def shaped(data: bytes | Path, **request: Any) -> bytes:
    with ct.open(data) as model, ct.edit(model) as edit:
        ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(**request))
        after = edit.to_bytes()
    with ct.open(after) as model, ct.edit(model) as edit:
        again = ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(**request))
        assert (edit.to_bytes(), again.changes) == (after, ())
    return after


def shapes(data: bytes) -> dict[str, tuple[int, ...]]:
    with ct.open(data) as model:
        return {tensor.name: tensor.open_shape for tensor in model.subgraphs[0].tensors}


def resized(path: Path, sizes: Sequence[tuple[int, ...]]) -> tuple[list[Array], list[Array]]:
    """Return inputs of other shapes, and what LiteRT makes of them. Raises RuntimeError where it refuses."""
    interpreter = interpret(model_path=str(path))
    for item, shape in zip(interpreter.get_input_details(), sizes, strict=True):
        interpreter.resize_tensor_input(item["index"], shape)
    interpreter.allocate_tensors()
    rng, given = np.random.default_rng(0), []
    for item, shape in zip(interpreter.get_input_details(), sizes, strict=True):
        values: Array = np.asarray(rng.random(shape) * 2)
        given.append(values.astype(item["dtype"]))
    return given, invoked(interpreter, given)


def interpret(**model: Any) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415 - not everywhere

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return Interpreter(**model, experimental_op_resolver_type=kind, num_threads=1)


def invoked(interpreter: Any, given: Sequence[Array]) -> list[Array]:
    for item, values in zip(interpreter.get_input_details(), given, strict=True):
        interpreter.set_tensor(item["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def loaded(data: bytes, given: Sequence[Array]) -> list[Array]:
    interpreter = interpret(model_content=data)
    interpreter.allocate_tensors()
    return invoked(interpreter, given)


@pytest.mark.runtime
@pytest.mark.parametrize("factor", [(2,), (1, 2, 2)], ids=["batch", "resolution"])
@pytest.mark.parametrize("path", TFLITE, ids=title)
def test_a_model_has_the_values_that_litert_has_after_resizing(path: Path, factor: tuple[int, ...]) -> None:
    need("ai_edge_litert")
    with ct.open(path) as model:
        tensors = [model.subgraphs[0].tensors[index] for index in model.subgraphs[0].inputs.tolist()]
        sizes = []
        for tensor in tensors:
            times = (*factor, *[1] * len(tensor.shape))[: len(tensor.shape)]
            sizes.append(tuple(size * by for size, by in zip(tensor.shape, times, strict=True)))
    request: dict[str, Any] = {"inputs": [(str(at), size) for at, size in enumerate(sizes)]}
    try:
        given, expected = resized(path, sizes)
    except (RuntimeError, ValueError) as error:
        node = re.search(r"Node number (\d+)", str(error))
        with pytest.raises(ct.CircleToolsError) as refused:
            shaped(path, **request)
        assert node is None or f"operators[{node[1]}]" in str(refused.value)
        return
    if "custom" in path.name:
        return  # LiteRT has operators of its own among them
    after = loaded(shaped(path, **request), given)
    assert [(one.shape, one.tobytes()) for one in after] == [(one.shape, one.tobytes()) for one in expected]


MENDED = ("tflite/cnn", "tflite/transformer_block", "tflite/cnn_int8", "tflite/cnn_external")


@pytest.mark.runtime
@pytest.mark.parametrize("name", MENDED)
def test_a_mended_batch_has_the_values_of_single_runs(name: str) -> None:
    need("ai_edge_litert")
    with pytest.raises(ct.EditError, match=r"RESHAPE.*see its input"):
        shaped(path_of(name), batch=3)
    after = shaped(path_of(name), batch=3, mend=True)
    details = interpret(model_content=after).get_input_details()
    rng = np.random.default_rng(1)
    given = [(rng.random(item["shape"]) * 4).astype(item["dtype"]) for item in details]
    single = [loaded(path_of(name).read_bytes(), [values[at : at + 1] for values in given]) for at in range(3)]
    for slot, output in enumerate(loaded(after, given)):
        np.testing.assert_allclose(output, np.concatenate([one[slot] for one in single]), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def onert() -> Iterator[Worker]:
    need("onert")
    with Worker("onert", 60) as worker:
        yield worker


@pytest.mark.runtime
@pytest.mark.parametrize("name", ["circle/mlp", "circle/cnn", "circle/quantized_linear"])
def test_onert_runs_a_batch_of_single_runs(name: str, onert: Worker, tmp_path: Path) -> None:
    after = tmp_path / "after.circle"
    after.write_bytes(shaped(path_of(name), batch=2, mend=True))
    with ct.open(after) as model:
        graph = model.subgraphs[0]
        inputs = [graph.tensors[index] for index in graph.inputs.tolist()]
    rng = np.random.default_rng(2)
    given = [(rng.random(one.shape) * 4).astype(one.type.lower()) for one in inputs]
    both = onert.run(after, given)
    single = [onert.run(path_of(name), [values[at : at + 1] for values in given]) for at in range(2)]
    assert not both.failure
    for slot, output in enumerate(both.outputs):
        expected = np.concatenate([one.outputs[slot] for one in single])
        np.testing.assert_allclose(output.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_an_open_batch_and_closed_dimensions() -> None:
    dynamic = shaped(path_of("circle/mlp"), dynamic_batch=True)
    assert shapes(dynamic)["tico::x"] == (-1, 16)
    with ct.open(dynamic) as model:
        assert model.subgraphs[0].tensors[int(model.subgraphs[0].inputs[0])].shape == (1, 16)
    for request in ({"static": True}, {"batch": 1}, {"inputs": ("0=1,16",)}):
        assert shapes(shaped(dynamic, **request)) == shapes(path_of("circle/mlp").read_bytes())
    assert shapes(shaped(dynamic, batch=3)) == shapes(shaped(path_of("circle/mlp"), batch=3))
    compiled = unary([1, 4], Code("CUSTOM", 1, "ethos-u"), shape_signature=[-1, 4]).to_bytes()
    assert shapes(shaped(compiled, batch=1)) == {"x": (1, 4), "y": (1, 4)}


def test_restoring_the_batch_size_restores_the_file() -> None:
    data = path_of("tflite/cnn_external").read_bytes()
    assert shaped(shaped(data, batch=5, mend=True), batch=1, mend=True) == data


def unary(shape: Sequence[int], code: Code | str = "NEG", **more: Any) -> Build:
    """Return a model with one operator that keeps the shape of its input."""
    graph = (build := Build()).graph()
    x, y = graph.tensor("x", shape, **more), graph.tensor("y", shape, **more)
    graph.operator(code, [x], [y], **({} if code == "NEG" else {"table": None}))
    graph.ends([x], [y])
    return build


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"batch": 3}, (3, -1, 2)),
        ({"dynamic_batch": True, "static": True}, (-1, 4, 2)),
        ({"static": True}, (1, 4, 2)),
        ({"inputs": ("x=1,4,2",)}, (1, 4, 2)),
        ({"inputs": (("x", (5, 4, 2)),)}, (5, 4, 2)),
    ],
)
def test_dynamic_sizes_that_are_not_set_stay_dynamic(request_: dict[str, Any], expected: tuple[int, ...]) -> None:
    data = unary([1, 4, 2], shape_signature=[1, -1, 2]).to_bytes()
    assert shapes(shaped(data, **request_)) == {"x": expected, "y": expected}


def test_shape_arithmetic_becomes_constant_and_can_be_pruned(tmp_path: Path) -> None:
    graph = (build := Build()).graph()
    x, sizes, y = graph.tensor("x", (-1, 4)), graph.tensor("sizes", (2,), "INT32"), graph.tensor("y", (1, 4))
    graph.operator("SHAPE", [x], [sizes], out_type=2)
    graph.operator("RESHAPE", [x, sizes], [y])
    graph.ends([x], [y])
    with ct.open(shaped(build.to_bytes(), static=True)) as model:
        ct.surgery.prune(model, tmp_path / "pruned.tflite", outputs=True)
    with ct.open(tmp_path / "pruned.tflite") as model:
        (reshape,) = model.subgraphs[0].operators
        assert model.subgraphs[0].tensors[reshape.inputs[1]].numpy().tolist() == [1, 4]


def test_sizes_that_depend_on_values_stay_dynamic_with_a_note() -> None:
    graph = (build := Build()).graph()
    ends = [graph.tensor("x", (1, 4)), graph.tensor("shape", (2,), "INT32")]
    graph.ends(ends, [graph.compute("RESHAPE", ends, "y", (-1, 4))])
    with ct.open(build.to_bytes()) as model, ct.edit(model) as edit:
        found = ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(static=True))
        edit.to_bytes()
    assert (found.changes, [one.location for one in found.notes]) == ((), ["subgraphs[0].tensors[2]"])


def test_an_input_without_dimensions_gets_some() -> None:
    assert shapes(shaped(unary([]).to_bytes(), inputs=("x=2,3",))) == {"x": (2, 3), "y": (2, 3)}


def test_an_output_that_does_not_grow_with_the_batch_is_refused() -> None:
    graph = (build := Build()).graph()
    x, fixed = graph.tensor("x", [1, 4]), graph.constant("k", floats(1, 4))
    graph.ends([x], [graph.compute("NEG", [one], name, shape=[1, 4]) for one, name in ((x, "y"), (fixed, "z"))])
    with pytest.raises(ct.EditError, match=r"output 1 \('z'\) does not depend on inputs that grow"):
        shaped(build.to_bytes(), batch=3)
    graph.table.inputs = [x, graph.tensor("other", [2, 4])]
    with pytest.raises(ct.EditError, match=r"no batch in common: \[1,4\], \[2,4\]"):
        shaped(build.to_bytes(), batch=3)


def test_a_first_dimension_by_the_name_in_the_signature_is_the_batch() -> None:
    data = path_of("tflite/cnn").read_bytes()
    assert shaped(data, inputs=("image=3,16,16,3",), mend=True) == shaped(data, batch=3, mend=True)


def joined() -> Build:
    """Return a model that puts a constant in front of its input, as vision transformers do."""
    graph = (build := Build()).graph()
    x, token = graph.tensor("x", [1, 4, 2]), graph.constant("token", floats(1, 1, 2))
    y = graph.tensor("y", [1, 5, 2])
    graph.operator("CONCATENATION", [token, x], [y], axis=1)
    graph.ends([x], [y])
    return build


def test_the_operator_that_keeps_a_constant_size_is_named() -> None:
    graph = (build := Build()).graph()
    x, y = graph.tensor("x", [1, 4, 4, 2]), graph.tensor("y", [1, 4, 4, 4])
    resized, beside = (graph.tensor(name, [1, 4, 4, 2]) for name in ("resized", "beside"))
    for name, result in ("size", resized), ("another", beside):  # the last one does not feed CONCATENATION
        graph.operator("RESIZE_NEAREST_NEIGHBOR", [x, graph.constant(name, np.array([4, 4], np.int32))], [result])
    graph.operator("CONCATENATION", [resized, x], [y], axis=3)
    graph.ends([x], [y])
    with pytest.raises(ct.EditError, match=r"; operator 0, \w+, keeps its old size, which the constant 'size' sets"):
        shaped(build.to_bytes(), inputs=("x=1,8,8,2",))


def test_a_constant_beside_the_batch_is_repeated() -> None:
    data = joined().to_bytes()
    with pytest.raises(ct.EditError, match="CONCATENATION"):
        shaped(data, batch=3)
    after = shaped(data, batch=3, mend=True)
    assert shapes(after) == {"x": (3, 4, 2), "token": (3, 1, 2), "y": (3, 5, 2)}
    with ct.open(after) as model:
        tensors = {tensor.name: tensor for tensor in model.subgraphs[0].tensors}
        assert tensors["token"].numpy().tolist() == floats(1, 1, 2).tolist() * 3


def test_a_computed_size_needs_no_mending() -> None:
    graph = (build := Build()).graph()
    x, one = graph.tensor("x", [1, 4, 2]), graph.constant("one", np.array([1], np.int32))
    at, rest = graph.constant("at", np.array([0], np.int32)), graph.constant("rest", np.array(8, np.int32))
    size, batch, sizes = (graph.tensor(name, shape, "INT32") for name, shape in (("s", [3]), ("b", []), ("n", [2])))
    graph.operator("SHAPE", [x], [size], out_type=2)
    graph.operator("STRIDED_SLICE", [size, at, one, one], [batch], shrink_axis_mask=1)
    graph.operator("PACK", [batch, rest], [sizes], values_count=2)
    y = graph.tensor("y", [1, 8])
    graph.operator("RESHAPE", [x, sizes], [y])
    graph.ends([x], [y])
    after = shaped(build.to_bytes(), batch=3, mend=True)
    assert (after, shapes(after)["y"]) == (shaped(build.to_bytes(), batch=3), (3, 8))


def test_a_constant_is_repeated_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting._MOST_TILED_BYTES == 1 << 26
    monkeypatch.setattr(setting, "_MOST_TILED_BYTES", 40)  # `token` has 8 bytes
    assert shapes(shaped(joined().to_bytes(), batch=5, mend=True))["token"] == (5, 1, 2)
    with pytest.raises(ct.EditError, match="repeating 'token' would take more than"):
        shaped(joined().to_bytes(), batch=6, mend=True)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, ct.UsageError, "no shape to set"),
    ({"batch": 2, "dynamic_batch": True}, ct.UsageError, "cannot be combined"),
    ({"inputs": ("nothing=1,2",)}, ct.UsageError, "no tensor is called 'nothing' (available: x)"),
    ({"inputs": ("y=1,2,3",)}, ct.UsageError, "'y' is not an input"),
    ({"inputs": ("x=1,2",)}, ct.UsageError, "input 'x' has 3 dimensions, not 2"),
    ({"inputs": ("x=1,0,2",)}, ct.UsageError, "a size below 1"),
    ({"inputs": ("x=1,,2",)}, ct.UsageError, "is not NAME=DIMS"),
    ({"inputs": ("x=1,4,2", "0=1,4,2")}, ct.UsageError, "is given twice"),
    ({"inputs": ("x=1,4,3",)}, ct.EditError, "operators[0]: CONCATENATION: [1,4,3] does not match [1,1,2]"),
]


@pytest.mark.parametrize(("request_", "words"), [(one, words) for one, _, words in REFUSED])
def test_refusals(request_: dict[str, Any], words: str) -> None:
    with ct.open(joined().to_bytes()) as model:
        edit = ModelEdit(model)
        with pytest.raises(ct.CircleToolsError) as refused:
            ct.surgery.set_shape(edit, ct.surgery.ShapeRequest(**request_))
        assert words in str(refused.value)
        assert edit.to_bytes() == bytes(model.source.octets)


@pytest.mark.parametrize(("code", "constants", "options", "words"), cases("mixing_cases.txt"))
def test_a_batch_that_an_operator_mixes_is_refused(
    code: str, constants: list[Any], options: dict[str, Any], words: str
) -> None:
    """A batch of N is what N single runs give; here it is the second dimension, next to a sum that has it."""
    graph = (build := Build()).graph()
    x, order = graph.tensor("x", [1, 4]), graph.constant("order", np.array([1, 0], np.int32))
    turned = graph.compute("TRANSPOSE", [x, order], "turned", shape=[4, 1])
    y = graph.tensor("y", [4, 1])
    inputs = [turned, *(graph.constant(f"c{at}", constant(one)) for at, one in enumerate(constants))]
    graph.operator(code, inputs, [y], **options)
    graph.ends([x], [y, graph.compute("ADD", [turned, turned], "z", shape=[4, 1])])
    if not words:
        assert shapes(shaped(build.to_bytes(), batch=3))["y"] == (4, 3)
        return
    with pytest.raises(ct.EditError, match=re.escape(f"operators[1]: {code}: {words}")):
        shaped(build.to_bytes(), batch=3)


def test_a_long_range_is_not_computed() -> None:
    assert folded(Call("RANGE", {}, [()] * 3, [*map(np.array, (0, 2**50, 1))], 1), [(5,)]) is None
    assert folded(Call("PACK", {}, [(256,)] * 2**17, [np.zeros(256, np.int32)] * 2**17, 1), [(5,)]) is None
    for code in ("SUB", "DIV", "BROADCAST_ARGS"):  # numpy refuses or means something else
        assert folded(Call(code, {}, [(2,)] * 2, [np.array([True, False])] * 2, 1), [(2,)]) is None


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    ran = run("set-shape", path_of("tflite/cnn"), out, "--batch", "4")
    assert (ran.status, out.exists()) == (4, False)
    assert "operators[4]: RESHAPE: 512 elements cannot form [1,128]" in ran.err
    ran = run("set-shape", path_of("tflite/cnn"), out, "--batch", "4", "--mend")
    assert (ran.status, ran.err.splitlines()[0]) == (0, "input 'serving_default_image:0': [1,16,16,3] -> [4,16,16,3]")
