"""Make the models of this folder that no converter writes, with the builder of the tests.

Circle models with several subgraphs (TICO writes one), and TFLite models with a composite operator, with a
variable tensor and with custom options behind the flatbuffer.

Run it with a Python that has circletools:

    python testdata/generate_byhand.py            # write every model, to `circle` and to `tflite`
    python testdata/generate_byhand.py circle     # write those of one folder
    python testdata/generate_byhand.py --check    # write nothing, fail if a file would change

There is nothing random here but the weights, which come from fixed seeds.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from model_files import Models, main

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kit.build import Build, Code, Graph

CIRCLE: Models = {}
TFLITE: Models = {}


def enter(models: Models) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    """Enter a function into a table of models, under its name."""

    def decorator(make: Callable[[], bytes]) -> Callable[[], bytes]:
        models[make.__name__] = make
        return make

    return decorator


def random(name: str, *shape: int) -> np.ndarray[Any, Any]:
    """Give weights from a seed that belongs to the model."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return generator.normal(0, 0.3, shape).astype(np.float32)


def by_hand() -> Build:
    """Start a model."""
    return Build("made by hand")


def sign(model: Build, graph: Graph) -> None:
    """Add a signature whose names are those of the subgraph's inputs and outputs."""
    sides = (
        [(graph.table.tensors[at].name, at) for at in side] for side in (graph.table.inputs, graph.table.outputs)
    )
    model.signature("serving_default" if graph.table.name == "main" else graph.table.name, *sides, graph.index)


# ---------------------------------------------------------------------------------------------------
# Circle
# ---------------------------------------------------------------------------------------------------


@enter(CIRCLE)
def while_loop() -> bytes:
    """`for i in range(n): x = tanh(x) + step`; the limit `n` goes through the loop unchanged.

    The numbers have one element, not rank 0: onert's Python interface takes no input of rank 0.
    """
    model = by_hand()
    outside, cond, body = (model.graph(name) for name in ("main", "cond", "body"))

    x, n = outside.tensor("x", [1, 4]), outside.tensor("n", [1], "INT32")
    zero = outside.constant("zero", np.array([0], np.int32))
    ends = [outside.tensor("i_end", [1], "INT32"), outside.tensor("y", [1, 4])]
    ends.append(outside.tensor("n_end", [1], "INT32"))
    outside.operator("WHILE", [zero, x, n], ends, cond_subgraph_index=cond.index, body_subgraph_index=body.index)
    outside.ends([x, n], [ends[1]])

    i, state, limit = cond.tensor("i", [1], "INT32"), cond.tensor("x", [1, 4]), cond.tensor("n", [1], "INT32")
    more = cond.tensor("more", [1], "BOOL")
    cond.operator("LESS", [i, limit], [more])
    cond.ends([i, state, limit], [more])

    i, state, limit = body.tensor("i", [1], "INT32"), body.tensor("x", [1, 4]), body.tensor("n", [1], "INT32")
    bent, moved = body.tensor("bent", [1, 4]), body.tensor("moved", [1, 4])
    following = body.tensor("next", [1], "INT32")
    body.operator("TANH", [state], [bent])
    body.operator("ADD", [bent, body.constant("step", random("while_loop", 4))], [moved])
    body.operator("ADD", [i, body.constant("one", np.array([1], np.int32))], [following])
    body.ends([i, state, limit], [following, moved, limit])
    return model.to_bytes("circle")


@enter(CIRCLE)
def if_cond() -> bytes:
    """`fc1(x) if flag else relu(fc2(x))`."""
    model = by_hand()
    outside, then, other = (model.graph(name) for name in ("main", "then", "else"))
    flag, x, y = outside.tensor("flag", [1], "BOOL"), outside.tensor("x", [1, 4]), outside.tensor("y", [1, 4])
    outside.operator("IF", [flag, x], [y], then_subgraph_index=then.index, else_subgraph_index=other.index)
    outside.ends([flag, x], [y])
    for graph, activation in ((then, "NONE"), (other, "RELU")):
        x, y = graph.tensor("x", [1, 4]), graph.tensor("y", [1, 4])
        name = graph.table.name
        w, b = graph.constant("w", random(name, 4, 4)), graph.constant("b", random(name, 4))
        graph.operator("FULLY_CONNECTED", [x, w, b], [y], fused_activation_function=activation)
        graph.ends([x], [y])
    return model.to_bytes("circle")


