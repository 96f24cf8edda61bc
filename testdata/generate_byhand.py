"""Make the models of this folder that no converter writes, with the published classes of the two schemas.

Circle models with several subgraphs (TICO writes one), and TFLite models with a composite operator, with a
variable tensor and with custom options behind the flatbuffer.

Run it with a Python that has circle-schema 0.10.1 and ai-edge-litert 2.3 (the project's `test` extra):

    python testdata/generate_byhand.py            # write every model, to `circle` and to `tflite`
    python testdata/generate_byhand.py circle     # write those of one folder
    python testdata/generate_byhand.py --check    # write nothing, fail if a file would change

There is nothing random here but the weights, which come from fixed seeds.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tflite
from circle_schema import circle
from flatbuffers import flexbuffers
from model_files import Models, main

CIRCLE: Models = {}
TFLITE: Models = {}


def enter(models: Models) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    """Enter a function into a table of models, under its name."""

    def decorator(make: Callable[[], bytes]) -> Callable[[], bytes]:
        models[make.__name__] = make
        return make

    return decorator


class Format:
    """One of the two formats: where its classes are and what stands in the head of its files."""

    def __init__(self, tag: bytes, version: int, find: Callable[[str], Any]) -> None:
        self.tag = tag
        self.version = version
        self.find = find

    def table(self, kind: str, **fields: Any) -> Any:
        """Make an object of the object API and set its fields."""
        made = self.find(kind + "T")()
        for name, value in fields.items():
            if not hasattr(made, name):
                raise AttributeError(f"{kind} has no field {name}")
            setattr(made, name, value)
        return made

    def number(self, enum: str, name: str) -> int:
        value: int = getattr(self.find(enum), name)
        return value


CIRCLE_FORMAT = Format(b"CIR0", 0, lambda name: getattr(getattr(circle, name.removesuffix("T")), name))
TFLITE_FORMAT = Format(b"TFL3", 3, lambda name: getattr(tflite, name))

NUMPY_TYPES = {"float32": "FLOAT32", "int32": "INT32", "bool": "BOOL"}


class Builder:
    """A model under construction."""

    def __init__(self, kind: Format) -> None:
        self.kind = kind
        self.codes: list[tuple[str, str | None]] = []
        self.root = kind.table("Model", version=kind.version, description="made by hand")
        self.root.operatorCodes, self.root.subgraphs = [], []
        self.root.buffers = [kind.table("Buffer")]

    def buffer(self, data: bytes) -> int:
        self.root.buffers.append(self.kind.table("Buffer", data=np.frombuffer(data, np.uint8)))
        return len(self.root.buffers) - 1

    def code(self, name: str, custom: str | None = None) -> int:
        if (name, custom) not in self.codes:
            self.codes.append((name, custom))
            number = self.kind.number("BuiltinOperator", name)
            self.root.operatorCodes.append(
                self.kind.table(
                    "OperatorCode",
                    builtinCode=number,
                    deprecatedBuiltinCode=min(number, 127),
                    customCode=custom,
                    version=1,
                )
            )
        return self.codes.index((name, custom))

    def graph(self, name: str) -> Graph:
        return Graph(self, name)

    def signature(self, key: str, graph: Graph) -> None:
        """Add a signature whose names are those of the subgraph's inputs and outputs."""

        def entries(tensors: Sequence[int]) -> list[Any]:
            return [
                self.kind.table("TensorMap", name=graph.made.tensors[index].name, tensorIndex=index)
                for index in tensors
            ]

        made = self.kind.table("SignatureDef", signatureKey=key, subgraphIndex=graph.index)
        made.inputs, made.outputs = entries(graph.made.inputs), entries(graph.made.outputs)
        self.root.signatureDefs = [*(self.root.signatureDefs or []), made]

    def finish(self) -> bytes:
        builder = flatbuffers.Builder()
        builder.Finish(self.root.Pack(builder), self.kind.tag)
        return bytes(builder.Output())


