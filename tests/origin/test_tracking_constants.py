"""Constants of two models that count as equal, for every type of number and limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.origin.tracking.constants import Constants
from circletools.origin.tracking.view import NONE
from tests.kit.build import Build, Graph, Table, floats
from tests.kit.tracking_support import classified

EXACT, CLOSE = False, True

Held = tuple[tuple[int, ...], str, bytes, Table | None]
"""Shape, type, data and quantization of a constant."""


def of(value: NDArray[Any], kind: str = "FLOAT32", quantization: Table | None = None) -> Held:
    """Return an array as a constant of a type."""
    return value.shape, kind, value.tobytes(), quantization


def quantized(scales: list[float], zeros: list[int], axis: int = 0) -> Table:
    return Table("QuantizationParameters", scale=scales, zero_point=zeros, quantized_dimension=axis)


def holding(*constants: Held) -> bytes:
    """Return a model with these constants, behind a tensor without data."""
    build = Build()
    graph: Graph = build.graph()
    graph.tensor("", (2, 2))
    for shape, kind, data, quantization in constants:
        graph.tensor("", shape, kind, data=data, quantization=quantization)
    return build.to_bytes()


def classes_of(before: list[Held], after: list[Held]) -> tuple[list[int], list[int], Constants]:
    return classified(holding(*before), holding(*after))


def kinds(before: list[Held], after: list[Held]) -> list[tuple[int, bool] | None]:
    """Return for each constant of AFTER which of BEFORE's it is, and how it was found; None for one that is new."""
    olds, news, constants = classes_of(before, after)
    assert olds[0] == news[0] == NONE
    position = {number: index for index, number in enumerate(olds[1:])}
    found: list[tuple[int, bool] | None] = []
    for number in news[1:]:
        shared = bool(constants.shared[number])
        assert shared == (number in position)
        found.append((position[number], bool(constants.close[number])) if shared else None)
    return found


WHOLE = [np.round(floats(6, 8, seed=seed) * 100) for seed in range(3)]
"""Whole numbers from -100 to 100, which every type but the unsigned ones can hold."""


def test_equal_bytes_are_the_same_constant_whatever_their_form() -> None:
    first, second = of(WHOLE[0]), of(WHOLE[1])
    assert kinds([first, second], [second, first]) == [(1, EXACT), (0, EXACT)]
    shape, _, data, _ = second
    assert kinds([second], [(shape[::-1], "INT32", data, None)]) == [(0, EXACT)]
    twice = classes_of([first, first], [first])
    assert twice[:2] == ([NONE, 0, 0], [NONE, 0])
    assert twice[2].shared.tolist() == [True]


CHANCE: list[tuple[int, int, bool]] = [(32, 32, True), (31, 31, False), (32, 5, True), (32, 4, False), (0, 0, False)]


def test_equality_unlikely_by_chance() -> None:
    for size, distinct, is_telling in CHANCE:
        data = bytes(number % distinct for number in range(size)) or b"\0"
        assert classes_of([((size,), "UINT8", data, None)], [])[2].distinctive.tolist() == [is_telling]


def test_only_the_first_4096_bytes_are_compared() -> None:
    for zeros, is_telling in ((4092, True), (4093, False)):
        data = bytes(zeros) + bytes(range(1, 9))
        assert classes_of([((len(data),), "UINT8", data, None)], [])[2].distinctive.tolist() == [is_telling]


def test_numbers_of_every_type_are_compared_by_value() -> None:
    for kind in ("FLOAT16", "FLOAT64", "INT8", "INT16", "INT32", "INT64"):
        after = [of(value.astype(kind.lower()), kind) for value in WHOLE]
        assert kinds([of(value) for value in WHOLE], after) == [(index, CLOSE) for index in range(3)]


@pytest.mark.parametrize("kind", ["UINT8", "UINT16", "UINT32"])
def test_unsigned_numbers_have_an_offset(kind: str) -> None:
    after = [of((value + 100).astype(kind.lower()), kind, quantized([0.5], [100])) for value in WHOLE]
    assert kinds([of(value) for value in WHOLE], after) == [(index, CLOSE) for index in range(3)]


def packed(values: NDArray[Any]) -> bytes:
    """Return numbers of four bits, the first in the low half of a byte."""
    flat = [int(value) & 15 for value in values.ravel()]
    flat += [0] * (len(flat) % 2)
    return bytes(low | high << 4 for low, high in zip(flat[::2], flat[1::2], strict=True))


