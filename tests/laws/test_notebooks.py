"""The notebooks run, and show what their files have, which Jupyter wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.notebooks import NOTEBOOKS, code_cells, kept, run
from tests.kit.presence import Lazy, need

nbformat = Lazy("nbformat")
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 3


@EACH
def test_its_cells_show_what_it_has(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for package in ("tico", "torch"):
        if f"import {package}\n" in "".join(cells[0]["source"]):
            need(package)
    assert run(path) == list(map(kept, cells))


def test_another_output_and_a_failure_are_seen(tmp_path: Path) -> None:
    cells = '{"cells": [{"cell_type": "code", "source": ["%s"], "outputs": []}]}'
    path = tmp_path / "one.ipynb"
    path.write_text(cells % "print(1)\\n2", encoding="utf-8")
    assert (run(path), list(map(kept, code_cells(path)))) == ([["1\n", "2"]], [[]])
    path.write_text(cells % "1 / 0", encoding="utf-8")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(path)


@EACH
def test_it_is_a_notebook(path: Path) -> None:
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))


@EACH
def test_it_is_small_and_its_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 64_000
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []
