"""Partitions beside those of runtimes: OpenVINO's hetero plugin, and LiteRT's delegates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.graphs import SHAPES, by_chance
from benchmarks.networks import Network, feed, load, make, random_shape, run_parts, run_whole, start_core, submodels
from circletools.affinity.solvers.groups import turns
from circletools.affinity.solvers.partitions import make_partitions
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.runtimes.plan import plans
from tests.kit.build import Build, Graph
from tests.kit.partition_support import seeded
from tests.kit.presence import Lazy
from tests.kit.support import TESTDATA, bytes_of, own_models, title

litert = Lazy("ai_edge_litert.interpreter")

CASES = [
    *(("shape", name, share) for name in SHAPES for share in (0.1, 0.3)),
    *(("random", seed, share) for seed in (1, 2, 3, 4, 5, 6) for share in (0.2, 0.5)),
    *(("file", name, 0.3) for name in ("cnn", "cnn_int8", "transformer_block", "while_loop")),
]


@pytest.fixture(scope="module")
def core() -> Any:
    return start_core()


def network(core: Any, kind: str, which: str | int) -> Network:
    if kind == "shape":
        return make(str(which), SHAPES[str(which)](30))
    if kind == "random":
        return make("random", random_shape(20, 7, int(which)))
    found = load(core, TESTDATA / "tflite" / f"{which}.tflite")
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "which", "share"), CASES)
def test_openvino_needs_as_many_subgraphs_or_more(core: Any, kind: str, which: str | int, share: float) -> None:
    found = network(core, kind, which)
    devices = by_chance(found, share, seed=4)
    assert len(make_partitions(found.graph, devices, "min")) <= submodels(core, found, devices)


@pytest.mark.parametrize(("kind", "which", "share"), CASES[::3])
def test_openvino_computes_the_same_part_by_part(core: Any, kind: str, which: str | int, share: float) -> None:
    found = network(core, kind, which)
    devices, fed = by_chance(found, share, seed=4), feed(found)
    partitions = [partition.operators for partition in make_partitions(found.graph, devices)]
    whole, apart = run_whole(core, found, fed), run_parts(core, found, partitions, fed)
    assert whole.keys() == apart.keys()
    for slot, value in whole.items():
        np.testing.assert_allclose(apart[slot], value, rtol=1e-5, atol=1e-5)


def test_a_wrong_order_is_seen(core: Any) -> None:
    found = make("chain", SHAPES["resnet"](10))
    with pytest.raises(KeyError):
        run_parts(core, found, [range(5, len(found.graph)), range(5)], feed(found))


def test_openvino_counts_what_is_cut(core: Any) -> None:
    """A count that was not about the affinity would be the same for each of these."""
    found = make("chain", SHAPES["unet"](12))
    for length in (1, 2, 4):
        devices = [operator // length % 2 for operator in range(len(found.graph))]
        ours = len(make_partitions(found.graph, devices, "min"))
        assert submodels(core, found, devices) == ours


def delegated(data: bytes) -> list[tuple[int, ...]]:
    """Return the operators of each group that LiteRT gave to a delegate in the main subgraph.

    It tells what goes into a group and what comes out: the group is all that lies between.
    """
    interpreter = litert.Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    details = interpreter._get_ops_details()
    operators = [detail for detail in details if detail["op_name"] != "DELEGATE"]
    makers = {int(tensor): index for index, detail in enumerate(operators) for tensor in detail["outputs"]}
    groups = []
    for detail in details[len(operators) :]:
        assert detail["op_name"] == "DELEGATE"
        inputs, members = set(map(int, detail["inputs"])), set[int]()
        pending = [int(tensor) for tensor in detail["outputs"]]
        while pending:
            tensor = pending.pop()
            maker = makers.get(tensor)
            if tensor not in inputs and maker is not None and maker not in members:
                members.add(maker)
                pending += [int(fed) for fed in operators[maker]["inputs"]]
        groups.append(tuple(sorted(members)))
    return sorted(groups)


def turns_of(data: bytes, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return our groups of the operators in these groups."""
    with open_model(data) as model:
        graph = graph_of(model, 0).dag
    devices = [0] * len(graph)
    for operator in (operator for group in groups for operator in group):
        devices[operator] = 1
    return sorted(tuple(sorted(partition)) for partition in turns(graph, devices) if devices[partition[0]] == 1)


def random_model(seed: int) -> bytes:
    """Return a model of operators that XNNPACK takes and of FLOOR_MOD, which it leaves to LiteRT."""
    generator = seeded(seed)
    build = Build()
    graph = Graph(build, "main")
    made: list[int] = []
    inputs: list[int] = []
    reach = generator.choice((3, 6, 20))
    for operator in range(generator.randint(4, 40)):
        near = made[-reach:]
        fed = generator.sample(near, min(len(near), generator.choice((0, 1, 1, 2, 2))))
        if not fed:
            fed = [graph.tensor(f"in{operator}")]
            inputs += fed
        code = generator.choice(("NEG", "ABS", "FLOOR_MOD") if len(fed) == 1 else ("ADD", "MAXIMUM", "FLOOR_MOD"))
        made.append(graph.compute(code, fed * 2 if code == "FLOOR_MOD" and len(fed) == 1 else fed, f"t{operator}"))
    graph.ends(inputs, made)  # nothing is without use, so that groups are all that lies between their ends
    return build.to_bytes()


def test_turns_are_the_groups_of_litert() -> None:
    several = 0
    for seed in range(60):
        data = random_model(seed)
        groups = delegated(data)
        assert turns_of(data, groups) == groups, seed
        several += len(groups) > 1
    assert several > 20


# `flex_op` needs TensorFlow's own operators. In `variable` some write to a variable only, so that what lies between
# the ends of a group does not show where they are.
REAL = [path for path in own_models() if path.suffix == ".tflite" and path.stem not in {"flex_op", "variable"}]


@pytest.mark.parametrize("path", REAL, ids=title)
def test_turns_are_the_groups_of_litert_in_real_models(path: Path) -> None:
    data = bytes_of(title(path))
    groups = delegated(data)
    assert turns_of(data, groups) == groups


@pytest.mark.parametrize("path", REAL, ids=title)
def test_the_plan_of_execution_has_the_groups_of_litert(path: Path) -> None:
    data = bytes_of(title(path))
    interpreter = litert.Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    main, *_ = plans(interpreter)
    assert sorted(tuple(sorted(step.operators)) for step in main if step.delegate) == delegated(data)
    assert {step.delegate for step in main} <= {"", "TfLiteXNNPackDelegate"}
