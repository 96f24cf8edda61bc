"""The progress line: shown on terminals that wait, removed before anything else is written."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from circletool_cli import table
from circletool_cli.console import progress

from tests.kit.program import MLP, put, run
from tests.kit.pseudo_terminal import Seen, on_terminal
from tests.kit.support import path_of

SLOW = """
import signal, sys, time
import circletools as ct
from circletool_cli.console import progress
from circletool_cli.main import main

seen, seconds = int(sys.argv.pop(1)), float(sys.argv.pop(1))
opened = ct.open

def slow(*words, **named):
    time.sleep(seconds)
    while progress._line is not None and progress._line._steps < seen:
        time.sleep(0.01)
    return opened(*words, **named)

progress._PATIENCE_SECONDS = 0.01
ct.open = slow
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
main()
"""
FOREVER = 10**9
DRAWN = re.compile(r"\r([-\\|/] [a-z-]+, (?:\d+ done, )?\d+ s *)")


def slowly(width: int, *words: str | Path, drawn: int = 3, **settings: object) -> Seen:
    """Run a command whose models open only when the line was drawn so often; where it never is, after a while."""
    seconds = "0" if drawn else "0.5"
    return on_terminal([sys.executable, "-c", SLOW, str(drawn), seconds, *words], width, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [20, 80])
def test_a_terminal_that_waits_sees_the_line_and_then_only_results(width: int, tmp_path: Path) -> None:
    broken = put(tmp_path / "broken.circle", b"no model")
    for words in (
        ("check", path_of("tflite/output_twice")),
        ("inspect", path_of("circle/diamond"), "--json"),
        ("compact", MLP, tmp_path / f"{width}.circle"),
        ("check", broken, MLP, path_of("tflite/output_twice")),
    ):
        ran = slowly(width, *words, more={"NO_COLOR": "1"})
        alone = on_terminal([sys.executable, "-m", "circletools", *words], width, more={"NO_COLOR": "1"})
        lines = DRAWN.findall(ran.sent)
        assert len(lines) >= 3
        assert {line.rstrip()[2:] for line in lines} <= {f"{words[0]}, {more}"[: width - 3] for more in endings()}
        assert all(len(line) < width for line in lines)
        assert (ran.status, ran.lines) == (alone.status, alone.lines)
        assert "\033" not in ran.sent


def endings() -> list[str]:
    """Return what a line may end with; these commands do not take minutes."""
    return [f"{done}{seconds} s" for seconds in range(100) for done in ("", "1 done, ", "2 done, ")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_an_empty_line(number: int) -> None:
    ran = slowly(80, "check", MLP, drawn=FOREVER, stop_at="/ check", number=number)
    assert (ran.status, ran.lines) == (-number, [])


@pytest.mark.parametrize("piped", ["stdout", "stderr"])
def test_nothing_where_a_stream_is_a_pipe(piped: str) -> None:
    ran = slowly(80, "check", MLP, drawn=0, piped=piped)
    assert (ran.status, ran.sent.strip() + ran.piped.strip()) == (0, f"{MLP}: ok")


def test_nothing_within_the_first_second() -> None:
    assert progress._PATIENCE_SECONDS == 1
    patient = SLOW.replace("_PATIENCE_SECONDS = 0.01", "_PATIENCE_SECONDS = 600")
    assert on_terminal([sys.executable, "-c", patient, "0", "0.5", "check", MLP]).sent == f"{MLP}: ok\r\n"


def test_every_command_runs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    class BegunError(Exception):
        """The command would run now."""

    def working(name: str) -> None:
        begun.append(name)
        raise BegunError

    monkeypatch.setattr("circletool_cli.console.usage.working", working)
    for row in table.COMMANDS:
        words = [word for word in row.example.split() if word != "--"]
        with pytest.raises(BegunError):
            run(*row.name.split(), *words)
    assert begun == [row.name.split()[-1] for row in table.COMMANDS]


def test_its_messages(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_wanted", lambda: True)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    progress.tell_progress("nobody works")
    with progress.working("compact"):
        line = progress._line
        assert line is not None
        for done, text in ((3 << 20, "compact, 3 of 9 MiB, "), (9 << 20, "compact, ")):
            progress.of_bytes(done, 9 << 20)
            assert eventually(capfd, text)
        with progress.hidden(b"half a line"):
            assert line._columns == 0
        steps = line._steps
        time.sleep(2 * progress._STEP_SECONDS)
        assert line._steps == steps
        with progress.hidden(b" and the rest\n"):
            pass
        assert eventually(capfd, "compact, ")
    assert progress._line is None
    assert line._columns == 0


def eventually(capfd: pytest.CaptureFixture[str], text: str) -> bool:
    """Wait until the line has this text."""
    for _ in range(3000):
        if re.search(rf"\r[-\\|/] {text}\d+ s", capfd.readouterr().err):
            return True
        time.sleep(0.01)
    return False


def test_a_line_is_drawn_over_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one column shorter than the terminal, and blanks stand where the one before was longer."""
    now, drawn = 100.0, list[str]()
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 600.0)
    monkeypatch.setattr(progress, "_write", drawn.append)
    monkeypatch.setattr(progress, "_columns", lambda: 20)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    line = progress._Line("compact")
    try:
        assert (line.detail, line.in_line) == ("", False)
        line.erase()  # nothing was drawn
        for passed, detail, expected in (
            (1.6, "", "\r- compact, 2 s"),
            (2.0, "3 of 9 MiB", "\r\\ compact, 3 of 9 M"),
            (3.4, "", "\r| compact, 3 s     "),
            (9.6, "", "\r/ compact, 10 s"),
            (9.9, "", "\r- compact, 10 s"),
        ):
            now, line.detail = 100 + passed, detail
            line._draw()
            assert drawn.pop() == expected
        line.erase()
        line.erase()
        assert drawn == ["\r" + 15 * " " + "\r"]
    finally:
        line.end()
    assert len(drawn) == 1


@pytest.mark.parametrize(("done", "text"), [(0, "0 of 2 MiB"), ((2 << 20) - 1, "1 of 2 MiB"), (2 << 20, "")])
def test_bytes_are_reported_in_whole_mebibytes(done: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(progress, "tell_progress", shown.append)
    progress.of_bytes(done, 2 << 20)
    assert shown == [text]


@pytest.mark.parametrize(("known", "columns"), [(0, 80), (33, 33), (None, 80)])
def test_a_terminal_that_knows_no_width_has_80_columns(
    known: int | None, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(_: int) -> os.terminal_size:
        if known is None:
            raise OSError
        return os.terminal_size((known, 24))

    with monkeypatch.context() as patched:
        patched.setattr(os, "get_terminal_size", size)
        patched.setattr(sys, "stderr", sys.__stderr__)
        assert progress._columns() == columns
