"""Runs models in a process of its own, since runtimes crash, hang and print.

The child answers requests over a connection until that is closed. A request is a model and the arrays to give it, or
a seed to make them from; the answer is the inputs and the outputs, or a text that says why there are none.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from circletools.errors import UsageError
from circletools.runtimes.protocol import Answer, Array, Request, Runtime

_PACKAGES: dict[Runtime, tuple[str, str]] = {
    "litert": ("ai_edge_litert", "pip install ai-edge-litert"),
    "onert": ("onert", "pip install onert"),
}
_START_SECONDS = 120.0


class Worker:
    """A process with a runtime; use as a context manager. Raises UsageError where the runtime is not installed.

    After a crash, or when `seconds` pass without an answer, the next request starts another process.
    """

    def __init__(self, runtime: Runtime, seconds: float = 600.0) -> None:
        """Look for the runtime; start nothing yet."""
        package, command = _PACKAGES[runtime]
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"the runtime {runtime} is not installed", hint=command)
        self.runtime, self._seconds = runtime, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the worker lives

    def __enter__(self) -> Self:
        """Return the worker itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._stop()
        self._printed.close()

    def run(self, model: Path, inputs: Sequence[Array] | None = None, seed: int = 0) -> Answer:
        """Run a model once."""
        connection = self._connection or self._start()
        self._printed.truncate(0)
        self._printed.seek(0)  # the child writes at the same place
        try:
            connection.send(Request(str(model), None if inputs is None else list(inputs), seed))
            if connection.poll(self._seconds):
                answer: Answer = connection.recv()
                return Answer([], [], f"{answer.failure} {self._last_words()}".strip()) if answer.failure else answer
            self._stop()
            return Answer([], [], f"no answer in {self._seconds:g} s")
        except (EOFError, ConnectionError):
            status = self._stop()
            return Answer(
                [], [], f"the runtime ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
            )
        except BaseException:  # an interrupt: a late answer must not be taken for that to another request
            self._stop()
            raise

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        with theirs:
            program = f"from circletools.runtimes.child import serve; serve({self.runtime!r}, {theirs.fileno()})"
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", program],
                env=os.environ | {"NUM_THREADS": "1"},  # the order of a sum must not depend on the machine's load
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._printed,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        if not ours.poll(_START_SECONDS):
            self._stop()
            raise UsageError(f"the runtime {self.runtime} does not start")
        try:
            ours.recv()
        except EOFError as error:
            self._stop()
            raise UsageError(f"the runtime {self.runtime} cannot be imported") from error
        return ours

    def _last_words(self) -> str:
        """Return the last line that the runtime printed."""
        printed = os.pread(self._printed.fileno(), 1 << 16, 0).decode(errors="replace").strip()
        return printed.rpartition("\n")[2][:500]

    def _stop(self) -> int:
        """End the process; return its exit status if it has ended by itself."""
        if self._connection is not None:
            self._connection.close()
        status = 0
        if self._process is not None:
            try:
                status = self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                status = self._process.wait()
        self._process = self._connection = None
        return status
