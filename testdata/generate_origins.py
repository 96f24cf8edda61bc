"""Make the models of `testdata/origins`, each with the document that was recorded while it was converted.

Run it once for each exporter, with a Python that has circletools' numpy and

    python testdata/generate_origins.py tico            # torch 2.13.0, tico 0.3.0
    python testdata/generate_origins.py litert_torch    # torch 2.14.1, litert-torch 0.10.0
    python testdata/generate_origins.py onnx2tf         # torch 2.13.0, onnxscript 0.7; onnx2tf 1.28.8 on the path

The document has, besides what `embed-origins --origins` reads, the `modules` of the network: path -> class.
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import circletools as ct  # noqa: E402 - found by the line above
from circletools.origin.exchange import origins_document  # noqa: E402
from circletools.origin.read import Origins  # noqa: E402


class Cell(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = self.norm(y)
        y = torch.relu(y)
        return x + y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.cells = nn.ModuleList(Cell(4) for _ in range(2))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for cell in self.cells:
            x = cell(x)
        x = x.mean(dim=(2, 3))
        x = self.norm(x)
        x = self.head(x)
        return torch.softmax(x, dim=-1)


def recorded(exporter: str, net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[bytes, Origins]:
    """Convert while that is recorded."""
    convert = importlib.import_module(exporter).convert
    with ct.exporters.record() as log:
        convert(net, inputs)
    return log.conversions[-1].model, log.origins


def through_onnx(net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[bytes, Origins]:
    """Export to ONNX and convert that; onnx2tf writes over its input, and leaves out what the exporter noted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.onnx.export(net, inputs, str(folder / "net.onnx"), dynamo=True, external_data=False)
        shutil.copy(folder / "net.onnx", folder / "copy.onnx")
        command = ["onnx2tf", "-i", "copy.onnx", "-o", "out", "-n"]
        images = folder / "calibration_image_sample_data_20x128x128x3_float32.npy"  # else it fetches some
        np.save(images, np.zeros((20, 128, 128, 3), np.float32))
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - made above
        binary = (folder / "out" / "copy_float32.tflite").read_bytes()
        with ct.open(binary) as model:
            return binary, ct.exporters.from_onnx(model, folder / "net.onnx")


def main(exporter: str) -> None:
    """Convert the network with an exporter, and write the model and the document."""
    torch.manual_seed(7)
    net, inputs = Net().eval(), (torch.randn(1, 3, 9, 9),)
    for norm in (module for module in net.modules() if isinstance(module, nn.BatchNorm2d | nn.LayerNorm)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    model, origins = through_onnx(net, inputs) if exporter == "onnx2tf" else recorded(exporter, net, inputs)
    document = origins_document(origins)
    for source in document["sources"]:
        source.update({"file": Path(source["file"]).name} if "file" in source else {})
    names = {path: f"{type(module).__module__}.{type(module).__qualname__}" for path, module in net.named_modules()}
    suffix = "circle" if exporter == "tico" else "tflite"
    (HERE / "origins" / f"{exporter}.{suffix}").write_bytes(model)
    text = json.dumps(document | {"modules": names}, indent=1) + "\n"
    (HERE / "origins" / f"{exporter}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
