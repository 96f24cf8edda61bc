"""The program of the process that asks a runtime or compiler: it answers requests until the connection is closed."""

from __future__ import annotations

from collections.abc import Callable
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
from circletools.runtimes.running import run_with

_FAILED: dict[str, Callable[[str], Answer | Recorded]] = {
    "run": lambda words: Answer([], [], words),
    "profile": lambda words: Recorded(b"", failure=words),
}


def serve(program: str, distribution: str, handle: int) -> None:
    """Answer requests over the connection with this file descriptor, after a Ready or a Missing."""
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
    try:
        ask = getattr(module, request.question, partial(run_with, module))
        found: Answer | Recorded | Verdict = ask(request)
    except RefusedError as error:
        if request.question in _FAILED:
            return _FAILED[request.question](str(error))
        return Verdict("refused", str(error), error.operators)
    except NoDeviceError as error:
        return Missing(str(error))
    except MemoryError as error:
        text = f"MemoryError: {error}".strip(": ")
        return _FAILED[request.question](text) if request.question in _FAILED else Verdict("memory", text)
    return found
