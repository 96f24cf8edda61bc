"""The child process of a runtime or compiler, which answers requests until the connection is closed."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from typing import Any

from circletools.runtimes.chains import measure
from circletools.runtimes.clock import Pace
from circletools.runtimes.protocol import (
    Answer,
    ChainsRequest,
    Missing,
    NoDeviceError,
    Ready,
    Recorded,
    RefusedError,
    Request,
    Verdict,
)
from circletools.runtimes.running import run_with, words_of


def serve(program: str, distribution: str, handle: int) -> None:
    """Send Ready or Missing, then answer requests, over the connection with this file descriptor."""
    connection: Connection = Connection(handle)
    try:
        module = import_module(f"circletools.runtimes.{program.replace('-', '_')}")
    except ImportError as error:
        connection.send(Missing(str(error)))
        return
    connection.send(Ready(_version(distribution)))
    pace = Pace()
    while True:
        try:
            request: Request | ChainsRequest = connection.recv()
        except EOFError:
            return
        connection.send(_answer(module, request) if isinstance(request, Request) else measure(request, pace))


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _answer(module: Any, request: Request) -> Answer | Recorded | Verdict | Missing:
    ask = getattr(module, request.question, partial(run_with, module))
    try:
        found: Answer | Recorded | Verdict = ask(request)
    except NoDeviceError as error:
        return Missing(str(error))
    except (RefusedError, MemoryError) as error:
        words = words_of(error)
        if request.question == "profile":
            return Recorded(b"", failure=words)
        return (
            Verdict("refused", words, error.operators)
            if isinstance(error, RefusedError)
            else Verdict("memory", words)
        )
    return found
