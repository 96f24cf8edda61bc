"""The same results where a system lacks what Linux has: a Python from which it was taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from circletools.storage import platform
from tests.kit.presence import lacking
from tests.kit.support import ROOT, path_of

SEEN = "import os; print(dir(os))"
SYSTEMS = ROOT / "tests" / "kit" / "systems"
COMMANDS = (
    ("embed-origins", "net.circle", "origins.circle"),
    ("fix-outputs", "origins.circle", "fixed.circle", "--detach-taps"),
    ("fix-outputs", "net.circle", "--in-place", "--detach-taps"),
    ("check", "net.circle", "fixed.circle", "--jobs", "2"),
    (
        "annotate-affinity",
        "fixed.circle",
        "npu.circle",
        "--devices",
        "npu,cpu",
        "--set",
        "index:0=npu",
        "--default",
        "cpu",
    ),
    ("split", "npu.circle", "parts"),
    ("split", "npu.circle", "parts", "--force"),
)


def results(folder: Path, site: Path | None) -> dict[str, bytes]:
    """Run the commands in a folder, with the sitecustomize of `site`; return what they print, and the files."""
    folder.mkdir()
    (folder / "net.circle").write_bytes(path_of("circle/output_twice").read_bytes())
    os.chmod(folder / "net.circle", 0o640)
    environment = os.environ | {"PYTHONPATH": str(site or "")}
    seen = subprocess.run([sys.executable, "-c", SEEN], env=environment, capture_output=True, check=True).stdout
    assert (b"O_TMPFILE" in seen) == (site is None), "this Python does not read the sitecustomize"
    printed = {}
    for words in COMMANDS:
        ran = subprocess.run(
            [sys.executable, "-m", "circletools", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        printed[" ".join(words)] = ran.stdout + ran.stderr + bytes([ran.returncode])
    files = {
        str(path.relative_to(folder)): path.read_bytes() + oct(path.stat().st_mode).encode()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.jsonl"  # which has times
    }
    return printed | files


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found = results(tmp_path_factory.mktemp("platform") / "linux", None)
    assert {"origins.circle", "fixed.circle", "npu.circle"} <= set(found)
    assert any(name.startswith("parts/") for name in found)
    assert all(found[" ".join(words)][-1] == 0 for words in COMMANDS)
    return found


@pytest.mark.parametrize("system", ["macos", "windows"])
def test_the_results_are_the_same(system: str, tmp_path: Path, expected: dict[str, bytes]) -> None:
    assert results(tmp_path / system, SYSTEMS / system) == expected


def test_reading_and_writing_at_an_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for less in ((), ("pread", "pwrite", "sendfile", "copy_file_range")):
        for name in less:
            monkeypatch.delattr(os, name, raising=False)
        with (tmp_path / "file").open("w+b") as file:
            number = file.fileno()
            assert platform.write_at(number, b"abcdef", 2) == 6
            assert platform.write_at(number, memoryview(b"XY"), 0) == 2
            assert platform.read_at(number, 3, 1) == b"Yab"
            assert platform.read_at(number, 9, 8) == b""
            assert platform.copy_at(number, 1, number, 10, 2) == 2
            assert platform.read_at(number, 99, 8) == b"\0\0Ya"
            assert platform.copy_at(number, 12, number, 20, 2) == 0


def test_mode_bits_without_fchmod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fchmod", raising=False)
    path = tmp_path / "file"
    with path.open("wb") as file:
        platform.keep_mode(file.fileno(), path, 0o604)
    assert path.stat().st_mode & 0o777 == 0o604


def test_without_locks_limits_and_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(os, "fchown", raising=False)
    platform.limit_memory("AS", 1)  # would leave no memory for what follows
    with (tmp_path / "file").open("wb") as file, platform.locked(file.fileno()):
        platform.keep_owner(file.fileno(), os.stat("/"))
        assert file.write(b"x") == 1


def test_a_lock_keeps_others_away(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "file"
    with path.open("wb") as file, path.open("rb") as other:
        with platform.locked(file.fileno()), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_only_what_a_test_itself_lacks_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "lseek")
    monkeypatch.delattr(os, "pread", raising=False)
    with pytest.raises(AttributeError) as ours:
        os.lseek(0, 0, 0)
    assert lacking(ours.value) == "os.lseek"
    with pytest.raises(AttributeError) as of_the_product:
        platform.read_at(0, 1, 0)
    assert lacking(of_the_product.value) is None
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ImportError) as module:
        import_module("fcntl")
    assert lacking(module.value) is None  # importlib asked
    with pytest.raises(AttributeError) as other:
        Path().lseek()  # type: ignore[attr-defined]
    assert lacking(other.value) is None