@enter(CIRCLE)
def two_signatures() -> bytes:
    """Two subgraphs that use one buffer, and two signatures, in the other order."""
    model = by_hand()
    weights = model.buffer(random("two_signatures", 3, 4).tobytes())
    graphs = []
    for name, activation in (("plain", "NONE"), ("bent", "RELU")):
        graph = model.graph(name)
        x, y = graph.tensor("x", [1, 4]), graph.tensor("y", [1, 3])
        w = graph.tensor("w", [3, 4], buffer=weights)
        graph.operator("FULLY_CONNECTED", [x, w, -1], [y], fused_activation_function=activation)
        graph.ends([x], [y])
        graphs.append(graph)
    for graph in reversed(graphs):
        sign(model, graph)
    return model.to_bytes("circle")


# ---------------------------------------------------------------------------------------------------
# TFLite
# ---------------------------------------------------------------------------------------------------


@enter(TFLITE)
def composite() -> bytes:
    """A composite operator: its options are in the second union, and refer to the subgraph that it represents."""
    model = by_hand()
    outside, inside = model.graph("main"), model.graph("test.bend")
    x, y = outside.tensor("x", [1, 4]), outside.tensor("y", [1, 4])
    outside.operator(
        "STABLEHLO_COMPOSITE",
        [x],
        [y],
        name="test.bend",
        decomposition_subgraph_index=inside.index,
        composite_attributes=bytes(flexbuffers.Dumps({"power": 2})),
        version=1,
    )
    outside.ends([x], [y])
    x, bent, y = (inside.tensor(name, [1, 4]) for name in ("x", "bent", "y"))
    inside.operator("TANH", [x], [bent])
    inside.operator("MUL", [bent, bent], [y])
    inside.ends([x], [y])
    sign(model, outside)
    return model.to_bytes()


@enter(TFLITE)
def variable_tensor() -> bytes:
    """A recurrent operator that keeps its state in a variable tensor, which is neither input nor constant."""
    model = by_hand()
    graph = model.graph("main")
    x, y = graph.tensor("x", [1, 3, 4]), graph.tensor("y", [1, 3, 5])
    state = graph.tensor("state", [1, 5], is_variable=True)
    weights = [graph.constant(name, random(name, *shape)) for name, *shape in (("w", 5, 4), ("r", 5, 5), ("b", 5))]
    operator = graph.operator(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [x, *weights, state],
        [y],
        table="SequenceRNNOptions",
        fused_activation_function="TANH",
    )
    operator.mutating_variable_inputs = [False, False, False, False, True]
    graph.ends([x], [y])
    sign(model, graph)
    return model.to_bytes()


@enter(TFLITE)
def custom_options_external() -> bytes:
    """A custom operator with its options, and a constant with its contents, behind the flatbuffer."""
    options = bytes(flexbuffers.Dumps({"window_size": 8, "stride": 4, "magnitude_squared": False}))
    scale = random("custom_options_external", 20, 1).tobytes()
    head, places = b"", (16, 16)  # any number that is not the default, so that the field is written
    for _ in range(2):
        model = by_hand()
        graph = model.graph("main")
        sound, scaled = graph.tensor("sound", [20, 1]), graph.tensor("scaled", [20, 1])
        spectrum = graph.tensor("spectrum", [1, 4, 5])
        factor = graph.tensor("factor", [20, 1], buffer=model.buffer(offset=places[0], size=len(scale)))
        graph.operator("MUL", [sound, factor], [scaled])
        operator = graph.operator(Code("CUSTOM", custom="AudioSpectrogram"), [scaled], [spectrum])
        operator.large_custom_options_offset, operator.large_custom_options_size = places[1], len(options)
        graph.ends([sound], [spectrum])
        head = padded(model.to_bytes())  # as long the second time, when the right places are known
        places = (len(head), len(head) + len(padded(scale)))
    return head + padded(scale) + options


def padded(data: bytes) -> bytes:
    """Fill up with zeros to a multiple of 16 bytes."""
    return data + bytes(-len(data) % 16)


if __name__ == "__main__":
    chosen = next((name for name in ("circle", "tflite") if name in sys.argv[1:]), None)
    if chosen:
        sys.argv.remove(chosen)
    status = 0
    for folder, models in (("circle", CIRCLE), ("tflite", TFLITE)):
        if chosen in (None, folder):
            status |= main(__doc__, folder, "." + folder, models)
    sys.exit(status)
