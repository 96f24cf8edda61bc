"""A directory that is replaced: the old one or the new one, and never one of somebody else."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import InvalidInputError, OutputError, UsageError
from circletools.model.model import open_model
from circletools.parts.split import split
from circletools.storage import directories
from circletools.storage.directories import write_directory
from circletools.storage.files import write
from tests.cli.test_crash import TOOL
from tests.kit.split_support import files_of, with_devices
from tests.kit.support import ROOT, bytes_of

OLD, NEW = {"a": b"old"}, {"a": b"new", "deep/b": b"new"}


def yes(_directory: Path) -> bool:
    return True


def ours(directory: Path) -> bool:
    return files_of(directory) == OLD


def files(content: dict[str, bytes] = NEW) -> Iterator[tuple[str, list[Any]]]:
    yield from ((name, [data]) for name, data in content.items())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    target = tmp_path / "parts"
    target.mkdir()
    (target / "a").write_bytes(b"old")
    return target


@pytest.fixture(params=["at once", "in steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "in steps":
        monkeypatch.setattr(directories, "_exchange_atomically", lambda *_names: False)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_directory_is_replaced(target: Path) -> None:
    write_directory(target, files(), ours)
    assert files_of(target) == NEW
    assert os.listdir(target.parent) == ["parts"]


def test_files_added_meanwhile_stay(tmp_path: Path) -> None:
    target = tmp_path / "parts"

    def slow() -> Iterator[tuple[str, list[Any]]]:
        yield from files()
        target.mkdir()
        (target / "mine").write_bytes(b"mine")

    with pytest.raises(UsageError, match="the directory is not empty"):
        write_directory(target, slow(), lambda _directory: False)
    assert files_of(tmp_path) == {"parts/mine": b"mine"}
    assert os.listdir(tmp_path) == ["parts"]


@pytest.mark.usefixtures("way")
def test_files_added_at_the_last_moment_stay(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the second look at the target, and before it gives way."""
    exchange = directories._exchange

    def late(new: Path, place: Path) -> None:
        monkeypatch.setattr(directories, "_exchange", exchange)
        (place / "mine").write_bytes(b"mine")
        exchange(new, place)

    monkeypatch.setattr(directories, "_exchange", late)
    with pytest.raises(UsageError, match="the directory is not empty") as caught:
        write_directory(target, files(), ours)
    assert caught.value.location == str(target)
    assert files_of(target.parent) == {"parts/a": b"old", "parts/mine": b"mine"}
    assert os.listdir(target.parent) == ["parts"]


class Interruption(BaseException):
    pass


