"""Variables that are handed to called subgraphs as arguments, and come back from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from circletools.runtimes.worker import Worker
from tests.kit.build import Graph
from tests.parts.test_split_state import Streaming, split_at_random


class Calling(Streaming):
    """A model whose operators also hand variables to branches and loops."""

    def called(self, name: str, number: int, inputs: Sequence[tuple[str, Sequence[int], str]]) -> tuple[Graph, int]:
        """Start a subgraph with inputs of these names, shapes and types."""
        graph = Graph(self.build, f"{name}{number}")
        tensors = [graph.tensor(*one) for one in inputs]
        graph.ends(tensors, [])
        return graph, len(self.build.model.subgraphs) - 1

    def branch(self, variables: Sequence[int], value: int, code: str) -> int:
        """Add an IF whose branches read and write the variables; which branch runs, the values decide."""
        numbers = []
        for taken in ("ADD", code):
            inputs = [("x", (1, 4), "FLOAT32"), *((f"h{one}", (), "RESOURCE") for one in variables)]
            graph, number = self.called(f"branch{taken}", len(self.named), inputs)
            last = 0
            for handle in range(1, len(inputs)):
                old = graph.compute("READ_VARIABLE", [handle], f"old{handle}", (1, 4))
                last = graph.compute(taken, [old, last], f"new{handle}", (1, 4))
                graph.operator("ASSIGN_VARIABLE", [handle, last], [])
            graph.ends(range(len(inputs)), [last])
            numbers.append(number)
        many = len(self.named)
        axes = self.graph.constant(f"axes{many}", np.array([0, 1], "<i4"))
        least = self.graph.constant(f"least{many}", np.array(0, "<f4"))
        total = self.graph.compute("SUM", [value, axes], f"sum{many}", ())
        condition = self.graph.tensor(f"condition{many}", (), "BOOL")
        self.graph.operator("GREATER", [total, least], [condition])
        result = self.graph.tensor(f"branch{many}", (1, 4))
        handles = [self.handles[one] for one in variables]
        options: dict[str, Any] = {"then_subgraph_index": numbers[0], "else_subgraph_index": numbers[1]}
        self.graph.operator("IF", [condition, value, *handles], [result], **options)
        self.named += [set(), set(), set(variables)]
        return result

    def loop(self, variables: Sequence[int], value: int, order: Sequence[int]) -> int:
        """Add a WHILE of three turns that writes its first variable; `order` is in which they go round."""
        inputs = [("i", (), "INT32"), ("x", (1, 4), "FLOAT32")]
        inputs += [(f"h{one}", (), "RESOURCE") for one in variables]
        graph, test = self.called("test", len(self.named), inputs)
        go = graph.tensor("go", (), "BOOL")
        graph.operator("LESS", [0, graph.constant("three", np.array(3, "<i4"))], [go])
        graph.ends(range(len(inputs)), [go])
        graph, body = self.called("body", len(self.named), inputs)
        old = graph.compute("READ_VARIABLE", [2], "old", (1, 4))
        mixed = graph.compute("TANH", [graph.compute("ADD", [old, 1], "sum", (1, 4))], "mixed", (1, 4))
        graph.operator("ASSIGN_VARIABLE", [2, mixed], [])
        later = graph.tensor("later", (), "INT32")
        graph.operator("ADD", [0, graph.constant("one", np.array(1, "<i4"))], [later])
        graph.ends(range(len(inputs)), [later, mixed, *(2 + one for one in order)])
        many = len(self.named)
        start = self.graph.constant(f"start{many}", np.array(0, "<i4"))
        made = [self.graph.tensor(f"loop{many}_{name}", shape, kind) for name, shape, kind in inputs]
        handles = [self.handles[one] for one in variables]
        options: dict[str, Any] = {"cond_subgraph_index": test, "body_subgraph_index": body}
        self.graph.operator("WHILE", [start, value, *handles], made, **options)
        used = set(variables) if list(order) != list(range(len(order))) else {variables[0]}
        self.named.append(used)
        return made[1]


def calling(random: Random, variables: int) -> tuple[bytes, list[int], list[set[int]]]:
    """Return operators that hand variables to branches and loops, devices at random, and what each operator uses."""
    model = Calling(variables, variables)
    values = [model.x]
    for _ in range(random.randrange(3, 9)):
        kind, number = random.random(), random.randrange(variables)
        several = random.sample(range(variables), random.randint(1, min(2, variables)))
        if kind < 0.3:
            values.append(model.branch(several, values[-1], random.choice(("SUB", "MUL"))))
        elif kind < 0.6:
            order = random.sample(range(len(several)), len(several))
            values.append(model.loop(several, values[-1], order))
        elif kind < 0.7:
            values.append(model.read(number))
        elif kind < 0.8:
            model.assign(number, values[-1])
        else:
            values.append(model.compute("ADD", *random.choices(values[-3:], k=2)))
    data = model.finish(model.compute("ABS", values[-1]))
    return data, [random.randrange(2) for _ in model.named], model.named


@pytest.mark.runtime
@pytest.mark.parametrize("block", range(2))
def test_variables_in_branches_and_loops_are_distinguished(block: int, tmp_path: Path, litert: Worker) -> None:
    split_at_random(
        lambda random: calling(random, random.randrange(1, 6)), range(block * 8, block * 8 + 8), tmp_path, litert
    )
