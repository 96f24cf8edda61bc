"""Models in OpenVINO, each with its operator graph: generated models, and models read from files.

OpenVINO's hetero plugin also counts constants and inputs: one that two operators read keeps both in one subgraph, and
causes a cut if they are on different devices. For a fair comparison, every reader gets its own copy (`_separate`),
and an output that no operator computes is left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.graphs import Shape
from circletools.graph.algorithms import Dag, dag_from_edges
from tests.kit.presence import Lazy

openvino = Lazy("openvino")
ops = Lazy("openvino.opset13")
Value = NDArray[Any]
DEVICES = ("CPU", "CPUB", "CPUC")
_OUTSIDE = ("Parameter", "Constant", "Result")
_WIDTH = 8  # numbers in a row of a generated tensor


@dataclass(frozen=True, slots=True)
class Network:
    """A model whose operators are named "0", "1" and so on, and its graph; `kinds` are OpenVINO's or a shape's."""

    name: str
    model: Any
    graph: Dag
    kinds: list[str]


def start_core() -> Any:
    """Return OpenVINO with the CPU as three devices, all of which compute in float32."""
    core = openvino.Core()
    # The second setting prevents integer computation if quantized neighbors are in one subgraph.
    exact = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_NUM_THREADS": 1}
    for device in DEVICES:
        if device != "CPU":  # the name must begin with CPU
            core.register_plugin("openvino_intel_cpu_plugin", device)
        core.set_property(device, exact)
    return core


# --- generated models --------------------------------------------------------------------------------------------


def make(name: str, shape: Shape) -> Network:
    """Return a model with one OpenVINO operator for each operator of a shape."""
    feeders: list[list[int]] = [[] for _ in shape.kinds]
    for source, target in shape.edges:
        feeders[target].append(source)
    maker = _Maker()
    for row in feeders:
        maker.add(row)
    read = {source for source, _ in shape.edges}
    results = [maker.made[operator] for operator in range(len(feeders)) if operator not in read]
    return _network(name, openvino.Model(results, maker.parameters, "made"), maker.made, shape.kinds)


class _Maker:
    """Adds operators whose values neither explode nor lose information: a wrong connection changes results."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.parameters: list[Any] = []
        self._bound: list[float] = []  # bounds of the magnitudes
        self._random = random.Random(1)  # noqa: S311 - made input, no secret

    def add(self, feeders: Sequence[int]) -> None:
        inputs = [self.made[feeder] for feeder in feeders]
        bound = sum(self._bound[feeder] for feeder in feeders)
        if not inputs:
            self.parameters.append(ops.parameter([1, _WIDTH], np.float32))
            made, bound = ops.tanh(self.parameters[-1]), 1.0
        elif len(inputs) == 1:
            made, bound = self._unary(inputs[0], bound)
        elif len(inputs) > 2 or inputs[0].shape != inputs[1].shape:
            made, bound = ops.concat(inputs, 0), max(self._bound[feeder] for feeder in feeders)
        elif bound > 8:
            made = self._random.choice((ops.maximum, ops.minimum))(*inputs)
        else:
            made = self._random.choice((ops.add, ops.subtract))(*inputs)
        self.made.append(made)
        self._bound.append(bound)

    def _unary(self, fed: Any, bound: float) -> tuple[Any, float]:
        if fed.shape[0] > 1:
            axis = ops.constant(np.array([0], np.int64))
            return ops.reduce_mean(fed, axis, keep_dims=True), bound
        if bound > 4:
            return ops.tanh(fed), 1.0
        return self._random.choice((ops.negative, ops.abs, ops.sin, ops.tanh))(fed), bound


def random_shape(count: int, reach: int, seed: int) -> Shape:
    """Return a random graph in which every operator reads up to three of the `reach` preceding ones."""
    generator = random.Random(seed)  # noqa: S311 - made input, no secret
    shape = Shape()
    for operator in range(count):
        near = range(max(0, operator - reach), operator)
        (wanted,) = generator.choices(range(4), (5, 50, 30, 15))
        shape.add(generator.choice("ABCD"), *generator.sample(near, min(wanted, len(near))))
    return shape


# --- models from files ----------------------------------------------------------------------------------------


def load(core: Any, path: Path) -> Network | None:
    """Return the model in a file, or None if OpenVINO does not read it or gives it state."""
    try:
        model = core.read_model(path)
    except Exception:
        return None
    operators = [op for op in model.get_ordered_ops() if op.get_type_name() not in _OUTSIDE]
    results = [output for output in map(_fed_by, model.get_results()) if not _is_outside(output)]
    if not operators or not results or model.get_sinks():
        return None
    whole = openvino.Model(results, _separate(operators), path.stem)
    return _network(path.stem, whole, operators, [op.get_type_name() for op in operators])


def _fed_by(result: Any) -> Any:
    return result.input_value(0)


def _is_outside(output: Any) -> bool:
    return output.get_node().get_type_name() in _OUTSIDE


def _separate(operators: Sequence[Any]) -> list[Any]:
    """Give every reader of a constant or an input its own copy, and return the inputs."""
    parameters = []
    for op in operators:
        for slot in op.inputs():
            source = slot.get_source_output().get_node()
            if source.get_type_name() == "Constant":
                slot.replace_source_output(openvino.op.Constant(source.tensor_view, shared_memory=False).output(0))
            elif source.get_type_name() == "Parameter":
                copy = ops.parameter(source.get_output_partial_shape(0), source.get_output_element_type(0))
                slot.replace_source_output(copy.output(0))
                parameters.append(copy)
    return parameters


