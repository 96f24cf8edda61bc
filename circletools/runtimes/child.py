"""The program of the process that runs models: it answers requests over a connection until that is closed."""

from __future__ import annotations

from importlib import import_module
from multiprocessing.connection import Connection

from circletools.runtimes.protocol import Request, Runtime


def serve(runtime: Runtime, handle: int) -> None:
    """Answer requests over the connection with this file descriptor, after the word `ready`.

    Raises ImportError where the runtime's package cannot be imported.
    """
    connection: Connection = Connection(handle)
    run = import_module(f"circletools.runtimes.{runtime}").run
    connection.send("ready")
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        connection.send(run(request))
