"""How many bytes the value of a tensor takes."""

from __future__ import annotations

import pytest

from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.model.sizes import element_count, size_bytes
from circletools.model.views import Tensor
from tests.kit.build import Build


def tensor(kind: str, shape: tuple[int, ...], signature: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(0, 0, "t", kind, shape, signature, 0, False)


def least_bytes(*values: Tensor) -> list[float]:
    """Return the sizes of a model with these tensors."""
    build = Build()
    graph = build.graph()
    for value in values:
        name, _, number = value.type.partition(":")
        at = graph.tensor("t", value.shape, "FLOAT32" if number else name, shape_signature=value.shape_signature)
        if number:
            graph.table.tensors[at].type = int(number)
    with open_model(build.to_bytes()) as model:
        found: list[float] = graph_of(model, 0).values.bytes.tolist()
    return found


@pytest.mark.parametrize(
    ("value", "size", "least"),
    [
        (tensor("FLOAT32", ()), 4, 4),
        (tensor("FLOAT32", (2, 3)), 24, 24),
        (tensor("FLOAT32", (2, 0)), 0, 0),
        (tensor("BFLOAT16", (3,)), 6, 6),
        (tensor("COMPLEX64", (3,)), 24, 24),
        (tensor("BOOL", (3,)), 3, 3),
        (tensor("UINT16", (3,)), 6, 6),
        (tensor("INT4", (3,)), 2, 2),
        (tensor("INT4", (4,)), 2, 2),
        (tensor("INT2", (5,)), 2, 2),
        (tensor("STRING", (3,)), None, 0),
        (tensor("RESOURCE", ()), None, 0),
        (tensor("UNKNOWN:99", (3,)), None, 0),
        (tensor("FLOAT32", (1, 8), (-1, 8)), None, 32),
        (tensor("FLOAT32", (5, 8), (-1, 8)), None, 32),
        (tensor("FLOAT32", (5, 8), (5, 8)), 160, 160),
        (tensor("FLOAT32", (5, 8), (5, 0)), 160, 160),
        (tensor("FLOAT32", (-1, 8)), None, 32),
        (tensor("FLOAT32", (5, 8), (-1,)), None, 160),
        (tensor("FLOAT32", (5, 8), ()), 160, 160),
        (tensor("INT8", (1 << 30, 1 << 30, 4)), 1 << 62, 1 << 62),
        (tensor("INT8", (1 << 30, 1 << 30, 8)), 1 << 62, 1 << 62),
        (tensor("FLOAT32", ((1 << 31) - 1,) * 40), 1 << 62, 1 << 62),
        (tensor("FLOAT32", (*((1 << 31) - 1,) * 40, 0)), 0, 0),
        (tensor("STRING", ((1 << 31) - 1,) * 40), None, 0),
    ],
)
def test_bytes(value: Tensor, size: int | None, least: int) -> None:
    assert (size_bytes(value.type, value.shape, value.shape_signature or ()), least_bytes(value)) == (size, [least])


def test_bytes_of_several_tensors() -> None:
    """One after the other: some without a shape, some without a signature, some with one of another length."""
    values = [
        tensor("FLOAT32", ()),
        tensor("INT8", (2, 3), (-1, 3)),
        tensor("INT8", ()),
        tensor("INT16", (5, 8), (-1,)),
        tensor("INT8", (7,)),
        tensor("FLOAT32", (2, 9), (2, -1)),
        tensor("STRING", (2,)),
    ]
    assert least_bytes(*values) == [4, 3, 1, 80, 7, 8, 0]
    assert least_bytes(tensor("FLOAT32", ()), tensor("INT8", ())) == [4, 1]
    assert least_bytes() == []


def test_a_shape_of_any_length_has_a_number_of_elements() -> None:
    assert element_count([2**31 - 1] * 100_000) == size_bytes("FLOAT32", [2**31 - 1] * 100_000) == 1 << 62
    assert element_count([-(2**31)] * 99_999) == -(1 << 62)
    assert element_count([2**31 - 1] * 1000 + [0]) == 0
    assert element_count(()) == 1
