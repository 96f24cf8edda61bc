"""Refusals of each export: message, place and remedy."""

from __future__ import annotations

import numpy as np
import pytest

from circletools.affinity.exports.export import Target, export
from circletools.affinity.tables import AFFINITY_STAMP
from circletools.errors import EditError, UsageError
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, row
from tests.kit.exports_support import named, with_affinity
from tests.kit.support import edited

MEASURED = "(measured with onert 0.1.0)"


def graph_of(*codes: str, type_: str = "FLOAT32", tap: bool = False) -> bytes:
    """Return operators one behind the other; with `tap`, the output of the first is one of the model."""
    build = row(*codes)
    (graph,) = build.model.subgraphs
    for tensor in graph.tensors:
        tensor.type = type_
    graph.outputs = [1, *graph.outputs] if tap else graph.outputs
    return build.to_bytes("circle")


def two_graphs(*devices: str) -> bytes:
    """Return two subgraphs of two operators each."""
    build = Build()
    for name in ("main", "more"):
        graph = build.graph(name)
        given = graph.tensor("x")
        graph.ends([given], [graph.compute("CONV_2D", [graph.compute("CONV_2D", [given], "a")], "b")])
    return with_affinity(build.to_bytes("circle"), devices[:2], devices[2:])


def sharing(constants: int) -> bytes:
    """Return two operators on two backends, and a third; the first two read the same constants."""
    build = Build()
    graph = build.graph()
    shared = [graph.constant(f"k{number}", np.ones((2, 2), np.float32)) for number in range(constants)]
    x, y = graph.tensor("x"), graph.tensor("y")
    made = [graph.tensor(name) for name in "abc"]
    graph.operator("TANH", [x], [made[0]])
    graph.operator("FULLY_CONNECTED", [x, *shared], [made[1]])
    graph.operator("FULLY_CONNECTED", [y, *shared], [made[2]])
    graph.ends([x, y], made)
    return with_affinity(build.to_bytes("circle"), ["cpu", "cpu", "ruy"])


def stale() -> bytes:
    return edited(
        annotated(named("a", "b"), affinity(["cpu"], ([0], [0]))), lambda edit: edit.remove_metadata(AFFINITY_STAMP)
    )


def at(operator: int, subgraph: int = 0) -> str:
    return f"subgraphs[{subgraph}].operators[{operator}]"


