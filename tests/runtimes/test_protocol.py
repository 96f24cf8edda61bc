"""What a process hears of what it printed itself, and the values that models are fed."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from circletools.runtimes import protocol
from circletools.runtimes.inputs import make_input
from tests.kit.fake_programs import printing_to


def test_what_was_printed_since_a_mark(tmp_path: Path) -> None:
    with printing_to(tmp_path / "errors"):
        assert (protocol.mark(), protocol.printed()) == (0, "")
        os.write(2, b"one\n")
        since = protocol.mark()
        os.write(2, b"two \xff\n")
        assert protocol.printed(since) == "two \N{REPLACEMENT CHARACTER}\n"
        assert protocol.printed() == "one\ntwo \N{REPLACEMENT CHARACTER}\n"
        assert protocol.printed(protocol.mark()) == ""


def test_a_program_that_prints_on_and_on_takes_no_memory(tmp_path: Path) -> None:
    with printing_to(tmp_path / "errors"):
        os.truncate(tmp_path / "errors", 1 << 22)
        assert len(protocol.printed()) == 1 << 20


def test_output_to_a_pipe_cannot_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setattr(protocol, "_PRINTED", theirs)
    os.write(theirs, b"gone")
    assert (protocol.mark(), protocol.printed()) == (0, "")
    os.close(ours)
    os.close(theirs)


def test_texts_go_round_from_the_seed_on() -> None:
    first, third = (make_input(seed, 0, np.dtype(object), (2, 3)) for seed in (0, 2))
    assert first.shape == third.shape == (2, 3)
    values = [*first.flat]
    assert values[0] == b"hello world"
    assert (values[5], [*third.flat][:4]) == (values[0], [*values[2:5], values[0]])
    assert len(set(values)) == 5


def test_what_has_no_values_is_reported() -> None:
    with pytest.raises(NotImplementedError, match="no input values for dtype datetime64"):
        make_input(0, 0, np.dtype("datetime64[s]"), (1,))


def test_the_place_the_type_and_the_shape_seed_the_values() -> None:
    rng = np.random.default_rng([3, zlib.crc32(b"x|complex64|(2, 1)")])
    real, imaginary = rng.uniform(-1, 1, (2, 1)), rng.uniform(-1, 1, (2, 1))
    made = make_input(3, "x", np.dtype(np.complex64), (2, 1))
    assert made.tobytes() == (real + 1j * imaginary).astype(np.complex64).tobytes()
