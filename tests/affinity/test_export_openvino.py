"""The document for OpenVINO, through the loader of the documents, on HETERO with two devices."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.affinity.exports.export import openvino_affinity
from circletools.affinity.exports.pictures import current_affinity
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.exports_support import alternating, named, with_affinity
from tests.kit.presence import Lazy
from tests.kit.support import ROOT, own_models, title

openvino = Lazy("openvino")

DOCUMENT = (ROOT / "docs" / "affinity-exports.md").read_text(encoding="utf-8")
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def loaded(data: bytes, folder: Path) -> tuple[Any, dict[str, Any], str]:
    """Return an OpenVINO model after the loader of the documents, the document it read, and what it printed."""
    (loader,) = re.findall(r"^```python\n(import json, openvino\n.*?)^```", DOCUMENT, re.M | re.S)
    (folder / "model.tflite").write_bytes(data)
    with open_model(data) as model:
        document = openvino_affinity(model_graph(model), current_affinity(model_graph(model)))
    (folder / "affinity.json").write_text(json.dumps(document))
    printed: list[object] = []
    names: dict[str, Any] = {"print": lambda *words: printed.extend(words)}
    loader = loader.replace('"model.tflite"', repr(str(folder / "model.tflite")))
    loader = loader.replace('"affinity.json"', repr(str(folder / "affinity.json")))
    exec(loader.rsplit("compiled = ", 1)[0], names)  # noqa: S102
    return names["model"], document, " ".join(map(str, printed))


def device_of(operator: Any) -> str:
    return str(operator.get_rt_info()["affinity"].astype(str))


def hetero(model: Any, document: dict[str, Any]) -> Any:
    """Compile a model for CPU and a second device, which is a CPU too."""
    core = openvino.Core()
    core.register_plugin("openvino_intel_cpu_plugin", "CPUB")
    return core.compile_model(model, document["device"], {"DEVICE_PROPERTIES": {"CPU": EXACT, "CPUB": EXACT}})


@pytest.mark.parametrize("pattern", ["aaaa", "aabb", "abab", "abba"])
def test_openvino_cuts_a_chain_where_the_device_changes(pattern: str, tmp_path: Path) -> None:
    devices = [{"a": "CPU", "b": "CPUB"}[letter] for letter in pattern]
    model, document, text = loaded(with_affinity(named("p", "q", "r", "s", kind="tflite"), devices), tmp_path)
    assert document["affinity"] == dict(zip("0123", devices, strict=True))
    assert (document["device"], text) == ("HETERO:" + ",".join(sorted({*devices})), "")
    compiled = hetero(model, document)
    changes = sum(one != two for one, two in pairwise(devices))
    if changes:
        assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == changes + 1
    value = np.array([[0.5, -0.25], [1, 2]], np.float32)
    result = next(iter(compiled(value).values()))
    for _ in devices:
        value = np.tanh(value)
    np.testing.assert_allclose(result, value, rtol=1e-5)


@pytest.mark.parametrize("path", [path for path in own_models() if path.suffix == ".tflite"], ids=title)
def test_openvino_runs_operators_on_their_devices_or_reports_renamed_ones(path: Path, tmp_path: Path) -> None:
    try:
        plain = openvino.Core().read_model(path)
    except RuntimeError:
        pytest.skip("OpenVINO does not read the model")
    data = alternating(path.read_bytes(), "CPU", "CPUB")
    model, document, text = loaded(data, tmp_path)
    lost = set(document["affinity"]) - {operator.get_friendly_name() for operator in model.get_ordered_ops()}
    assert text == (f"OpenVINO renamed {sorted(lost, key=int)}" if lost else "")
    assert bool(lost) == (path.stem in ("cnn", "cnn_int8", "cnn_float16", "sparse", "shuffle", "shuffle_flat"))
    for operator in model.get_ordered_ops():
        assert device_of(operator) in ("CPU", "CPUB")
        wanted = document["affinity"].get(operator.get_friendly_name())
        assert wanted in (None, device_of(operator))
    if plain.inputs and not any(name in path.stem for name in ("while", "int8")):
        compiled, values = hetero(model, document), [_values(port) for port in plain.inputs]
        expected = openvino.compile_model(plain, "CPU", EXACT)(values)
        for one, two in zip(compiled(values).values(), expected.values(), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def _values(port: Any) -> np.ndarray[Any, Any]:
    shape = [1 if size.is_dynamic else size.get_length() for size in port.get_partial_shape()]
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(port.get_element_type().to_dtype())
