"""The tutorial: its commands run in order and print what it shows; measured times count as numbers only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.presence import need
from tests.kit.support import ROOT
from tests.laws.test_docs import blocks, shell

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that looks like the root of a clone, with the tutorial's program."""
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    (program,) = blocks(TUTORIAL, "python run.py")
    (tmp_path / "run.py").write_text(program, encoding="utf-8")
    return tmp_path


def test_the_commands_print_what_is_shown(folder: Path) -> None:
    need("onert")  # which the program of the tutorial runs the model in
    transcripts = re.findall(r"^```console( varies)?\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert sum(bool(varies) for varies, _ in transcripts) == 1
    for varies, transcript in transcripts:
        for step in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            printed = shell(f"{{ {command}\n}} || [ $? -eq 1 ]", folder)  # 1: there are findings
            assert (without_times(printed) if varies else printed) == (
                without_times(expected) if varies else expected
            )


def without_times(text: str) -> list[str]:
    """Return the lines with every number alike, in an order that does not depend on them.

    Slow first executions, which not every run has, are told of in a note.
    """
    lines = [line for line in text.splitlines() if "took longer than the rest" not in line]
    return sorted(re.sub(r" +", " ", re.sub(r"[\d.]+=?(?=[ %]|$)", "N", line)) for line in lines)


def test_the_module_is_the_one_that_was_exported() -> None:
    (module,) = blocks(TUTORIAL, "python module")
    generator = (ROOT / "testdata" / "generate_tico.py").read_text(encoding="utf-8")
    body = [re.sub(r" -> .*:$|: Tensor", "", line).strip() for line in generator.splitlines()]
    for line in module.splitlines():
        assert re.sub(r" -> .*:$|: Tensor", "", line).strip().removesuffix(":") in [
            one.removesuffix(":") for one in body
        ]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TUTORIAL):
        assert (ROOT / "docs" / target).exists(), target
