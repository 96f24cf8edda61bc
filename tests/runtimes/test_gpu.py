"""LiteRT's GPU delegate: what is made of its answers, and itself where a Python with a GPU is named."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circletools.errors import UsageError
from circletools.runtimes.child import run_with
from circletools.runtimes.inputs import make_input
from circletools.runtimes.plan import Plan, Step
from circletools.runtimes.programs import variable
from circletools.runtimes.protocol import NoDeviceError, Placed, RefusedError, Request, same
from circletools.runtimes.worker import Worker
from tests.kit.fake_programs import printing_to
from tests.kit.presence import need
from tests.kit.support import TESTDATA

PROCESSOR, GPU = 1, 2  # of `LiteRtHwAccelerators`
ASKED = Request("loads", "model.tflite", "gpu")
OUTPUT = """\
INFO: [environment.cc:36] Creating LiteRT environment with options
ERROR: Following operations are not supported by GPU delegate:
CUSTOM Fancy: Fancy
SLICE: Slicing is unsupported for input with rank > 4
1 operations will run on the GPU, and the remaining 3 operations will run on the CPU.
ERROR: Following operations are not supported by GPU delegate:
SLICE: Slicing is unsupported for input with rank > 4
No operations will run on the GPU, and all 1 operations will run on the CPU.
"""
WHOLE: Plan = (Step((0, 1), "LITERT_WEBGPU"),)
HALF: Plan = (Step((0,), "LITERT_WEBGPU"), Step((1, 2), "TfLiteXNNPackDelegate"), Step((3,)))


@pytest.fixture
def gpu() -> Any:
    """Return the module."""
    need("ai_edge_litert")
    from circletools.runtimes import litert_gpu  # noqa: PLC0415 - imports the runtime

    return litert_gpu


def stand_in(gpu: Any, monkeypatch: pytest.MonkeyPatch, plan: Plan | None, printed: str, *, whole: bool) -> None:
    """Put a delegate in the place of the library's."""

    def compiled(_path: str, accelerators: int) -> list[Plan]:
        assert accelerators in (GPU, PROCESSOR | GPU)
        if plan is None or (accelerators == GPU and not whole):
            raise RefusedError("Some ops are not accelerated." if plan else "not at all")
        return [plan]

    monkeypatch.setattr(gpu, "_compile", compiled)
    monkeypatch.setattr(gpu, "printed", lambda _since: printed)


