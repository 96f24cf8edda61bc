"""How constants are sampled: the elements that are read, their values, and when two samples belong together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.model.model import open_model
from circletools.origin.tracking import constants
from circletools.origin.tracking.constants import CLOSE, SCALED
from circletools.origin.tracking.side import read_side
from tests.kit.build import Build, Table


def read(
    data: bytes, kind: str, shape: Sequence[int], places: Sequence[int], quantization: Table | None = None
) -> list[float]:
    """Return the elements of a constant at some places; the constant is the second tensor."""
    build = Build()
    graph = build.graph()
    graph.tensor("", (1,), quantization=Table("QuantizationParameters", scale=[7.0], zero_point=[5]))
    graph.tensor("", shape, kind, data=data, quantization=quantization)
    with open_model(build.to_bytes()) as model:
        constant = constants._Constant(1, memoryview(data), model.tensor_columns.shapes)
        reader = constants._Reader(read_side(model))
        assert reader.readable(constant)
        return [float(value) for value in reader.read(constant, np.array(places))]


def scales(*values: float, zeros: Sequence[int] = (), axis: int = 0) -> Table:
    return Table("QuantizationParameters", scale=list(values), zero_point=list(zeros), quantized_dimension=axis)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT4", [0, 1, 7, -8, -1, 5]),
        ("UINT4", [0, 1, 7, 8, 15, 5]),
    ],
)
def test_two_numbers_of_four_bits_lie_in_a_byte(kind: str, expected: list[float]) -> None:
    data = bytes([0x10, 0x87, 0x5F])
    assert read(data, kind, (6,), range(6)) == expected
    assert read(data, kind, (3, 2), [5, 3]) == [expected[5], expected[3]]
    assert read(data, kind, (5,), [4]) == [expected[4]]


def test_whole_numbers_are_read_to_their_limits() -> None:
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"):
        limits = np.array([np.iinfo(kind).min, 0, 1, np.iinfo(kind).max], kind)
        assert read(limits.tobytes(), kind.upper(), (4,), [3, 0, 2]) == [float(limits[at]) for at in (3, 0, 2)]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_what_is_no_number_is_read_as_nothing(kind: str) -> None:
    odd = np.array([1.5, np.nan, np.inf, -np.inf, -2.5], kind)
    assert read(odd.tobytes(), kind.upper(), (5,), range(5)) == [1.5, 0.0, 0.0, 0.0, -2.5]


def test_numbers_that_are_too_large_are_read_as_nothing() -> None:
    below = np.nextafter(1e100, 0)
    large = np.array([below, 1e100, -below, -1e100])
    assert read(large.tobytes(), "FLOAT64", (4,), range(4)) == [below, 0.0, -below, 0.0]


QUANTIZED: list[tuple[Table | None, list[float]]] = [
    (None, [0, 1, 2, 3, 4, 5]),
    (scales(), [0, 1, 2, 3, 4, 5]),
    (scales(0.5), [0, 0.5, 1, 1.5, 2, 2.5]),
    (scales(0.5, zeros=[1]), [-0.5, 0, 0.5, 1, 1.5, 2]),
    (scales(0.5, zeros=[1], axis=9), [-0.5, 0, 0.5, 1, 1.5, 2]),
    (scales(0.5, 2.0, zeros=[1, 3]), [-0.5, 0, 0.5, 0, 2, 4]),
    (scales(0.5, 2.0, zeros=[1]), [0, 0.5, 1, 6, 8, 10]),
    (scales(0.5, 2.0, 4.0, zeros=[0, 1, 2], axis=1), [0, 0, 0, 1.5, 6, 12]),
    (scales(0.5, 2.0, axis=1), [0, 1, 2, 3, 4, 5]),
    (scales(0.5, 2.0, axis=2), [0, 1, 2, 3, 4, 5]),
    (scales(0.5, 2.0, axis=-1), [0, 1, 2, 3, 4, 5]),
    (scales(0.5, 2.0, 4.0), [0, 1, 2, 3, 4, 5]),
]


def test_quantized_numbers_are_those_that_they_stand_for() -> None:
    for quantization, expected in QUANTIZED:
        assert read(bytes(range(6)), "INT8", (2, 3), range(6), quantization) == expected


def test_channels_lie_apart_by_what_is_behind_them() -> None:
    """Of shape (2, 2, 3), a channel of the second dimension is three numbers long."""
    found = read(bytes(range(12)), "UINT8", (2, 2, 3), range(12), scales(1.0, 10.0, axis=1))
    assert found == [0, 1, 2, 30, 40, 50, 6, 7, 8, 90, 100, 110]


# --- places -------------------------------------------------------------------------------------------------


def test_places_are_spread_from_the_first_to_the_last() -> None:
    assert constants._spread(9, 3).tolist() == [0, 4, 8]
    assert constants._spread(5, 4).tolist() == [0, 1, 2, 4]
    assert constants._spread(1, 3).tolist() == [0, 0, 0]
    assert constants._grid((30, 20), None).tolist() == constants._spread(600, 256).tolist()


GRIDS: list[tuple[tuple[int, ...], int]] = [((20, 30), 0), ((20, 30), 1), ((5, 4, 40), 0), ((5, 4, 40), 2)]


def test_a_grid_has_sixteen_elements_in_each_of_sixteen_channels() -> None:
    for shape, axis in GRIDS:
        places = constants._grid(shape, axis)
        inside = np.unravel_index(places, shape)
        channels = constants._spread(shape[axis], 16)
        rows = inside[axis].reshape(16, 16)
        assert (rows == channels[:, None]).all()
        others = [size for at, size in enumerate(shape) if at != axis]
        rest = np.ravel_multi_index([row for at, row in enumerate(inside) if at != axis], others).reshape(16, 16)
        assert (rest == constants._spread(int(np.prod(others)), 16)).all()


ORDERS: list[tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, ...] | None]]] = [
    ((2, 3), (2, 3), [None]),
    ((2, 3), (3, 2), [(1, 0)]),
    ((2, 2), (2, 2), [None, (1, 0)]),
    ((2, 3), (6,), [None]),
    ((2, 3, 4), (4, 2, 3), [(2, 0, 1)]),
    ((2, 3, 4, 5), (5, 4, 3, 2), [(3, 2, 1, 0)]),
    ((2, 3, 4, 5, 6), (6, 5, 4, 3, 2), [None]),
]


def test_orders_of_dimensions() -> None:
    for old, new, orders in ORDERS:
        assert constants._orders(old, new) == orders


# --- what belongs together ----------------------------------------------------------------------------------


def at(*likeness: float) -> NDArray[np.float64]:
    """Return vectors of length one in the plane, by their likeness to the first axis."""
    return np.array([(value, (1 - value**2) ** 0.5) for value in likeness])


LIKENESSES: list[tuple[list[float], list[float], list[tuple[int, int]]]] = [
    ([1.0], [1.0], [(0, 0)]),
    ([1.0], [0.97], [(0, 0)]),
    ([1.0], [0.969], []),
    ([1.0, 0.985], [1.0], [(0, 0)]),  # the second is further off than 0.01
    ([1.0, 0.995], [1.0], []),
    ([1.0], [1.0, 0.985], [(0, 0)]),
    ([1.0], [1.0, 0.995], []),
    ([0.0, 1.0], [1.0, 0.0], [(0, 1), (1, 0)]),
]


def test_two_samples_that_are_each_others_best_by_far() -> None:
    for olds, news, found in LIKENESSES:
        assert constants._mutual(at(*olds), at(*news), CLOSE) == [(new, old, CLOSE) for new, old in found]
        assert constants._mutual(at(*olds), at(*news), SCALED) == [(new, old, SCALED) for new, old in found]


def test_samples_are_compared_without_their_mean_and_length() -> None:
    found = constants._centred(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    assert found.round(6).tolist() == [[-0.707107, 0.0, 0.707107], [0.0, 0.0, 0.0]]
    assert constants._unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]


def test_channels_are_compared_without_their_factors() -> None:
    generator = np.random.default_rng(0)
    rows = generator.uniform(-1, 1, (2, 16))
    plain = constants._by_channel(rows.reshape(1, 32))
    scaled = constants._by_channel((rows * np.array([[-3.0], [0.5]])).reshape(1, 32))
    assert np.allclose(plain, scaled)
    assert np.allclose((plain**2).sum(), 1.0)
    lengths = (plain.reshape(2, 16) ** 2).sum(axis=1)
    assert np.allclose(lengths, [0.5, 0.5])
    assert ((plain.reshape(2, 16) ** 3).sum(axis=1) > 0).all()
    # A channel that hardly varies says nothing: 16 numbers of length one whose deviations have the squares summed.
    for deviation, counts in ((0.03, False), (0.04, True)):
        flat = np.ones(16)
        flat[0] += 16**0.5 * deviation
        both = constants._by_channel(np.concatenate([flat, rows[0]]).reshape(1, 32)).reshape(2, 16)
        assert bool(both[0].any()) == counts, ((flat / (flat**2).sum() ** 0.5) ** 2).sum()
