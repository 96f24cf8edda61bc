"""Models that keep something from run to run: what is copied into parts, what must be together, and the values."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

import circletools as ct
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.plan import plan_split
from circletools.parts.verify import compare_runs
from circletools.runtimes.worker import Worker
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, Graph
from tests.kit.split_support import DEVICES, by_list, split_to, state_of, with_devices


class Streaming:
    """A model with variables: `steps` of (code, variables used), and what the subgraph called once sets."""

    def __init__(self, variables: int, initialised: int) -> None:
        self.build = Build()
        self.graph, self.first = Graph(self.build, "main"), Graph(self.build, "first")
        self.x = self.graph.tensor("x", (1, 4))
        self.named: list[set[int]] = []  # by operator: the variables that it uses; empty for those that are copied
        if initialised:
            self.graph.operator("CALL_ONCE", [], [], init_subgraph_index=1)
            self.named.append(set())
        self.handles = [self.handle(self.graph, number) for number in range(variables)]
        self.named += [set()] * variables
        for number in range(initialised):
            value = self.first.tensor(f"value{number}", (1, 4), data=np.full(4, number + 1, "<f4").tobytes())
            self.first.operator("ASSIGN_VARIABLE", [self.handle(self.first, number), value], [])
        self.first.ends([], [])

    @staticmethod
    def handle(graph: Graph, number: int) -> int:
        made = graph.tensor(f"handle{number}", (), "RESOURCE")
        graph.operator("VAR_HANDLE", [], [made], shared_name=f"state{number}", container="")
        return made

    def read(self, number: int) -> int:
        self.named.append({number})
        return self.graph.compute("READ_VARIABLE", [self.handles[number]], f"t{len(self.named)}", (1, 4))

    def assign(self, number: int, value: int) -> None:
        self.graph.operator("ASSIGN_VARIABLE", [self.handles[number], value], [])
        self.named.append({number})

    def compute(self, code: str, *inputs: int) -> int:
        self.named.append(set())
        return self.graph.compute(code, list(inputs), f"t{len(self.named)}", (1, 4))

    def finish(self, *outputs: int) -> bytes:
        self.graph.ends([self.x], list(outputs))
        return self.build.to_bytes()


def layered(random: Random, variables: int) -> tuple[bytes, list[int]]:
    """Return layers that each read a variable, mix it with what comes in and write it; and devices that suit them."""
    model = Streaming(variables, variables)
    devices = [random.randrange(3) for _ in model.named]
    value = model.x
    for number in range(variables):
        device, start = random.randrange(3), len(model.named)
        old = model.read(number)
        mixed = model.compute(random.choice(("ADD", "MUL", "SUB")), old, value)
        value = model.compute("TANH", mixed)
        if random.random() < 0.8:
            model.assign(number, random.choice((mixed, value)))
        if random.random() < 0.4:
            value = model.compute("ADD", model.read(number), value)
        devices += [device] * (len(model.named) - start)
        if random.random() < 0.6:
            value = model.compute(random.choice(("NEG", "ABS")), value)
            devices.append(random.randrange(3))
    return model.finish(value), devices


def tangled(random: Random, variables: int) -> tuple[bytes, list[int], list[set[int]]]:
    """Return operators that read, write and mix at random, devices at random, and what each operator uses."""
    model = Streaming(variables, variables)
    values = [model.x]
    for _ in range(random.randrange(4, 20)):
        kind, number = random.random(), random.randrange(variables)
        if kind < 0.3:
            values.append(model.read(number))
        elif kind < 0.5:
            model.assign(number, random.choice(values[-4:]))
        else:
            values.append(model.compute(random.choice(("ADD", "MUL")), *random.choices(values[-5:], k=2)))
    data = model.finish(model.compute("ABS", values[-1]))
    return data, [random.randrange(2) for _ in model.named], model.named


@pytest.mark.runtime
@pytest.mark.parametrize("variables", range(1, 15))
def test_layers_with_a_variable_each_compute_the_same_in_parts(
    variables: int, tmp_path: Path, litert: Worker
) -> None:
    data, devices = layered(Random(variables), variables)  # noqa: S311
    split_to(with_devices(data, by_list(devices), "min"), tmp_path / "parts", "tflite")
    files = open_split(tmp_path / "parts")
    assert check_files(files) == []
    assert compare_runs(files, litert) == []


def reachable(data: bytes) -> np.ndarray:
    """Return whether the values of one operator reach another, by Warshall's algorithm on the tensors alone."""
    with open_model(data) as model:
        operators = [(set(op.inputs), set(op.outputs)) for op in model.subgraphs[0].operators]
    reach = np.array([[not made.isdisjoint(read) for read, _ in operators] for _, made in operators])
    for middle in range(len(operators)):
        reach |= np.outer(reach[:, middle], reach[middle])
    return reach


@pytest.mark.runtime
@pytest.mark.parametrize("block", range(8))
def test_random_states_are_split_or_refused_for_a_true_reason(block: int, tmp_path: Path, litert: Worker) -> None:
    split_at_random(
        lambda random: tangled(random, random.randrange(1, 4)), range(block * 5, block * 5 + 5), tmp_path, litert
    )


def split_at_random(
    make: Callable[[Random], tuple[bytes, list[int], list[set[int]]]], seeds: range, folder: Path, litert: Worker
) -> None:
    """Check that models made from seeds are split, or refused for a true reason; then keep users together."""
    refused = 0
    for seed in seeds:
        data, devices, used = make(Random(seed))  # noqa: S311
        parts = folder / str(seed) / "parts"
        parts.parent.mkdir()
        error = tried(data, devices, parts)
        if error is not None:
            refused += 1
            assert_true(error, data, devices, used)
            user = next(operator for operator, its in enumerate(used) if its)
            assert tried(data, kept_together(data, user), parts) is None
        files = open_split(parts)
        assert check_files(files) == [], seed
        assert compare_runs(files, litert) == [], seed
    assert refused


