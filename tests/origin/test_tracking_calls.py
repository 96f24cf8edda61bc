"""Tracking enters subgraphs by the operators that call them: whichever these are, wherever the subgraphs stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from circletools.model.model import open_model
from circletools.origin.tracking.tracker import track
from tests.kit.callers import CALLERS, calling
from tests.kit.partition_support import seeded
from tests.kit.renumbered import orders_of, renumbered


def reordered(data: bytes, subgraphs: Sequence[int]) -> bytes:
    """Return the model with its subgraphs in another order."""
    return renumbered(data, replace(orders_of(data, lambda indices: indices), subgraphs=subgraphs))


def some_orders(subgraphs: int, most: int = 6) -> list[list[int]]:
    """Return orders in which the main subgraph stays first."""
    orders = list(permutations(range(1, subgraphs)))
    return [[0, *order] for order in seeded(0).sample(orders, min(most, len(orders)))]


def count(data: bytes) -> int:
    with open_model(data) as model:
        return len(model.subgraphs)


def tracked(before: bytes, after: bytes, known: Sequence[int]) -> dict[int, list[list[int]]]:
    """Return for subgraphs of AFTER what each operator comes from: [subgraph, operator] of BEFORE, in order.

    `known` are the subgraphs of AFTER to look at.
    """
    with open_model(before) as old, open_model(after) as new:
        found = track(old, new).origins.operators
        places = [
            [index, operator] for index, one in enumerate(old.subgraphs) for operator in range(len(one.operators))
        ]
        return {
            subgraph: [
                place
                for operator in range(len(new.subgraphs[subgraph].operators))
                for place in [places[source] for source in sorted(found[subgraph].get(operator, ()))] or [[-1, -1]]
            ]
            for subgraph in known
        }


def own(data: bytes, subgraph: int) -> list[list[int]]:
    """Return all operators of a subgraph."""
    with open_model(data) as model:
        return [[subgraph, operator] for operator in range(len(model.subgraphs[subgraph].operators))]


@pytest.mark.parametrize("prefix", ["a/", "b/"], ids=["same names", "other names"])
@pytest.mark.parametrize("caller", CALLERS)
def test_called_subgraphs_that_moved_are_tracked(caller: str, prefix: str) -> None:
    """All called subgraphs have the same operators: only the caller's options distinguish them."""
    before, after = calling(caller, prefix="a/", idle=1), calling(caller, prefix=prefix, idle=1)
    for order in some_orders(count(after)):
        called = [new for new, old in enumerate(order) if old != 1]
        found = tracked(before, reordered(after, order), called)
        assert found == {new: own(before, order[new]) for new in called}, order


@pytest.mark.parametrize("prefix", ["a/", "b/"], ids=["same names", "other names"])
@pytest.mark.parametrize("caller", CALLERS)
def test_called_subgraphs_are_tracked_where_others_were_inserted(caller: str, prefix: str) -> None:
    before, after = calling(caller, prefix="a/"), calling(caller, prefix=prefix, idle=2)
    called = [0, *range(3, count(after))]
    assert tracked(before, after, called) == {new: own(before, max(new - 2, 0)) for new in called}
    # And the other way: what was there before is gone.
    called = list(range(count(before)))
    assert tracked(after, before, called) == {new: own(after, new + 2 if new else 0) for new in called}


@pytest.mark.parametrize("nested", CALLERS)
@pytest.mark.parametrize("caller", ["CALL", "STABLEHLO_CASE", "WHILE"])
def test_calls_in_what_is_called_are_followed(caller: str, nested: str) -> None:
    before, after = (calling(caller, prefix=prefix, nested=nested) for prefix in ("a/", "b/"))
    for order in some_orders(count(after), 3):
        expected = {new: own(before, old) for new, old in enumerate(order)}
        assert tracked(before, reordered(after, order), range(len(order))) == expected, order


@pytest.mark.parametrize("branches", [17, 40])
def test_every_branch_of_many_is_tracked(branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLERS, "STABLEHLO_CASE", (branches, CALLERS["STABLEHLO_CASE"][1]))
    before, after = (calling("STABLEHLO_CASE", prefix=prefix, body=["TANH", "EXP"]) for prefix in ("a/", "b/"))
    order = [0, *seeded(1).sample(range(1, branches + 1), branches)]
    expected = {new: own(before, old) for new, old in enumerate(order)}
    assert tracked(before, reordered(after, order), range(len(order))) == expected
