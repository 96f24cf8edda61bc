"""The log of a run over many models: a line for each, and what a later run reads there.

A line is on the disk before the next result is shown. It is whole, or it is the torn last one, which counts for
nothing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import circletools as ct

from .task import Outcome, Task

_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows
_STATUS = {0: "ok", 1: "findings", 2: "usage", 3: "invalid", 4: "refused"}
_MARK = {"log": "circletool", "schema_version": ct.render.SCHEMA_VERSION}
_BEGIN = b'{"log": "circletool", "schema_version": '
"""The first bytes of a log: a file that begins otherwise is never truncated."""


class RunLog:
    """A log that is written, and which models it has as done already.

    Done is what ended with exit status 0, 1 or 5 in a run of the same command, options and version, while the file
    had the size and modification time it has now, and its output, if it has one, is there. All else is done again.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self._done: dict[str, dict[str, Any]] = {}
        with self._writing():
            # O_APPEND: two runs with one log mix their lines, but tear none
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
        try:
            with self._writing(), ct.files.locked(self._file):
                self._read(resume)
        except ct.CircleToolsError:
            self.close()
            raise

    def _read(self, resume: bool) -> None:
        """Read what an earlier run wrote, and cut off the line it did not finish."""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise ct.UsageError("a log must be a regular file", location=str(self._path), hint="name another file")
        end = 0
        with open(self._file, "rb", closefd=False) as file:
            if file.read(len(_BEGIN)) not in (_BEGIN, b""):
                raise self._no_log(end)
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    if end == 0 and _whole(line):
                        raise self._no_log(end)
                    os.ftruncate(self._file, end)
                    return
                entry = _entry(line)
                if entry is None:
                    raise self._no_log(end)
                end += len(line)
                if resume:
                    self._done[entry["key"]] = entry

    def _no_log(self, at: int) -> ct.UsageError:
        message = f"not a log of circletool: unexpected content at byte {at}"
        return ct.UsageError(message, location=str(self._path), hint="name another file")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ct.OutputError(f"cannot write the log: {error.strerror}", location=str(self._path)) from error

    def done(self, task: Task) -> int | None:
        """Return the exit status that a task had when it was done; None when it is to be done."""
        entry = self._done.get(os.path.abspath(task.file))
        if entry is None or entry["exit_status"] not in (0, 1, 5):
            return None
        if any(entry.get(name) != value for name, value in _identity(task).items()):
            return None
        try:
            status = os.stat(task.file)
        except (OSError, ValueError):
            return None
        if (entry.get("size_bytes"), entry.get("mtime_ns")) != (status.st_size, status.st_mtime_ns):
            return None
        if task.output is not None and not os.path.exists(task.output):
            return None
        return int(entry["exit_status"])

    def write(self, task: Task, outcome: Outcome) -> None:
        """Add a line, and wait until it is on the disk. Raises OutputError."""
        line = {
            **_MARK,
            "file": task.file,
            "path": task.path,
            "key": os.path.abspath(task.file),
            **_identity(task),
            "size_bytes": outcome.size_bytes,
            "mtime_ns": outcome.mtime_ns,
            "status": _STATUS.get(outcome.status, "invalid"),
            "exit_status": outcome.status,
            "findings": outcome.findings,
            "seconds": round(outcome.seconds, 6),
            "error": outcome.error,
        }
        data = memoryview(json.dumps(line).encode() + b"\n")
        with self._writing():
            with ct.files.locked(self._file):
                while data:
                    data = data[os.write(self._file, data) :]
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _identity(task: Task) -> dict[str, Any]:
    """Return the key by which a task is the same task, besides its file."""
    values = ((name, _plain(value)) for name, value in sorted(task.options.items()))
    options = {
        name: value for name, value in values if value is not None and value is not False and value != task.output
    }
    output = None if task.output is None else os.path.abspath(task.output)
    command = task.function.__name__.replace("_", "-")
    return {"command": command, "version": ct.__version__, "options": options, "output": output}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _whole(line: bytes) -> bool:
    """Return whether this is a JSON document; one that is nested too deep to parse may be."""
    try:
        with suppress(RecursionError):
            json.loads(line)
    except ValueError:
        return False
    return True


def _entry(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(_BEGIN):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
        return None
    return entry if isinstance(entry.get("exit_status"), int) else None
