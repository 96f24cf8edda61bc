"""Export of the affinity in every supported format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from circletools.affinity.assign.partfile import PartFile, format_part
from circletools.affinity.exports.onert import onert_environment
from circletools.affinity.exports.pictures import dot_graph, model_explorer_data
from circletools.affinity.exports.placement import current_affinity, every_device_of
from circletools.affinity.tables import Affinity
from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.wording import Attributes


def part_file(model: ModelGraph, affinity: Affinity) -> PartFile:
    """Return a rule for each operator of subgraph 0, by name; the default is the most common device.

    circle-partitioner names an operator after its first output and partitions only the first subgraph; subgraphs that
    an IF or WHILE calls run on its device. Raises EditError if operators with the same name have different devices.
    """
    devices = every_device_of(model.graphs[0], affinity, "circle-partitioner would take the default")
    rules: dict[str, tuple[str, int]] = {}
    for index, (device, name) in enumerate(zip(devices, model.graphs[0].operators.first_result_names, strict=True)):
        if not name:
            raise EditError("the operator has no name: its output has none", location=model.graphs[0].place(index))
        if rules.setdefault(name, (device, 0))[0] != device:
            message = f"two operators are named {name!r}; this one has device {device}, the other {rules[name][0]}"
            raise EditError(message, location=model.graphs[0].place(index))
    backends = list(dict.fromkeys(device for _, device in sorted(affinity.devices.items())))
    if not backends:
        raise EditError("the affinity names no device")
    default = max(backends, key=devices.count)
    return PartFile(tuple(backends), default, "opname", {}, rules)


def openvino_affinity(model: ModelGraph, affinity: Affinity) -> dict[str, Any]:
    """Return `{"device": "HETERO:…", "affinity": {friendly name: device}}`.

    OpenVINO 2026.4.1 names an operator of a TFLite model by its index in subgraph 0. If it converts an operator to
    several nodes, the last one has the name; image and quantized operators may lose theirs. The loader in
    docs/affinity-exports.md handles the first case and reports the second.

    Raises EditError for a Circle model, a model without operators, and a device name that HETERO would parse as two.
    """
    if model.format != "tflite":
        raise EditError("OpenVINO reads TFLite models, not Circle")
    devices = every_device_of(model.graphs[0], affinity, "OpenVINO needs one for every operator, or for none")
    for index, device in enumerate(devices):
        if not device or set(device) & set(",():"):
            message = f"HETERO cannot name a device {device!r}"
            raise EditError(message, location=model.graphs[0].place(index), hint="rename the device")
    if not devices:
        raise EditError("there is no operator to run")
    used = [device for _, device in sorted(affinity.devices.items()) if device in set(devices)]
    return {
        "device": f"HETERO:{','.join(dict.fromkeys(used))}",
        "affinity": {str(index): device for index, device in enumerate(devices)},
    }


Target = Literal["onert", "part", "openvino", "model-explorer", "dot"]


@dataclass(frozen=True, slots=True)
class Export(Attributes):
    """The export for a target: text, or an object to be written as JSON or shell lines."""

    target: Target
    content: str | Mapping[str, Any]


_EXPORTERS: dict[str, Callable[[ModelGraph, Affinity], str | Mapping[str, Any]]] = {
    "onert": onert_environment,
    "part": lambda model, affinity: format_part(part_file(model, affinity)),
    "openvino": openvino_affinity,
    "model-explorer": model_explorer_data,
    "dot": dot_graph,
}


def export(model: Model, target: Target) -> Export:
    """Return the affinity in a model for `target`; `render.export_text` writes it.

    Raises EditError if the model has no affinity or a stale one, or the target would ignore or misread a part of it;
    UsageError for an unknown target.
    """
    if target not in _EXPORTERS:
        raise UsageError(f"no affinity is exported to {target!r}", hint=f"available: {', '.join(get_args(Target))}")
    graph = model_graph(model)
    return Export(target, _EXPORTERS[target](graph, current_affinity(graph)))
