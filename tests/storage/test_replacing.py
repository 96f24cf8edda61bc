"""What a save does about an input that changes meanwhile, about modes and owners, and about files open already."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import InvalidInputError, OutputError, UsageError
from circletools.model.model import open_model
from circletools.storage.replacing import replace
from tests.kit.support import ROOT, bytes_of, noted, path_of

TOOL = Path(sys.executable).with_name("circletool")


# --- an input that changes ----------------------------------------------------------------------------------


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")


def cut(path: Path) -> None:
    os.truncate(path, 4096)


@pytest.mark.parametrize("change", [append, overwrite, cut])
@pytest.mark.parametrize("to", ["new.circle", "old.circle", "in.circle"])
def test_an_input_that_changed_is_reported(large: Path, change: Callable[[Path], None], to: str) -> None:
    before = large.with_name("old.circle")
    before.write_bytes(b"old")
    with open_model(large) as model:
        edit = ModelEdit(model)
        edit.set_metadata("note", b"a value")
        change(large)
        with pytest.raises(InvalidInputError, match=r"was changed|was truncated") as caught:
            edit.save(large.with_name(to), in_place=to == "in.circle")
    assert caught.value.location == str(large)
    assert sorted(path.name for path in large.parent.iterdir()) == ["in.circle", "old.circle"]
    assert before.read_bytes() == b"old"


@pytest.mark.parametrize("change", [append, overwrite, cut])
def test_behind_a_pipe_it_is_reported_too(large: Path, change: Callable[[Path], None]) -> None:
    os.mkfifo(large.with_name("pipe"))
    reader = threading.Thread(target=large.with_name("pipe").read_bytes)
    reader.start()
    with open_model(large) as model:
        edit = ModelEdit(model)
        edit.set_metadata("note", b"a value")
        change(large)
        with pytest.raises(InvalidInputError, match="was changed"):
            edit.save(large.with_name("pipe"))
    os.close(os.open(large.with_name("pipe"), os.O_WRONLY | os.O_NONBLOCK))  # what was not written does not end
    reader.join(10)


def test_a_command_reports_it(tmp_path: Path) -> None:
    """Also one that only reads: half of what it showed may be of the one file, half of the other."""
    path = tmp_path / "in.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    program = f"""
        import sys
        from circletools.storage.files import Source
        from circletool_cli.main import main
        check = Source.check_unchanged
        def check_unchanged(*args):
            with open({str(path)!r}, "ab") as file:
                file.write(b"more")
            check(*args)
        Source.check_unchanged = check_unchanged
        sys.argv[1:] = ["inspect", {str(path)!r}]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == (
        f"error: {path}: the input was changed while it was being read (run again when nothing else writes to it)\n"
    )


def test_an_input_that_was_replaced_is_written_as_it_was(large: Path) -> None:
    data, target = large.read_bytes(), large.with_name("out.circle")
    with open_model(large) as model:
        other = large.with_name("other.circle")
        other.write_bytes(bytes_of("circle/cnn"))
        other.replace(large)
        edit = ModelEdit(model)
        edit.set_metadata("note", b"a value")
        edit.save(target)
    assert target.read_bytes() == noted(data)
    assert large.read_bytes() == bytes_of("circle/cnn")


@pytest.mark.parametrize("of", [Path, Path.read_bytes])
def test_a_closed_model_is_not_saved(large: Path, of: Callable[[Path], Any]) -> None:
    with open_model(of(large)) as model:
        edit = ModelEdit(model)
    with pytest.raises(UsageError, match="closed"):
        edit.save(large.with_name("out.circle"))
    with pytest.raises(UsageError, match="closed"):
        edit.to_bytes()
    assert [path.name for path in large.parent.iterdir()] == ["in.circle"]


# --- who may read it ----------------------------------------------------------------------------------------


def test_a_private_file_is_private_from_the_start(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target = large.with_name("out.circle")
    target.touch(0o600)
    seen: set[int] = set()

    def look(_done: int, _total: int) -> None:
        seen.update(stat.S_IMODE(path.stat().st_mode) for path in large.parent.glob(".circletool-*"))

    before = os.umask(0)
    try:
        with open_model(large) as model:
            ModelEdit(model).save(target, progress=look)
    finally:
        os.umask(before)
    assert seen == {0o600}


@pytest.mark.skipif(getattr(os, "geteuid", lambda: -1)() != 0, reason="only root gives files away")
def test_the_owner_stays(large: Path) -> None:
    target = large.with_name("out.circle")
    target.touch(0o640)
    os.chown(target, 12345, 54321)
    with open_model(large) as model:
        ModelEdit(model).save(target)
    status = target.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o640)


