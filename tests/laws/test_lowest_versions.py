"""The oldest versions of the dependencies that pyproject.toml allows are enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.support import ROOT

ROOMS = ("flatbuf", "model", "edit", "planning", "trace", "cli")
EVERY = 20
"""One test in so many runs."""


def lowest() -> list[str]:
    """Return the dependencies of the product and its solver, and what runs the tests, at their lower bounds."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    product, costs = (re.search(rf"^{name} = \[(.*?)\]", text, re.M | re.S) for name in ("dependencies", "costs"))
    assert product
    assert costs
    wanted = re.findall(r'"([\w-]+)>=([\w.]+)"', product[1] + costs[1])
    wanted += re.findall(r'"(pytest|hypothesis)>=([\w.]+)"', text)
    assert {"numpy", "flatbuffers", "scipy", "pytest", "hypothesis"} <= {name for name, _ in wanted}
    return [f"{name}=={version}" for name, version in wanted]


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the oldest numpy has no wheels for Python 3.13 and later")
def test_the_oldest_versions_are_enough(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = [*pip, "install", "-q", "--no-compile", "--only-binary", ":all:", *lowest(), "-e", str(ROOT)]
    installed = subprocess.run(install, capture_output=True, encoding="utf-8", check=False)
    if "ConnectionError" in installed.stderr or "Temporary failure in name resolution" in installed.stderr:
        pytest.skip("no package registry can be reached")
    assert installed.returncode == 0, installed.stderr
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    words = ["-q", "-x", "-m", "not runtime and not slow", "-p", "no:cacheprovider", "--assert=plain"]
    ran = subprocess.run(
        [python, "-m", "pytest", *words, *(f"tests/{room}" for room in ROOMS)],
        cwd=ROOT, env=bare | {"CIRCLETOOLS_TESTS_ONE_IN": str(EVERY)}, capture_output=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^(\d+) passed", ran.stdout, re.M)
    assert passed, ran.stdout
    assert int(passed[1]) > 80
