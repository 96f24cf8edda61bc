"""How far tracking looks, and that its answer depends on no order of sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from circletools.origin.tracking import cover
from circletools.origin.tracking.ends import Evidence
from tests.kit.build import Build, Code, floats
from tests.kit.support import TESTDATA
from tests.kit.tracking_support import found, own_constants, tracked


def row(*codes: str) -> bytes:
    """Return operators one behind the other; FC1 has constants of its own, the first of several such."""
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (4, 4))
    for code in codes:
        constants = own_constants(graph, int(code[2:])) if code.startswith("FC") else []
        value = graph.compute("FULLY_CONNECTED" if constants else code, [value, *constants], "", (4, 4))
    graph.ends([start], [value])
    return build.to_bytes()


def test_inserted_operators_continue_one_up_to_64_steps_before() -> None:
    operators = tracked(row("FC1", "FC2"), row("FC1", *["CAST"] * 70, "FC2")).grounds[0]
    assert {index: list(why) for index, why in operators.items()} == {**{index: [0] for index in range(65)}, 71: [1]}
    assert {why[0].evidence for index, why in operators.items() if 0 < index < 65} == {Evidence.CONTINUED}


def test_operators_inserted_at_the_start_continue_one_up_to_64_steps_after() -> None:
    operators = tracked(row("FC1"), row(*["QUANTIZE"] * 70, "FC1")).grounds[0]
    assert sorted(operators) == [*range(6, 64), 70]
    assert {tuple(why) for why in operators.values()} == {(0,)}


@pytest.mark.parametrize(("old", "new", "shared"), [(2, 2, True), (4, 2, True), (2, 4, True), (3, 3, False)])
def test_many_unmatched_on_both_sides_get_no_origins(old: int, new: int, shared: bool) -> None:
    sources = found(row("FC1", *["NEG"] * old, "FC2"), row("FC1", *["EXP"] * new, "FC2"))
    assert sources == [{0}, *[set(range(1, old + 1)) if shared else set()] * new, {old + 1}]


@pytest.mark.parametrize(("most", "absorbed"), [(3, True), (2, False)])
def test_large_regions_are_not_absorbed(most: int, absorbed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "_MOST_SHARED", most)
    sources = found(row("FC1", "NEG", "EXP", "ABS", "FC2"), row("FC1", "FC2"))
    assert sources == ([{0, 1, 2, 3}, {4}] if absorbed else [{0}, {4}])


def forked(takers: int, twin: bool) -> bytes:
    """Return an operator that some take, and at last a NEG and its `twin`, which may be left out."""
    build = Build()
    graph = build.graph()
    start = graph.tensor("x", (4, 4))
    value = graph.compute("FULLY_CONNECTED", [start, *own_constants(graph, 1)], "", (4, 4))
    ends = [
        graph.compute("FULLY_CONNECTED", [value, *own_constants(graph, 2 + n)], "", (4, 4)) for n in range(takers)
    ]
    one = graph.compute("NEG", [value], "", (4, 4))
    other = graph.compute("NEG", [value], "", (4, 4)) if twin else one
    ends.append(graph.compute("FULLY_CONNECTED", [one, *own_constants(graph, 30)], "", (4, 4)))
    ends.append(graph.compute("FULLY_CONNECTED", [other, *own_constants(graph, 31)], "", (4, 4)))
    graph.ends([start], ends)
    return build.to_bytes()


@pytest.mark.parametrize("takers", [0, 3])
def test_operators_that_compute_the_same_are_twins(takers: int) -> None:
    """Of two operators that do the same, a tool leaves one."""
    sources = found(forked(takers, True), forked(takers, False))
    assert sources[takers + 1] == {takers + 1, takers + 2}
    assert sources[0] == {0}
    assert sources[takers + 2 :] == [{takers + 3}, {takers + 4}]


def template(number: int, rows: int, units: int) -> bytes:
    """Return a network of one template: same codes and name of the output; with `units`, weights; paths but for 0."""
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (rows, 8))
    path = f"net_{number}/" if number else ""
    if units:
        weights = graph.constant("", floats(units, 8, seed=number))
        value = graph.compute("FULLY_CONNECTED", [start, weights], f"{path}dense", (rows, units))
    for code, name in (("NEG", f"{path}neg"), ("EXP", f"{path}exp"), ("ABS", "PartitionedCall:0")):
        value = graph.compute(code, [value], name, (rows, units or 8))
    graph.ends([start], [value])
    return build.to_bytes()


WEIGHTS = [((1, 4, 6), (2, 4, 6), False), ((1, 4, 6), (1, 5, 6), True), ((1, 4, 6), (2, 4, 7), False)]
PATHS = [((1, 4, 0), (2, 4, 0), False), ((1, 4, 0), (1, 5, 0), True)]
ENDS = [((0, 4, 0), (0, 4, 0), True), ((0, 4, 0), (0, 5, 0), False), ((1, 4, 0), (0, 4, 0), True)]


@pytest.mark.parametrize(("before", "after", "same"), WEIGHTS + PATHS + ENDS)
def test_weights_decide_then_paths_then_ends(
    before: tuple[int, int, int], after: tuple[int, int, int], same: bool
) -> None:
    assert bool(tracked(template(*before), template(*after), least=0.25).grounds[0]) == same


def detector(first: str, last: str) -> bytes:
    build = Build()
    graph = build.graph()
    start = value = graph.tensor("x", (1, 8))
    for code in (first, "TANH", last):
        value = graph.compute(code, [value], "", (1, 8))
    post = Code("CUSTOM", custom="TFLite_Detection_PostProcess")
    value = graph.compute(post, [value, graph.constant("", floats(9, 4))], "", (1, 9))
    graph.ends([start], [value])
    return build.to_bytes()


def test_anchors_are_equal_in_all_detectors() -> None:
    assert not any(tracked(detector("NEG", "EXP"), detector("SQRT", "ABS"), least=0.25).grounds)


PROGRAM = """
import sys
import circletools as ct
from circletools.origin.tracking.tracker import track
with ct.open(sys.argv[1]) as before, ct.open(sys.argv[2]) as after:
    print([sorted(rows.items()) for rows in track(before, after).grounds])
"""


def test_confidences_do_not_depend_on_the_order_of_sets() -> None:
    pair = [str(TESTDATA / "tracking" / f"attention_small.optimised.{side}.circle") for side in ("before", "after")]
    shown = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *pair],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(shown) == 1
