"""Running one command over many files: tasks to a crew, outcomes in their order to standard output and a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from circletools.errors import UsageError

from ..console.terminal import complain, show_bytes, tell
from .workers import Crew, Here, Processes, without_interrupts

if TYPE_CHECKING:
    from pathlib import Path

    from .many import Way
    from .run_log import Journal
    from .task import Outcome, Task

_HELD_BYTES = 64 << 20
"""How much of what is done may wait for its turn, before no further task is begun."""


def run(tasks: Iterable[Task], way: Way) -> int:
    """Run tasks as the options want it; return the exit status, which is the greatest of all."""
    worst = 0
    with ExitStack() as stack:
        if way.log is not None:
            tasks = list(tasks)  # what is wrong with them shows before there is a log
            _check_log(way.log, tasks)
        journal = _journal(way)
        if journal is not None:
            stack.enter_context(closing(journal))
        skipped = _Skipped(journal)
        crew = stack.enter_context(closing(_crew(way)))
        printer = _Printer()
        for task, outcome in in_order(skipped.left(tasks), crew):
            if outcome.fatal:
                printer.show(task, outcome)
                return outcome.status
            with without_interrupts():  # neither half a line nor a line that the log does not know
                printer.show(task, outcome)
                if journal is not None:
                    journal.write(task, outcome)
            worst = max(worst, outcome.status)
    if skipped.count:
        tell(f"{skipped.count} done before: {way.log}")
    return max(worst, skipped.worst)


def in_order(tasks: Iterable[Task], crew: Crew) -> Iterator[tuple[Task, Outcome]]:
    """Yield each task with its outcome, in the order of the tasks, in whichever order the crew ends them."""
    rest = enumerate(tasks)
    begun: dict[int, Task] = {}
    done: dict[int, Outcome] = {}
    due = held = 0
    more = True
    while True:
        while more and crew.free and held < _HELD_BYTES:
            number, task = next(rest, (-1, None))
            if task is None:
                more = False
            else:
                begun[number] = task
                crew.start(number, task)
        if not crew.busy:
            return
        number, outcome = crew.wait()
        done[number] = outcome
        held += len(outcome.out)
        while due in done:
            outcome = done.pop(due)
            held -= len(outcome.out)
            yield begun.pop(due), outcome
            due += 1


class _Skipped:
    """What an earlier run has done: it is left out, and its exit statuses count."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self.count = self.worst = 0

    def left(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            status = None if self._journal is None else self._journal.done(task)
            if status is None:
                yield task
            else:
                self.count += 1
                self.worst = max(self.worst, status)


class _Printer:
    """Shows outcomes: results apart by an empty line under headings, tables under one line of column names."""

    def __init__(self) -> None:
        self._columns = b""
        self._begun = False

    def show(self, task: Task, outcome: Outcome) -> None:
        out = outcome.out
        if task.several and out:
            if task.form == "csv":
                columns, end, rows = out.partition(b"\n")
                out = rows if columns == self._columns else columns + end + rows
                self._columns = columns
            elif task.form != "json" and task.heading != "line" and self._begun:
                out = b"\n" + out
            self._begun = True
        if out:
            show_bytes(out)
        for kind, text in outcome.messages:
            if kind is None:
                tell(text)
            else:
                complain(kind, text)


def _check_log(log: Path, tasks: Iterable[Task]) -> None:
    from .sources import identities  # noqa: PLC0415

    known = identities(log)
    names = {name for task in tasks for name in task.files}
    if not all(known.isdisjoint(identities(name)) for name in names):
        message = "the log is a file that is read or written besides"
        raise UsageError(message, location=str(log), hint="name another file")


def _journal(way: Way) -> Journal | None:
    if way.log is None:
        if way.resume:
            raise UsageError("--resume needs the log of the earlier run", hint="add --log FILE")
        return None
    from .run_log import Journal  # noqa: PLC0415

    return Journal(way.log, resume=way.resume)


def _crew(way: Way) -> Crew:
    if way.scheduler is not None:
        if way.jobs != 1:
            raise UsageError("--jobs and --scheduler exclude each other: the cluster has its own processes")
        from .cluster import Cluster  # noqa: PLC0415

        return Cluster(way.scheduler)
    return Here() if way.jobs == 1 else Processes(way.jobs)
