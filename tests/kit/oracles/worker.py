"""The process that a runtime lives, and may die, in: `python -m tests.kit.oracles.worker RUNTIME FD`.

Everything goes over the connection at FD, so that a runtime may print to stdout and stderr as it likes. To
the parent go, for each request, the steps as text, then an `Outcome`, or a `Broken` when the fault is ours.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from tests.kit.oracles.protocol import READY, Broken, Request

try:
    import resource
except ModuleNotFoundError:  # Windows, which writes no files of crashed processes
    resource = None  # type: ignore[assignment]


def _own_stderr() -> None:
    """Send stdout to nowhere, stderr to a file of this process that a runtime's module can read back."""
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)


def main(runtime: str, handle: int) -> None:
    """Answer requests until the parent hangs up."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection: Connection = Connection(handle)
    try:
        run = importlib.import_module(f"tests.kit.oracles.{runtime}").run
    except Exception:
        connection.send(Broken(traceback.format_exc()))
        return
    _own_stderr()
    connection.send(READY)
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
        # A killed parent cannot end a worker that hangs in native code; the alarm's default action can.
        signal.alarm(int(request.seconds) + 10)
        before = dict(os.environ)
        os.environ.update(request.environment)
        try:
            connection.send(run(Path(request.model), request.seed, connection.send))
        except Exception:
            connection.send(Broken(traceback.format_exc()))
        signal.alarm(0)
        for name in request.environment:
            os.environ.pop(name)
        os.environ.update(before)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