ADDS = "annotate-affinity adds it, or ct.affinity.annotate(edit, plan)"
REFUSED: list[tuple[Target, bytes, str, str | None, str | None]] = [
    ("dot", named("a"), "the model has no affinity", None, ADDS),
    ("dot", annotated(Build().to_bytes("circle"), affinity(["cpu"])), "the model has no subgraph", None, None),
    ("dot", stale(), "the affinity is stale from here on: operators in the table: 1; in the model: 2", at(1),
     "run annotate-affinity again"),
    ("openvino", with_affinity(named("a"), ["CPU"]), "OpenVINO reads TFLite models, not Circle models", None, None),
    ("openvino", with_affinity(named("a", "b", kind="tflite"), ["CPU", "GPU,1"]),
     "HETERO cannot name a device 'GPU,1'", at(1), "rename the device"),
    ("openvino", with_affinity(named("a", "b", kind="tflite"), ["CPU", None]),
     "the operator has no device; OpenVINO needs devices for all operators or none", at(1), "run annotate-affinity"),
    ("openvino", with_affinity(named(kind="tflite"), []), "there are no operators to run", None, None),
    ("part", with_affinity(named("a", ""), ["cpu", "cpu"]), "the operator has no name, as its output has none", at(1),
     None),
    ("part", with_affinity(named("a", "a"), ["cpu", "npu"]),
     "two operators are named 'a'; this one has device npu, the other cpu", at(1), None),
    ("part", with_affinity(named("a", "b"), ["cpu", None]),
     "the operator has no device; circle-partitioner would use the default", at(1), "run annotate-affinity"),
    ("part", with_affinity(named(), []), "the affinity names no devices", None, None),
    ("model-explorer", with_affinity(named("b", "1", "1"), ["cpu"] * 3),
     "Model Explorer has no key for this operator: '1' is the name of a tensor, and no output of the operator has a "
     "unique name", at(1), None),
    ("onert", with_affinity(named("a", "b"), ["cpu", None]), "the operator has no device; onert would choose one",
     at(1), "run annotate-affinity"),
    ("onert", with_affinity(named("a", "b"), ["cpu", "npu"]), "onert has no backend 'npu'", at(1),
     "available: cpu, ruy; run annotate-affinity again"),
    ("onert", with_affinity(graph_of("TANH", "IF"), ["cpu", "cpu"]),
     "onert runs IF on a separate backend, and has no setting for the subgraphs of IF", at(1),
     "onert would fail with this map"),
    ("onert", with_affinity(graph_of("CONV_2D", "TANH"), ["ruy", "ruy"]), f"ruy has no kernel for TANH {MEASURED}",
     at(1), "available: CONV_2D, FULLY_CONNECTED; run annotate-affinity again"),
    ("onert", with_affinity(graph_of("FULLY_CONNECTED", type_="INT8"), ["ruy"]),
     f"ruy computes only in FLOAT32; 'x' is INT8 {MEASURED}", at(0),
     "use cpu here; ruy would fail or return wrong values"),
    ("onert", with_affinity(graph_of("CONV_2D", "CONV_2D", tap=True), ["ruy", "cpu"]),
     f"the output 't0' of {at(0)} (ruy) is read here on cpu, where it is zero if onert allocates the outputs "
     f"{MEASURED}", at(1), "run fix-outputs --detach-taps, then annotate-affinity for the operators that it adds"),
    ("onert", two_graphs("cpu", "ruy", "cpu", "cpu"),
     f"one map serves all subgraphs; {at(1)} is on ruy, but this operator is on cpu", at(1, 1),
     "put both on the same device"),
    ("onert", sharing(2),
     "the constants 'k0' and 'k1' are each read on cpu and ruy; onert then fails or returns wrong values "
     f"{MEASURED}", at(2), "put the operators that share constants on one device"),
]  # fmt: skip


def test_what_is_refused() -> None:
    for target, data, message, location, hint in REFUSED:
        with open_model(data) as model, pytest.raises(EditError) as caught:
            export(model, target)
        assert (caught.value.message, caught.value.location, caught.value.hint) == (message, location, hint)


def test_what_is_just_allowed() -> None:
    with open_model(sharing(1)) as model:
        assert export(model, "onert").content == {
            "BACKENDS": "cpu;ruy", "OP_BACKEND_MAP": "0=cpu;1=cpu;2=ruy",
        }  # fmt: skip
    with open_model(with_affinity(graph_of("CONV_2D", "CONV_2D", tap=True), ["ruy", "ruy"])) as model:
        assert export(model, "onert").content == {"BACKENDS": "ruy", "OP_BACKEND_MAP": "0=ruy;1=ruy"}
    with open_model(with_affinity(graph_of("CONV_2D", "CONV_2D"), ["ruy", "cpu"])) as model:
        assert export(model, "onert").content == {"BACKENDS": "cpu;ruy", "OP_BACKEND_MAP": "0=ruy;1=cpu"}
    with open_model(two_graphs("cpu", "cpu", "cpu", "cpu")) as model:
        assert export(model, "onert").content == {"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu;1=cpu"}


def test_a_target_that_is_none() -> None:
    with open_model(with_affinity(named("a"), ["cpu"])) as model, pytest.raises(UsageError) as caught:
        export(model, "tvm")  # type: ignore[arg-type]
    assert caught.value.message == "unknown export target 'tvm'"
    assert caught.value.hint == "available: onert, part, openvino, model-explorer, dot"
