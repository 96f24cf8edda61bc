"""A runtime that misbehaves on request, to test that the pool survives one that does."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.kit.oracles.outcome import Outcome


def run(model: Path, seed: int, enter: Callable[[str], None]) -> Outcome:
    """Do what the text of the file demands."""
    enter("run")
    answer = b""
    match model.read_text():
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(3600)
        case "chatter":
            os.write(1, b"noise on stdout " * 10_000)
            os.write(2, b"noise on stderr " * 10_000)
        case "bug":
            raise KeyError("a bug of the harness")
        case "pid":
            answer = str(os.getpid()).encode()
        case "random":
            answer = os.urandom(16)
        case "unwritten memory":
            answer = _unwritten_memory()
    return Outcome("faults", "ok", "", (("answer", "uint8", (len(answer),), answer),))


def _unwritten_memory() -> bytes:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = (ctypes.c_void_p,)
    # Large enough to be fresh pages, zero unless someone fills them, and past what malloc keeps for itself.
    memory = library.malloc(1 << 26)
    answer = ctypes.string_at(memory + 4096, 16)
    library.free(memory)
    return answer
