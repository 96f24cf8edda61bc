"""Ask a runtime many questions in a forked, silent process, which is replaced if it crashes."""

import faulthandler
import multiprocessing
import os
import resource
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

Unit = TypeVar("Unit")

# A question takes a few hundredths of a second.
CPU_SECONDS = 0.5
WALL_SECONDS = 30.0
CRASH = "crash"
LIMIT = "limit"
ROOT = Path(__file__).parents[2]


def answers(
    units: Sequence[Unit],
    ask: Callable[[Unit], str],
    prepare: Callable[[], object],
    cpu_seconds: float = CPU_SECONDS,
    limit: str = CRASH,
) -> list[str]:
    """Return `ask`'s answer to each unit, or "crash" if its process died, took too long or stopped answering.

    `prepare` runs first in each process and must import the runtime, so that no process holds two of them.
    `limit` is the answer for units that were stopped from outside: by the clock, or for lack of memory.
    Raises SystemExit if `ask` raises, which is a fault of the script.
    """
    found: list[str] = []
    while len(found) < len(units):
        found += _live(units[len(found) :], ask, prepare, cpu_seconds)
    return [limit if one == LIMIT else one for one in found]


def _live(
    units: Sequence[Unit], ask: Callable[[Unit], str], prepare: Callable[[], object], cpu_seconds: float
) -> list[str]:
    found: list[str] = []
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(units, ask, prepare, cpu_seconds, theirs))
    with warnings.catch_warnings():
        # Newer Pythons warn about forks with threads. The child uses only modules already imported, and the runtime.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    try:
        while len(found) < len(units):
            if not ours.poll(max(WALL_SECONDS, 5 * cpu_seconds)):
                return [*found, LIMIT]  # a deadlock uses no CPU time
            answer = ours.recv()
            if isinstance(answer, str):
                raise SystemExit(answer)
            found += answer
    except EOFError:
        process.join()
        return [*found, LIMIT if process.exitcode in (-signal.SIGPROF, -signal.SIGKILL) else CRASH]
    finally:
        process.kill()
        process.join()
    return found


def _serve(
    units: Sequence[Unit],
    ask: Callable[[Unit], str],
    prepare: Callable[[], object],
    cpu_seconds: float,
    connection: Connection,
) -> None:
    """Answer every unit in this separate process, until the process ends."""
    faulthandler.disable()  # pytest enables it in its own process; a crash is an answer here, and needs no traceback
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(null, handle)
    prepare()
    for unit in units:
        # CPU time, unlike wall time, does not depend on the machine's load. The timer's signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            connection.send((ask(unit),))
        except Exception as error:
            connection.send(f"{unit}: {error!r}")
