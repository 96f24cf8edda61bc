"""The affinity for OpenVINO's HETERO plugin: a device for each node's friendly name.

OpenVINO 2026.4.1 names an operator of a TFLite model by its index in subgraph 0. If it converts an operator to
several nodes, the last one has the name; image and quantized operators may lose theirs. The loader in
docs/affinity-exports.md handles the first case and reports the second.
"""

from __future__ import annotations

from typing import Any

from circletools.affinity.exports.placement import at, every_device_of
from circletools.affinity.read import Affinity
from circletools.errors import EditError
from circletools.graph.graph import ModelGraph


def openvino_affinity(model: ModelGraph, affinity: Affinity) -> dict[str, Any]:
    """Return `{"device": "HETERO:…", "affinity": {friendly name: device}}`.

    Raises EditError for a Circle model, a model without operators, and a device name that HETERO would parse as two.
    """
    if model.format != "tflite":
        raise EditError("OpenVINO reads TFLite models, not Circle")
    devices = every_device_of(model.graphs[0], affinity, "OpenVINO needs one for every operator, or for none")
    for index, device in enumerate(devices):
        if not device or set(device) & set(",():"):
            message = f"HETERO cannot name a device {device!r}"
            raise EditError(message, location=at(0, index), hint="rename the device")
    if not devices:
        raise EditError("there is no operator to run")
    used = [device for _, device in sorted(affinity.devices.items()) if device in set(devices)]
    return {
        "device": f"HETERO:{','.join(dict.fromkeys(used))}",
        "affinity": {str(index): device for index, device in enumerate(devices)},
    }
