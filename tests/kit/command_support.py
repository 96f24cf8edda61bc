"""The commands without a process of their own, for tests of what they do and not of how they start."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from circletool_cli import main
from circletool_cli.console import bounds

from tests.kit.presence import need_extra

WIDTH = mock.patch.dict("os.environ", COLUMNS="80")


def run(*arguments: str | Path) -> CompletedProcess[str]:
    """Run the command line here, as the program does once it has started; an exception is the test's."""
    done = run_bytes(*arguments)
    return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_bytes(*arguments: str | Path, stdin: bytes = b"") -> CompletedProcess[bytes]:
    """Do the same with `stdin` on standard input; return what was written as it is."""
    words = ["circletool", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    given = mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
    unwatched = mock.patch.object(bounds, "_enabled", new=False)  # whatever a test before has enabled
    status: str | int | None = 0
    with given, unwatched, redirect_stdout(out), redirect_stderr(err), mock.patch("sys.argv", words), WIDTH:
        try:
            main._run()
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int | None)
    shown, text = (stream.buffer.getvalue() for stream in (out, err))
    need_extra(text.decode("utf-8", "surrogateescape"))
    return CompletedProcess(words, status or 0, shown, text)
