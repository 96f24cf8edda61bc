"""Runs the program under limits, again and again, without starting an interpreter each time.

    python -m tests.kit.attacks.runner MOST_BYTES SECONDS

reads requests from standard input, a JSON line each: {"argv": [...], "cwd": folder, "out": file, "err": file}. For
each it forks, sets the limits, and runs `circletool` as its console script does; it answers with a line
{"status": exit status or minus the signal, "seconds": of the processor, "most_bytes": largest resident size}.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import NoReturn

from fuzz.commands import load, run


def _run(argv: list[str], cwd: str, out: str, err: str, most_bytes: int, seconds: int) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run(argv, Path(cwd), out, err)


def serve(most_bytes: int, seconds: int) -> None:
    """Answer requests until there are no more."""
    load()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(most_bytes=most_bytes, seconds=seconds, **request)
        _, ended, used = os.wait4(child, 0)
        answer = {
            "status": os.waitstatus_to_exitcode(ended),
            "seconds": used.ru_utime + used.ru_stime,
            "most_bytes": used.ru_maxrss << 10,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