def test_a_model_that_is_on_the_gpu_as_a_whole(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(gpu, monkeypatch, WHOLE, OUTPUT.splitlines()[0], whole=True)
    assert gpu.loads(ASKED).status == gpu.placement(ASKED).status == "ok"
    assert [(one.device, one.operator) for one in gpu.placement(ASKED).operators] == [("gpu", 0), ("gpu", 1)]


def test_a_model_that_is_not(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(gpu, monkeypatch, HALF, OUTPUT, whole=False)
    reasons = (
        Placed("", "Fancy", code="CUSTOM Fancy"),
        Placed("", "Slicing is unsupported for input with rank > 4", code="SLICE"),
    )
    places = tuple(Placed("gpu" if index == 0 else "", "", 0, index) for index in range(4))
    found = gpu.placement(ASKED)
    assert (found.status, found.operators) == ("refused", places + reasons)
    assert found.words == "CUSTOM Fancy: Fancy; SLICE: Slicing is unsupported for input with rank > 4"
    with pytest.raises(RefusedError) as caught:
        gpu.loads(ASKED)
    assert (str(caught.value), caught.value.operators) == (found.words, found.operators)


def test_a_refusal_without_a_list(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(gpu, monkeypatch, WHOLE, "", whole=False)
    with pytest.raises(RefusedError, match=r"Some ops are not accelerated\."):
        gpu.loads(ASKED)
    stand_in(gpu, monkeypatch, None, "", whole=False)
    with pytest.raises(RefusedError, match="not at all"):
        gpu.loads(ASKED)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("INFO: fine\nERROR: [model_load.cc:316] No.\n", RefusedError, r"ERROR: \[model_load.cc:316\] No\."),
        ("WARNING: Attempting to use a delegate\n", RefusedError, "WARNING: Attempting to use a delegate"),
        ("I0000 00:00 x\nWARNING: [npu.cc:3] none\n", RefusedError, "LiteRtTry returned status 3"),
        ("ERROR: [delegate_webgpu.cc:359] INTERNAL: No adapters found\n", NoDeviceError, "No adapters found"),
    ],
)
def test_what_a_call_prints_is_why_it_fails(
    text: str, error: type[Exception], words: str, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "printed", lambda _since: text)
    library = type("Library", (), {"LiteRtTry": staticmethod(lambda *_: 3), "LiteRtWell": staticmethod(lambda *_: 0)})
    gpu._call(library, "LiteRtWell", 1)
    with pytest.raises(error, match=f"^{words}$"):
        gpu._call(library, "LiteRtTry", 1)


@pytest.fixture
def library(gpu: Any) -> Any:
    """Return the module, which then makes an environment of its own."""
    if not [*Path(gpu.compiled_model.__file__).parent.glob("libLiteRt*GpuAccelerator.so")]:
        pytest.skip("this package of LiteRT has no GPU accelerator")
    gpu._environment.cache_clear()
    return gpu


@pytest.mark.parametrize(
    ("model", "plans"),
    [("cnn", [[(0, 1, 2, 3, 4, 5, 6)]]), ("custom_op", [[(0,), 1, (2,)]]), ("while_loop", [[0], [0], [0, (1, 2)]])],
)
def test_the_plan_is_that_of_the_library(model: str, plans: list[Any], library: Any) -> None:
    """The CPU's delegate replaces a GPU's."""
    expected = [
        tuple(Step((part,)) if isinstance(part, int) else Step(part, "TfLiteXNNPackDelegate") for part in plan)
        for plan in plans
    ]
    assert [library._compile(str(path_of(model)), PROCESSOR) for _ in range(2)] == [expected, expected]


def test_the_library_knows_who_looks_on(library: Any) -> None:
    handle, environment, _ = library._environment()
    count, accelerator = ctypes.c_size_t(), ctypes.c_void_p()
    assert handle.LiteRtGetNumAccelerators(environment, ctypes.byref(count)) == 0
    found = {}
    for index in range(count.value):
        name, version, hardware = ctypes.c_char_p(), (ctypes.c_int * 4)(*[9] * 4), ctypes.c_int()
        assert handle.LiteRtGetAccelerator(environment, ctypes.c_size_t(index), ctypes.byref(accelerator)) == 0
        for part, value in (("Name", name), ("Version", version), ("HardwareSupport", hardware)):
            assert getattr(handle, f"LiteRtGetAccelerator{part}")(accelerator, ctypes.byref(value)) == 0
        found[name.value] = [*version], hardware.value
    assert len(found) == count.value > 1
    assert found[b"circletools"] == ([1, 0, 0, 9], PROCESSOR | GPU)


def test_files_that_are_not_models_are_refused(library: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"no model at all")
    text = "ERROR: Model provided has model identifier 'odel', should be 'TFL3'"
    with printing_to(tmp_path / "errors"), pytest.raises(RefusedError, match=f"^{text}$"):
        library._compile(str(path), PROCESSOR)


def test_the_first_signature_runs(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "HardwareAccelerator", SimpleNamespace(GPU=library.HardwareAccelerator.CPU))
    with Worker("litert", 60.0) as litert:
        for model, shape in (("cnn", (1, 16, 16, 3)), ("two_signatures", (1, 6))):
            path = path_of(model)
            answer = run_with(library, Request("run", str(path), "gpu", None, 3))
            given = [answer.inputs, [value + 1 for value in answer.inputs]]
            several = run_with(library, Request("run", str(path), "gpu", given))
            expected = litert.run_each(path, given)
            assert answer.failure == several.failure == expected.failure == ""
            assert same(answer.inputs, [make_input(3, 0, np.dtype(np.float32), shape)]) is None
            assert same(answer.outputs, expected.outputs[:1]) is same(several.outputs, expected.outputs) is None


def test_a_system_without_a_gpu_is_reported(library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere")
    with printing_to(tmp_path / "errors"), pytest.raises(NoDeviceError, match=r"Vulkan|No adapters found"):
        library._compile(str(path_of("cnn")), GPU)


def test_a_package_without_accelerator_is_reported(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu._environment.cache_clear()
    monkeypatch.setattr(gpu.compiled_model, "__file__", str(tmp_path / "compiled_model.py"))
    with pytest.raises(NoDeviceError, match="this package of LiteRT has no GPU accelerator"):
        gpu.placement(ASKED)


@pytest.fixture
def worker() -> Any:
    if variable("litert-gpu") not in os.environ:
        pytest.skip(f"{variable('litert-gpu')} names no Python with LiteRT and a GPU (docs/runtimes.md)")
    with Worker("litert-gpu", 60.0) as worker:
        yield worker


def path_of(model: str) -> Path:
    return TESTDATA / "tflite" / f"{model}.tflite"


def test_operators_of_models_on_the_gpu(worker: Worker) -> None:
    for model in ("cnn", "cnn_int8", "transformer_block"):
        assert worker.loads(path_of(model)).status == "ok", model
    verdict = worker.loads(path_of("bool_int64"))
    assert (
        verdict.words
        == "ADD: Tensor type(INT64) is not supported. a; GREATER: Tensor type(INT64) is not supported. a"
    )
    devices = {one.operator: one.device for one in verdict.operators if one.operator is not None}
    assert devices == {0: "", 1: "gpu", 2: ""}


def test_values_of_the_gpu(worker: Worker) -> None:
    need("ai_edge_litert")
    for model in ("cnn", "scalar"):
        with Worker("litert", 60.0) as litert:
            expected = litert.run(path_of(model), seed=1).outputs
        answer = worker.run(path_of(model), seed=1)
        assert answer.failure == ""
        for one, other in zip(answer.outputs, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)


def test_without_a_gpu_there_is_no_verdict(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    need("ai_edge_litert")
    monkeypatch.delenv(variable("litert-gpu"))
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere")
    with Worker("litert-gpu", 60.0) as other, pytest.raises(UsageError, match="litert-gpu cannot run here") as caught:
        other.loads(path_of("cnn"))
    assert "Vulkan" in caught.value.message or "adapters" in caught.value.message
