"""Just enough, and one too many: numbers of bytes, reasons that are named, operators that are tried."""

from __future__ import annotations

import os
from math import inf
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.affinity.costs.constants import with_constants
from circletools.affinity.costs.exact import cheapest
from circletools.affinity.costs.islands import settled
from circletools.affinity.costs.problem import Links, make_problem
from circletools.affinity.costs.program import _silence
from circletools.affinity.units import Glue, parse_glue
from circletools.errors import UsageError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.costs_support import Case


def row(*codes: str) -> bytes:
    """Return operators one after the other; each ADD reads the same constant of 16 bytes."""
    build = Build()
    graph = build.graph()
    first = last = graph.tensor("x")
    shared = graph.constant("c", np.ones((2, 2), np.float32))
    for at, code in enumerate(codes):
        last = graph.compute(code, [last, shared] if code == "ADD" else [last], f"o{at}")
    graph.ends([first], [last])
    return build.to_bytes("tflite")


def test_a_number_of_bytes_has_at_most_18_digits() -> None:
    assert parse_glue(["9" * 18]) == Glue(pairs=False, least_bytes=10**18 - 1)
    with pytest.raises(UsageError, match="is not known"):
        parse_glue(["9" * 19])


@pytest.mark.parametrize(("count", "ending"), [(3, "operators 4: rule op:NEG=npu)"), (4, "; and 1 more)")])
def test_three_partitions_that_stay_are_named(count: int, ending: str) -> None:
    request = ct.PlanRequest(
        devices=("npu", "cpu"), rules=("op:NEG=npu", "op:TANH=cpu"), limits=("npu:max-partitions=1",)
    )
    with ct.open(row(*["NEG", "TANH"] * count)) as model, pytest.raises(ct.EditError) as caught:
        ct.plan(model, request)
    assert ending in str(caught.value)
    assert ("more" in str(caught.value)) == (count > 3)


@pytest.mark.parametrize(("count", "is_known"), [(300, True), (301, False)])
def test_up_to_300_operators_are_tried(count: int, is_known: bool) -> None:
    copies = [(at, 0.0, [at + 1]) for at in range(count - 1)]
    problem, graph = Case([[1.0]] * count, copies, [[0.0]], [[0.0]], [0.0]).problem()
    found = cheapest(problem, graph, connected=True)
    assert found.is_known == is_known
    assert found.least_us == (count if is_known else 0)


def test_of_two_devices_that_are_as_good_an_island_moves_to_the_first() -> None:
    copies, free = [(0, 0.0, [1]), (1, 0.0, [2])], [[0.0] * 3] * 3
    problem, graph = Case([[inf, 1, inf], [5, 2, 2], [inf, inf, 1]], copies, free, free, [0.0] * 3).problem()
    assert settled(problem, graph, np.array([1, 0, 2])).tolist() == [1, 1, 2]


def test_readers_share_what_their_constant_takes() -> None:
    """16 bytes for two readers: 8 each, times the rate of the device."""
    links = Links(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2), np.array([2.0, 0.5]))
    with open_model(row("ADD", "NEG", "ADD")) as model:
        facts = graph_of(model, 0)
        problem = with_constants(facts, make_problem(facts, np.full((3, 2), 5.0), links))
    assert problem.times_us.tolist() == [[21, 9], [5, 5], [21, 9]]


def test_standard_output_is_itself_again_after_a_silence(tmp_path: Path) -> None:
    kept = os.dup(1)
    with open(tmp_path / "said", "wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            with _silence():
                os.write(1, b"lost")
            os.write(1, b"seen")
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    assert (tmp_path / "said").read_bytes() == b"seen"
