"""The values that models are fed: which there are of each type."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from circletools.runtimes.inputs import make_input


def test_texts_go_round_from_the_seed_on() -> None:
    first, third = (make_input(seed, 0, np.dtype(object), (2, 3)) for seed in (0, 2))
    assert first.shape == third.shape == (2, 3)
    values = [*first.flat]
    assert values[0] == b"hello world"
    assert (values[5], [*third.flat][:4]) == (values[0], [*values[2:5], values[0]])
    assert len(set(values)) == 5


def test_what_has_no_values_is_told() -> None:
    with pytest.raises(NotImplementedError, match="no input values for dtype datetime64"):
        make_input(0, 0, np.dtype("datetime64[s]"), (1,))


def test_the_place_the_type_and_the_shape_seed_the_values() -> None:
    rng = np.random.default_rng([3, zlib.crc32(b"x|complex64|(2, 1)")])
    real, imaginary = rng.uniform(-1, 1, (2, 1)), rng.uniform(-1, 1, (2, 1))
    made = make_input(3, "x", np.dtype(np.complex64), (2, 1))
    assert made.tobytes() == (real + 1j * imaginary).astype(np.complex64).tobytes()
