"""Programs on a terminal that we hold the other end of; where a system has none, the test is skipped."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

_OF_TERMINALS = {"COLUMNS", "LINES", "NO_COLOR"}


class Seen(NamedTuple):
    """How a program ended, what its terminal was sent, and what it wrote to a pipe."""

    status: int
    sent: str
    piped: str = ""

    @property
    def lines(self) -> list[str]:
        """Return the lines that stand on the terminal at the end, without blanks behind them."""
        lines = []
        for line in self.sent.replace("\r\n", "\n").split("\n"):
            screen: list[str] = []
            for text in line.split("\r"):  # each overwrites the line
                screen[: len(text)] = text
            lines.append("".join(screen).rstrip())
        return lines if lines[-1] else lines[:-1]


def on_terminal(
    program: Sequence[str | Path],
    width: int = 80,
    *,
    more: Mapping[str, str] | None = None,
    piped: str = "",
    stop_at: str | None = None,
    number: int = 0,
) -> Seen:
    """Run a program on a terminal of `width` columns; `piped` (stdout or stderr) goes to a pipe instead.

    Once the terminal shows `stop_at`, the program gets the signal `number`.
    """
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in _OF_TERMINALS}
    out, err = (subprocess.PIPE if name == piped else theirs for name in ("stdout", "stderr"))
    words, given = list(map(str, program)), plain | dict(more or {})
    with subprocess.Popen(words, stdin=theirs, stdout=out, stderr=err, env=given) as ran:
        os.close(theirs)
        sent = b""
        while piece := _read(ours):
            sent += piece
            if stop_at is not None and stop_at.encode() in sent:
                ran.send_signal(number)
                stop_at = None
        rest = b"".join(one or b"" for one in ran.communicate())
    os.close(ours)
    return Seen(ran.returncode, sent.decode(), rest.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""