class Graph:
    """A subgraph under construction."""

    def __init__(self, model: Builder, name: str) -> None:
        self.model = model
        self.kind = model.kind
        self.index = len(model.root.subgraphs)
        self.made = self.kind.table("SubGraph", name=name)
        self.made.tensors, self.made.operators = [], []
        self.made.inputs, self.made.outputs = [], []
        model.root.subgraphs.append(self.made)

    def tensor(self, name: str, shape: Sequence[int], dtype: str = "float32", **fields: Any) -> int:
        self.made.tensors.append(
            self.kind.table(
                "Tensor",
                name=name,
                shape=list(shape),
                type=self.kind.number("TensorType", NUMPY_TYPES[dtype]),
                hasRank=True,
                **fields,
            )
        )
        return len(self.made.tensors) - 1

    def constant(self, name: str, values: Any) -> int:
        values = np.asarray(values)
        return self.tensor(name, values.shape, values.dtype.name, buffer=self.model.buffer(values.tobytes()))

    def run(self, name: str, inputs: Sequence[int], outputs: Sequence[int], **more: Any) -> Any:
        """Add an operator; `options` is its options object, `custom` the name of a custom operator."""
        options = more.pop("options", None)
        made = self.kind.table("Operator", opcodeIndex=self.model.code(name, more.pop("custom", None)), **more)
        made.inputs, made.outputs = list(inputs), list(outputs)
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            union = "BuiltinOptions2" if kind.startswith("StableHLO") else "BuiltinOptions"
            field = union[0].lower() + union[1:]
            setattr(made, field, options)
            setattr(made, field + "Type", self.kind.number(union, kind))
        self.made.operators.append(made)
        return made


