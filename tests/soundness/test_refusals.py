"""What a program refuses is an error for those who run the model there, as the program confirms."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools import runtimes
from circletools.affinity.capability.file import load_capability
from circletools.errors import UsageError
from circletools.flatbuf.schema import schema_document
from circletools.soundness.refusals import refusals
from tests.kit.build import Build, Code, Graph, Table, quantization
from tests.kit.soundness_support import Change

Numbers = tuple[int, ...]

FLAT = ("FLOAT32", (1, 4))
# A line is an operator, its inputs, the number of its outputs and its options: an input is a type, a shape, a scale
# and a zero point, and the values of a constant, which are repeated; `made` is the same for the outputs.
SINGLE = [literal_eval(line) for line in Path(__file__).with_name("litert_cases.txt").read_text().splitlines()]


def alone(code: str, inputs: Any, count: int, options: dict[str, Any]) -> bytes:
    build = Build()
    graph = build.graph()

    def tensor(kind: str, shape: Numbers, *more: Any) -> int:
        *scales, data = more if more and isinstance(more[-1], list) else (*more, None)
        fields: dict[str, Any] = {"quantization": quantization(scales[:1], [*scales[1:], 0][:1])} if scales else {}
        if data is not None:
            fields["data"] = np.resize(np.array(data), shape).astype(kind.lower()).tobytes()
        return graph.tensor(None, shape, kind, **fields)

    options = dict(options)
    first, last = ([tensor(*one) for one in side] for side in (inputs, [options.pop("made", FLAT)] * count))
    graph.operator(code, first + options.pop("more", []), last, **options)
    graph.ends([one for one in first if not graph.table.tensors[one].buffer], last)
    return build.to_bytes()


@pytest.mark.parametrize("data", [alone(*one) for one in SINGLE])
def test_what_litert_refuses_is_an_error_for_it(
    data: bytes, workers: dict[str, runtimes.Worker], tmp_path: Path
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    with ct.open(path) as model:
        found = any(one.severity == "error" for one in ct.check(model, for_=("litert",)))
        assert found == (workers["litert"].loads(path).status != "ok")
        assert found or not refusals(model, ["litert"])["litert"]


def tabled(device: str) -> set[str]:
    """Return the custom operators that a device has a kernel for, by its measured table."""
    rule = next(rule for rule in load_capability(device).rules if "CUSTOM:*" in rule.codes)
    return {code.removeprefix("CUSTOM:") for code in rule.without}


def test_custom_kernels_are_those_of_the_tables() -> None:
    litert, onert, delegate = map(tabled, ("litert-cpu", "onert-cpu", "xnnpack"))
    named = {name: set(codes) for name, codes in schema_document("litert")["custom"].items()}
    assert named == {"LiteRT": litert, "onert": onert, "delegate": delegate - litert}


@pytest.mark.parametrize(
    ("name", "refusing"),
    [
        ("AudioSpectrogram", {"onert"}),
        ("Einsum", {"litert"}),
        ("TFLite_Detection_PostProcess", {"litert"}),  # it needs three inputs
        ("MaxUnpooling2D", {"onert"}),
        ("mine", {"litert", "onert"}),
    ],
)
def test_a_custom_operator_is_refused_by_those_without_a_kernel(name: str, refusing: set[str]) -> None:
    build = Build()
    graph = build.graph()
    first, last = (graph.tensor(one, (1, 4, 4, 1)) for one in "xy")
    graph.operator(Code("CUSTOM", custom=name), [first], [last]).custom_options = b"\0\x24\1"
    graph.ends([first], [last])
    with ct.open(build.to_bytes()) as model:
        found = refusals(model, ("litert", "onert"))
    assert {program for program, findings in found.items() if findings} == refusing


def plain(change: Change) -> bytes:
    build = Build()
    graph = build.graph()
    first = graph.tensor("x", (1, 1, 4))
    middle = graph.compute("SQUEEZE", [first], "y", (1, 4))
    graph.table.operators[0].builtin_options = Table("SqueezeOptions", squeeze_dims=[1])
    shape = graph.constant("shape", np.array([4, 1], np.int32))
    graph.ends([first], [graph.compute("RESHAPE", [middle, shape], "z", (4, 1))])
    build.metadata("note", b"value")
    change(graph)
    return build.to_bytes()


def squeezed(axes: list[int]) -> Change:
    return lambda graph: setattr(graph.table.operators[0].builtin_options, "squeeze_dims", axes)


def without_data(graph: Graph) -> None:
    graph.build.model.buffers[graph.build.model.metadata[0].buffer].data = None


PARTLY: list[tuple[Change, set[str]]] = [
    (lambda _: None, set()),
    (squeezed([-2]), set()),
    (squeezed([3]), {"litert", "onert", "openvino", "tflm"}),
    (squeezed([0, -4]), {"litert", "onert", "openvino", "tflm"}),
    (without_data, {"onert"}),
    (lambda graph: setattr(graph.build.model.operator_codes[1], "deprecated_builtin_code", 0), {"onert", "openvino"}),
    (lambda graph: setattr(graph.table.tensors[2], "name", "x"), {"openvino"}),
    (lambda graph: setattr(graph.table.tensors[1], "name", "x"), set()),
]


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, runtimes.Worker]]:
    """Those of the programs that are installed."""
    with ExitStack() as stack:
        found = {}
        for name in ("litert", "onert", "openvino", "tflm"):
            with suppress(UsageError):
                found[name] = stack.enter_context(runtimes.Worker(name, 60.0))
        yield found


@pytest.mark.parametrize(("change", "refusing"), PARTLY)
def test_each_program_has_rules_of_its_own(
    change: Change, refusing: set[str], workers: dict[str, runtimes.Worker], tmp_path: Path
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(plain(change))
    with ct.open(path) as model:
        found = refusals(model, ("litert", "onert", "openvino", "tflm"))
    assert {program for program, findings in found.items() if findings} == refusing
    for name, worker in workers.items():
        assert (worker.loads(path).status == "ok") == (name not in refusing), name


@pytest.mark.parametrize(
    ("sizes", "target", "fits"),
    [((-1, 4), (6, 4), True), ((-1, -1), (3, 12), True), ((1, 4), (1, 6), False), ((-1, 4), (1, -6), False)],
)
def test_a_reshape_that_fits_after_a_resize_is_accepted(sizes: Numbers, target: Numbers, fits: bool) -> None:
    build = Build()
    graph = build.graph()
    first = graph.tensor("x", tuple(map(abs, sizes)), shape_signature=sizes)
    shape = graph.constant("shape", np.array(target, np.int32))
    graph.ends([first], [graph.compute("RESHAPE", [first, shape], "y", target)])
    with ct.open(build.to_bytes()) as model:
        assert (refusals(model, ("litert",)) == {"litert": []}) == fits


@pytest.mark.parametrize(
    ("name", "wrong"), [("odml.scaled_dot_product_attention", "warning"), ("odml.rms_norm", "error")]
)
def test_operators_in_an_attention_composite_are_not_prepared(name: str, wrong: str) -> None:
    build = Build()
    graph, inner = build.graph(), build.graph("inner")
    graph.ends([graph.tensor("x")], [graph.tensor("y"), graph.compute("SHAPE", [], "of nothing")])
    graph.operator(
        "STABLEHLO_COMPOSITE", [0], [1], "StableHLOCompositeOptions", name=name, decomposition_subgraph_index=1
    )
    inner.ends([inner.tensor("x", (-2, 2))], [inner.compute("ADD", [0], "y")])
    with ct.open(build.to_bytes()) as model:
        found = {one.code: one.severity for one in ct.check(model, for_=("litert",)) if "[1]." in one.location}
    assert found == {"NEGATIVE_DIMENSION": "error", "OPERATOR_SLOTS": wrong}
