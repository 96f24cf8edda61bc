"""Runs the program under limits, again and again, without starting an interpreter each time.

    python -m tests.kit.attacks.runner MOST_BYTES SECONDS

reads requests from standard input, a JSON line each: {"argv": [...], "cwd": folder, "out": file, "err": file}. For
each it forks, sets the limits, and runs `circletool` as its console script does; it answers with a line
{"status": exit status or minus the signal, "seconds": of the processor, "most_bytes": largest resident size}.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import sys
from contextlib import suppress

import circletool_cli  # type: ignore[import-not-found, unused-ignore] # the installed name
from circletool_cli.main import app, main  # type: ignore[import-not-found, unused-ignore]

import circletools
from circletools.errors import CircleToolsError


def _load() -> None:
    """Import all that the commands import when they run, so that it is not done anew for each."""
    for package in (circletools, circletool_cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ModuleNotFoundError):  # what is for a package that is not here
                importlib.import_module(module.name)
    with suppress(CircleToolsError):  # what the command line imports when it is first used
        app(["partition", "no such file"], standalone_mode=False)


def _run(argv: list[str], cwd: str, out: str, err: str, most_bytes: int, seconds: int) -> None:
    os.chdir(cwd)
    for descriptor, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["circletool", *argv]
    try:
        main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # what the interpreter would do
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        status = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve(most_bytes: int, seconds: int) -> None:
    """Answer requests until there are no more."""
    _load()
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
