"""What is installed is all of the source: an editable install has it anyway, so nothing else would show a gap."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.kit.presence import need
from tests.kit.support import ROOT

FOLDERS = {"circletools": "circletools", "schema": "circletools.schema", "cli": "circletool_cli"}
"""The folders that are installed, and the packages they become."""


def settings() -> dict[str, Any]:
    """Return setuptools' configuration in pyproject.toml."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = project["tool"]["setuptools"]
    return found


def on_disk() -> dict[tuple[str, str], Path]:
    """Return the files of each package: its name, and the file's path in its folder."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT / folder).parts
            if path.is_file() and "__pycache__" not in parts and not path.name.startswith("."):
                inner = [depth for depth in range(len(parts)) if _has_modules(ROOT.joinpath(folder, *parts[:depth]))]
                name = ".".join((package, *parts[: max(inner)]))
                found[name, "/".join(parts[max(inner) :])] = path
    return found


def _has_modules(folder: Path) -> bool:
    return any(folder.glob("*.py"))


def missing(given: dict[str, Any], files: dict[tuple[str, str], Path]) -> list[str]:
    """Return the files that settings leave out."""
    data = given["package-data"]
    return [
        f"{package}: {name}"
        for package, name in files
        if package not in given["packages"]
        or not (name.endswith(".py") or any(fnmatch(name, glob) for glob in data.get(package, ())))
    ]


def test_every_file_is_installed() -> None:
    given, files = settings(), on_disk()
    assert missing(given, files) == []
    assert sorted(given["packages"]) == sorted({package for package, _ in files})
    for package, globs in given["package-data"].items():
        names = [name for one, name in files if one == package]
        assert all(any(fnmatch(name, glob) for name in names) for glob in globs), package


def test_packages_come_from_these_folders() -> None:
    places = settings()["package-dir"]
    assert places == {package: folder for folder, package in FOLDERS.items()}


def test_what_is_missing_is_seen() -> None:
    given, files = settings(), on_disk()
    less = {**given, "packages": [name for name in given["packages"] if name != "circletools.surgery"]}
    assert "circletools.surgery: ends.py" in missing(less, files)
    others = {f"{package}: {name}" for package, name in files if not name.endswith(".py")}
    assert set(missing({**given, "package-data": {}}, files)) == others
    assert {"circletools.schema: circle.json", "circletools: codes.json", "circletools: py.typed"} <= others


@pytest.mark.slow
def test_an_editable_install_can_be_followed_by_type_checkers(tmp_path: Path) -> None:
    """They read `.pth` files, and run no import hooks."""
    need("setuptools")
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    for name in (*FOLDERS, "tools"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, checkout)
    build = f"import sys; sys.path.insert(0, 'tools'); import editable; editable.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == {
            "__editable__.circletools.pth",
            "circletool_cli/__init__.py",
        }
    assert (site / "__editable__.circletools.pth").read_text() == f"{checkout}\n"
    use = """
import site, sys
before = sys.path[:]
site.addsitedir(sys.argv.pop(1))
sys.path[:] = sys.path[len(before):] + before  # there may be another checkout
from circletool_cli.main import main
print(sys.modules["circletools"].__file__)
main()
"""
    model = str(ROOT / "testdata/tflite/cnn.tflite")
    done = subprocess.run(
        [sys.executable, "-c", use, str(site), "check", "--structure-only", model],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [str(checkout / "circletools" / "__init__.py"), f"{model}: ok"]
