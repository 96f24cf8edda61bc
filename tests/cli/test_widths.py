"""Terminals of several widths: tables stay within them, help cuts no summary, and colours are for terminals."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from circletool_cli import table

from tests.kit.affinity_support import with_affinity
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, TRACE, put, run
from tests.kit.support import path_of

WIDTHS = (60, 80, 120, 200)


def shown(width: int, *words: str | Path, more: Mapping[str, str] | None = None) -> list[str]:
    """Return what a terminal of so many columns is sent, without empty lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    program = [sys.executable, "-m", "circletools", *map(str, words)]
    ran = subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=plain | dict(more or {}))
    os.close(theirs)
    out = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        out += piece
    ran.wait()
    os.close(ours)
    return out.decode().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_keep_to_the_terminal(width: int, tmp_path: Path) -> None:
    model = put(tmp_path / "in.circle", with_affinity(embedded(MLP.read_bytes()), ["cpu"], default="cpu"))
    for words in (
        ("inspect", path_of("tflite/cnn_int8"), "--operators", "--tensors"),
        ("trace-stats", put(tmp_path / "trace.html", TRACE.read_bytes())),
        ("dump-affinity", model),
    ):
        lines, whole = shown(width, *words), run(*words).out.decode().splitlines()
        assert len(lines) == len(whole) >= 3
        assert [line for line in lines if line.startswith("  ") and len(line) > width] == []
        assert width < max(WIDTHS) or lines[1:3] == whole[1:3]


@pytest.mark.parametrize("width", WIDTHS)
def test_help_keeps_to_the_terminal(width: int) -> None:
    lines = shown(width, "--help")
    assert max(map(len, lines)) <= width
    for row in table.COMMANDS:
        assert width < 80 or any(line.split() == [row.name, *row.summary.split()] for line in lines), row.name
    for row in table.COMMANDS[::10]:
        assert max(map(len, shown(width, row.name, "--help"))) <= width


def test_colours_are_for_terminals() -> None:
    words = ("inspect", "no such file")
    assert any("\033[31m" in line for line in shown(80, *words))
    assert not any("\033" in line for line in shown(80, *words, more={"NO_COLOR": "1"}))
    assert "\033" not in run(*words).err
    assert not any("\033" in line for line in shown(80, "inspect", MLP))
