"""A limit on processor time, also used by tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TooSlow(BaseException):
    """An input took too much processor time."""


@contextmanager
def limited(seconds: float, error: type[BaseException] = TooSlow) -> Iterator[None]:
    """Raise `error` if the block takes more processor time; the load of the machine makes no difference."""

    def stop(_signal: int, _frame: object) -> None:
        raise error(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
