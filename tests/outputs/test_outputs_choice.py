"""Which operator copies what: the word of the format's own runtime counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.outputs.copyops import CopyChoice, CopyRuntime
from circletools.outputs.fixing import fix_outputs
from tests.kit.build import Build, unranked
from tests.kit.outputs_support import assert_same_in_runtimes, code_name, fixed
from tests.kit.presence import need
from tests.kit.support import read


def passing(
    kind: str,
    element: str,
    shape: Sequence[int] = (2, 3),
    signature: Sequence[int] | None = None,
    *,
    ranked: bool = True,
) -> bytes:
    """Return a model with one input, which comes out twice."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", shape, element, shape_signature=signature)
    if not ranked:
        unranked(graph, x)
    graph.ends([x], [x, x])
    return build.to_bytes(kind)


def computing(kind: str, element: str = "FLOAT32", *, ranked: bool) -> bytes:
    """Return a model with one result, which comes out twice."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (2, 3), element), graph.tensor("y", (2, 3), element)
    graph.operator("NEG", [x], [y])
    if not ranked:
        unranked(graph, y)
    graph.ends([x], [y, y])
    return build.to_bytes(kind)


def codes(data: bytes) -> list[str]:
    """Return the operators of the main subgraph."""
    return [code_name(read(data), operator) for operator in read(data)["subgraphs"][0]["operators"]]


ONE, TWO = (-1, 3), (-1, -1)
COMMON = ("FLOAT32", "INT8", "INT64", "BOOL")


@pytest.mark.parametrize(
    ("kind", "element", "shape", "signature", "operator"),
    [
        *(("tflite", element, (2, 3), None, "RESHAPE") for element in (*COMMON, "INT16", "STRING")),
        # onert transposes no INT8, INT64 or BOOL, and concatenates no BOOL
        *(("tflite", element, (1, 1), TWO, "TRANSPOSE") for element in ("FLOAT32", "BOOL")),
        *(("tflite", element, (1, 1), TWO, "CONCATENATION") for element in ("INT8", "INT64")),
        *(("circle", element, (2, 3), None, "RESHAPE") for element in (*COMMON, "INT32", "UINT8")),
        ("circle", "BOOL", (1, 3), ONE, "RESHAPE"),
        ("circle", "INT8", (1, 1), TWO, "CONCATENATION"),
        # onert has no such tensors, or takes none: what LiteRT does has to do
        ("circle", "STRING", (2, 3), None, "RESHAPE"),
        ("circle", "FLOAT16", (2, 3), None, "RESHAPE"),
        ("circle", "INT8", (1,) * 7, (-1,) * 7, "TRANSPOSE"),
    ],
)
def test_the_runtime_of_the_format_decides(
    kind: str, element: str, shape: Sequence[int], signature: Sequence[int] | None, operator: str, tmp_path: Path
) -> None:
    data = passing(kind, element, shape, signature)
    after = fixed(data)
    assert codes(after) == [operator, operator]
    assert_same_in_runtimes(data, after, tmp_path, kind)


@pytest.mark.parametrize("kind", ["tflite", "circle"])
@pytest.mark.parametrize("element", COMMON)
def test_a_scalar_is_reshaped_to_the_shape_that_is_found(kind: str, element: str, tmp_path: Path) -> None:
    data = passing(kind, element, ())
    after = fixed(data)
    assert codes(after) == ["SHAPE", "RESHAPE", "RESHAPE"]
    assert_same_in_runtimes(data, after, tmp_path, kind)


@pytest.mark.parametrize(
    ("kind", "element", "signature", "runtime", "operator"),
    [
        ("tflite", "FLOAT32", None, "litert", "TRANSPOSE"),
        ("tflite", "FLOAT32", None, "onert", "RESHAPE"),
        ("tflite", "FLOAT32", None, "both", "RESHAPE"),
        ("tflite", "FLOAT32", None, "vela", "RESHAPE"),
        ("tflite", "FLOAT32", TWO, "onert", "TRANSPOSE"),
        ("tflite", "INT64", TWO, "litert", "TRANSPOSE"),
        ("tflite", "INT64", TWO, "both", "CONCATENATION"),
        ("circle", "FLOAT32", None, "litert", "TRANSPOSE"),
        ("circle", "INT8", TWO, "both", "CONCATENATION"),
    ],
)
def test_a_runtime_may_be_named(
    kind: str, element: str, signature: Sequence[int] | None, runtime: CopyRuntime, operator: str
) -> None:
    shape = (1, 1) if signature else (2, 3)
    assert codes(fixed(passing(kind, element, shape, signature), runtime=runtime)) == [operator, operator]


def test_what_no_operator_copies_in_both_is_refused_when_both_are_asked_for() -> None:
    data = passing("tflite", "BOOL", (1, 1), TWO)
    with pytest.raises(
        EditError, match="exactly in LiteRT and onert: BOOL of rank 2, with several unknown dimensions"
    ):
        fixed(data, runtime="both")
    with open_model(data) as model, ModelEdit(model) as edit:
        found = fix_outputs(edit).notes
    assert [(note.code, note.severity, note.location, note.message) for note in found] == [
        (
            "INPUT_ALIASED_OUTPUT",
            "warning",
            f"subgraphs[0].outputs[{slot}]",
            "'x' is also input 0; TRANSPOSE does not copy this tensor exactly in onert",
        )
        for slot in (0, 1)
    ]


def test_the_first_dimension_stays_open() -> None:
    """So that the batch can still be resized."""
    for shape, written in (((2, 3), [-1, 3]), ((5,), [-1]), ((0, 3), [0, 3]), ((2, 0), [2, 0])):
        model = read(fixed(passing("tflite", "FLOAT32", shape)))
        (operand,) = (bytes(buffer["data"]) for buffer in model["buffers"] if buffer["data"] is not None)
        assert np.frombuffer(operand, "<i4").tolist() == written


@pytest.mark.parametrize(
    ("data", "operator", "text", "hint"),
    [
        (passing("tflite", "FLOAT32", ()), "transpose", "LiteRT: FLOAT32 of rank 0", "reshape"),
        (passing("tflite", "INT64", ()), "concatenation", "LiteRT: INT64 of rank 0", "reshape"),
        (passing("tflite", "STRING"), "transpose", "LiteRT: STRING of rank 2", "reshape"),
        (passing("circle", "INT8"), "transpose", "onert: INT8 of rank 2", "reshape"),
        (passing("circle", "INT64"), "transpose", "onert: INT64 of rank 2", "reshape"),
        (passing("circle", "BOOL"), "transpose", "onert: BOOL of rank 2", "reshape"),
        (passing("circle", "BOOL"), "concatenation", "onert: BOOL of rank 2", "reshape"),
        (computing("tflite", ranked=False), "transpose", "LiteRT: FLOAT32 of unknown rank", "reshape"),
        (computing("circle", ranked=False), "transpose", "onert: FLOAT32 of unknown rank", "reshape"),
        (passing("tflite", "FLOAT32", (1, 1), TWO), "reshape", "LiteRT: FLOAT32 of rank 2, with sever", "transpose"),
    ],
)
def test_an_operator_that_is_not_exact_is_refused(
    data: bytes, operator: CopyChoice, text: str, hint: CopyChoice
) -> None:
    message = rf"{operator.upper()} does not copy the output '[xy]' exactly in {text}"
    with pytest.raises(EditError, match=message) as caught:
        fixed(data, copy_operator=operator)
    assert caught.value.hint == f"`copy_operator={hint}` does"
    assert fixed(data, copy_operator=hint)


def test_if_no_operator_is_exact() -> None:
    data = passing("circle", "BOOL", (1, 1), TWO)
    for operator in ("auto", "transpose", "reshape", "concatenation"):
        with pytest.raises(EditError, match="'x' exactly in onert: BOOL of rank 2, with several unknown dimensions"):
            fixed(data, copy_operator=operator)


RESIZE = """
import json, sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
resolvers = OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
for path, resolver in ((path, resolver) for path in sys.argv[1:] for resolver in resolvers):
    model = Interpreter(path, num_threads=1, experimental_op_resolver_type=resolver)
    detail = model.get_input_details()[0]
    model.resize_tensor_input(detail["index"], [5, 3])
    model.allocate_tensors()
    value = (np.arange(15) % 2).reshape(5, 3).astype(detail["dtype"])
    model.set_tensor(detail["index"], value)
    model.invoke()
    outputs = [model.get_tensor(output["index"]) for output in model.get_output_details()]
    print(json.dumps([output.tolist() == value.tolist() for output in outputs]))
"""


def test_models_stay_resizable(tmp_path: Path) -> None:
    """LiteRT's user may resize any input, whatever its shape in the file."""
    need("ai_edge_litert")
    plain = [passing("tflite", element, ranked=ranked) for element in COMMON for ranked in (True, False)]
    paths = [tmp_path / f"{number}.tflite" for number in range(2 * len(plain))]
    for path, data in zip(paths, [*plain, *map(fixed, plain)], strict=True):
        path.write_bytes(data)
    done = subprocess.run([sys.executable, "-c", RESIZE, *paths], capture_output=True, check=False, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [[True, True]] * 2 * len(paths), done.stderr.decode()


@pytest.mark.parametrize("operator", ["auto", "reshape"])
def test_the_shape_is_found_where_the_rank_is_unknown(operator: CopyChoice, tmp_path: Path) -> None:
    for data in (passing("tflite", "FLOAT32", ranked=False), computing("tflite", ranked=False)):
        after = fixed(data, copy_operator=operator)
        assert codes(after)[-3:].count("SHAPE") == 1
        assert codes(after)[-1] == "RESHAPE"
        now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
        assert now["litert"].stage == "ok"