def _network(name: str, model: Any, operators: Sequence[Any], kinds: list[str]) -> Network:
    for number, op in enumerate(operators):
        op.set_friendly_name(str(number))
    outside = [op for op in model.get_ordered_ops() if op.get_type_name() in _OUTSIDE]
    for number, op in enumerate(outside):
        op.set_friendly_name(f"outside {number}")
    edges = [
        (int(source.get_node().get_friendly_name()), number)
        for number, op in enumerate(operators)
        for source in op.input_values()
        if not _is_outside(source)
    ]
    table = np.array(edges, np.int64).reshape(-1, 2)
    return Network(name, model, dag_from_edges(len(operators), table[:, 0], table[:, 1]), kinds)


# --- OpenVINO's results ----------------------------------------------------------------------------


def submodels(core: Any, network: Network, devices: Sequence[int]) -> int:
    """Return the number of subgraphs into which the hetero plugin divides a model."""
    for op in network.model.get_ordered_ops():
        kind = op.get_type_name()
        if kind == "Result":
            op_or_neighbor = op.input_value(0).get_node()
        elif kind in _OUTSIDE:
            op_or_neighbor = next(iter(op.output(0).get_target_inputs())).get_node()
        else:
            op_or_neighbor = op
        op.get_rt_info()["affinity"] = DEVICES[devices[int(op_or_neighbor.get_friendly_name())]]
    compiled = core.compile_model(network.model, f"HETERO:{','.join(DEVICES)}")
    return int(compiled.get_property("HETERO_NUMBER_OF_SUBMODELS"))


Slot = tuple[str, int]
"""An operator's output: the operator's name, and the output's index."""
Values = dict[Slot, Value]


def feed(network: Network, seed: int = 0) -> Values:
    """Return random values for the inputs; open sizes become 2, and integers are 0 or 1."""
    generator = np.random.default_rng(seed)
    values = {}
    for parameter in network.model.get_parameters():
        shape = [size.get_length() if size.is_static else 2 for size in parameter.get_partial_shape()]
        dtype = parameter.get_element_type().to_dtype()
        is_whole = not np.issubdtype(dtype, np.floating)
        numbers = generator.integers(0, 2, shape) if is_whole else generator.standard_normal(shape)
        values[parameter.get_friendly_name(), 0] = np.asarray(numbers, dtype)
    return values


def run_whole(core: Any, network: Network, fed: Values) -> Values:
    """Return the results of a whole model on one device."""
    return _run(core, network.model, [_slot(result.input_value(0)) for result in network.model.get_results()], fed)


def run_parts(core: Any, network: Network, parts: Sequence[Sequence[int]], fed: Values) -> Values:
    """Return the results of a model whose parts run as separate models, in this order.

    Raises KeyError for a part that needs the result of a later one.
    """
    model = network.model.clone()
    results = [_slot(result.input_value(0)) for result in model.get_results()]
    known = dict(fed)
    for part, made in _cut(model, parts, results):
        known |= _run(core, part, made, known)
    return {slot: known[slot] for slot in results}


def _run(core: Any, model: Any, made: Sequence[Slot], known: Values) -> Values:
    request = core.compile_model(model, "CPU").create_infer_request()
    request.infer([known[_origin(parameter)] for parameter in model.get_parameters()])
    return {slot: request.get_output_tensor(index).data.copy() for index, slot in enumerate(made)}


def _cut(model: Any, parts: Sequence[Sequence[int]], results: Sequence[Slot]) -> list[tuple[Any, list[Slot]]]:
    """Cut a model into parts; return, for each part, a model and its outputs that others read or that are results."""
    operators = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
    home = {str(operator): index for index, part in enumerate(parts) for operator in part}
    inputs: list[dict[Slot, Any]] = [{} for _ in parts]
    wanted = dict.fromkeys(results)
    for name, index in home.items():
        for reader in operators[name].inputs():
            source = reader.get_source_output()
            kind, slot = source.get_node().get_type_name(), _slot(source)
            if kind == "Parameter":
                inputs[index][slot] = source.get_node()
            elif kind != "Constant" and home[slot[0]] != index:
                wanted[slot] = None
                if slot not in inputs[index]:
                    parameter = ops.parameter(source.get_partial_shape(), source.get_element_type())
                    parameter.set_friendly_name(f"{slot[0]}:{slot[1]}")
                    inputs[index][slot] = parameter
                reader.replace_source_output(inputs[index][slot].output(0))
    pieces = []
    for index in range(len(parts)):
        made = [slot for slot in wanted if home[slot[0]] == index]
        outputs = [operators[name].output(port) for name, port in made]
        pieces.append((openvino.Model(outputs, list(inputs[index].values())), made))
    return pieces


def _slot(output: Any) -> Slot:
    return output.get_node().get_friendly_name(), output.get_index()


def _origin(parameter: Any) -> Slot:
    name, _, port = parameter.get_friendly_name().partition(":")
    return name, int(port or 0)
