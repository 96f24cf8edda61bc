"""The program does what docs/surgery.md describes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import circletools as ct
from tests.kit.program import run
from tests.kit.support import ROOT
from tests.laws.test_docs import blocks, check_transcripts, shell

TEXT = (ROOT / "docs" / "surgery.md").read_text(encoding="utf-8")


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    check_transcripts(TEXT, tmp_path, 4)


def test_the_python_example_runs(tmp_path: Path) -> None:
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    (example,) = blocks(TEXT, "python")
    shell(f"{sys.executable} - <<'END'\n{example}\nEND", tmp_path)
    with ct.open(tmp_path / "debug.tflite") as model:
        assert [one.key for one in model.signatures] == ["serving_default", "debug"]


def test_every_option_is_there() -> None:
    options = {
        option
        for block in blocks(TEXT, "sh")
        for line in block.splitlines()
        for command in [line.split()[1]]
        for option in re.findall(r"--[a-z-]+", line)
        if option not in run(command, "--help").out.decode()
    }
    assert options == set()
