"""One worker per runtime and test process: started at the first use, again after a crash, ended at exit."""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType

from tests.kit.oracles.outcome import Outcome, same_behavior
from tests.kit.oracles.protocol import READY, Broken, Request
from tests.kit.presence import need

_ROOT = Path(__file__).parents[3]
_START_SECONDS = 60.0
_MODULES = {"litert": "ai_edge_litert", "onert": "onert"}  # what the runtimes' users import


class OracleError(Exception):
    """The harness failed: a runtime is not installed, or a module here has a bug."""


class _Worker:
    """A running process and the connection to it."""

    def __init__(self, runtime: str, environment: dict[str, str]) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.oracles.worker", runtime, str(theirs.fileno())],
                cwd=_ROOT,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        first = self.connection.recv() if self.connection.poll(_START_SECONDS) else None
        if first != READY:
            self.stop()
            raise OracleError(f"no {runtime}: {first.text if isinstance(first, Broken) else 'no answer'}")

    def stop(self) -> int:
        """End the process, however busy, and return its exit status."""
        self._process.kill()
        return self.join()

    def join(self) -> int:
        """Wait for a process that has hung up."""
        self.connection.close()
        return self._process.wait()


class Pool:
    """Runs models, each runtime in its own process; `environment` is added to the one of the workers."""

    def __init__(self, *, seconds: float = 60.0, environment: dict[str, str] | None = None) -> None:
        self._seconds = seconds
        # One thread each, as LiteRT gets: the order of a sum must not depend on the load of the machine.
        self._environment = {"NUM_THREADS": "1", **(environment or {})}
        self._workers: dict[str, _Worker] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Pool:
        """Return the pool itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """Let the workers end, and with them write what runtimes write last; a later `run` starts new ones."""
        with self._lock:
            while self._workers:
                self._workers.popitem()[1].join()

    def run(self, runtime: str, model: Path, seed: int = 0, *, environment: dict[str, str] | None = None) -> Outcome:
        """Run `model` in `runtime`, the name of a module of this package; `environment` is added for this run.

        The test is skipped where the runtime is not installed.
        """
        if runtime in _MODULES:
            need(_MODULES[runtime])
        request = Request(str(model.resolve(strict=True)), seed, self._seconds, environment or {})
        with self._lock:
            worker = self._workers.pop(runtime, None) or _Worker(runtime, self._environment)
            try:
                outcome = self._ask(worker, runtime, request)
            except BaseException:
                # Also an interrupt: a late answer must not be taken for that of the next request.
                worker.stop()
                raise
            if outcome.stage not in {"crash", "timeout"}:
                self._workers[runtime] = worker
        return outcome

    def _ask(self, worker: _Worker, runtime: str, request: Request) -> Outcome:
        deadline = time.monotonic() + self._seconds
        reached = ""
        try:
            worker.connection.send(request)
            while True:
                if not worker.connection.poll(max(0.0, deadline - time.monotonic())):
                    worker.stop()
                    return Outcome(runtime, "timeout", f"no answer in {self._seconds:g} s", reached=reached)
                match worker.connection.recv():
                    case Outcome() as outcome:
                        return outcome
                    case Broken(text=text):
                        raise OracleError(f"{runtime}, {request.model}:\n{text}")
                    case step:
                        reached = str(step)
        except (EOFError, ConnectionError):
            status = worker.join()
            message = f"signal {-status}" if status < 0 else f"exit status {status}"
            return Outcome(runtime, "crash", message, reached=reached)


_POOL = Pool()
# Memory that a runtime reads without having written it is zero in one process and rubbish in another. The C
# library can fill what it hands out, which separates such models from those that may be compared.
_FILLED_POOL = Pool(environment={"GLIBC_TUNABLES": "glibc.malloc.perturb=190:glibc.malloc.tcache_count=0"})
atexit.register(_POOL.close)
atexit.register(_FILLED_POOL.close)

_DETERMINISTIC: dict[tuple[str, str, str, int], bool] = {}


def run_litert(model: Path, seed: int = 0) -> Outcome:
    """Run `model` and each of its signatures in LiteRT."""
    return _POOL.run("litert", model, seed)


def run_onert(model: Path, seed: int = 0, environment: dict[str, str] | None = None) -> Outcome:
    """Run the first subgraph of `model` in onert; the file's suffix determines the format."""
    return _POOL.run("onert", model, seed, environment=environment)


def is_deterministic(model: Path, runtime: str, seed: int = 0) -> bool:
    """Return whether runs of `model` can be compared at all: equal twice, and in memory filled otherwise."""
    key = (hashlib.sha256(model.read_bytes()).hexdigest(), model.suffix, runtime, seed)
    if key not in _DETERMINISTIC:
        first = _POOL.run(runtime, model, seed)
        _DETERMINISTIC[key] = all(
            same_behavior(first, pool.run(runtime, model, seed)) is None for pool in (_POOL, _FILLED_POOL)
        )
    return _DETERMINISTIC[key]
