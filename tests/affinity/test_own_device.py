"""The page about measuring a device of your own: its script, with an SDK that is a few lines of Python."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.kit.support import path_of
from tools.measure import own_device

SDK = """
import circletools as ct


def prepare():
    pass


def taken(model, operator):
    indices = [int(index) for index in (*operator.inputs, *operator.outputs) if index >= 0]
    tensors = [model.subgraphs[0].tensors[index] for index in indices]
    return all(len(tensor.shape) <= 4 and tensor.type == "FLOAT32" for tensor in tensors)


def refused(data):
    with ct.open(data) as model:
        graph = model.subgraphs[0]
        left = [one for one in graph.operators if len(one.outputs) and not taken(model, one)]
        return [graph.tensors[int(one.outputs[0])].name for one in left]


def ask(data):
    return "left" if refused(data) else "taken"
"""


def test_a_table_is_measured_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sdk, table = tmp_path / "npu.py", tmp_path / "npu.json"
    sdk.write_text(SDK)
    measuring = ["--device", "npu", "--runtime", "a few lines", "--out", str(table), "--codes", "TANH"]
    monkeypatch.setattr(sys, "argv", ["own_device", str(sdk), *measuring])
    own_device.main()
    document = json.loads(table.read_text())
    (form,) = document["operators"]["TANH"]
    assert (form["inputs"], form["outputs"], form["max_rank"]) == (["FLOAT32 computed"], ["FLOAT32"], 4)
    whole = tmp_path / "models"
    whole.mkdir()
    for name in ("scalar", "cnn"):
        shutil.copy(path_of(f"tflite/{name}"), whole)
    for folder, text in ((tmp_path / "none", "npu A 0 "), (whole, "npu A 2 ")):
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["own_device", str(sdk), "--compare", str(table), str(folder)])
        own_device.main()
        assert text in capfd.readouterr().out
