"""Small models of every shape, and what the published object API reads of them: the ground that graphs stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.kit.build import Build, schema_of
from tests.kit.support import unpacked

CODES = ("ADD", "NEG", "CAST", "RANDOM_UNIFORM", "VAR_HANDLE", "READ_VARIABLE", "CALL_ONCE")
TYPES = ("FLOAT32", "INT8", "RESOURCE")


@dataclass(frozen=True)
class Read:
    """A subgraph as lists, read by the `tflite` package; a slot that is left out is -1."""

    codes: list[str]
    operands: list[list[int]]
    results: list[list[int]]
    inputs: list[int]
    outputs: list[int]
    constants: set[int]
    types: list[str]
    names: list[bytes]
    shapes: list[list[int]]

    def maker(self, value: int) -> int:
        """Return the last operator that makes a value, or -1."""
        return max((at for at, row in enumerate(self.results) if value in row), default=-1)

    def readers(self, value: int) -> list[int]:
        """Return the operators that read a value."""
        return [at for at, row in enumerate(self.operands) if value in row]

    def main(self, operator: int) -> int:
        """Return the first operand that is not a constant, else the first, else -1."""
        row = [value for value in self.operands[operator] if value >= 0]
        computed = [value for value in row if value not in self.constants or self.maker(value) >= 0]
        return next(iter([*computed, *row]), -1)


def read(data: bytes, subgraph: int = 0) -> Read:
    """Return a subgraph of a TFLite model."""
    peer = unpacked(data)
    graph, codes = peer.subgraphs[subgraph], schema_of("tflite").enums["BuiltinOperator"]
    operators = graph.operators or []
    return Read(
        [codes[peer.operatorCodes[one.opcodeIndex].builtinCode] for one in operators],
        [_listed(one.inputs) for one in operators],
        [_listed(one.outputs) for one in operators],
        _listed(graph.inputs),
        _listed(graph.outputs),
        {
            index
            for index, tensor in enumerate(graph.tensors or [])
            if not tensor.isVariable and peer.buffers[tensor.buffer].data is not None
        },
        [schema_of("tflite").enums["TensorType"][tensor.type] for tensor in graph.tensors or []],
        [tensor.name or b"" for tensor in graph.tensors or []],
        [_listed(tensor.shape) for tensor in graph.tensors or []],
    )


def _listed(numbers: Any) -> list[int]:
    return [] if numbers is None else [int(number) for number in numbers]


@st.composite
def models(draw: st.DrawFn, *, ordered: bool = True) -> bytes:
    """Models with one subgraph: gaps, values read twice or by nobody, constants, variables, side effects, wrong ends.

    Those that are `ordered` make each value once, before it is read.
    """
    build = Build()
    graph = build.graph()
    names, held = st.sampled_from(("", "y", "z" * 200, "z" * 201)), st.sampled_from((None, None, None, bytes(8)))
    known = list[int]()
    for number in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            known.append(graph.constant("", np.zeros(2, np.float32)))
        else:
            kind, kept = draw(st.sampled_from(TYPES)), draw(st.booleans())
            known.append(graph.tensor(f"v{number}", (2, 3), kind, is_variable=kept))
    later = list[int]()  # more often read than what comes from outside
    for _ in range(draw(st.integers(0, 7))):
        made = [
            graph.tensor(*draw(st.tuples(names, st.just((2,)), st.sampled_from(TYPES))), data=draw(held))
            for _ in range(draw(st.sampled_from((1, 2, 0))))
        ]
        pool = [*known, *later, *later, *([] if ordered else made)]
        results = made if ordered else [draw(st.sampled_from([*pool, *made])) for _ in made]
        operands = draw(st.lists(st.sampled_from([*pool, -1]), max_size=3))
        graph.operator(draw(st.sampled_from(CODES)), operands, results)
        later += made
    known += later
    ends = st.lists(st.sampled_from([-1, 99, *known]), max_size=2)
    graph.ends(draw(ends), draw(ends))
    return build.to_bytes()
