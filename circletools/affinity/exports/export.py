"""Export the affinity in every supported format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from circletools.affinity.documents import PartFile, format_part
from circletools.affinity.exports.pictures import (
    ANNOTATE,
    Flow,
    current_affinity,
    dot_graph,
    every_device_of,
    flows,
    model_explorer_data,
)
from circletools.affinity.tables import Affinity
from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.wording import Attributes

# --- the environment variables that make onert run each operator on its assigned device -----------------------
#     BACKENDS=cpu;ruy                backends to load; operators not in the map run on the first of them
#     OP_BACKEND_MAP=0=cpu;1=ruy      operator index = backend, without spaces, for every subgraph that has the index
#     EXECUTOR=Dataflow               if the default, Linear, would return wrong numbers
#
# All statements about onert were verified with onert 0.1.0; docs/affinity-exports.md has the measurements, and
# tests/affinity/test_export_onert.py repeats them. An affinity that onert would ignore, reject or execute incorrectly
# is refused. Operators that depend only on constants (DEQUANTIZE of weights) need no device: onert runs those
# assigned to ruy on cpu.


BACKENDS = ("cpu", "ruy")
"""The published package's backends for ordinary operators, in the order that the variable BACKENDS must have."""

VARIABLE_BYTES = 131_071
"""The longest NAME=value that Linux passes to a program (MAX_ARG_STRLEN without the final NUL)."""

_RUY_CODES = ("CONV_2D", "FULLY_CONNECTED")
_BUILTIN_CODES = ("IF", "WHILE")
_MEASURED = "measured with onert 0.1.0"


def onert_environment(model: ModelGraph, affinity: Affinity) -> dict[str, str]:
    """Return the environment variables by name. Raises EditError for an affinity that onert cannot run correctly."""
    chosen: dict[int, tuple[str, str]] = {}  # operator index -> backend, and the first operator that set it
    used, reused = set(), False
    for graph in model.graphs:
        devices = every_device_of(graph, affinity, "onert would choose one")
        for index in graph.folded:  # they depend only on constants, and have the device of their reader
            devices[index] = BACKENDS[0] if devices[index] == "ruy" else devices[index]
        read = flows(graph)
        for operator, device in enumerate(devices):
            _check_operator(graph, operator, device)
            backend, place = chosen.setdefault(operator, (device, graph.place(operator)))
            if backend != device:
                message = f"one map serves all subgraphs; {place} is on {backend}, but this operator is on {device}"
                raise EditError(message, location=graph.place(operator), hint="put both on the same device")
            used.add(device)
        _check_outputs(graph, devices, read)
        _check_constants(graph, devices, read)
        reused = reused or _linear_reuses(devices, read)
    environment = {
        "BACKENDS": ";".join(backend for backend in BACKENDS if backend in used) or BACKENDS[0],
        "OP_BACKEND_MAP": ";".join(f"{index}={chosen[index][0]}" for index in sorted(chosen)),
    }
    size = len("OP_BACKEND_MAP=") + len(environment["OP_BACKEND_MAP"])
    if size > VARIABLE_BYTES:
        raise EditError(f"the map takes {size} bytes; Linux allows at most {VARIABLE_BYTES}")
    if reused:
        environment["EXECUTOR"] = "Dataflow"
    return environment


def _linear_reuses(devices: Sequence[str], read: Sequence[Flow]) -> bool:
    """Return whether a tensor is read both on its own backend and on another.

    The Linear executor considers a tensor dead after its last reader on its own backend, and may reuse its memory
    before the other backend reads the tensor. The Dataflow executor does not reuse memory at all.
    """
    at_home = {flow.tensor for flow in read if devices[flow.producer] == devices[flow.reader]}
    return any(flow.tensor in at_home and devices[flow.producer] != devices[flow.reader] for flow in read)


def _check_operator(graph: Graph, operator: int, device: str) -> None:
    """Raise EditError if onert cannot run an operator on a backend, or runs it incorrectly."""
    place, name = graph.place(operator), graph.operators.code_names[operator]
    if device not in BACKENDS:
        hint = f"available: {', '.join(BACKENDS)}; run {ANNOTATE} again"
        raise EditError(f"onert has no backend {device!r}", location=place, hint=hint)
    if name in _BUILTIN_CODES:
        message = f"onert runs {name} on a separate backend, and has no setting for the subgraphs of {name}"
        raise EditError(message, location=place, hint="onert would fail with this map")
    if device != "ruy":
        return
    if name not in _RUY_CODES:
        hint = f"available: {', '.join(_RUY_CODES)}; run {ANNOTATE} again"
        raise EditError(f"ruy has no kernel for {name} ({_MEASURED})", location=place, hint=hint)
    for tensor in (*graph.operands.of(operator), *graph.results.of(operator)):
        kind = graph.values.types[tensor] if tensor >= 0 else "FLOAT32"
        if kind != "FLOAT32":
            message = f"ruy computes only in FLOAT32; {graph.values.name(tensor)!r} is {kind} ({_MEASURED})"
            raise EditError(message, location=place, hint="use cpu here; ruy would fail or return wrong values")


