"""The programs themselves, as far as they are installed, on models whose fate is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.asking import operators_of
from circletools.graph.build import model_graph
from circletools.runtimes.operators import Operators, located
from circletools.runtimes.programs import PROGRAMS
from circletools.runtimes.protocol import Verdict, same
from circletools.runtimes.worker import Worker
from tests.kit.presence import need
from tests.kit.support import TESTDATA

# program -> model -> the words of a refusal, and the operator that they are about
REFUSED: dict[str, dict[str, tuple[str, tuple[int, int] | None]]] = {
    "litert": {"flex_op": ("Select TensorFlow op(s)", (0, 1))},
    "litert:reference": {"hashtable": ("Didn't find op for builtin opcode 'HASHTABLE'", None)},
    "onert": {
        "variable_tensor": ("Unsupported operation: UNIDIRECTIONAL_SEQUENCE_RNN", (0, 0)),
        "instance_norm": ("NYI for operation 'InstanceNorm'", (0, 2)),
        "custom_op": ("onert ended with signal 11 (SIGSEGV)", None),
    },
    "openvino": {
        "custom_op": ("No translator found for AudioSpectrogram node.", (0, 1)),
        "variable": ("Unexpected type: RESOURCE", None),
    },
    "vela": {
        "two_signatures": ("ARGMAX 'PartitionedCall:0' Does not have valid TFLite Semantics", (0, 1)),
        "hashtable": ("vela ended with signal 8 (SIGFPE)", None),
    },
    "vela:ethos-u85-256": {"hashtable": ("vela ended with signal 8 (SIGFPE)", None)},
    "tflm": {
        "sparse": ("Didn't find op for builtin opcode 'DENSIFY'", (0, 0)),
        "blockwise_int4": ("Input type: FLOAT32 with filter type: INT4 not supported.", (0, 0)),
        "flex_op": ("Failed to get registration from op code CUSTOM", (0, 1)),
    },
}
TAKEN = ("cnn", "cnn_int8", "scalar", "zip_tail")


def installed(name: str) -> None:
    need(PROGRAMS[name.partition(":")[0]].module)


@pytest.fixture(scope="module", params=sorted(REFUSED))
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    installed(request.param)
    with Worker(request.param, 60.0) as worker:
        yield worker


def path_of(model: str) -> Path:
    paths = (TESTDATA / kind / f"{model}.{kind}" for kind in ("tflite", "circle"))
    return next(path for path in paths if path.exists())


def known(path: Path) -> list[Operators]:
    with ct.open(path) as model:
        return operators_of(model_graph(model))


Found = tuple[Verdict, dict[tuple[int | None, int | None], tuple[str, str]]]


def placement(name: str, *models: str) -> list[Found]:
    """Return the verdict on each model, and device and words by operator."""
    installed(name)
    with Worker(name, 60.0) as worker:
        verdicts = [located(worker.placement(path_of(model)), known(path_of(model))) for model in models]
    return [
        (verdict, {(one.subgraph, one.operator): (one.device, one.words) for one in verdict.operators})
        for verdict in verdicts
    ]


def test_models_that_are_refused(worker: Worker) -> None:
    name = (
        worker.runtime
        if f"{worker.runtime}:{worker.variant}" not in REFUSED
        else f"{worker.runtime}:{worker.variant}"
    )
    for model, (words, operator) in REFUSED[name].items():
        verdict = located(worker.loads(path_of(model)), known(path_of(model)))
        assert verdict.status == ("crash" if "ended" in words else "refused"), model
        assert words in verdict.words
        assert [(one.subgraph, one.operator) for one in verdict.operators] == [operator] * (operator is not None), (
            model
        )
    assert worker.version


@pytest.mark.parametrize("model", TAKEN)
def test_models_that_load(model: str, worker: Worker) -> None:
    assert worker.loads(path_of(model)).status == "ok"


def test_values_are_those_of_litert(worker: Worker) -> None:
    if worker.runtime == "vela":
        assert worker.run(path_of("cnn")).failure.startswith("vela is a compiler: it runs no models")
        return
    installed("litert")
    models = ("cnn", "scalar")
    with Worker("litert:reference", 60.0) as litert:
        wanted = [litert.run(path_of(model), seed=3) for model in models]
    for model, expected in zip(models, wanted, strict=True):
        answer = worker.run(path_of(model), seed=3, repeat=2)
        assert answer.failure == ""
        assert len(answer.outputs) == 2 * len(expected.outputs)
        for one, other in zip(answer.outputs, expected.outputs * 2, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_state_shows_in_repeated_runs() -> None:
    installed("litert")
    with Worker("litert", 60.0) as worker:
        first, second = worker.run(path_of("variable_tensor"), seed=1, repeat=2).outputs
    assert first.tobytes() != second.tobytes()


def test_each_run_has_its_inputs(worker: Worker) -> None:
    if worker.runtime != "vela":
        inputs = [worker.run(path_of("cnn"), seed=seed) for seed in (1, 2)]
        answer = worker.run_each(path_of("cnn"), [one.inputs for one in inputs])
        assert same(answer.outputs, [array for one in inputs for array in one.outputs]) is None
        assert same(answer.inputs, inputs[0].inputs) is None


def test_what_is_asked_of_a_refused_model_has_no_values() -> None:
    for name in ("litert", "onert", "openvino", "tflm"):
        if name in REFUSED:
            installed(name)
            with Worker(name, 60.0) as worker:
                assert worker.run(path_of("flex_op")).failure, name


def test_xnnpack_has_what_is_in_its_delegates() -> None:
    (verdict, found), (_, loop) = placement("litert", "custom_op", "while_loop")
    assert verdict.status == "ok"
    assert found == {(0, 0): ("xnnpack", ""), (0, 1): ("cpu", ""), (0, 2): ("xnnpack", "")}
    assert {place: device for place, (device, _) in loop.items()} == {
        (0, 0): "cpu",
        (1, 0): "cpu",
        **dict.fromkeys([(2, 1), (2, 2)], "xnnpack"),
        (2, 0): "cpu",
    }
    ((_, found),) = placement("litert:builtin", "custom_op")
    assert {device for device, _ in found.values()} == {"cpu"}


def test_xnnpack_chooses_before_another_operator_is_refused() -> None:
    ((verdict, found),) = placement("litert", "flex_op")
    assert (verdict.status, "Select TensorFlow op(s)" in verdict.words) == ("refused", True)
    assert found[0, 0][0] == "xnnpack"


def test_vela_gives_reasons_for_operators_on_the_cpu() -> None:
    models = ("cnn", "dynamic_shape", "variable", "while_loop")  # fused activations, and operators without outputs
    (verdict, whole), *others = placement("vela", "cnn_int8", *models)
    assert verdict.status == "ok"
    assert {device for device, _ in whole.values()} == {"npu"}
    for model, (_, found) in zip(models, others, strict=True):
        assert {device for device, _ in found.values()} == {"cpu"}, model
        assert None not in {operator for _, operator in found}, model
    _, found = others[-1]
    assert found[0, 0] == ("cpu", "Unsupported opType")
    assert found[2, 0] == ("cpu", "Operation has shapeless tensor Tensors must have constant shape.")


def test_tflm_reports_the_size_of_its_arena() -> None:
    ((verdict, found),) = placement("tflm", "cnn_int8")
    assert {device for device, _ in found.values()} == {"cpu"}
    assert verdict.arena_bytes is not None
    assert 1000 < verdict.arena_bytes < 100_000


@pytest.mark.parametrize("name", ["onert", "openvino"])
def test_others_take_all_operators_or_none(name: str) -> None:
    ((verdict, found),) = placement(name, "cnn")
    assert verdict.status == "ok"
    assert {device for device, _ in found.values()} == {"cpu"}
    assert len(found) == len(known(path_of("cnn"))[0][0])