def random(name: str, *shape: int) -> np.ndarray[Any, Any]:
    """Give weights from a seed that belongs to the model."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return generator.normal(0, 0.3, shape).astype(np.float32)


# ---------------------------------------------------------------------------------------------------
# Circle
# ---------------------------------------------------------------------------------------------------


@enter(CIRCLE)
def while_loop() -> bytes:
    """`for i in range(n): x = tanh(x) + step`; the limit `n` goes through the loop unchanged.

    The numbers have one element, not rank 0: onert's Python interface takes no input of rank 0.
    """
    model = Builder(CIRCLE_FORMAT)
    add = model.kind.table("AddOptions")
    main_graph, cond, body = (model.graph(name) for name in ("main", "cond", "body"))

    x, n = main_graph.tensor("x", [1, 4]), main_graph.tensor("n", [1], "int32")
    zero = main_graph.constant("zero", np.array([0], np.int32))
    ends = [main_graph.tensor("i_end", [1], "int32"), main_graph.tensor("y", [1, 4])]
    ends.append(main_graph.tensor("n_end", [1], "int32"))
    options = model.kind.table("WhileOptions", condSubgraphIndex=cond.index, bodySubgraphIndex=body.index)
    main_graph.run("WHILE", [zero, x, n], ends, options=options)
    main_graph.made.inputs, main_graph.made.outputs = [x, n], [ends[1]]

    i, state, limit = cond.tensor("i", [1], "int32"), cond.tensor("x", [1, 4]), cond.tensor("n", [1], "int32")
    more = cond.tensor("more", [1], "bool")
    cond.run("LESS", [i, limit], [more], options=model.kind.table("LessOptions"))
    cond.made.inputs, cond.made.outputs = [i, state, limit], [more]

    i, state, limit = body.tensor("i", [1], "int32"), body.tensor("x", [1, 4]), body.tensor("n", [1], "int32")
    bent, moved, following = (
        body.tensor("bent", [1, 4]),
        body.tensor("moved", [1, 4]),
        body.tensor("next", [1], "int32"),
    )
    body.run("TANH", [state], [bent])
    body.run("ADD", [bent, body.constant("step", random("while_loop", 4))], [moved], options=add)
    body.run("ADD", [i, body.constant("one", np.array([1], np.int32))], [following], options=add)
    body.made.inputs, body.made.outputs = [i, state, limit], [following, moved, limit]
    return model.finish()


@enter(CIRCLE)
def if_cond() -> bytes:
    """`fc1(x) if flag else relu(fc2(x))`."""
    model = Builder(CIRCLE_FORMAT)
    main_graph, then, other = (model.graph(name) for name in ("main", "then", "else"))
    flag, x, y = (
        main_graph.tensor("flag", [1], "bool"),
        main_graph.tensor("x", [1, 4]),
        main_graph.tensor("y", [1, 4]),
    )
    options = model.kind.table("IfOptions", thenSubgraphIndex=then.index, elseSubgraphIndex=other.index)
    main_graph.run("IF", [flag, x], [y], options=options)
    main_graph.made.inputs, main_graph.made.outputs = [flag, x], [y]
    for graph, activation in ((then, "NONE"), (other, "RELU")):
        x, y = graph.tensor("x", [1, 4]), graph.tensor("y", [1, 4])
        name = graph.made.name
        w, b = graph.constant("w", random(name, 4, 4)), graph.constant("b", random(name, 4))
        number = model.kind.number("ActivationFunctionType", activation)
        options = model.kind.table("FullyConnectedOptions", fusedActivationFunction=number)
        graph.run("FULLY_CONNECTED", [x, w, b], [y], options=options)
        graph.made.inputs, graph.made.outputs = [x], [y]
    return model.finish()


@enter(CIRCLE)
def two_signatures() -> bytes:
    """Two subgraphs that use one buffer, and two signatures, in the other order."""
    model = Builder(CIRCLE_FORMAT)
    weights = model.buffer(random("two_signatures", 3, 4).tobytes())
    graphs = []
    for name, activation in (("plain", "NONE"), ("bent", "RELU")):
        graph = model.graph(name)
        x, y = graph.tensor("x", [1, 4]), graph.tensor("y", [1, 3])
        number = model.kind.number("ActivationFunctionType", activation)
        options = model.kind.table("FullyConnectedOptions", fusedActivationFunction=number)
        graph.run("FULLY_CONNECTED", [x, graph.tensor("w", [3, 4], buffer=weights), -1], [y], options=options)
        graph.made.inputs, graph.made.outputs = [x], [y]
        graphs.append(graph)
    for graph in reversed(graphs):
        model.signature(graph.made.name, graph)
    return model.finish()


# ---------------------------------------------------------------------------------------------------
# TFLite
# ---------------------------------------------------------------------------------------------------


@enter(TFLITE)
def composite() -> bytes:
    """A composite operator: its options are of the second union, and name the subgraph it stands for."""
    model = Builder(TFLITE_FORMAT)
    main_graph, inside = model.graph("main"), model.graph("test.bend")
    x, y = main_graph.tensor("x", [1, 4]), main_graph.tensor("y", [1, 4])
    attributes = flexbuffers.Dumps({"power": 2})
    options = model.kind.table(
        "StableHLOCompositeOptions",
        name="test.bend",
        decompositionSubgraphIndex=inside.index,
        compositeAttributes=np.frombuffer(attributes, np.uint8),
        version=1,
    )
    main_graph.run("STABLEHLO_COMPOSITE", [x], [y], options=options)
    main_graph.made.inputs, main_graph.made.outputs = [x], [y]
    x, bent, y = (inside.tensor(name, [1, 4]) for name in ("x", "bent", "y"))
    inside.run("TANH", [x], [bent])
    inside.run("MUL", [bent, bent], [y], options=model.kind.table("MulOptions"))
    inside.made.inputs, inside.made.outputs = [x], [y]
    model.signature("serving_default", main_graph)
    return model.finish()


@enter(TFLITE)
def variable_tensor() -> bytes:
    """A recurrent operator that keeps its state in a variable tensor, which is neither input nor constant."""
    model = Builder(TFLITE_FORMAT)
    graph = model.graph("main")
    x, y = graph.tensor("x", [1, 3, 4]), graph.tensor("y", [1, 3, 5])
    state = graph.tensor("state", [1, 5], isVariable=True)
    weights = [
        graph.constant("w", random("w", 5, 4)),
        graph.constant("r", random("r", 5, 5)),
        graph.constant("b", random("b", 5)),
    ]
    number = model.kind.number("ActivationFunctionType", "TANH")
    options = model.kind.table("SequenceRNNOptions", fusedActivationFunction=number)
    made = graph.run("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *weights, state], [y], options=options)
    made.mutatingVariableInputs = [False, False, False, False, True]
    graph.made.inputs, graph.made.outputs = [x], [y]
    model.signature("serving_default", graph)
    return model.finish()


@enter(TFLITE)
def custom_options_external() -> bytes:
    """A custom operator with its options, and a constant with its contents, behind the flatbuffer."""
    options = bytes(flexbuffers.Dumps({"window_size": 8, "stride": 4, "magnitude_squared": False}))
    scale = random("custom_options_external", 20, 1).tobytes()
    places = (16, 16)  # any number that is not the default, so that the field is written
    for _ in range(2):
        model = Builder(TFLITE_FORMAT)
        graph = model.graph("main")
        sound, scaled = graph.tensor("sound", [20, 1]), graph.tensor("scaled", [20, 1])
        spectrum = graph.tensor("spectrum", [1, 4, 5])
        model.root.buffers.append(model.kind.table("Buffer", offset=places[0], size=len(scale)))
        factor = graph.tensor("factor", [20, 1], buffer=len(model.root.buffers) - 1)
        graph.run("MUL", [sound, factor], [scaled], options=model.kind.table("MulOptions"))
        graph.run(
            "CUSTOM",
            [scaled],
            [spectrum],
            custom="AudioSpectrogram",
            largeCustomOptionsOffset=places[1],
            largeCustomOptionsSize=len(options),
        )
        graph.made.inputs, graph.made.outputs = [sound], [spectrum]
        head = padded(model.finish())  # as long the second time, when the right places are known
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
