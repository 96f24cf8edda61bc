"""If the values of parts differ, rewriting the unchanged model shows whether the split is the cause."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import row
from tests.kit.command_support import run
from tests.kit.fake_programs import fake_litert
from tests.kit.split_support import alternating, split_file, with_devices
from tests.parts.test_split_files import ANEW, FIRST, PARTS, WHOLE, crossed, ran


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    model = tmp_path / "model.tflite"
    model.write_bytes(with_devices(row("NEG", "TANH").to_bytes(), alternating))
    split_file(model, tmp_path / "parts")
    return tmp_path / "parts"


def test_a_result_that_depends_on_the_layout_is_not_the_fault_of_the_split(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(tmp_path, "layout"))
    (finding,) = ct.verify_split(parts).findings
    assert (finding.code, finding.severity) == ("LAYOUT_CHANGES_VALUES", "info")
    assert "the unchanged model written as a compact file (output 0: 2 of 2 values differ)" in finding.message
    done = run("verify-split", parts)
    assert (done.returncode, "LAYOUT_CHANGES_VALUES" in done.stdout) == (0, True)


def test_another_result_in_parts_alone_is(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(tmp_path, "nothing"))  # one more in each part
    (finding,) = ct.verify_split(parts).findings
    assert (finding.code, finding.severity) == ("VALUES_DIFFER", "error")
    np.savez(tmp_path / "in.npz", np.ones((2, 2)))
    assert run("verify-split", parts, "--inputs", tmp_path / "in.npz").returncode == 1


def test_values_that_are_not_repeatable_prove_nothing(tmp_path: Path) -> None:
    files = crossed(tmp_path / "parts")
    random = {FIRST: lambda x, y: [-x, y], "again": lambda x, y: [2 * x + y, 0]}
    found, runs = ran(files, random, "litert")
    message = (
        "the values of the parts differ, but the model itself gives different values each time (output 1: 1 of 1 "
        "values differ), so the values prove nothing about the split"
    )
    assert found == [ct.Finding("VALUES_NOT_REPEATED", "info", str(files.source), message)]
    assert [run[0] for run in runs] == [WHOLE[0], *(part[0] for part in PARTS), ANEW[0][0]]
