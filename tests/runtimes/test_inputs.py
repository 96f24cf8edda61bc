"""The values that models are fed: which there are of each type."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from circletools.runtimes.inputs import make_input

MANY = (50, 200)


def test_truth_values_are_even() -> None:
    values = make_input(0, 0, np.dtype(bool), MANY)
    assert (values.shape, values.dtype.name) == (MANY, "bool")
    assert 0.47 < values.mean() < 0.53


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_bytes_have_every_value_about_as_often(kind: str) -> None:
    values = make_input(0, 0, np.dtype(kind), (10 * MANY[0], MANY[1]))
    found, counts = np.unique(values, return_counts=True)
    assert (values.dtype.name, len(found)) == (kind, 256)
    assert 0.75 < counts.min() / counts.mean() < counts.max() / counts.mean() < 1.25


@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "int64", "uint64"])
def test_other_integers_are_small(kind: str) -> None:
    values = make_input(0, 0, np.dtype(kind), MANY)
    assert values.dtype == kind
    found, counts = np.unique(values, return_counts=True)
    assert found.tolist() == [0, 1, 2]
    assert counts.min() > 3000


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "complex64"])
def test_numbers_lie_around_zero(kind: str) -> None:
    values = make_input(0, 0, np.dtype(kind), MANY)
    assert values.dtype == kind
    parts = (values.real, values.imag) if kind == "complex64" else (values,)
    for part in parts:
        assert -1 <= part.min() < -0.99
        assert 0.99 < part.max() <= 1
        assert abs(float(part.astype(np.float64).mean())) < 0.02
    assert kind != "complex64" or not np.array_equal(*parts)


def test_texts_go_round_from_the_seed_on() -> None:
    first, third = (make_input(seed, 0, np.dtype(object), (2, 3)) for seed in (0, 2))
    assert first.shape == third.shape == (2, 3)
    values = [*first.flat]
    assert values[0] == b"hello world"
    assert (values[5], [*third.flat][:4]) == (values[0], [*values[2:5], values[0]])
    assert len(set(values)) == 5


def test_place_seed_type_and_shape_change_the_values() -> None:
    given: list[tuple[int, int | str, str, tuple[int, int]]] = [
        (0, 0, "float32", (1, 4)),
        (1, 0, "float32", (1, 4)),
        (0, 1, "float32", (1, 4)),
        (0, "x", "float32", (1, 4)),
        (0, 0, "float64", (1, 4)),
        (0, 0, "float32", (4, 1)),
    ]
    made = [make_input(seed, place, np.dtype(kind), shape) for seed, place, kind, shape in given]
    values = {array.astype(np.float32).tobytes() for array in made}
    assert len(values) == len(given)
    again = make_input(0, 0, np.dtype(np.float32), np.array([1, 4], np.int32).tolist())
    assert again.tobytes() == make_input(0, 0, np.dtype(np.float32), (1, 4)).tobytes()


def test_what_has_no_values_is_told() -> None:
    with pytest.raises(NotImplementedError, match="no input values for dtype datetime64"):
        make_input(0, 0, np.dtype("datetime64[s]"), (1,))


def test_the_place_the_type_and_the_shape_seed_the_values() -> None:
    rng = np.random.default_rng([3, zlib.crc32(b"x|complex64|(2, 1)")])
    real, imaginary = rng.uniform(-1, 1, (2, 1)), rng.uniform(-1, 1, (2, 1))
    made = make_input(3, "x", np.dtype(np.complex64), (2, 1))
    assert made.tobytes() == (real + 1j * imaginary).astype(np.complex64).tobytes()
