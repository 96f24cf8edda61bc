"""No command writes over a file that it reads, be it the model or another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kit.program import run
from tests.kit.support import path_of

MODEL = path_of("circle/diamond")
RULES = '{"schema_version": 1, "default": "cpu", "rules": []}'
COSTS = '{"schema_version": 1, "devices": [{"name": "cpu", "operators": [{"select": "op:*", "time_us": 1}]}]}'
ORIGINS = '{"schema_version": 1, "sources": [{"id": 0, "name": "a"}], "operators": []}'
CASES: dict[str, tuple[str, list[str]]] = {
    "rules": (RULES, ["annotate-affinity", "{model}", "{other}", "--rules", "{other}"]),
    "costs": (COSTS, ["annotate-affinity", "{model}", "{other}", "--costs", "{other}"]),
    "origins": (ORIGINS, ["embed-origins", "{model}", "{other}", "--origins", "{other}"]),
    "before": ("", ["track-origins", "{other}", "{model}", "{other}"]),
    "reproject": ("", ["annotate-affinity", "{model}", "{other}", "--reproject", "{other}"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_is_read_is_not_the_output(case: str, tmp_path: Path) -> None:
    content, words = CASES[case]
    model, other = tmp_path / "model.circle", tmp_path / ("other.circle" if not content else "other.json")
    shutil.copy(MODEL, model)
    if content:
        other.write_text(content, encoding="utf-8")
    else:
        assert run("embed-origins", MODEL, other).status == 0
        assert run("annotate-affinity", other, "--in-place", "--devices", "cpu", "--default", "cpu").status == 0
        shutil.copy(other, model)
    before = other.read_bytes()
    ran = run(*(word.format(model=model, other=other) for word in words))
    assert (ran.status, other.read_bytes() == before) == (2, True), ran.err
    assert "the output is also an input" in ran.err
