"""A Python program that runs the parts of a split in OpenVINO, each compiled for its device.

OpenVINO's HETERO plugin assigns nodes to devices by the names of nodes after conversion; only some of these names
match operators of the model. A part that is compiled for a device runs there as a whole, regardless of the names of
its nodes.
"""

from __future__ import annotations

import json
from typing import Any

from circletools.errors import EditError
from circletools.parts.package import Connections
from circletools.parts.plan import SplitPlan

_TEMPLATE = '''\
"""Run the parts of @@SOURCE@@ in OpenVINO, each on its device. Written by `circletool split --runner openvino`.

    python run_openvino.py [DEVICE=OPENVINO_DEVICE...]

shows where each part runs. The exit status is 1 if a part runs on another device, or 3 if one fails. In programs:

    outputs = Runner({"npu": "NPU", "cpu": "CPU"})(inputs)
"""

import json
import sys
from pathlib import Path

import numpy
import openvino

PLAN = json.loads(r"""
@@PLAN@@
""")


class Runner:
    """The compiled parts. `devices` maps device names to OpenVINO's, `config` maps those to their properties."""

    def __init__(self, devices=None, core=None, config=None):
        core = core or openvino.Core()
        self.parts = []
        for part in PLAN["parts"]:
            device = (devices or {}).get(part["device"], part["device"])
            where = f"{part['file']} (operators {part['operators']})"
            try:
                model = core.read_model(Path(__file__).parent / part["file"])
                compiled = core.compile_model(model, device, (config or {}).get(device, {}))
            except RuntimeError as error:
                raise RuntimeError(f"{where} cannot run on {device}: {error}") from error
            ends = [len(compiled.inputs), len(compiled.outputs)]
            if ends != [len(part["inputs"]), len(part["outputs"])]:
                raise RuntimeError(f"{where}: OpenVINO leaves out some of its inputs or outputs")
            self.parts.append((part, device, compiled))

    def places(self):
        """Yield each part, the device it was compiled for, and those that OpenVINO runs it on."""
        for part, device, compiled in self.parts:
            yield part, device, list(compiled.get_property("EXECUTION_DEVICES"))

    def __call__(self, inputs):
        """Return the outputs of the model for its inputs, both in the model's order."""
        known = dict(zip(PLAN["inputs"], inputs, strict=True))
        for part, _, compiled in self.parts:
            found = compiled([known[name] for name in part["inputs"]])
            for place, name in enumerate(part["outputs"]):
                known[name] = numpy.array(found[place])
        return [known[name] for name in PLAN["outputs"]]


def main():
    words = [word.partition("=") for word in sys.argv[1:]]
    known = {part["device"] for part in PLAN["parts"]}
    if wrong := ["".join(word) for word in words if not word[2] or word[0] not in known]:
        print(f"{wrong[0]}: write DEVICE=OPENVINO_DEVICE; devices are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    try:
        runner = Runner({word[0]: word[2] for word in words})
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 3
    lost = 0
    for part, device, found in runner.places():
        print(f"{part['file']}: operators {part['operators']} on {', '.join(found)}")
        if found != [device]:
            print(f"  OpenVINO does not run this part on {device} alone")
            lost += 1
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def openvino_runner(connections: Connections, plan: SplitPlan) -> str:
    """Return the text of the program. Raises EditError for Circle models, which OpenVINO does not read."""
    if connections.source.file.endswith(".circle"):
        raise EditError("OpenVINO reads TFLite models, not Circle", location=connections.source.file)
    parts = parts_json(plan, connections)
    whole = {"inputs": connections.source.inputs, "outputs": connections.source.outputs, "parts": parts}
    before, between, after = _TEMPLATE.split("@@")[::2]
    return f"{before}{json.dumps(connections.source.file)[1:-1]}{between}{json.dumps(whole, indent=1)}{after}"


def parts_json(plan: SplitPlan, connections: Connections) -> list[dict[str, Any]]:
    """Return the parts as JSON, in execution order."""
    return [
        {
            "file": piece.file,
            "device": part.device,
            "operators": list(part.operators),
            "inputs": list(piece.inputs),
            "outputs": list(piece.outputs),
        }
        for part, piece in zip(plan.parts, connections.parts, strict=True)
    ]
