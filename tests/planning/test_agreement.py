"""A plan reports broken graphs as `check` does."""

from __future__ import annotations

from pathlib import Path
from random import Random

import circletools as ct
from circletools.findings import Finding
from circletools.model.model import open_model
from circletools.planning.planner import plan
from circletools.planning.request import PlanRequest
from tests.kit.build import Build, Code
from tests.kit.command_support import run

REQUEST = PlanRequest(devices=("npu", "cpu"), rules=("op:NEG=npu",), default="cpu", allow_unmatched=True)

GRAPH = {
    "INDEX_OUT_OF_RANGE", "NO_SUBGRAPH", "UNPRODUCED_TENSOR", "PRODUCED_TWICE", "PRODUCED_INPUT", "WRITTEN_CONSTANT",
    "IN_PLACE_OPERATOR", "OUTPUT_LEFT_OUT", "OPERATOR_ORDER", "CYCLIC_OPERATORS", "DUPLICATE_INPUT", "NO_OUTPUT",
}  # fmt: skip
REFUSED = {"INDEX_OUT_OF_RANGE", "IN_PLACE_OPERATOR", "PRODUCED_TWICE", "CYCLIC_OPERATORS"}


def shown(data: bytes) -> list[Finding] | None:
    """Return what is wrong with the graphs; None where the planner refuses the model."""
    try:
        with open_model(data) as model:
            plan(model, REQUEST)
            return ct.planning.broken_graphs(model)
    except ct.ModelFormatError:
        return None


def checked(data: bytes) -> list[Finding]:
    """Return the findings of `check` about indices and graphs."""
    with open_model(data) as model:
        found = ct.check(model)
    return [one for one in found if one.code in GRAPH]


def random_model(seed: int) -> bytes:
    rng, build = Random(seed), Build()  # noqa: S311
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        graph = build.graph()
        count = rng.randint(2, 8)
        for index in range(count):
            data = bytes(16) if rng.random() < 0.2 else None
            graph.tensor(f"t{index}", data=data, is_variable=rng.random() < 0.1)
        least, most = rng.choice(((0, count - 1), (0, count - 1), (-1, count - 1), (-2, count)))

        def some(largest: int, least: int = least, most: int = most) -> list[int]:
            return [rng.randint(least, most) for _ in range(rng.randint(0, largest))]

        for _ in range(rng.randint(0, 5)):
            code = rng.choice(("NEG", "ADD", "SPLIT", Code("CUSTOM", custom="mine")))
            graph.operator(code, some(3), some(2), table=None)
        graph.ends([abs(one) for one in some(2)], [abs(one) for one in some(2)])
    return build.to_bytes(rng.choice(("tflite", "circle")))


def test_both_agree_about_random_graphs() -> None:
    refused, codes = 0, set[str]()
    for seed in range(120):
        data = random_model(seed)
        notes, findings = shown(data), checked(data)
        codes |= {one.code for one in findings}
        if notes is None:
            refused += 1
            assert {one.code for one in findings} & REFUSED
        else:
            assert notes == findings, seed
    assert 50 < refused < 350
    assert codes == GRAPH


def test_both_agree_about_every_model(any_model: Path) -> None:
    data = any_model.read_bytes()
    assert shown(data) == checked(data)


def test_the_command_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "broken.tflite"
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x")], [graph.compute("ADD", [0, graph.tensor("lost")], "y")])
    path.write_bytes(build.to_bytes())
    (note,) = run("partition", path, "--devices", "cpu", "--default", "cpu").stderr.splitlines()
    assert note.startswith("warning: subgraphs[0].operators[0]: no operator produces tensor 1 (lost)")
