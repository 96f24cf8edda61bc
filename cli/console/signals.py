"""Signals that end the program: SIGINT, SIGTERM and SIGHUP first remove the file in the making."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(BaseException):
    """A signal that ends the program. It passes through the code that runs, so that this can clean up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def listen() -> None:
    """Raise Stopped where such a signal arrives; those that are ignored (as under nohup) stay so."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:  # cleaning up takes no time, and must not be stopped in turn
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number)


def end(number: int) -> NoReturn:
    """End by the signal itself, so that a shell sees 128 + `number` and ends its loop as well."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # the first process of a container is not killed so
