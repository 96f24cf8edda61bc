"""The tests on other versions of Python and with the oldest dependencies, against the installed wheel.

    python -m tests.kit.versions PYTHON... [--floors] [-- PYTEST ARGUMENTS]

For each interpreter PYTHON a fresh environment gets the wheel, its dependencies in their newest versions, or with
`--floors` in the oldest that `pyproject.toml` allows, and what the tests need as far as it exists there. The tests
run in a copy of the tree without the sources, so that it is the wheel that is tested; those about the sources are
left out. Prints a table; the exit status is 1 when a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COPIED = (
    "tests",
    "testdata",
    "benchmarks",
    "fuzz",
    "tools",
    "docs",
    "schema",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
    "pyproject.toml",
)
_ABOUT_SOURCES = (
    *(
        f"--ignore=tests/laws/test_{name}.py"
        for name in ("docs", "facade", "floors", "laws", "packages", "sizes", "style", "typing")
    ),
    "--deselect=tests/check/test_check.py::test_the_document_has_every_code_of_the_program",
)
_OF_DEVELOPERS = ("mypy", "ruff")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one interpreter: the versions used, what there is none of, and pytest's last line."""

    python: str
    versions: str
    missing: tuple[str, ...]
    summary: str
    status: int

    def row(self) -> str:
        """Return the row of the table."""
        return f"| {self.python} | {self.versions} | {', '.join(self.missing) or '-'} | {self.summary} |"


def requirements() -> tuple[list[str], list[str]]:
    """Return what the package needs, and what its tests need beyond."""
    project = import_module("tomllib").loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tests = project["optional-dependencies"]["test"]
    return project["dependencies"], [need for need in tests if not need.startswith(_OF_DEVELOPERS)]


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy, so that nothing of an earlier build gets into it."""
    copy = folder / "source"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(copy)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_version(python: str, wheel: Path, folder: Path, *, floors: bool, arguments: Sequence[str]) -> Result:
    """Run the tests with one interpreter."""
    needs, for_tests = requirements()
    inner = _environment(python, wheel, folder, [need.replace(">=", "==") for need in needs] if floors else needs)
    command = [inner, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_ABOUT_SOURCES, *arguments]
    done = subprocess.run(command, cwd=_tree(folder), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode:
        print(done.stdout[-20000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
    summary = re.sub(r" in .*", "", lines[-1].strip("= ")) if lines else done.stderr[-200:]
    installed = _installed(inner)
    versions = ", ".join(f"{name} {installed[name]}" for name in map(_name, needs))
    missing = tuple(name for name in map(_name, for_tests) if name not in installed)
    return Result(_python(inner), versions, missing, summary, done.returncode)


def _environment(python: str, wheel: Path, folder: Path, constraints: Sequence[str]) -> str:
    """Install the wheel and what the tests need, as far as it exists; return the interpreter."""
    subprocess.run([python, "-m", "venv", str(folder / "environment")], check=True)
    inner = str(folder / "environment" / "bin" / "python")
    file = folder / "constraints.txt"
    file.write_text("\n".join(constraints) + "\n", encoding="utf-8")
    install = [inner, "-m", "pip", "install", "-q", "-c", str(file)]
    subprocess.run([*install, str(wheel)], check=True)
    for need in requirements()[1]:  # one by one: not all of them are there for every version
        subprocess.run([*install, need], capture_output=True, check=False)
    return inner


def _tree(folder: Path) -> Path:
    """Copy what the tests need, and not the sources."""
    tree = folder / "tree"
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    return tree


def _python(python: str) -> str:
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _name(need: str) -> str:
    return re.split(r"[<>=;]", need)[0]


def _installed(python: str) -> dict[str, str]:
    """Return the versions of what is installed, by name."""
    program = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return dict(word.split("==", 1) for word in done.stdout.split())


def main(words: Sequence[str]) -> int:
    """Test all, print the table, and return 1 when a test failed."""
    ours, arguments = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(prog="tests.kit.versions", description=__doc__)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--floors", action="store_true", help="the oldest dependencies that are allowed")
    options = parser.parse_args(ours)
    failed = False
    print("| Python | dependencies | not to be had | tests |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # noqa: S103 - some tests become somebody else, who has to read the models
        wheel = build_wheel(Path(name))
        for number, python in enumerate(options.pythons):
            folder = Path(name) / str(number)
            folder.mkdir()
            result = try_version(python, wheel, folder, floors=options.floors, arguments=arguments)
            print(result.row(), flush=True)
            failed = failed or result.status != 0
            shutil.rmtree(folder)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
