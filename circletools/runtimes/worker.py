"""Ask runtimes and compilers in a separate process, since they may crash, hang, print or use up memory.

The child answers requests over a connection until it is closed; `protocol` defines the messages. The child may be
another Python, which loads the modules of circletools that it needs from this installation.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from circletools.errors import UsageError
from circletools.runtimes.inputs import RANDOM_INPUTS
from circletools.runtimes.programs import PROGRAMS, command, named, not_installed
from circletools.runtimes.protocol import (
    Answer,
    Array,
    ChainsRequest,
    Missing,
    Question,
    Recorded,
    Request,
    Status,
    Timed,
    Verdict,
)
from circletools.storage.platform import read_at

MEMORY_BYTES = 8 << 30
"""The default memory limit of a child, in addition to the model's size."""

_START_SECONDS = 120.0
_ROOM_BYTES = 1 << 28  # for the model itself
_PACKAGE = Path(__file__).parents[1]
# Packages next to circletools must not hide those of the child, which may be another Python.
_CHILD = """
import sys
sys.path[:] = [one for one in sys.path if one]  # not the user's current folder
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("circletools", {0!r} + "/__init__.py", submodule_search_locations=[{0!r}])
sys.modules["circletools"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from circletools.runtimes.child import serve
from circletools.storage.platform import limit_memory
limit_memory({1!r}, {2})
serve({3!r}, {4!r}, {5})
"""
_NO_MEMORY = re.compile(r"bad_alloc|MemoryError|[Cc]annot allocate memory|[Oo]ut of memory")


