"""Variables that are handed to called subgraphs as arguments, and come back from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from circletools.model.model import open_model
from circletools.runtimes.worker import Worker
from tests.kit.build import Build, Graph
from tests.kit.split_support import state_of
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


def resources(build: Build, name: str, count: int, shared: str = "") -> Graph:
    """Start a subgraph with as many handles: inputs, or named by a letter each."""
    graph = build.graph(name)
    handles = [graph.tensor(f"h{number}", (), "RESOURCE") for number in range(count)]
    for handle, letter in zip(handles, shared, strict=False):
        graph.operator("VAR_HANDLE", [], [handle], shared_name=letter)
    graph.ends([] if shared else handles, [])
    return graph


def users(build: Build, subgraph: int = 0) -> dict[str, list[int]]:
    """Return the operators that use what is written."""
    with open_model(build.to_bytes()) as model:
        return dict(state_of(model, subgraph).users)


def write(graph: Graph, handle: int) -> None:
    """Add an operator that sets a variable."""
    graph.operator("ASSIGN_VARIABLE", [handle, graph.tensor("value")], [])


def test_an_operator_uses_of_its_arguments_what_the_called_use() -> None:
    build = Build()
    graph = resources(build, "main", 3, "abc")
    graph.operator("IF", [graph.tensor("is", (), "BOOL"), 0, 1], [], then_subgraph_index=1, else_subgraph_index=2)
    graph.operator("CALL", [2, 1], [], subgraph=3)
    graph.operator("READ_VARIABLE", [1], [graph.tensor("read")])
    graph.operator("READ_VARIABLE", [2], [graph.tensor("read_too")])
    resources(build, "nothing", 2)
    write(resources(build, "second", 2), 1)
    write(resources(build, "first", 2), 0)
    assert users(build) == {"variable 'b'": [3, 5], "variable 'c'": [4, 6]}
    with open_model(build.to_bytes()) as model:  # who is handed a variable needs its name, used or not
        assert dict(state_of(model).copied) == {0: [3], 1: [3, 4, 5], 2: [4, 6]}


def test_arguments_are_followed_through_several_calls() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    graph.operator("CALL", [0, 1], [], subgraph=1)
    graph.operator("CALL", [1, 0], [], subgraph=1)
    middle = resources(build, "middle", 2)
    middle.operator("CALL", [1, 0], [], subgraph=2)
    last = resources(build, "last", 2)
    write(last, 0)
    last.operator("READ_VARIABLE", [0], [last.tensor("read")])
    assert users(build) == {"variable 'a'": [2, 3], "variable 'b'": [2, 3]}  # the same operators get both


def test_each_caller_uses_only_what_it_hands_over() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    kept = graph.tensor("kept", (1, 4), is_variable=True)
    graph.operator("CALL", [0], [], subgraph=1)
    graph.operator("CALL", [1, kept], [], subgraph=2)
    graph.operator("CALL", [1], [], subgraph=1)
    write(resources(build, "called", 1), 0)
    second = resources(build, "second", 1)
    second.operator("CALL", [0], [], subgraph=1)
    second.ends([0, second.tensor("kept", (1, 4))], [])
    assert users(build) == {"variable 'a'": [2], "variable 'b'": [3, 4], "the variable tensor 'kept'": [3]}


@pytest.mark.parametrize(
    ("order", "expected"),
    [([0, 1], {"variable 'a'": [2]}), ([1, 0], {"variable 'a'": [2], "variable 'b'": [2]})],
)
def test_what_goes_round_in_a_loop_is_used_where_it_comes_by(
    order: list[int], expected: dict[str, list[int]]
) -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    given = [graph.tensor(f"after{number}", (), "RESOURCE") for number in range(2)]
    graph.operator("WHILE", [0, 1], given, cond_subgraph_index=1, body_subgraph_index=2)
    test = resources(build, "test", 2)
    test.ends([0, 1], [test.tensor("go", (), "BOOL")])
    body = resources(build, "body", 2)
    write(body, 0)
    body.ends([0, 1], order)
    assert users(build) == expected


@pytest.mark.parametrize("number", [0, 1])
def test_a_variable_that_comes_back_stays_with_who_gives_it(number: int) -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    given = [graph.tensor(f"after{number}", (), "RESOURCE") for number in range(2)]
    graph.operator("CALL", [0, 1], given, subgraph=1)
    write(graph, given[number])
    called = resources(build, "called", 2)
    called.ends([0, 1], [1, 0])
    name = "ba"[number]
    assert users(build) == {f"variable {name!r}": [3], f"the resource that tensor {given[number]} names": [2, 3]}


def test_a_loop_of_no_turns_hands_on_what_it_was_given() -> None:
    build = Build()
    graph = resources(build, "main", 1, "a")
    given = graph.tensor("after", (), "RESOURCE")
    graph.operator("WHILE", [0], [given], cond_subgraph_index=1, body_subgraph_index=2)
    write(graph, given)
    resources(build, "test", 1)
    body = build.graph("body")
    inside = [body.tensor(name, (), "RESOURCE") for name in ("h", "other")]
    body.operator("VAR_HANDLE", [], [inside[1]], shared_name="b")
    body.ends(inside[:1], inside[1:])
    assert users(build).keys() == {"variable 'a'", "variable 'b'", f"the resource that tensor {given} names"}


def test_what_is_given_too_little_uses_what_nobody_knows() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    graph.operator("CALL", [0], [], subgraph=1)
    graph.operator("CALL", [1], [], subgraph=2)
    again = resources(build, "again", 1)
    again.operator("CALL", [0], [], subgraph=1)
    write(resources(build, "two", 2), 1)
    assert users(build) == {"an unknown resource": [3]}  # what only calls itself uses nothing


def test_a_name_may_be_an_integer() -> None:
    build = Build()
    graph = build.graph()
    named, known = graph.tensor("named", (), "INT32"), graph.tensor("known", (), "INT32", data=bytes(4))
    graph.operator("VAR_HANDLE", [], [named], shared_name="a")
    write(graph, named)
    write(graph, known)
    graph.operator("READ_VARIABLE", [known], [graph.tensor("read")])
    graph.ends([], [])
    assert users(build) == {"variable 'a'": [1], "an unknown resource": [2, 3]}


@pytest.mark.runtime
@pytest.mark.parametrize("block", range(2))
def test_variables_in_branches_and_loops_are_told_apart(block: int, tmp_path: Path, litert: Worker) -> None:
    split_at_random(
        lambda random: calling(random, random.randrange(1, 6)), range(block * 8, block * 8 + 8), tmp_path, litert
    )
