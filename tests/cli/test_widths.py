"""Terminals of several widths: tables stay within them, help cuts no summary, and colors are for terminals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from circletool_cli import table

from tests.kit.program import MLP, run
from tests.kit.pseudo_terminal import on_terminal

WIDTHS = (60, 80, 120, 200)


def shown(width: int, *words: str | Path, more: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines that a terminal of so many columns shows at the end."""
    return on_terminal([sys.executable, "-m", "circletools", *words], width, more=more).lines


@pytest.mark.parametrize("width", WIDTHS)
def test_help_keeps_to_the_terminal(width: int) -> None:
    lines = shown(width, "--help")
    assert max(map(len, lines)) <= width
    for row in table.COMMANDS:
        assert width < 80 or any(line.endswith(row.summary) for line in lines) == (" " not in row.name)
    for row in table.COMMANDS[::10]:
        assert max(map(len, shown(width, *row.name.split(), "--help"))) <= width


def test_colors_are_for_terminals() -> None:
    words = ("inspect", "no such file")
    assert any("\033[31m" in line for line in shown(80, *words))
    assert not any("\033" in line for line in shown(80, *words, more={"NO_COLOR": "1"}))
    assert "\033" not in run(*words).err
    assert not any("\033" in line for line in shown(80, "inspect", MLP))
