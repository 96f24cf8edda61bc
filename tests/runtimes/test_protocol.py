"""What a process hears of what it printed itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circletools.runtimes import protocol
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


def test_what_goes_to_a_pipe_cannot_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setattr(protocol, "_PRINTED", theirs)
    os.write(theirs, b"gone")
    assert (protocol.mark(), protocol.printed()) == (0, "")
    os.close(ours)
    os.close(theirs)