def test_where_files_have_no_modes(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FAT file system refuses what it cannot keep."""

    def refuse(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse, raising=False)
    with open_model(large) as model:
        ModelEdit(model).save(large.with_name("out.circle"))
    assert large.with_name("out.circle").read_bytes() == large.read_bytes()


# --- what is open already -----------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc")
@pytest.mark.parametrize(
    "line",
    [
        "'{0}' {1} in.circle /dev/stdout 2>err | cat >got",
        "{{ '{0}' {1} in.circle /dev/fd/7 2>err; }} 7>&1 | cat >got",
        "mkfifo pipe; ln -s pipe link; cat pipe >got & '{0}' {1} in.circle link 2>err; wait",
        "printf first >all; '{0}' {1} in.circle /dev/stdout >>all 2>err; tail -c +6 all >got",
    ],
)
@pytest.mark.parametrize("command", ["embed-origins", "fix-outputs"])  # the second reads what it wrote
def test_files_that_are_open_already(tmp_path: Path, line: str, command: str) -> None:
    (tmp_path / "in.circle").write_bytes(bytes_of("circle/output_twice"))
    subprocess.run([TOOL, command, "in.circle", "out"], cwd=tmp_path, capture_output=True, check=True)
    subprocess.run(["/bin/sh", "-c", line.format(TOOL, command)], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "got").read_bytes() == (tmp_path / "out").read_bytes()
    assert not list(tmp_path.glob(".circletool-*"))


def test_a_descriptor_that_is_not_open(large: Path) -> None:
    with open_model(large) as model, pytest.raises(OutputError, match="Bad file descriptor"):
        ModelEdit(model).save("/dev/fd/987")


# --- what waits for the disk --------------------------------------------------------------------------------


def written(file: BinaryIO, _early: bool) -> None:
    file.write(b"new")


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("nameless", [False, True])
def test_only_a_file_that_is_replaced_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exists: bool, nameless: bool
) -> None:
    """docs/crashes.md has the reasons: the new content first, then its name."""
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target, calls = tmp_path / "file", list[str]()
    if exists:
        target.write_bytes(b"old")
    real_sync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_sync(descriptor)

    def rename(one: Path, other: Path) -> None:
        calls.append("rename")
        real_replace(one, other)

    def fill(file: BinaryIO, early: bool) -> None:
        calls.append(f"fill {early}")
        file.write(b"new")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    replace(target, fill, lambda: calls.append("check"))
    assert target.read_bytes() == b"new"
    if exists:
        assert calls == ["fill True", "file", "check", "rename", "directory"]
    else:
        assert calls == ["fill False", "check", "rename"]
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("mask", "mode"), [(0, 0o666), (0o077, 0o600)])
@pytest.mark.parametrize("nameless", [False, True])
def test_a_new_file_has_the_mode_that_the_user_gives_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int, mode: int, *, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    before = os.umask(mask)
    try:
        replace(tmp_path / "file", written, lambda: None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_where_a_nameless_file_cannot_get_a_name_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOENT, "no /proc")

    monkeypatch.setattr(os, "link", refuse)
    replace(tmp_path / "file", written, lambda: None)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_concurrent_writers_write_completely_or_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(path_of("circle/mlp").read_bytes())
    words = [str(TOOL), "metadata", "set", str(model), "--in-place", "--text", "x", "--name"]
    writers = [subprocess.Popen([*words, f"by {number}"], stderr=subprocess.PIPE) for number in range(6)]
    messages = [writer.communicate()[1] for writer in writers]
    wrote = {f"by {number}" for number, writer in enumerate(writers) if writer.returncode == 0}
    with open_model(model) as opened:
        assert {entry.name for entry in opened.metadata if entry.name.startswith("by ")} == wrote
    assert wrote
    for writer, message in zip(writers, messages, strict=True):
        assert writer.returncode == 0 or (writer.returncode == 3 and b"run again when nothing else" in message)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.circle"
    os.mkfifo(pipe)
    words = [str(TOOL), "embed-origins", str(pipe), "--in-place"]
    ran = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert b"only a regular file can be overwritten" in ran.stderr