def tried(data: bytes, devices: list[int], folder: Path) -> EditError | None:
    """Split a model; return the error, None where there was none."""
    try:
        split_to(with_devices(data, by_list(devices), "min"), folder, "tflite")
    except EditError as error:
        return error
    return None


def kept_together(data: bytes, operator: int) -> list[int]:
    """Return the devices of a plan that keeps users of a variable together, one of which a rule moves."""
    rules = (f"index:{operator}={DEVICES[1]}",)
    with open_model(data) as model:
        plan = ct.plan(
            model,
            ct.PlanRequest(devices=tuple(DEVICES), rules=rules, default=DEVICES[0], keep_together=("variables",)),
        )
    assert plan.notes == ()
    return plan.subgraphs[0].numbers


def assert_true(error: EditError, data: bytes, devices: list[int], used: list[set[int]]) -> None:
    """Check the reason for which a model was not split."""
    text = re.fullmatch(
        r"variable 'state(\d)' is used by operator (\d+) on (\w+) and by operator (\d+) on (\w+), .*", error.message
    )
    if text:
        number, first, second = int(text[1]), int(text[2]), int(text[4])
        assert number in used[first] & used[second]
        assert (DEVICES[devices[first]], DEVICES[devices[second]]) == (text[3], text[5])
        assert devices[first] != devices[second]
        return
    text = re.fullmatch(
        r"operator (\d+) on (\w+) lies between operators on (\w+) that use variable 'state(\d)'", error.message
    )
    assert text, error.message
    number, between = int(text[4]), int(text[1])
    users = {operator for operator, its in enumerate(used) if number in its}
    assert {DEVICES[devices[operator]] for operator in users} == {text[3]} != {text[2]}
    assert DEVICES[devices[between]] == text[2]
    # With the users of each variable as one operator, it is on a way from these to themselves.
    reach = reachable(data)
    for _ in used:
        for variable in {one for its in used for one in its}:
            its = [operator for operator, named in enumerate(used) if variable in named]
            reach |= np.outer(reach[:, its].any(axis=1), reach[its].any(axis=0))
            for operator in its:
                reach[its] |= reach[operator]
                reach[:, its] |= reach[:, [operator]]
    assert any(reach[user, between] and reach[between, user] for user in users)


def test_what_is_only_read_may_be_in_several_parts() -> None:
    model = Streaming(2, 2)
    first = model.compute("ADD", model.read(0), model.x)
    second = model.compute("MUL", model.read(0), first)
    data = model.finish(second)
    parts = [0, 0, 0, 0, 0, 1, 1]
    with open_model(annotated(data, affinity(["a", "b"], (parts, parts)))) as opened:
        assert state_of(opened, 0).users == {}
        plan = plan_split(opened)
    # The call that sets both is in both parts; what nobody uses is in the first.
    assert [part.operators for part in plan.parts] == [(0, 1, 2, 3, 4), (0, 1, 5, 6)]


def test_partitions_are_made_again_where_they_tear_a_variable() -> None:
    model = Streaming(1, 0)
    old = model.read(0)
    other = model.compute("ABS", model.x)
    model.assign(0, model.compute("ADD", old, model.x))
    data = model.finish(other, old)
    devices, partitions = [0, 0, 1, 0, 0], [0, 0, 1, 2, 2]
    with open_model(annotated(data, affinity(["a", "b"], (devices, partitions)))) as opened:
        assert state_of(opened, 0).users == {"variable 'state0'": [1, 4]}
        plan = plan_split(opened)
    assert sorted((part.device, part.operators) for part in plan.parts) == [("a", (0, 1, 3, 4)), ("b", (2,))]


@pytest.mark.parametrize(
    ("device", "last", "expected"),
    [
        (0, 2, [("a", (0, 1, 2, 3, 4))]),
        (1, 2, [("a", (1, 2, 3, 4)), ("b", (0,))]),
        (0, 1, [("a", (0,)), ("a", (1, 2, 3, 4))]),  # nothing is torn, so the partitions stay
    ],
)
def test_what_feeds_the_users_of_a_variable_counts(device: int, last: int, expected: list[object]) -> None:
    build = Build()
    graph = build.graph()
    x, handle, old = graph.tensor("x", (1, 4)), graph.tensor("h", (), "RESOURCE"), graph.tensor("old", (1, 4))
    first = graph.compute("ABS", [x], "first", (1, 4))
    graph.operator("VAR_HANDLE", [], [handle], shared_name="v")
    graph.operator("READ_VARIABLE", [handle], [old])
    new = graph.compute("ADD", [first, old], "new", (1, 4))
    graph.operator("ASSIGN_VARIABLE", [handle, new], [])
    graph.ends([x], [new])
    devices, partitions = [device, 0, 0, 0, 0], [0, 1, 1, 1, last]
    with open_model(annotated(build.to_bytes(), affinity(["a", "b"], (devices, partitions)))) as opened:
        plan = plan_split(opened)
    assert sorted((part.device, part.operators) for part in plan.parts) == expected


def test_operators_that_only_name_things_are_no_model() -> None:
    data = Streaming(2, 1).finish()
    with (
        open_model(annotated(data, affinity(["a"], ([0, 0, 0], [0, 0, 0]), ([0, 0], [0, 0])))) as opened,
        pytest.raises(EditError, match="there is nothing to split: the operators only name resources"),
    ):
        plan_split(opened)
