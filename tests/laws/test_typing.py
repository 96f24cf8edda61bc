"""The library is typed for those who use it: README's example, names that are not there, and how complete it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.presence import need
from tests.kit.support import ROOT

LEAST_COMPLETENESS = 0.98
WRONG = """
import circletools as ct
ct.no_such_name
ct.origins.no_such_name
ct.open(1.5)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder that has circletools as it is installed."""
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "circletools", tmp_path / "site" / "circletools", ignore=leave_out)
    shutil.copytree(ROOT / "schema", tmp_path / "site" / "circletools" / "schema", ignore=leave_out)
    return tmp_path / "site"


def checked(tool: list[str], site: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    need(tool[0])
    return subprocess.run(
        [sys.executable, "-m", *tool, *arguments],
        cwd=site.parent,
        env=os.environ | {"MYPYPATH": str(site), "PYTHONPATH": str(site)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


TOOLS = pytest.mark.parametrize("tool", [["mypy", "--strict"], ["pyright"]], ids=["mypy", "pyright"])


@pytest.mark.slow
@TOOLS
def test_the_example_of_the_readme_is_typed(tool: list[str], site: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    program = site.parent / "example.py"
    program.write_text(example, encoding="utf-8")
    done = checked(tool, site, program)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@TOOLS
def test_a_wrong_program_is_seen(tool: list[str], site: Path) -> None:
    program = site.parent / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    done = checked(tool, site, program)
    assert sorted(set(re.findall(r"wrong.py:(\d+)", done.stdout))) == ["3", "4", "5"], done.stdout


@pytest.mark.slow
def test_the_public_types_are_complete(site: Path) -> None:
    arguments = ["--verifytypes", "circletools", "--ignoreexternal", "--outputjson"]
    done = checked(["pyright"], site, *arguments, "--pythonpath", sys.executable)
    report = json.loads(done.stdout)["typeCompleteness"]
    unknown = [one["name"] for one in report["symbols"] if one["isExported"] and not one["isTypeKnown"]]
    assert report["completenessScore"] >= LEAST_COMPLETENESS, unknown
