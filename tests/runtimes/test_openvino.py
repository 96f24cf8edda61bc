"""What is asked of OpenVINO, with a module in its place that keeps books."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circletools.runtimes.child import run_with
from circletools.runtimes.protocol import Array, NoDeviceError, Placed, RefusedError, Request, Verdict
from tests.kit.fake_programs import adapter

FLOAT = np.dtype(np.float32)
ERRORS = {
    "untranslated": "Exception from src/a.cpp:12:\nFrontEnd API failed with GeneralFailure:\n"
    "No translator found for Fancy node.\n",
    "uncompiled": "Check 'x' failed at src/b.cpp:3:\nan operation of type Odd and name odd:1\n",
    "nowhere": "Exception from src/c.cpp:1:",
    "missing": 'Cannot load library "a.so"\n',
}


def size(length: int) -> Any:
    return SimpleNamespace(is_dynamic=length < 0, get_length=lambda: length)


def end(shape: Sequence[int], *names: str) -> Any:
    kind = SimpleNamespace(to_dtype=lambda: FLOAT)
    return SimpleNamespace(
        get_element_type=lambda: kind, get_partial_shape=lambda: [*map(size, shape)], get_names=lambda: set(names)
    )


class Asked:
    """Gives the inputs back in the other order; a model called `late` does not run."""

    def __init__(self, model: str, outputs: Sequence[Any]) -> None:
        self.model, self.ends = model, outputs
        self.values: dict[int, Array] = {}

    def set_input_tensor(self, place: int, tensor: Any) -> None:
        self.values[place] = tensor.data

    def infer(self, inputs: dict[int, Array] | None = None, *, share_outputs: bool = False) -> dict[int, Array]:
        assert share_outputs == (inputs is None), "a run whose time is taken copies no outputs"
        if self.model == "late":
            raise RuntimeError("Check 'y' failed at src/d.cpp:4:\nno memory\n")
        self.values = dict(inputs or self.values)
        return {one: self.values[1 - place] for place, one in enumerate(self.ends)}

    def get_output_tensor(self, place: int) -> Any:
        return SimpleNamespace(data=self.values[1 - place])


class Core:
    """Compiles anything that is not called like one of the errors."""

    last: Core

    def __init__(self) -> None:
        self.hints: list[tuple[str, dict[str, Any]]] = []
        Core.last = self

    def read_model(self, path: str) -> Any:
        self.path = path
        operators = [
            SimpleNamespace(get_friendly_name=lambda: "first", outputs=lambda: [end((), "a")]),
            SimpleNamespace(
                get_friendly_name=lambda: "second",
                get_type_name=lambda: "Loop",
                outputs=lambda: [end((), "b"), end(()), end((), "c")],
            ),
        ]
        return SimpleNamespace(inputs=[end((2, -1)), end((3,))], get_ordered_ops=lambda: operators)

    def compile_model(self, _model: Any, device: str, hints: dict[str, Any]) -> Any:
        if self.path in ERRORS:
            raise RuntimeError(ERRORS[self.path])
        self.hints.append((device, hints))
        outputs = ["one", "two"]
        return SimpleNamespace(outputs=outputs, create_infer_request=lambda: Asked(self.path, outputs))

    def query_model(self, _model: Any, device: str) -> dict[str, str]:
        return {"first": device}


@pytest.fixture
def openvino(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module."""
    modules = {"openvino": {"Core": Core, "Tensor": lambda data: SimpleNamespace(data=data)}}
    return adapter("openvino", modules, monkeypatch)


def test_only_the_processor_gets_a_precision(openvino: Any) -> None:
    """Sums must not depend on how many threads there are, nor on which types the processor is quick with."""
    for device in ("CPU", "GPU", "NPU"):
        assert openvino.loads(Request("loads", "m", device)) == Verdict("ok")
    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    assert Core.last.hints == [("CPU", exact), ("GPU", {}), ("NPU", {})]


def test_what_a_device_leaves_out_is_named_by_its_outputs(openvino: Any) -> None:
    left = [Placed("", "query_model omits Loop on GPU", tensor=name) for name in "bc"]
    assert openvino.placement(Request("placement", "m", "GPU")) == Verdict("ok", "", tuple(left), "gpu")


@pytest.mark.parametrize(
    ("model", "words", "codes"),
    [
        ("untranslated", "No translator found for Fancy node.", ["Fancy"]),
        ("uncompiled", "an operation of type Odd and name odd:1", ["Odd"]),
        ("nowhere", "Exception from src/c.cpp:1:", []),
    ],
)
def test_a_refusal_is_reported_without_places_in_the_source(
    model: str, words: str, codes: list[str], openvino: Any
) -> None:
    with pytest.raises(RefusedError) as caught:
        openvino.loads(Request("loads", model, "CPU"))
    with pytest.raises(NoDeviceError, match="Cannot load library"):
        openvino.loads(Request("loads", "missing", "NPU"))
    assert str(caught.value) == words
    assert caught.value.operators == tuple(Placed("", words, code=code) for code in codes)
    assert run_with(openvino, Request("run", model, "CPU")).failure == words
