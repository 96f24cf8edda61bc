"""The affinity as a `.part` file for circle-partitioner; see circletools.affinity.assign.partfile."""

from __future__ import annotations

from circletools.affinity.assign.partfile import PartFile
from circletools.affinity.exports.placement import at, every_device_of
from circletools.affinity.read import Affinity
from circletools.errors import EditError
from circletools.graph.graph import ModelGraph


def part_file(model: ModelGraph, affinity: Affinity) -> PartFile:
    """Return a rule for each operator of subgraph 0, by name; the default is the most common device.

    circle-partitioner names an operator after its first output and partitions only the first subgraph; subgraphs that
    an IF or WHILE calls run on its device. Raises EditError if operators with the same name have different devices.
    """
    devices = every_device_of(model.graphs[0], affinity, "circle-partitioner would take the default")
    rules: dict[str, tuple[str, int]] = {}
    for index, (device, name) in enumerate(zip(devices, model.graphs[0].operators.first_result_names, strict=True)):
        if not name:
            raise EditError("the operator has no name: its output has none", location=at(0, index))
        if rules.setdefault(name, (device, 0))[0] != device:
            message = f"two operators are named {name!r}; this one has device {device}, the other {rules[name][0]}"
            raise EditError(message, location=at(0, index))
    backends = list(dict.fromkeys(device for _, device in sorted(affinity.devices.items())))
    if not backends:
        raise EditError("the affinity names no device")
    default = max(backends, key=devices.count)
    return PartFile(tuple(backends), default, "opname", {}, rules)
