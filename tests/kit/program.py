"""The command line as a user has it: the installed program, its exit statuses, files and words."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from circletools.edit.compact import compact_parts
from circletools.model.model import open_model
from circletools.storage.files import view
from tests.kit.command_support import run_bytes
from tests.kit.presence import need_extra
from tests.kit.support import ROOT, path_of

TOOL = Path(sys.executable).with_name("circletool")
TRACE = ROOT / "testdata" / "trace" / "benchmark.html"
MLP, LOOP = path_of("circle/mlp"), path_of("circle/while_loop")
OF_PROCESSES = {"--jobs", "/dev/stdin", "/dev/stdout"}
"""Words of commands that have to do with the process they run in."""
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}


class Ran(NamedTuple):
    """How a run of the program ended. `err` has what is not UTF-8 as surrogate escapes."""

    status: int
    out: bytes
    err: str


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in another folder meanwhile, as `contextlib.chdir` of Python 3.11 does."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(*args: str | Path, stdin: bytes = b"", cwd: Path | None = None, **process: Any) -> Ran:
    """Run the program; no run may end in a traceback. `process` are the further arguments of `started`.

    Where nothing has to do with a process, the commands run in this one, which is faster and shows what they reach.
    """
    words = [os.fspath(word) for word in args]
    if words and not any(process.values()) and not OF_PROCESSES.intersection(words):
        with _inside(cwd or Path()):
            ended = run_bytes(*words, stdin=stdin)
        return Ran(ended.returncode, ended.stdout, ended.stderr.decode("utf-8", "surrogateescape"))
    return started(*args, stdin=stdin, cwd=cwd, **process)


def started(
    *args: str | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> Ran:
    """Run the program in a process of its own."""
    done = subprocess.run(
        [TOOL, *args],
        input=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=ENVIRONMENT | (env or {}),
        check=False,
        timeout=60,
    )
    err = (done.stderr or b"").decode("utf-8", "surrogateescape")
    assert "Traceback" not in err, err
    need_extra(err)
    return Ran(done.returncode, done.stdout or b"", err)


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    return path


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def compacted(data: bytes) -> bytes:
    """Return what `compact` writes; `test_compact_writes_this` holds the command to it."""
    with open_model(data) as model:
        return b"".join(map(view, compact_parts(model)))
