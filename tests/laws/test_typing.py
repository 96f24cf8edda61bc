"""The library is typed for its users: examples and all public names, strictly, and names that do not exist."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from tests.kit.presence import need
from tests.kit.support import ROOT

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


@pytest.mark.slow
@pytest.mark.parametrize("tool", [["mypy", "--strict"], ["pyright"]], ids=["mypy", "pyright"])
def test_what_is_public_is_typed_and_wrong_programs_are_seen(tool: list[str], site: Path) -> None:
    """The program is strict, so an attribute whose type is partly unknown is an error."""
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/python.md")]
    examples = [one for page in pages for one in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)]
    surface = public_surface() if tool == ["pyright"] else ()  # mypy checks the same stubs with the library
    programs = {"example.py": "\n".join(["# pyright: strict", *examples, *surface]), "wrong.py": WRONG}
    for name, program in programs.items():
        (site.parent / name).write_text(program, encoding="utf-8")
    done = checked(tool, site, *programs)
    assert "example.py:" not in done.stdout, done.stdout
    assert sorted(set(re.findall(r"wrong.py:(\d+)", done.stdout))) == ["3", "4", "5"], done.stdout


def public_surface() -> Iterator[str]:
    """Yield a program that reads every public name, and the attributes of public classes."""
    facade: Any = ct
    modules = {f"ct.{name}": getattr(ct, name) for name in facade.__all__ if inspect.ismodule(getattr(ct, name))}
    for title, module in {"ct": ct, **modules}.items():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            yield f"print({title}.{name})"
            if inspect.isclass(value) and not issubclass(value, Exception):
                attributes = {*dir(value), *getattr(value, "__dataclass_fields__", ())} - {*dir(str)}
                yield f"def use_{title.replace('.', '_')}_{name}(one: {title}.{name}) -> None:"
                yield from (f"    print(one.{one})" for one in sorted(attributes) if one[0] != "_")
                yield "    print(one)"
    yield 'print([one.tensors[end].name for one in ct.open("m").subgraphs for end in one.outputs])'
