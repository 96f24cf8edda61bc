"""Make `testdata/trace/foreign/executorch.etdp`, and what ExecuTorch's own Inspector reads there, beside it.

    pip install executorch torch
    python testdata/generate_etdump.py

The runtime is the one in the package. Times are measured, so they are new ones each time.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import Inspector
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime, Verification

FOLDER = Path(__file__).parent / "trace" / "foreign"
EXECUTIONS = 4


class Net(torch.nn.Module):
    """Operators that XNNPACK takes, around one that it does not."""

    def __init__(self) -> None:
        """Make the weights."""
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.last = torch.nn.Linear(8 * 16 * 16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Run them."""
        return torch.softmax(self.last(torch.cumsum(torch.relu(self.conv(image)), 1).flatten(1)), -1)


def main() -> None:
    """Run a network, and write its profile."""
    torch.manual_seed(0)
    image = torch.randn(1, 3, 16, 16)
    exported = torch.export.export(Net().eval(), (image,))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    dump = FOLDER / "executorch.etdp"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pte"
        path.write_bytes(lowered.to_executorch().buffer)
        program = Runtime.get().load_program(path, verification=Verification.Minimal, enable_etdump=True)
        method = program.load_method("forward")
        for _ in range(EXECUTIONS):
            method.execute([image])
        program.write_etdump_result_to_file(str(dump), f"{folder}/debug.bin")
    blocks = [
        {"name": block.name, "events": [[event.name, event.perf_data.raw] for event in block.events]}
        for block in Inspector(etdump_path=str(dump)).event_blocks
    ]
    dump.with_suffix(".inspector.json").write_text(json.dumps(blocks, indent=1) + "\n")


if __name__ == "__main__":
    main()
