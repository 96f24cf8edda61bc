"""TFLite models in which one operator calls subgraphs: one for each of the operators that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as tfl

from tests.kit.support import packed

FLOAT32, BOOL, INT32 = 0, 6, 2
SIZE = 4
Tensors = list[int]


class Graph:
    """A subgraph under construction."""

    def __init__(self, model: Any, name: str | None) -> None:
        self.model, self.made = model, tfl.SubGraphT()
        self.made.name = name
        self.made.tensors, self.made.operators, self.made.inputs, self.made.outputs = [], [], [], []
        model.subgraphs.append(self.made)

    def tensor(self, name: str, kind: int = FLOAT32, shape: Sequence[int] = (1, SIZE)) -> int:
        made = tfl.TensorT()
        made.name, made.type, made.shape, made.buffer = name, kind, list(shape), 0
        self.made.tensors.append(made)
        return len(self.made.tensors) - 1

    def run(self, code: str, inputs: Tensors, outputs: Tensors, options: Any = None) -> None:
        made = tfl.OperatorT()
        made.inputs, made.outputs, made.opcodeIndex = inputs, outputs, self.code(code)
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            second = hasattr(tfl.BuiltinOptions2, name)
            union, field = ("BuiltinOptions2", "builtinOptions2") if second else ("BuiltinOptions", "builtinOptions")
            setattr(made, field, options)
            setattr(made, f"{field}Type", getattr(getattr(tfl, union), name))
        self.made.operators.append(made)

    def code(self, name: str) -> int:
        number = getattr(tfl.BuiltinOperator, name)
        codes = [code.builtinCode for code in self.model.operatorCodes]
        if number not in codes:
            made = tfl.OperatorCodeT()
            made.builtinCode, made.deprecatedBuiltinCode, made.version = number, min(number, 127), 1
            self.model.operatorCodes.append(made)
            return len(codes)
        return codes.index(number)

    def chain(self, source: int, codes: Sequence[str], prefix: str) -> int:
        """Add operators of one input and one output, one behind the other; return the last output."""
        for index, code in enumerate(codes):
            made = self.tensor(f"{prefix}{index}")
            self.run(code, [source], [made])
            source = made
        return source


def options_of(name: str, **fields: Any) -> Any:
    made = getattr(tfl, f"{name}T")()
    for field, value in fields.items():
        assert hasattr(made, field), field
        setattr(made, field, value)
    return made


BODIES: dict[str, int] = {
    "CALL_ONCE": 1, "IF": 2, "WHILE": 2, "CALL": 1, "STABLEHLO_CASE": 3, "STABLEHLO_COMPOSITE": 1,
    "STABLEHLO_WHILE": 2, "STABLEHLO_CUSTOM_CALL": 2, "STABLEHLO_REDUCE": 1, "STABLEHLO_SORT": 1,
    "STABLEHLO_SCATTER": 1, "STABLEHLO_REDUCE_WINDOW": 1,
}  # fmt: skip
"""Operator -> how many subgraphs it calls."""

OPTIONS: dict[str, Callable[[list[int]], Any]] = {
    "CALL_ONCE": lambda called: options_of("CallOnceOptions", initSubgraphIndex=called[0]),
    "IF": lambda called: options_of("IfOptions", thenSubgraphIndex=called[0], elseSubgraphIndex=called[1]),
    "WHILE": lambda called: options_of("WhileOptions", condSubgraphIndex=called[0], bodySubgraphIndex=called[1]),
    "CALL": lambda called: options_of("CallOptions", subgraph=called[0]),
    "STABLEHLO_CASE": lambda called: options_of("StablehloCaseOptions", branchSubgraphIndices=called),
    "STABLEHLO_COMPOSITE": lambda called: options_of(
        "StableHLOCompositeOptions", decompositionSubgraphIndex=called[0]
    ),
    "STABLEHLO_WHILE": lambda called: options_of(
        "StablehloWhileOptions", condSubgraphIndex=called[0], bodySubgraphIndex=called[1]
    ),
    "STABLEHLO_CUSTOM_CALL": lambda called: options_of("StablehloCustomCallOptions", calledComputations=called),
    "STABLEHLO_REDUCE": lambda called: options_of("StablehloReduceOptions", bodySubgraphIndex=called[0]),
    "STABLEHLO_SORT": lambda called: options_of("StablehloSortOptions", comparatorSubgraphIndex=called[0]),
    "STABLEHLO_SCATTER": lambda called: options_of(
        "StablehloScatterOptions", updateComputationSubgraphIndex=called[0]
    ),
    "STABLEHLO_REDUCE_WINDOW": lambda called: options_of("StablehloReduceWindowOptions", bodySubgraphIndex=called[0]),
}

BODY = ("TANH", "EXP", "TANH", "ABS", "EXP")


def calling(caller: str, *, prefix: str = "", extra: int = 0) -> bytes:
    """Return a model whose main subgraph calls others by one operator; these all have the same operators.

    `prefix` begins the names of tensors; subgraphs have none. `extra` subgraphs that nobody calls stand between the
    main one and the others.
    """
    model = tfl.ModelT()
    model.version, model.subgraphs, model.operatorCodes = 3, [], []
    model.buffers, model.signatureDefs = [tfl.BufferT()], None
    main = Graph(model, None)
    for number in range(extra):
        idle = Graph(model, None)
        x = idle.tensor(f"{prefix}idle{number}x")
        idle.made.inputs, idle.made.outputs = [x], [idle.chain(x, ["NEG"] * (number + 1), f"{prefix}idle{number}.")]
    called = [_body(model, f"{prefix}{caller.lower()}{number}.") for number in range(BODIES[caller])]
    x, y = main.tensor(f"{prefix}x"), main.tensor(f"{prefix}y")
    before = main.chain(x, ["NEG", "ABS"], f"{prefix}before")
    once = caller == "CALL_ONCE"
    main.run(caller, [] if once else [before], [] if once else [y], OPTIONS[caller](called))
    end = main.chain(before if once else y, ["EXP", "NEG"], f"{prefix}after")
    main.made.inputs, main.made.outputs = [x], [end]
    return packed(model, b"TFL3")


def _body(model: Any, prefix: str) -> int:
    graph = Graph(model, None)
    x = graph.tensor(f"{prefix}x")
    graph.made.inputs, graph.made.outputs = [x], [graph.chain(x, BODY, prefix)]
    return len(model.subgraphs) - 1


def subgraph_order(count: int, shuffled: Sequence[int]) -> list[int]:
    """Return an order of subgraphs in which the main one stays first."""
    return [0, *(1 + index for index in shuffled if index < count - 1)]


def names_of(values: Any) -> list[int]:
    return list(np.asarray(values).tolist())
