"""Who works on tasks, seen from this side: how many at once, how one ends, what is left behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from circletool_cli import main
from circletool_cli.batch import workers
from circletool_cli.batch.task import Outcome, Task
from circletool_cli.console import process

import circletools as ct
from tests.kit.command_support import run
from tests.kit.many_support import tasks
from tests.kit.support import path_of

MLP = path_of("circle/mlp")


def test_several_processes_take_as_many_tasks() -> None:
    first, second = tasks("a", "find")
    with closing(workers.Processes(2)) as several:
        assert (several.free, several.busy) == (True, False)
        several.start(0, first)
        assert (several.free, several.busy) == (True, True)
        several.start(1, second)
        assert (several.free, several.busy) == (False, True)
        ended = dict(several.wait() for _ in range(2))
        assert {number: outcome.status for number, outcome in ended.items()} == {0: 0, 1: 1}
        assert (several.free, several.busy) == (True, False)


class Ended:
    """A process that has ended with some code."""

    def __init__(self, code: int | None, *, stubborn: bool = False) -> None:
        self.exitcode, self.done, self._stubborn = code, list[str](), stubborn

    def join(self, seconds: float | None = None) -> None:
        self.done.append(f"join {seconds}")
        if not self._stubborn and self.exitcode is None:
            self.exitcode = 0

    def terminate(self) -> None:
        self.done.append("terminate")

    def kill(self) -> None:
        self.done.append("kill")
        self.exitcode = -signal.SIGKILL


def worker(process: Ended, pipe: object = None) -> Any:
    made = workers._Process.__new__(workers._Process)
    vars(made).update(process=process, pipe=pipe)
    return made


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (None, "ended with exit status 0"),
        (0, "ended with exit status 0"),
        (1, "ended with exit status 1"),
        (-1, "was killed by SIGHUP"),
        (-9, "was killed by SIGKILL, perhaps because it ran out of memory"),
        (-11, "was killed by SIGSEGV"),
        (-99, "was killed by 99"),
    ],
)
def test_how_a_process_ended(code: int | None, how: str) -> None:
    assert worker(Ended(code, stubborn=True)).end() == f"its process {how}"


class Pipe:
    """This end of a pipe."""

    def close(self) -> None:
        """Close it."""


def test_processes_are_ended_with_those_that_use_them() -> None:
    idle, working, stubborn = Ended(None), Ended(None), Ended(None, stubborn=True)
    several = workers.Processes(3)
    several._idle = [worker(idle, Pipe())]
    (task,) = tasks("a")
    for one in (working, stubborn):
        pipe = cast(Any, Pipe())
        several._busy[pipe] = worker(one, pipe), 0, task
    several.close()
    assert idle.done == ["join 5.0"]
    assert working.done == ["terminate", "join 5.0"]
    assert stubborn.done == ["terminate", "join 5.0", "kill", "join None"]


def test_a_process_serves_until_its_pipe_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(workers.gc, "disable", lambda: None)
    monkeypatch.setattr(workers.gc, "freeze", lambda: None)
    monkeypatch.setattr(workers.bounds, "enable", lambda: None)
    waiting, sent = tasks("a", "find"), list[Outcome]()

    def receive() -> Task:
        if not waiting:
            raise EOFError
        return waiting.pop(0)

    workers._serve(cast(Any, SimpleNamespace(recv=receive, send=sent.append)))
    assert [outcome.status for outcome in sent] == [0, 1]
    assert handlers[signal.SIGINT] is signal.SIG_IGN
    with pytest.raises(SystemExit) as ended:
        handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert ended.value.code == 128 + signal.SIGTERM


class Backwards:
    """Three workers of which the one that began last ends first."""

    def __init__(self, size: int) -> None:
        self.free, self.busy = True, False
        self.begun, self.waits = list[int](), list[int]()
        self._size, self._started = size, 0

    def _changed(self) -> None:
        self.free, self.busy = len(self.begun) < 3, bool(self.begun)

    def start(self, number: int, _: Task) -> None:
        """Begin a task."""
        self.begun.append(number)
        self._started += 1
        self._changed()

    def wait(self) -> tuple[int, Outcome]:
        """End the task that began last, and note how many were started before."""
        self.waits.append(self._started)
        number = self.begun.pop()
        self._changed()
        return number, Outcome(number, bytes(self._size), ())

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("size", "started"), [(32 << 20, [3, 4, 4, 4, 5]), ((32 << 20) - 1, [3, 4, 5, 5, 5])])
def test_no_task_is_begun_while_64_mib_wait_for_their_turn(size: int, started: list[int]) -> None:
    pool = Backwards(size)
    ended = [outcome.status for _, outcome in workers.in_order(tasks(*"abcde"), cast(Any, pool))]
    assert (ended, pool.waits) == ([0, 1, 2, 3, 4], started)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_that_end_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number = getattr(signal, name)
    handlers: dict[int, Any] = {signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(signal, "getsignal", lambda wanted: handlers.get(wanted, signal.SIG_DFL))
    process.listen()
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    assert handlers[signal.SIGHUP] is signal.SIG_IGN  # as under nohup
    stop: Callable[[int, None], None] = handlers[signal.SIGINT]
    assert handlers[signal.SIGTERM] is stop
    with pytest.raises(process.Stopped) as stopped:
        stop(number, None)
    assert stopped.value.number == number
    assert set(handlers.values()) == {signal.SIG_IGN}  # while it cleans up
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(process.os, "kill", lambda *words: killed.append(words))
    monkeypatch.setattr(process.os, "getpid", lambda: 1)
    with pytest.raises(SystemExit) as ended:
        process.end(number)
    assert (ended.value.code, killed, handlers[number]) == (128 + number, [(1, number)], signal.SIG_DFL)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (MemoryError(), 3, "error: out of memory: the input needs more memory than this process may use\n"),
        (OSError(28, "No space left on device"), 4, "error: cannot write: No space left on device\n"),
        (OSError(24, "Too many open files"), 3, "error: Too many open files\n"),
        (OSError(2, "No such folder"), 3, "error: the working directory: No such folder\n"),
        (ct.OutputError("full", location="out"), 4, "error: out: full\n"),
        (ct.InvalidInputError("bad", hint="do"), 3, "error: bad (do)\n"),
        (ct.UsageError("no"), 2, "error: no\n"),
    ],
)
def test_what_an_error_becomes(error: Exception, status: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(**_: Any) -> None:
        raise error

    monkeypatch.setattr(main, "app", failing)
    ran = run("inspect", MLP)
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, "", text)


def test_a_program_that_was_stopped_ends_by_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        raise process.Stopped(15)

    ended: list[int] = []
    monkeypatch.setattr(main, "_run", stopped)
    monkeypatch.setattr(process, "listen", lambda: None)
    monkeypatch.setattr(main.bounds, "enable", lambda: None)
    monkeypatch.setattr(process, "end", ended.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(main.gc, "disable", lambda: None)
    main.main()
    assert ended == [15]
    monkeypatch.setattr(sys, "stdout", None)
    main._drop_output()  # nothing to let go of
