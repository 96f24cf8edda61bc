"""A model with reordered lists, and indices updated to match, has only moved elements."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.diff.comparison import ModelComparison
from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.callers import CALLERS, calling
from tests.kit.partition_support import seeded
from tests.kit.renumbered import orders_of, renumbered
from tests.kit.support import bytes_of, own_models, packed, title, unpacked

# The object API loses what lies behind the flatbuffer.
NAMES = [title(path) for path in own_models() if "external" not in path.stem and "zip" not in path.stem]


def differences(before: bytes, after: bytes) -> list[str]:
    """Return what differs, beyond what has moved."""
    with open_model(before) as old, open_model(after) as new:
        assert check_model(new) == check_model(old)
        found = ModelComparison(old, new).differences()
        return [f"{one.kind} {one.path}: {one.before} {one.after}" for one in found if one.kind != "moved"]


def shuffled(data: bytes, random: Random) -> bytes:
    def shuffle(indices: list[int]) -> list[int]:
        return random.sample(indices, len(indices))

    return renumbered(data, orders_of(data, shuffle))


def same(data: bytes) -> bytes:
    """Return the model as the object API writes it, with all in its place."""
    return renumbered(data, orders_of(data, lambda indices: indices))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_another_order_of_everything_is_no_difference(name: str, seed: int) -> None:
    data = bytes_of(name)
    assert differences(same(data), shuffled(data, seeded(seed))) == []


@given(st.sampled_from(sorted(CALLERS)), st.sampled_from(["", *sorted(CALLERS)]), st.integers(0, 3), st.randoms())
def test_another_order_of_what_is_called_is_no_difference(
    caller: str, nested: str, idle: int, random: Random
) -> None:
    data = calling(caller, idle=idle, nested=nested)
    assert differences(data, shuffled(data, random)) == []


@pytest.mark.parametrize("caller", CALLERS)
def test_subgraphs_without_names_are_identified_by_their_operators(caller: str) -> None:
    """All tensors are called alike; each subgraph has fewer operators than the one before."""
    model = unpacked(calling(caller, idle=1))
    for index, subgraph in enumerate(model.subgraphs):
        for number, tensor in enumerate(subgraph.tensors):
            tensor.name = f"t{number}"
        if index > 1:
            subgraph.operators = subgraph.operators[: 6 - index]
    data = packed(model, b"TFL3")
    orders = orders_of(data, lambda indices: indices)
    for order in ([0, *range(len(model.subgraphs) - 1, 0, -1)], [0, *range(2, len(model.subgraphs)), 1]):
        assert differences(data, renumbered(data, replace(orders, subgraphs=order))) == []


@pytest.mark.parametrize("name", ["tflite/if_cond", "tflite/blockwise_int4", "tflite/composite"])
def test_another_index_is_a_difference(name: str) -> None:
    """In the same place there is now something else: the number is as it was, what it leads to is not."""
    data = bytes_of(name)
    model = unpacked(data)
    if name == "tflite/blockwise_int4":
        first, second = (model.subgraphs[0].tensors[index].quantization.details for index in (1, 4))
        first.scales, second.scales = second.scales, first.scales
        places = [f"subgraphs[0].tensors[{index}].quantization.details.scales" for index in (1, 4)]
    elif name == "tflite/if_cond":
        model.subgraphs[1], model.subgraphs[2] = model.subgraphs[2], model.subgraphs[1]
        places = [f"subgraphs[0].operators[0].builtin_options.{side}_subgraph_index" for side in ("then", "else")]
    else:
        options = model.subgraphs[0].operators[0].builtinOptions2
        options.decompositionSubgraphIndex = 0
        places = ["subgraphs[0].operators[0].builtin_options_2.decomposition_subgraph_index"]
    found = differences(data, packed(model, b"TFL3"))
    assert [line.split(":")[0] for line in found] == [f"changed {place}" for place in places]