@pytest.mark.usefixtures("way")
def test_what_cannot_be_given_back_is_not_removed(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that came at the last moment, and then the old directory cannot have its name again."""
    exchange = directories._exchange

    def once(new: Path, place: Path) -> None:
        monkeypatch.setattr(directories, "_exchange", refused)
        (place / "mine").write_bytes(b"mine")
        exchange(new, place)

    def refused(_new: Path, _place: Path) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(directories, "_exchange", once)
    with pytest.raises(OutputError, match="cannot write it: no"):
        write_directory(target, files(), ours)
    (aside,) = (path for path in target.parent.iterdir() if path != target)
    assert files_of(aside) == {"a": b"old", "mine": b"mine"}
    assert files_of(target) == NEW


def interrupted_at(number: int, run: Callable[[], None]) -> bool:
    """Raise Interruption at the start of the n-th line that `directories` runs; False when there is none."""
    left = number

    def trace(frame: Any, event: str, _argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != directories.__file__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise Interruption
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("forced", [False, True])
def test_an_interruption_anywhere(target: Path, *, forced: bool) -> None:
    before = {f"parts/{name}": data for name, data in OLD.items()} if forced else {}
    after = {f"parts/{name}": data for name, data in NEW.items()}
    seen, number, more = [], 0, True
    while more:
        number += 1
        shutil.rmtree(target)
        if forced:
            target.mkdir()
            (target / "a").write_bytes(b"old")
        else:
            target.parent.rmdir()
            target.parent.mkdir()
        more = interrupted_at(number, lambda: write_directory(target, files(), ours))
        seen.append(files_of(target.parent))
        assert seen[-1] in (before, after), number
        assert set(os.listdir(target.parent)) <= {"parts"}, number
        target.mkdir(exist_ok=True)
    assert number > 40
    assert before in seen
    assert seen[-1] == after


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from circletools.storage import directories
    exchange = directories._exchange_atomically
    def kill(*names):
        if sys.argv[2] == "after":
            assert exchange(*names)
        os.kill(os.getpid(), signal.SIGKILL)
    directories._exchange_atomically = kill
    directories.write_directory(Path(sys.argv[1]), [("a", [b"new"])], lambda path: True)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_leaves_the_old_or_the_new(target: Path, when: str) -> None:
    if sys.platform != "linux":
        pytest.skip("renameat2 is a call of Linux")
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(target), when]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode == -signal.SIGKILL
    assert files_of(target) == ({"a": b"new"} if when == "after" else OLD)
    (stray,) = set(os.listdir(target.parent)) - {"parts"}
    assert stray.startswith(".circletool-")
    assert stray.endswith(".tmp")


def test_an_error_names_the_target(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OutputError("cannot write it: No space left on device", location="/temporary")

    monkeypatch.setattr(directories, "write", full)
    with pytest.raises(OutputError) as caught:
        write_directory(target, files(), yes)
    assert caught.value.location == str(target)
    assert files_of(target.parent) == {"parts/a": b"old"}


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_invalid_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a file name"):
        write_directory(tmp_path / name, files(), yes)
    with open_model(bytes_of("circle/mlp")) as model, pytest.raises(OutputError, match="not a file name"):
        ModelEdit(model).save(name)


# --- split --------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "net.circle"
    path.write_bytes(with_devices(bytes_of("circle/mlp")))
    return path


def test_a_source_that_changes_is_not_split(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def meanwhile(path: Path, parts: list[Any]) -> None:
        write(path, parts)
        os.utime(source, ns=(1, 1))

    monkeypatch.setattr(directories, "write", meanwhile)
    with open_model(source) as model, pytest.raises(InvalidInputError, match="changed while it was being read"):
        split(model, tmp_path / "parts")
    assert os.listdir(tmp_path) == ["net.circle"]


def test_a_pipe_is_not_waited_for(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "parts"
    target.mkdir()
    os.mkfifo(target / "net.part.conn.json")
    writer = threading.Timer(20, lambda: os.close(os.open(target / "net.part.conn.json", os.O_RDWR | os.O_NONBLOCK)))
    writer.daemon = True
    writer.start()  # so that the test fails, not hangs
    with open_model(source) as model, pytest.raises(UsageError, match="not empty"):
        split(model, target, force=True)
    assert writer.is_alive()
    writer.cancel()


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [pipe, os.mkdir, lambda path: os.symlink("/dev/null", path)])
def test_a_split_is_files_and_nothing_else(source: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    target = tmp_path / "parts"
    with open_model(source) as model:
        done = split(model, target)
        part = target / done.connections.parts[0].file
        part.unlink()
        make(part)
        with pytest.raises(UsageError, match="not empty"):
            split(model, target, force=True)
    assert os.path.lexists(part)


def test_a_part_is_not_split_over_itself(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "parts"
    with open_model(source) as model:
        done = split(model, target)
    before = files_of(target)
    with open_model(target / done.connections.parts[0].file) as model, pytest.raises(UsageError, match="is in the"):
        split(model, target, force=True)
    assert files_of(target) == before


# --- tables of origins ----------------------------------------------------------------------------------------


def tool(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([TOOL, *words], cwd=folder, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stderr.decode()


def test_tables_do_not_replace_the_model(tmp_path: Path) -> None:
    (tmp_path / "in.circle").write_bytes(bytes_of("circle/mlp"))
    (tmp_path / "d").mkdir()
    assert tool(tmp_path, "embed-origins", "in.circle", "d/origins.json")[0] == 0
    before = files_of(tmp_path)
    assert tool(tmp_path, "dump-origins", "d/origins.json", "--tables", "d") == (
        2, "error: d/origins.json: this would overwrite the input (name another DIR)\n",
    )  # fmt: skip
    assert files_of(tmp_path) == before


# --- what open_model takes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [memoryview(b"abcdefgh")[::2], io.StringIO("TFL3"), 3, None],
    ids=["strided", "text", "number", "nothing"],
)
def test_a_file_that_is_nothing_like_a_model(given: Any) -> None:
    with pytest.raises(UsageError):
        open_model(given)


def test_a_stream_that_is_closed() -> None:
    stream = io.BytesIO(b"")
    stream.close()
    with pytest.raises(UsageError, match="closed"):
        open_model(stream)
