"""The code is typed and tidy: the tools that say so are part of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.presence import need

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]])
def test_tool_has_no_complaint(arguments: list[str]) -> None:
    need(arguments[0])
    if arguments == ["mypy"] and sys.version_info < (3, 11):
        pytest.skip("mypy: numpy for Python 3.10 (2.2) has less exact types than the newest")
    there = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # no tool on another system
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=there, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
