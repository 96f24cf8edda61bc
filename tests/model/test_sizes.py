"""How many bytes the value of a tensor takes."""

from __future__ import annotations

import pytest

from circletools.model.sizes import least_bytes, size_bytes
from circletools.model.views import Tensor


def tensor(kind: str, shape: tuple[int, ...], signature: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(0, 0, "t", kind, shape, signature, 0, False)


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
        (tensor("INT8", (1 << 31, 1 << 31)), 1 << 62, 1 << 62),
        (tensor("INT8", (1 << 31, 1 << 31, 2)), 1 << 63, 1 << 62),
    ],
)
def test_bytes(value: Tensor, size: int | None, least: int) -> None:
    assert (size_bytes(value), least_bytes(value)) == (size, least)
