"""Commands that end badly, for those who run commands in other processes to find by their names."""

from __future__ import annotations

import os
import signal
from typing import Any

from circletool_cli.batch.many import named
from circletool_cli.batch.task import Task
from circletool_cli.console.terminal import show
from typer import Exit


def act(file: str, **_: Any) -> None:
    """Do what the file's name demands."""
    if file.startswith("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if file.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if file.startswith("leave"):
        os._exit(7)
    if file.startswith("memory"):
        raise MemoryError
    if file.startswith("find"):
        raise Exit(1)
    show([f"seen {file}"])


def tasks(*files: str) -> list[Task]:
    """Return a task for each file, as the command line would make them."""
    return list(named(act, files, {}))
