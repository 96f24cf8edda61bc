"""Make the models of docs/gpu.md with litert-torch, and note where they come from: before and after a changed line.

Run it with a Python that has torch, litert-torch 0.10.0 and circletools:

    python testdata/generate_litert_torch.py            # write the models and their origins
    python testdata/generate_litert_torch.py --check    # write nothing, fail if a file would change
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import litert_torch
import torch
from model_files import Make, main
from shufflenet import FlatShuffle, Net, Shuffle
from torch import nn

import circletools as ct


def converted(shuffle: type[nn.Module]) -> ct.exporters.Recording:
    """Convert the network with this way to shuffle channels."""
    torch.manual_seed(0)
    with ct.exporters.record() as log:
        litert_torch.convert(Net(shuffle).eval(), (torch.randn(1, 3, 16, 16),))
    return log


def model(shuffle: type[nn.Module]) -> Make:
    """Return what makes the model."""
    return lambda: converted(shuffle).conversions[0].model


def origins(shuffle: type[nn.Module]) -> Make:
    """Return what makes the document of origins; it names files without their folder."""

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "origins.json")
            converted(shuffle).write(path)
            document = json.loads(path.read_text(encoding="utf-8"))
        for source in document["sources"]:
            source["file"] = Path(source["file"]).name
        return (json.dumps(document, indent=1) + "\n").encode()

    return make


NETS = {"shuffle": Shuffle, "shuffle_flat": FlatShuffle}

if __name__ == "__main__":
    failed = main(__doc__, "tflite", ".tflite", {name: model(kind) for name, kind in NETS.items()})
    failed |= main(__doc__, "tflite", ".origins.json", {name: origins(kind) for name, kind in NETS.items()})
    sys.exit(failed)
