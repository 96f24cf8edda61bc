"""Stop a command that needs more processor time or memory than its input justifies.

The library charges what it reads and computes to budgets. This is the last line of defense, for anything that the
budgets do not cover: a timer checks the whole process, so it applies to every command.
"""

from __future__ import annotations

import mmap
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from types import FrameType

import circletools as ct

SECONDS, SECONDS_PER_MIB = 3.5, 1.0
RESERVE = 0.75  # MiB that justify no time: that of the start and the end of the process, which the timer does not see
BYTES, TIMES = 128 << 20, 10
VARIABLE = "CIRCLETOOL_LIMITS"
"""The environment variable: a whole number multiplies both limits, and 0 or `off` lifts them."""

_TICK, _PAUSE = 0.025, 1.0
_LIBRARIES = 64 << 20  # mapped bytes beyond these are data in other files
_MOST_FILES = 10_000
_UNPACKED = 10  # the usual ratio of a trace's size to its compressed size
_TEMPORARY = ".circletool-"  # part of the names of unfinished outputs
_STATM = Path("/proc/self/statm")

_enabled = False


class Exceeded(BaseException):
    """The exception for an exceeded limit. No handler of errors in the library catches it."""

    def __init__(self, used: str, input_bytes: int) -> None:
        super().__init__(used)
        self.error = ct.InvalidInputError(
            f"stopped after {used}, more than an input of {input_bytes:,} bytes should need",
            hint=f"if you trust the input, set {VARIABLE}=off",
        )


def enable() -> None:
    """Let `watch` take effect. The command's own processes call this; programs that call its functions do not.

    The watch ends just before an output is renamed, or a document is shown, so that no command leaves an output
    and then fails.
    """
    global _enabled  # noqa: PLW0603 - a property of the process, as the timer is
    _enabled = True
    sys.unraisablehook = _try_again
    sys.addaudithook(lambda event, paths: stop() if event == "os.rename" and _TEMPORARY in str(paths[0]) else None)


def _try_again(lost: sys.UnraisableHookArgs) -> None:
    """Raise `Exceeded` again soon if Python dropped it, as it drops exceptions in finalizers."""
    if isinstance(lost.exc_value, Exceeded):
        signal.setitimer(signal.ITIMER_VIRTUAL, _TICK, _TICK)
    else:
        sys.__unraisablehook__(lost)


def allow(times: int) -> None:
    """Multiply the limits, and the user's factor, by `times`, also in child processes; 0 lifts the limits."""
    if times != 1:
        os.environ[VARIABLE] = str(times * _times())


def watch(words: Iterable[str]) -> None:
    """Start to watch this process. `words` are arguments; the files that they name set the limits.

    Does nothing on Windows (no timers), outside the main thread, or if an input has an unknown size.
    """
    stop()
    sizes = [_size(word) for word in words]
    if (
        not _enabled
        or None in sizes
        or not (times := _times())
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        return
    given = sum(size or 0 for size in sizes)
    first_seconds, (first_private, first_mapped) = time.process_time(), _memory()

    def look(_signal: int, frame: FrameType | None) -> None:
        private, mapped = _memory()
        seconds, size = time.process_time() - first_seconds, max(given, mapped - first_mapped - _LIBRARIES)
        used = ""
        if seconds > times * (SECONDS + SECONDS_PER_MIB * max(0, size / (1 << 20) - RESERVE)):
            used = f"{seconds:.0f} s of processor time"
        if private - first_private > times * (BYTES + TIMES * size):
            used = f"{(private - first_private) >> 20:,} MiB of memory"
        # Before version 3.12, Python replaced exceptions in this method.
        if used and all(one.f_code.co_name != "__set_name__" for one, _ in walk_stack(frame)):
            # The cleanup must not be interrupted; if something swallows the exception, the next one follows.
            signal.setitimer(signal.ITIMER_VIRTUAL, _PAUSE, _TICK)
            raise Exceeded(used, given)

    signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, _TICK, _TICK)


@contextmanager
def watched(words: Iterable[str]) -> Iterator[None]:
    """Watch this process for as long as the block, or the decorated function, runs."""
    watch(words)
    try:
        yield
    finally:
        stop()


def stop() -> None:
    """Stop watching."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _times() -> int:
    """Return the factor in the environment variable; 0 if there are no limits."""
    value = os.environ.get(VARIABLE, "1")
    if value == "off":
        return 0
    if not value.isdecimal() or len(value) > 9:
        raise ct.UsageError(f"{VARIABLE} must be 'off' or a whole number, not {value[:20]!r}")
    return int(value)


def _size(word: str) -> int | None:
    """Return the size of what an argument names: PATH, --option=PATH, name=PATH or PATH!member.

    A directory has the size of its files, a compressed file several times its own. Returns 0 if there is no such
    file, and None if the size is unknown: for standard input, a pipe, or a directory with very many files.
    """
    if word == "-":
        return None
    for name in (word, word.partition("=")[2], word.rpartition("!")[0]):
        with suppress(OSError, ValueError):
            state = os.stat(name)
            if stat.S_ISDIR(state.st_mode):
                files = list(islice(Path(name).rglob("*"), _MOST_FILES))
                return sum(one.stat().st_size for one in files if one.exists()) if len(files) < _MOST_FILES else None
            unpacked = _UNPACKED if name.endswith(".gz") else 1
            return None if stat.S_ISFIFO(state.st_mode) else state.st_size * unpacked
    return 0


def _memory() -> tuple[int, int]:
    """Return the private bytes of this process, and those of mapped files, which are shared; 0 if not known."""
    with suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, _STATM.read_bytes().split())
        return (resident - shared) * mmap.PAGESIZE, shared * mmap.PAGESIZE
    return 0, 0
