"""A progress line on stderr, shown once a command has run for a second.

It stands on standard error while nothing else is written, and is gone before anything is. It has no colours and no
escape codes, so that every terminal shows it. Pipes never get it, neither as standard error nor, for the sake of
pagers, beside a piped standard output.
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
    """The line of one command. A daemon thread draws it; a line that has ended is not drawn again."""

    def __init__(self, name: str) -> None:
        self.detail = ""
        self.in_line = False
        self.lock = RLock()  # a signal may come upon whoever holds it, and who then erases
        self._name = name
        self._began = time.monotonic()
        self._ended = Event()
        self._columns = self._steps = 0
        with suppress(RuntimeError):  # no more threads to be had
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
        """Leave an empty line, if it was drawn."""
        if self._columns:
            _write(f"\r{' ' * self._columns}\r")
            self._columns = 0

    def end(self) -> None:
        """Erase it for good."""
        self._ended.set()
        with self.lock:
            self.erase()


_line: _Line | None = None


@contextmanager
def working(name: str) -> Iterator[None]:
    """Show on a terminal that waits for longer than a second that the command `name` is at work."""
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
    """Show how much of a file is written; the library calls it as `progress`."""
    tell_progress(f"{done >> 20} of {total >> 20} MiB" if done < total else "")


@contextmanager
def hidden(data: bytes) -> Iterator[None]:
    """Make way for data that is written meanwhile; the line does not come back in the middle of a line."""
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
