"""Terminals of several widths: tables stay within them, help cuts no summary, and colours are for terminals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from circletool_cli import table
from circletool_cli.main import app

from tests.kit.affinity_support import with_affinity
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, TRACE, put, run
from tests.kit.pseudo_terminal import on_terminal
from tests.kit.support import path_of

WIDTHS = (60, 80, 120, 200)


def shown(width: int, *words: str | Path, more: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines that a terminal of so many columns shows at the end."""
    return on_terminal([sys.executable, "-m", "circletools", *words], width, more=more).lines


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_keep_to_the_terminal(width: int, tmp_path: Path) -> None:
    model = put(tmp_path / "in.circle", with_affinity(embedded(MLP.read_bytes()), ["cpu"], default="cpu"))
    for words in (
        ("inspect", path_of("tflite/cnn_int8"), "--operators", "--tensors"),
        ("trace-stats", put(tmp_path / "trace.html", TRACE.read_bytes())),
        ("dump-affinity", model),
    ):
        lines, whole = shown(width, *words), [line.rstrip() for line in run(*words).out.decode().splitlines()]
        assert len(lines) == len(whole) >= 3
        assert [line for line in lines if line.startswith("  ") and len(line) > width] == []
        assert width < max(WIDTHS) or lines[1:3] == whole[1:3]


@pytest.mark.parametrize("width", WIDTHS)
def test_help_keeps_to_the_terminal(width: int) -> None:
    lines = shown(width, "--help")
    assert max(map(len, lines)) <= width
    for row in table.COMMANDS:
        assert width < 80 or any(line.split() == [row.name, *row.summary.split()] for line in lines), row.name
    for row in table.COMMANDS[::10]:
        assert max(map(len, shown(width, row.name, "--help"))) <= width


def test_colours_are_for_terminals() -> None:
    words = ("inspect", "no such file")
    assert any("\033[31m" in line for line in shown(80, *words))
    assert not any("\033" in line for line in shown(80, *words, more={"NO_COLOR": "1"}))
    assert "\033" not in run(*words).err
    assert not any("\033" in line for line in shown(80, "inspect", MLP))


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_help_of_every_command_keeps_to_the_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for row in table.COMMANDS:
        with pytest.raises(SystemExit):
            app([row.name, "--help"], prog_name="circletool")
        lines = capsys.readouterr().out.splitlines()
        assert row.summary in " ".join(" ".join(lines).split())
        assert max(map(len, lines)) <= width, row.name
