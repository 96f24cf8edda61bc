"""The documentation of plans is what the planner does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import circletools as ct
from tests.kit.support import ROOT, path_of

DOCUMENT = (ROOT / "docs" / "affinity.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"^    import circletools as ct\n(?:    .*\n|\n)+", DOCUMENT, re.MULTILINE)
    (tmp_path / "in.tflite").write_bytes(path_of("tflite/cnn").read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", dedent(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("npu (0")
    with ct.open(tmp_path / "out.tflite") as model:
        assert ct.planning.inspect_affinity(model).is_current


def test_the_fields_are_listed() -> None:
    with ct.open(path_of("tflite/cnn")) as model:
        request = ct.PlanRequest(
            devices=("npu", "cpu"), rules=("index:1=npu",), default="cpu", mode="seed", explain=True
        )
        (subgraph,) = ct.render.plan_json(ct.plan(model, request))["subgraphs"]
    rows = [subgraph["partitions"][0], subgraph["transfers"], subgraph["transfers"]["cuts"][0], subgraph["steps"][0]]
    listed = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]*)`", DOCUMENT))))
    assert {*subgraph, *(name for row in rows for name in row)} - listed == set()