def _check_outputs(graph: Graph, devices: Sequence[str], read: Sequence[Flow]) -> None:
    """Raise EditError if a model output is produced on one backend and read on another."""
    outputs = set(graph.outputs.tolist())
    for flow in read:
        if flow.tensor in outputs and devices[flow.producer] != devices[flow.reader]:
            name = graph.values.name(flow.tensor)
            raise EditError(
                f"the output {name!r} of {graph.place(flow.producer)} ({devices[flow.producer]}) is read here on "
                f"{devices[flow.reader]}, where it is zero if onert allocates the outputs ({_MEASURED})",
                location=graph.place(flow.reader),
                hint=f"run fix-outputs --detach-taps, then {ANNOTATE} for the operators that it adds",
            )


def _check_constants(graph: Graph, devices: Sequence[str], read: Sequence[Flow]) -> None:
    """Raise EditError if two constants are each read on two backends."""
    computed = {flow.tensor for flow in read}.union(graph.inputs.tolist())
    backends: dict[int, set[str]] = {}
    shared = []
    for operator, device in enumerate(devices):
        for tensor in graph.operands.of(operator):
            if tensor < 0 or tensor in computed or device in backends.setdefault(tensor, set()):
                continue
            backends[tensor].add(device)
            if len(backends[tensor]) > 1:
                shared.append(graph.values.name(tensor))
        if len(shared) > 1:
            raise EditError(
                f"the constants {shared[0]!r} and {shared[1]!r} are each read on {' and '.join(BACKENDS)}; onert "
                f"then fails or returns wrong values ({_MEASURED})",
                location=graph.place(operator),
                hint="put the operators that share constants on one device",
            )


def part_file(model: ModelGraph, affinity: Affinity) -> PartFile:
    """Return a rule for each operator of subgraph 0, by name; the default is the most common device.

    circle-partitioner names an operator after its first output and partitions only the first subgraph; subgraphs that
    an IF or WHILE calls run on the caller's device. Raises EditError if operators that share a name differ in device.
    """
    devices = every_device_of(model.graphs[0], affinity, "circle-partitioner would use the default")
    rules: dict[str, tuple[str, int]] = {}
    for index, (device, name) in enumerate(zip(devices, model.graphs[0].operators.first_result_names, strict=True)):
        if not name:
            raise EditError("the operator has no name, as its output has none", location=model.graphs[0].place(index))
        if rules.setdefault(name, (device, 0))[0] != device:
            message = f"two operators are named {name!r}; this one has device {device}, the other {rules[name][0]}"
            raise EditError(message, location=model.graphs[0].place(index))
    backends = list(dict.fromkeys(device for _, device in sorted(affinity.devices.items())))
    if not backends:
        raise EditError("the affinity names no devices")
    default = max(backends, key=devices.count)
    return PartFile(tuple(backends), default, "opname", {}, rules)


def openvino_affinity(model: ModelGraph, affinity: Affinity) -> dict[str, Any]:
    """Return `{"device": "HETERO:…", "affinity": {friendly name: device}}`.

    OpenVINO 2026.4.1 names an operator of a TFLite model by its index in subgraph 0. If it converts an operator to
    several nodes, the last node has the name; image and quantized operators may lose their names. The loader in
    docs/affinity-exports.md handles the first case and reports the second.

    Raises EditError for a Circle model, a model without operators, and a device name that HETERO would parse as two.
    """
    if model.source.format != "tflite":
        raise EditError("OpenVINO reads TFLite models, not Circle models")
    devices = every_device_of(model.graphs[0], affinity, "OpenVINO needs devices for all operators or none")
    for index, device in enumerate(devices):
        if not device or set(device) & set(",():"):
            message = f"HETERO cannot name a device {device!r}"
            raise EditError(message, location=model.graphs[0].place(index), hint="rename the device")
    if not devices:
        raise EditError("there are no operators to run")
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
    """Return the affinity in a model as an export for `target`; `render.export_text` turns it into text.

    Raises EditError if the model has no affinity or a stale one, or the target would ignore or misread part of it;
    and UsageError for an unknown target.
    """
    if target not in _EXPORTERS:
        raise UsageError(f"unknown export target {target!r}", hint=f"available: {', '.join(get_args(Target))}")
    graph = model_graph(model)
    return Export(target, _EXPORTERS[target](graph, current_affinity(graph)))