class Worker:
    """A process that runs a program; use it as a context manager. Raises UsageError if the program is not installed.

    `name` is a program or `PROGRAM:VARIANT` (see `programs`). After a crash, or if `seconds` pass without an answer,
    the next request starts a new process. A child may use at most `memory_bytes` in addition to the model's size, if
    the system can limit memory (macOS cannot).
    """

    def __init__(self, name: str, seconds: float = 600.0, memory_bytes: int = MEMORY_BYTES) -> None:
        """Find the program, without starting a process."""
        self.runtime, self.variant = named(name)
        self.version = ""
        self._command = command(self.runtime)
        self._seconds, self._memory_bytes = seconds, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives
        self._scratch = tempfile.TemporaryDirectory(prefix="circletools-")
        self._room = _ROOM_BYTES

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_error: object) -> None:
        """End the process, and remove its files."""
        self._stop()
        self._printed.close()
        self._scratch.cleanup()

    def loads(self, model: Path) -> Verdict:
        """Return whether the program loads and prepares a model."""
        return self._judge("loads", model)

    def excuse(self, model: Path) -> str:
        """Return words for the error of a run with random inputs if the program at least loads the model."""
        return f" ({RANDOM_INPUTS})" if self.loads(model).status == "ok" else ""

    def called(self, model: Path) -> Verdict:
        """Return whether the program loads a model and, for onert, runs it with equal values in all interfaces."""
        verdict = self.loads(model)
        return self._judge("called", model) if verdict.status == "ok" and self.runtime == "onert" else verdict

    def placement(self, model: Path) -> Verdict:
        """Return which operators the program accepts."""
        return self._judge("placement", model)

    def run(self, model: Path, inputs: Sequence[Array] | None = None, seed: int = 0, repeat: int = 1) -> Answer:
        """Run a model `repeat` times with the same inputs; the outputs of all runs are concatenated."""
        if inputs is not None:
            return self.run_each(model, [inputs] * repeat)
        return self._run(Request("run", str(model), self.variant, None, seed, repeat))

    def run_each(self, model: Path, inputs: Iterable[Iterable[Array]]) -> Answer:
        """Run a model once with each of these inputs; the outputs of all runs are concatenated."""
        first, *others = map(list, inputs)
        return self._run(Request("run", str(model), self.variant, [first], following=len(others)), others)

    def profile(self, request: Request) -> Recorded:
        """Run a model with the program's own profiler."""
        found = self._ask(replace(request, question="profile", variant=self.variant), Path(request.model))
        if not isinstance(found, Recorded):
            return Recorded(b"", failure=self._failure(_words(found)))
        if found.file:
            self._stop(self._seconds)  # the program writes the file when it ends
            return replace(found, data=Path(found.file).read_bytes(), file="")
        return found

    def measure(self, request: ChainsRequest) -> Timed:
        """Measure the time of chains, whose programs must be installed in this worker's Python."""
        models = [step.model for chain in request.chains for step in chain]
        largest = max(models, key=lambda model: Path(model).stat().st_size if Path(model).exists() else 0)
        found = self._ask(request, Path(largest))
        # The error names only one of the programs.
        return found if isinstance(found, Timed) else Timed([], self._failure(_words(found, f"{self.runtime} ")))

    def _run(self, request: Request, others: Iterable[list[Array]] = ()) -> Answer:
        found = self._ask(request, Path(request.model), others)
        if isinstance(found, Answer):
            return Answer([], [], self._failure(found.failure)) if found.failure else found
        return Answer([], [], _words(found))

    def _failure(self, words: str) -> str:
        """Return a program's error and the last line that it printed, as one line; empty if there is neither."""
        return " ".join(f"{words} {self._last_line()}".split()) if words else ""

    def _judge(self, question: Question, model: Path) -> Verdict:
        found = self._ask(Request(question, str(model), self.variant), model)
        assert isinstance(found, Verdict)
        if found.status in {"crash", "timeout", "memory"} and (words := self._last_line()) not in found.words:
            return Verdict(found.status, f"{found.words}; its last output: {words}")
        return found

    def _ask(
        self, request: Request | ChainsRequest, model: Path, others: Iterable[list[Array]] = ()
    ) -> Answer | Recorded | Timed | Verdict:
        """Return the child's answer, or a verdict if it gives none; `others` are the inputs of the following runs."""
        if isinstance(request, Request) and "circle" not in PROGRAMS[self.runtime].formats and model.is_file():
            with model.open("rb") as file:
                if file.read(8)[4:] == b"CIR0":
                    return Verdict("refused", f"{self.runtime} cannot read Circle models")
        size = model.stat().st_size if model.is_file() else 0
        if 2 * size > self._room:  # restart the child with a higher limit
            self._stop()
            self._room = 4 * size
        try:
            connection = self._connection or self._start()
            self._printed.truncate(0)
            self._printed.seek(0)  # the child shares the file position
            connection.send(request)
            outputs, following = list[Array](), iter(others)
            while connection.poll(self._seconds):
                answer: Answer | Timed | Verdict | Missing | list[Array] = connection.recv()
                if isinstance(answer, Missing):
                    raise UsageError(f"{self.runtime} cannot run here: {answer.text}", hint="see docs/runtimes.md")
                if not isinstance(answer, list):
                    return replace(answer, outputs=outputs + answer.outputs) if isinstance(answer, Answer) else answer
                outputs += answer
                connection.send(next(following))
            self._stop(0.0)
            return Verdict("timeout", f"no answer in {self._seconds:g} s")
        except (EOFError, OSError):  # the child ended before or during its answer
            return self._ended(self._stop())
        except BaseException:  # interrupted: a late answer must not be taken as the answer to a later request
            self._stop()
            raise

    def _ended(self, status: int) -> Verdict:
        kind: Status = "memory" if _NO_MEMORY.search(self._text()) else "crash"
        name = f" ({signal.Signals(-status).name})" if -status in set(signal.Signals) else ""
        text = f"signal {-status}{name}" if status < 0 else f"status {status}"
        return Verdict(kind, f"{self.runtime} ended with {text}")

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        program = PROGRAMS[self.runtime]
        limits = program.limit, self._memory_bytes + self._room
        arguments = (str(_PACKAGE), *limits, self.runtime, program.distribution, theirs.fileno())
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program, in a Python chosen by the user
                    [*self._command, "-c", _CHILD.format(*arguments)],
                    # The order of summation, and thus the result, must not depend on the machine's load.
                    env=os.environ | {"NUM_THREADS": "1", "TMPDIR": self._scratch.name},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._printed,
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                raise UsageError(f"{self.runtime}: {self._command[0]} cannot be started: {error.strerror}") from error
        self._connection = ours
        if not ours.poll(_START_SECONDS):
            self._stop(0.0)
            raise UsageError(f"{self.runtime} does not start in {_START_SECONDS:g} s")
        try:
            version: str | Missing = ours.recv()
        except (EOFError, OSError) as error:
            if self.version:  # the program is installed, since it has started before
                raise
            self._stop()
            raise not_installed(self.runtime, f"its process ended at once: {self._last_line()}") from error
        if isinstance(version, Missing):
            self._stop()
            raise not_installed(self.runtime, version.text)
        self.version = version
        return ours

    def _text(self) -> str:
        return read_at(self._printed.fileno(), 1 << 16, 0).decode(errors="replace").strip()

    def _last_line(self) -> str:
        return self._text().rpartition("\n")[2][:500]

    def _stop(self, patience: float = 2.0) -> int:
        """End the process; return its exit status if it ended by itself within `patience` seconds."""
        if self._connection is not None:
            self._connection.close()
        status = 0
        if self._process is not None:
            try:
                status = self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                status = self._process.wait()
        self._process = self._connection = None
        return status


def _words(found: object, prefix: str = "") -> str:
    assert isinstance(found, Verdict)
    return found.words.removeprefix(prefix)
