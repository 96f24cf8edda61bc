"""Runs commands with little address space: `python -m tests.kit.limited BYTES COMMANDS`, a JSON list of lists.

What a command may take is BYTES more than this process has once everything is imported. Prints the exit status of
each command as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from importlib import import_module
from pathlib import Path

from tests.kit.child import become


def run(words: list[str], limit: int) -> int:
    """Run a command in a child of this process."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        os.dup2(2, 1)  # results are of no interest
        become(words)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(more: int, commands: list[list[str]]) -> None:
    """Print the exit statuses."""
    import_module("circletools.edit.edit")
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    print(json.dumps([run(words, now + more) for words in commands]))


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