@pytest.mark.parametrize("shape", [(6, 8), (5, 5)])
@pytest.mark.parametrize(("kind", "low"), [("INT4", -8), ("UINT4", 0)])
def test_numbers_of_four_bits_are_unpacked(kind: str, low: int, shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    values = [generator.integers(low, low + 16, shape) for _ in range(3)]
    before = [of(value.astype(np.float32)) for value in values]
    after: list[Held] = [(shape, kind, packed(value), None) for value in values]
    assert kinds(before, after) == [(index, CLOSE) for index in range(3)]
    cut: list[Held] = [(shape, kind, data[:-1], None) for _, _, data, _ in after]
    assert kinds(before, cut) == [None] * 3


@pytest.mark.parametrize("axis", [0, 1])
def test_each_channel_has_its_scale_and_offset(axis: int) -> None:
    generator = np.random.default_rng(2)
    scales = [generator.uniform(0.01, 9, (value.shape[axis],)) for value in WHOLE]
    zeros = [generator.integers(-90, 90, (value.shape[axis],)) for value in WHOLE]
    before, after = [], []
    for value, scale, zero in zip(WHOLE, scales, zeros, strict=True):
        spread = [np.expand_dims(row, 1 - axis) for row in (scale, zero)]
        before.append(of(((value - spread[1]) * spread[0]).astype(np.float32)))
        after.append(of(value.astype(np.int8), "INT8", quantized(scale.tolist(), zero.tolist(), axis)))
    assert kinds(before, after) == [(index, CLOSE) for index in range(3)]


def test_scales_and_offsets_do_not_matter() -> None:
    values = [value.astype(np.int8) for value in WHOLE]
    after = [of(value, "INT8", quantized([0.5], [7, 9])) for value in values]
    assert kinds([of(value) for value in WHOLE], after) == [(index, CLOSE) for index in range(3)]


@pytest.mark.parametrize(("count", "found"), [(15, None), (16, (0, CLOSE))])
def test_sixteen_numbers_suffice_for_a_match(count: int, found: tuple[int, bool] | None) -> None:
    value = floats(count)
    assert kinds([of(value)], [of((value * 2).astype(np.float64), "FLOAT64")]) == [found]


def test_dimensions_of_one_do_not_count() -> None:
    value = floats(4, 6)
    assert kinds([of(value)], [of(value.reshape(1, 4, 1, 6).astype(np.float64), "FLOAT64")]) == [(0, CLOSE)]


@pytest.mark.parametrize(("noise", "found"), [(0.05, (0, CLOSE)), (0.5, None)])
def test_values_may_be_rounded_and_no_more(noise: float, found: tuple[int, bool] | None) -> None:
    value = floats(12, 12)
    assert kinds([of(value)], [of(value + noise * floats(12, 12, seed=9))]) == [found]


def test_of_two_similar_candidates_neither_is_chosen() -> None:
    value = floats(12, 12)
    near = value + 0.001 * floats(12, 12, seed=9)
    assert kinds([of(value), of(near)], [of(value.astype(np.float64), "FLOAT64")]) == [None]
    far = value + 0.4 * floats(12, 12, seed=9)
    assert kinds([of(value), of(far)], [of(value.astype(np.float64), "FLOAT64")]) == [(0, CLOSE)]


@pytest.mark.parametrize("axis", [0, 1])
def test_channels_may_be_scaled_each_by_its_own_factor(axis: int) -> None:
    before = [floats(12, 20, seed=seed) for seed in range(3)]
    factors = np.random.default_rng(4).uniform(-3, 3, (before[0].shape[axis],))
    after = [(value * np.expand_dims(factors, 1 - axis)).astype(np.float32) for value in before]
    assert kinds([of(value) for value in before], [of(value) for value in after]) == [
        (index, CLOSE) for index in range(3)
    ]


def test_numbers_that_are_none_count_as_nothing() -> None:
    value = floats(12, 12)
    odd = value.astype(np.float64)
    odd[0, :3] = np.nan, np.inf, 1e200
    assert kinds([of(value)], [of(odd, "FLOAT64")]) == [(0, CLOSE)]


PARTS: list[Held] = [
    ((12, 13), "FLOAT32", bytes(range(144)) * 4, None),
    ((12, 12), "BOOL", bytes(144), None),
    ((0, 12), "FLOAT32", bytes(576), None),
    ((-12, -12), "FLOAT32", bytes(range(144)) * 4, None),
]


def test_incomplete_data_is_not_compared() -> None:
    for constant in PARTS:
        assert kinds([of(floats(12, 12))], [constant]) == [None]
