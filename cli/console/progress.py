"""A progress line on stderr, shown once a command has run for a second.

The line is erased before anything else is written. It has no colors or escape codes, so every terminal can show it.
It is not shown if standard error is not a terminal, or if standard output is a pipe, which may lead to a pager.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import Any

_PATIENCE_SECONDS = 1.0
_STEP_SECONDS = 0.2
_SIGNS = "-\\|/"
_USUAL_COLUMNS = 80


class _Line:
    """The progress line of one command, drawn by a daemon thread until `end` is called."""

    def __init__(self, name: str) -> None:
        self.detail = ""
        self.in_line = False
        self.lock = RLock()  # reentrant: a signal handler may erase the line while its own thread holds the lock
        self._name = name
        self._began = time.monotonic()
        self._ended = Event()
        self._columns = self._steps = 0
        with suppress(RuntimeError):  # no line is shown if no more threads can be started
            Thread(target=self._draw_on, daemon=True).start()

    def _draw_on(self) -> None:
        seconds = _PATIENCE_SECONDS
        while not self._ended.wait(seconds):
            with self.lock:
                if not self._ended.is_set() and not self.in_line:
                    self._draw()
            seconds = _STEP_SECONDS

    def _draw(self) -> None:
        sign = _SIGNS[self._steps % len(_SIGNS)]
        self._steps += 1
        parts = (self._name, self.detail, f"{time.monotonic() - self._began:.0f} s")
        text = f"{sign} {', '.join(filter(None, parts))}"[: _columns() - 1]
        _write(f"\r{text:<{self._columns}}")
        self._columns = len(text)

    def erase(self) -> None:
        """Clear the line if it was drawn."""
        if self._columns:
            _write(f"\r{' ' * self._columns}\r")
            self._columns = 0

    def end(self) -> None:
        """Erase the line permanently."""
        self._ended.set()
        with self.lock:
            self.erase()


_line: _Line | None = None


@contextmanager
def working(name: str) -> Iterator[None]:
    """Show a progress line for the command `name` on a terminal, once it has run for a second."""
    global _line  # noqa: PLW0603 - there is one terminal
    if not _wanted():
        yield
        return
    _line = line = _Line(name)
    try:
        yield
    finally:
        line.end()
        _line = None


def tell_progress(detail: str) -> None:
    """Show the command's progress, such as `3 of 9 models`."""
    if _line is not None:
        _line.detail = detail


def of_bytes(done: int, total: int) -> None:
    """Show how much of a file has been written; the library calls this function as `progress`."""
    tell_progress(f"{done >> 20} of {total >> 20} MiB" if done < total else "")


@contextmanager
def hidden(data: bytes) -> Iterator[None]:
    """Hide the progress line while data is written; it reappears once the output is at the start of a line."""
    if _line is None:
        yield
        return
    with _line.lock:
        _line.erase()
        yield
        _line.in_line = not data.endswith(b"\n")


def _wanted() -> bool:
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    try:
        return not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):  # closed, or no file
        return True


def _columns() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    return _USUAL_COLUMNS


def _write(text: str) -> None:
    stream: Any = sys.stderr
    with suppress(OSError, ValueError):  # the terminal is gone
        stream.buffer.write(text.encode("ascii", "replace"))
        stream.buffer.flush()
