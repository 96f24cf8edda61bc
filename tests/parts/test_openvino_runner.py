"""The program that runs parts in OpenVINO: with OpenVINO, and with a module in its place that is not obeyed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.split import RUNNER, split
from tests.kit.exports_support import named, with_affinity
from tests.kit.presence import Lazy
from tests.kit.split_support import alternating, with_devices
from tests.kit.support import ROOT, own_models, title

openvino = Lazy("openvino")
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def runner_of(data: bytes, folder: Path, file: str = "model.tflite") -> dict[str, Any]:
    """Split a model, and return the names of its runner."""
    source = folder / file
    source.write_bytes(data)
    with open_model(source) as model:
        split(model, folder / "parts", runner="openvino")
    assert check_files(open_split(folder / "parts")) == []
    path = folder / "parts" / RUNNER
    names: dict[str, Any] = {"__file__": str(path), "__name__": "runner"}
    exec(path.read_text(), names)  # noqa: S102
    return names


class Compiled:
    """Adds one to its only input; whatever it was compiled for, it runs on CPU."""

    inputs = outputs = (0,)

    def get_property(self, name: str) -> list[str]:
        assert name == "EXECUTION_DEVICES"
        return ["CPU"]

    def __call__(self, inputs: list[Any]) -> dict[int, Any]:
        return {0: inputs[0] + 1}


class Core:
    """Compiles whatever it is given but for the device NPU."""

    asked: list[tuple[str, str, dict[str, str]]] = []  # noqa: RUF012

    def read_model(self, path: Path) -> Path:
        return path

    def compile_model(self, path: Path, device: str, config: dict[str, str]) -> Compiled:
        self.asked.append((path.name, device, config))
        if device == "NPU":
            raise RuntimeError("no driver")
        return Compiled()


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("openvino")
    module.Core = Core
    Core.asked.clear()
    monkeypatch.setitem(sys.modules, "openvino", module)


CHAIN = with_affinity(named("p", "q", "r", kind="tflite"), list("abb"))


@pytest.mark.usefixtures("in_place")
def test_parts_are_compiled_for_their_devices_and_feed_each_other(tmp_path: Path) -> None:
    runner = runner_of(CHAIN, tmp_path)["Runner"]({"a": "CPU"}, config={"CPU": EXACT})
    assert Core.asked == [("model.part.00001_a.tflite", "CPU", EXACT), ("model.part.00002_b.tflite", "b", {})]
    places = [(part["operators"], device, found) for part, device, found in runner.places()]
    assert places == [([0], "CPU", ["CPU"]), ([1, 2], "b", ["CPU"])]
    (output,) = runner([np.ones(2)])
    assert output.tolist() == [3, 3]


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize(("words", "status"), [(["a=CPU", "b=CPU"], 0), (["a=CPU"], 1), ([], 1)])
def test_a_part_that_is_elsewhere_is_reported(
    words: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runner_of(CHAIN, tmp_path)["main"]
    monkeypatch.setattr(sys, "argv", ["run", *words])
    assert main() == status
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "model.part.00001_a.tflite: operators [0] on CPU"
    assert shown.count("  OpenVINO does not run this part on b alone") == status


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize(
    ("word", "status", "text"),
    [
        ("CPU", 2, "CPU: write DEVICE=OPENVINO_DEVICE; devices are a, b\n"),
        ("a=", 2, "a=: write DEVICE=OPENVINO_DEVICE; devices are a, b\n"),
        ("c=CPU", 2, "c=CPU: write DEVICE=OPENVINO_DEVICE; devices are a, b\n"),
        ("b=NPU", 3, "model.part.00002_b.tflite (operators [1, 2]) cannot run on NPU: no driver\n"),
    ],
)
def test_wrong_words_are_reported(
    word: str,
    status: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = runner_of(CHAIN, tmp_path)["main"]
    monkeypatch.setattr(sys, "argv", ["run", word])
    assert main() == status
    assert capsys.readouterr().err == text


@pytest.mark.usefixtures("in_place")
def test_a_part_that_cannot_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = runner_of(CHAIN, tmp_path)
    where = r"model\.part\.00002_b\.tflite \(operators \[1, 2\]\)"
    with pytest.raises(RuntimeError, match=f"^{where} cannot run on NPU: no driver$"):
        names["Runner"]({"b": "NPU"})
    monkeypatch.setattr(Compiled, "outputs", ())
    with pytest.raises(RuntimeError, match="OpenVINO leaves out some of its inputs or outputs"):
        names["Runner"]()


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize("file", ['a"""b.tflite', "@@.tflite", "a\\.tflite", "ü{}.tflite"])
def test_any_name_of_a_file_is_a_name(file: str, tmp_path: Path) -> None:
    names = runner_of(with_affinity(named('"""', "@@", "\\", kind="tflite"), list("aba")), tmp_path, file)
    assert names["PLAN"]["parts"][0]["outputs"] == ['"""']
    assert names["__doc__"].startswith(f"Run the parts of {file} in OpenVINO")
    (output,) = names["Runner"]()([np.zeros(1)])
    assert output.tolist() == [3]


def test_openvino_reads_no_circle(tmp_path: Path) -> None:
    with pytest.raises(EditError, match="OpenVINO reads TFLite models, not Circle") as error:
        runner_of(with_affinity(named("p"), ["a"]), tmp_path, "model.circle")
    assert error.value.location == "model.circle"
    assert not (tmp_path / "parts").exists()


_READ = ("cnn", "cnn_int8", "cnn_float16", "sparse", "shuffle", "transformer_block", "bool_int64", "scalar")


@pytest.mark.parametrize(
    "path", [path for path in own_models() if path.suffix == ".tflite" and path.stem in _READ], ids=title
)
def test_openvino_has_every_operator_where_it_was_planned(path: Path, tmp_path: Path) -> None:
    core = openvino.Core()
    core.register_plugin("openvino_intel_cpu_plugin", "CPUB")
    names = runner_of(with_devices(path.read_bytes(), alternating), tmp_path, path.name)
    runner = names["Runner"]({"npu": "CPU", "cpu": "CPUB"}, core, {"CPU": EXACT, "CPUB": EXACT})
    places = list(runner.places())
    assert all(found == [{"npu": "CPU", "cpu": "CPUB"}[part["device"]]] for part, _, found in places)
    assert all(compiled.get_runtime_model().get_ops() for _, _, compiled in runner.parts)
    with open_model(path) as model:
        count = len(model.subgraphs[0].operators)
    assert {operator for part, _, _ in places for operator in part["operators"]} == set(range(count))
    whole = core.compile_model(core.read_model(path), "CPU", EXACT)
    values = [
        np.random.default_rng(0).uniform(-1, 1, [abs(size) for size in end.get_shape()])
        .astype(end.get_element_type().to_dtype())
        for end in whole.inputs
    ]  # fmt: skip
    expected = whole(values)
    for place, value in enumerate(runner(values)):
        np.testing.assert_allclose(value.astype(float), expected[place].astype(float), rtol=1e-4, atol=1e-4)


def test_the_docs_name_what_is_written() -> None:
    assert f"python parts/{RUNNER}" in (ROOT / "docs" / "split.md").read_text(encoding="utf-8")
