"""Runs one command again and again, and each time something happens at another of its calls to the system.

    python -m tests.kit.crash_points FOLDER HAPPENINGS FIRST STEP COMMAND...

A process of its own for `tests.cli.test_crash`: it runs COMMAND in copies of FOLDER, undisturbed at first. Then it
forks for n = FIRST, FIRST + STEP…: something befalls the n-th of the calls below, until there is none. HAPPENINGS are
separated by commas: `kill` ends the process without a chance to do anything, a write half done; `fail` lets the call
fail; SIGTERM and the like arrive at it. With `-named` behind it the system has no nameless files. Prints JSON: the
files before, after the undisturbed run, and after each disturbed one, as digests by name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from tests.kit.child import become, circletool

CALLS = (
    *("pwrite", "copy_file_range", "lseek", "ftruncate", "posix_fadvise"),
    *("open", "mkdir", "fchown", "fchmod", "fsync", "link", "replace"),
)


class Disturbance:
    """Counts the calls of this process; something happens at one of them."""

    def __init__(self, happening: str, at: int, report: int) -> None:
        self.happening, self.left, self.report = happening, at, report

    def around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return `real` with the disturbance in front."""

        def call(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.write(self.report, name.encode())
                self.happen(name, real, args)
            return real(*args, **options)

        return call

    def happen(self, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self.happening == "fail":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.happening != "kill":
            os.kill(os.getpid(), getattr(signal, self.happening))
            return
        if name == "pwrite":
            real(args[0], args[1][: len(args[1]) // 2], args[2])
        elif name == "copy_file_range":
            real(*args[:2], args[2] // 2, *args[3:])
        os.kill(os.getpid(), signal.SIGKILL)


def disturbed(words: list[str], happening: str, at: int, report: int) -> NoReturn:
    """Run the command in this process, disturbed."""
    kind, _, named = happening.partition("-")
    if named and hasattr(os, "O_TMPFILE"):
        del os.O_TMPFILE
    disturbance = Disturbance(kind, at, report)
    for name in filter(partial(hasattr, os), CALLS):
        setattr(os, name, disturbance.around(name, getattr(os, name)))
    become(words)


def contents(folder: Path) -> dict[str, str]:
    """Return what is in a folder: the digest of each file by its name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fresh(folder: Path) -> None:
    """Make a copy of the folder and go there."""
    os.chdir(folder.parent)
    shutil.rmtree("work", ignore_errors=True)
    shutil.copytree(folder, "work")
    os.chdir("work")


def rounds(folder: Path, happening: str, numbers: Iterable[int], words: list[str]) -> list[dict[str, Any]]:
    """Disturb calls in turn; return what became of each."""
    found: list[dict[str, Any]] = []
    for number in numbers:
        fresh(folder)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            disturbed(words, happening, number, write)
        os.close(write)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        call = os.read(read, 100).decode()
        os.close(read)
        if not call:
            break
        one = {"happening": happening, "call": call, "status": status}
        found.append({**one, "files": contents(Path.cwd())})
    return found


def main(folder: Path, happenings: str, first: str, step: str, *words: str) -> None:
    """Print what becomes of the folder."""
    fresh(folder)
    sys.argv[1:] = words
    with suppress(SystemExit):
        circletool()
    after = contents(Path.cwd())
    numbers = partial(count, int(first), int(step))
    found = [one for happening in happenings.split(",") for one in rounds(folder, happening, numbers(), [*words])]
    print(json.dumps({"before": contents(folder), "after": after, "rounds": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), *sys.argv[2:])
