"""Writing files: whole or not at all, and nothing else touched."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, InvalidInputError, UsageError
from circletools.model.model import open_model
from circletools.storage import files
from tests.kit.saving import mode, names, save
from tests.kit.support import bytes_of

NOBODY = 65534


# --- the usual ----------------------------------------------------------------------------------------------


def test_a_new_file_is_written_and_nothing_beside_it(model: Path, expected: bytes) -> None:
    before = model.read_bytes()
    save(model, model.with_name("out.circle"))
    assert names(model.parent) == ["in.circle", "out.circle"]
    assert model.with_name("out.circle").read_bytes() == expected
    assert model.read_bytes() == before


def test_a_file_from_memory_is_written_too(tmp_path: Path, expected: bytes) -> None:
    with open_model(bytes_of("circle/mlp")) as opened:
        edit = ModelEdit(opened)
        edit.set_metadata("note", b"a value")
        edit.save(tmp_path / "out.circle")
    assert (tmp_path / "out.circle").read_bytes() == expected


def test_progress_ends_at_the_size_of_the_file(model: Path, expected: bytes) -> None:
    seen: list[tuple[int, int]] = []
    save(model, model.with_name("out.circle"), progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (len(expected), len(expected))


def test_a_relative_name_is_written_where_we_are(
    model: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    save(Path("in.circle"), "out.circle")
    assert Path("out.circle").read_bytes() == expected


# --- mode, links --------------------------------------------------------------------------------------------


def test_a_new_file_has_the_mode_of_the_input(model: Path) -> None:
    model.chmod(0o640)
    save(model, model.with_name("out.circle"))
    assert mode(model.with_name("out.circle")) == 0o640


def test_a_file_that_is_there_keeps_its_mode(model: Path, expected: bytes) -> None:
    target = model.with_name("out.circle")
    target.write_bytes(b"old and longer than the new one" * 1000)
    target.chmod(0o604)
    model.chmod(0o600)
    save(model, target)
    assert (mode(target), target.read_bytes()) == (0o604, expected)


def test_a_file_from_memory_has_the_usual_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with open_model(bytes_of("circle/mlp")) as opened:
            ModelEdit(opened).save(tmp_path / "out.circle")
    finally:
        os.umask(old)
    assert mode(tmp_path / "out.circle") == 0o640


def test_a_symbolic_link_is_followed_and_stays(model: Path, expected: bytes) -> None:
    folder = model.parent / "elsewhere"
    folder.mkdir()
    (folder / "real.circle").write_bytes(b"old")
    link = model.with_name("link.circle")
    link.symlink_to(Path("elsewhere") / "real.circle")
    save(model, link)
    assert link.is_symlink()
    assert (folder / "real.circle").read_bytes() == expected
    assert names(folder) == ["real.circle"]


def test_a_link_to_nothing_makes_the_file_it_names(model: Path, expected: bytes) -> None:
    link = model.with_name("link.circle")
    link.symlink_to("new.circle")
    save(model, link)
    assert link.is_symlink()
    assert model.with_name("new.circle").read_bytes() == expected


def test_a_link_in_a_circle_is_an_error(model: Path) -> None:
    link = model.with_name("link.circle")
    link.symlink_to("link.circle")
    with pytest.raises(EditError):
        save(model, link)
    assert names(model.parent) == ["in.circle", "link.circle"]


# --- the input itself ---------------------------------------------------------------------------------------


def symlink(path: Path) -> Path:
    other = path.with_name("symbolic.circle")
    other.symlink_to(path)
    return other


def hard_link(path: Path) -> Path:
    other = path.with_name("hard.circle")
    other.hardlink_to(path)
    return other


def other_spelling(path: Path) -> Path:
    (path.parent / "sub").mkdir()
    return path.parent / "sub" / ".." / path.name


@pytest.mark.parametrize("make", [lambda path: path, symlink, hard_link, other_spelling])
def test_the_input_is_only_replaced_when_asked(model: Path, make: Callable[[Path], Path]) -> None:
    target, before = make(model), model.read_bytes()
    listed = names(model.parent)
    with pytest.raises(UsageError, match="same file"):
        save(model, target)
    assert model.read_bytes() == before
    assert names(model.parent) == listed


@pytest.mark.parametrize("make", [lambda path: path, symlink, hard_link, other_spelling])
def test_in_place(model: Path, expected: bytes, make: Callable[[Path], Path]) -> None:
    target = make(model)
    save(model, target, in_place=True)
    assert target.read_bytes() == expected
    save(model, target, in_place=True)
    assert target.read_bytes() == expected


def test_a_hard_link_keeps_the_old_bytes(model: Path, expected: bytes) -> None:
    before, target = model.read_bytes(), hard_link(model)
    save(model, target, in_place=True)
    assert (target.read_bytes(), model.read_bytes()) == (expected, before)


def test_the_mapped_input_stays_readable_while_it_is_replaced(model: Path) -> None:
    before = model.read_bytes()
    with open_model(model) as opened:
        edit = ModelEdit(opened)
        edit.set_metadata("note", b"a value")
        edit.save(model, in_place=True)
        assert bytes(opened.source.octets) == before
        assert edit.to_bytes() == model.read_bytes()


# --- places that cannot be written --------------------------------------------------------------------------


def test_a_directory_is_refused(model: Path) -> None:
    folder = model.parent / "folder"
    folder.mkdir()
    with pytest.raises(UsageError, match="directory") as caught:
        save(model, folder)
    assert caught.value.location == str(folder)
    assert names(folder) == []


@pytest.mark.parametrize("target", ["missing/out.circle", "in.circle/out.circle", "x" * 300])
def test_a_place_that_is_not_there_is_an_error(model: Path, target: str) -> None:
    before = model.read_bytes()
    with pytest.raises(EditError, match="cannot write it") as caught:
        save(model, model.parent / target)
    assert caught.value.location == str(model.parent / target)
    assert names(model.parent) == ["in.circle"]
    assert model.read_bytes() == before


@contextmanager
def locked() -> Iterator[Path]:
    """Give a folder that we may not write to; the superuser becomes somebody else for that.

    No fixture: between the setup and the call of a test others write files, such as those of its coverage.
    """
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)  # noqa: S103 - others must get in
        folder = Path(top) / "locked"
        folder.mkdir()
        (folder / "out.circle").write_bytes(b"old")
        folder.chmod(0o555)
        somebody = os.geteuid()
        if somebody == 0:
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(somebody)
            folder.chmod(0o755)


@pytest.mark.parametrize("name", ["new.circle", "out.circle"])
def test_a_folder_that_may_not_be_written_is_an_error(name: str) -> None:
    with locked() as folder, open_model(bytes_of("circle/mlp")) as opened:
        with pytest.raises(EditError, match="Permission denied"):
            ModelEdit(opened).save(folder / name)
        assert names(folder) == ["out.circle"]
        assert (folder / "out.circle").read_bytes() == b"old"


def test_a_file_that_may_not_be_read_is_an_error() -> None:
    with locked() as folder:
        somebody = os.geteuid()
        if somebody == NOBODY:
            os.seteuid(0)
        (folder / "out.circle").chmod(0)
        if somebody == NOBODY:
            os.seteuid(NOBODY)
        with pytest.raises(InvalidInputError, match="Permission denied"):
            open_model(folder / "out.circle")


# --- failures in the middle ---------------------------------------------------------------------------------


def fail(*_arguments: object, **_options: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt(*_arguments: object, **_options: object) -> Any:
    raise KeyboardInterrupt


BREAKS = [(os, "replace"), (os, "fsync"), (files, "_copy")]


@pytest.mark.parametrize(("owner", "function"), BREAKS)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    model: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, function: str
) -> None:
    target = model.with_name("out.circle")
    target.write_bytes(b"old")
    monkeypatch.setattr(owner, function, fail)
    with pytest.raises(EditError, match="No space left"):
        save(model, target)
    assert target.read_bytes() == b"old"
    assert names(model.parent) == ["in.circle", "out.circle"]


@pytest.mark.parametrize(("owner", "function"), BREAKS)
def test_an_interrupt_leaves_the_old_file_and_nothing_else(
    model: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, function: str
) -> None:
    before = model.read_bytes()
    monkeypatch.setattr(owner, function, interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(model, model, in_place=True)
    assert model.read_bytes() == before
    assert names(model.parent) == ["in.circle"]


def test_an_error_of_the_progress_leaves_the_old_file_and_nothing_else(model: Path) -> None:
    def stop(_done: int, _total: int) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        save(model, model.with_name("out.circle"), progress=stop)
    assert names(model.parent) == ["in.circle"]


def test_an_input_that_becomes_shorter_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "in.circle"
    path.write_bytes(bytes_of("circle/mlp").ljust(1 << 20, b"x"))

    def cut(_done: int, _total: int) -> None:
        os.truncate(path, 1 << 16)

    with open_model(path) as opened:
        edit = ModelEdit(opened)
        edit.set_metadata("note", b"x")
        with pytest.raises(InvalidInputError, match="truncated"):
            edit.save(tmp_path / "out.circle", progress=cut)
    assert names(tmp_path) == ["in.circle"]
