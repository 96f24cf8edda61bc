"""A ZIP archive behind the flatbuffer: when its offsets change, and what makes that impossible."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from circletools.edit.archive import move_archive, moved_directory
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.storage.files import view
from circletools.storage.zips import directory_start
from tests.kit.build import Build
from tests.kit.support import bytes_of, edited, noted

FILES = {"labels.txt": b"one\ntwo\n", "vocab/b.txt": b"x" * 300}


def archive(front: bytes = b"", *, joined: bool = False, comment: bytes = b"") -> bytes:
    """Return `front` with an archive behind it; `joined`, its offsets count from its own start."""
    made = io.BytesIO(b"" if joined else front)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as written:
        for name, data in FILES.items():
            info = zipfile.ZipInfo(name)
            info.comment, info.extra = b"of " + name.encode(), struct.pack("<HHI", 0x7777, 4, 0)
            written.writestr(info, data)
        written.comment = comment
    return (front if joined else b"") + made.getvalue()


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        return {name: read.read(name) for name in read.namelist()}


def offsets(data: bytes) -> list[int]:
    """Return the offsets that an archive has: of its members, and of its directory."""
    start = directory_start(memoryview(data))
    assert start is not None
    found, at = [], start
    while data[at : at + 4] == b"PK\1\2":
        found.append(int.from_bytes(data[at + 42 : at + 46], "little"))
        at += 46 + sum(struct.unpack("<3H", data[at + 28 : at + 34]))
    return [*found, int.from_bytes(data[at + 16 : at + 20], "little")]


@pytest.mark.parametrize("comment", [b"", b"a comment", b"PK\5\6" + bytes(30), bytes(65535)])
@pytest.mark.parametrize("front", [b"", b"f" * 1000])
def test_the_directory_is_found_from_the_end(front: bytes, comment: bytes) -> None:
    data = archive(front, comment=comment)
    assert directory_start(memoryview(data)) == data.index(b"PK\1\2")


def test_an_empty_archive_has_its_directory_where_it_ends() -> None:
    assert directory_start(memoryview(b"front" + b"PK\5\6" + bytes(18))) == 5
    assert directory_start(memoryview(b"PK\5\6" + bytes(18))) == 0
    for behind in (b"\0\0\0", b"\1\0", b"\4\0PK\5\6"):  # zipfile takes the last one, whatever follows
        assert directory_start(memoryview(b"PK\5\6" + bytes(16) + behind)) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\5\6",
        b"PK\5\6" + bytes(17),
        archive()[:-1],
        archive()[archive().index(b"PK\1\2") + 1 :],
        archive().replace(b"PK\1\2", b"PK\1\3"),
    ],
)
def test_data_that_is_not_an_archive(data: bytes) -> None:
    assert directory_start(memoryview(data)) is None


@pytest.mark.parametrize("moved", [0, 1, -1, -999, -1000])
def test_offsets_from_the_start_of_the_file_move_with_the_archive(moved: int) -> None:
    front = b"f" * 1000
    data = archive(front)
    start = directory_start(memoryview(data))
    assert start is not None
    directory = moved_directory(memoryview(data), moved)
    assert len(directory) == len(data) - start
    after = (front * 2)[: 1000 + moved] + data[1000:start] + directory
    assert members(after) == FILES
    assert offsets(after) == [offset + moved for offset in offsets(data)]


def changed(data: bytes, at: int, new: bytes) -> memoryview:
    return memoryview(data[:at] + new + data[at + len(new) :])


def test_an_archive_cannot_move_before_the_start_of_the_file() -> None:
    data = archive(b"f" * 100)
    assert min(offsets(data)) == 100
    moved_directory(memoryview(data), -100)
    with pytest.raises(EditError, match="cannot be moved"):
        moved_directory(memoryview(data), -101)


@pytest.mark.parametrize("member", [0, 1])
@pytest.mark.parametrize(("offset", "fits"), [(0, False), (1, True), (0xFFFFFFFE, True), (0xFFFFFFFF, False)])
def test_every_member_must_have_an_offset_that_can_move(member: int, offset: int, *, fits: bool) -> None:
    data = archive(b"f" * 100)
    start = data.index(b"PK\1\2", data.index(b"PK\1\2") + member)
    patched = changed(data, start + 42, struct.pack("<I", offset))
    if fits:
        at = start - data.index(b"PK\1\2") + 42
        assert moved_directory(patched, -1)[at : at + 4] == struct.pack("<I", offset - 1)
        return
    with pytest.raises(EditError, match="cannot be moved"):
        moved_directory(patched, -1)


def test_the_directory_itself_must_have_an_offset_that_can_move() -> None:
    data = archive(b"f" * 100)
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    with pytest.raises(EditError, match="cannot be moved"):
        moved_directory(changed(data, end + 16, b"\xff" * 4), -1)  # ZIP64
    with pytest.raises(EditError, match="cannot be moved"):
        moved_directory(changed(data, end + 16, struct.pack("<I", start // 2)), -start)
    empty = b"f" * 100 + b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 0, 0, 0, 100, 0)
    assert moved_directory(memoryview(empty), -100) == b"PK\5\6" + bytes(18)
    with pytest.raises(EditError, match="cannot be moved"):
        moved_directory(memoryview(empty), -101)


@pytest.mark.parametrize("member", [0, 1])
def test_a_directory_that_cannot_be_read_is_refused(member: int) -> None:
    data = archive(b"f" * 100)
    start = data.index(b"PK\1\2", data.index(b"PK\1\2") + member)
    with pytest.raises(EditError, match="is broken"):
        moved_directory(changed(data, start, b"PK\1\3") if member else changed(data, start + 30, b"\1"), -1)


@pytest.mark.parametrize("cut", [0, 1])
def test_an_entry_must_end_inside_the_directory(cut: int) -> None:
    """The size that the end record gives is that of the directory."""
    entry = b"PK\1\2" + bytes(38) + struct.pack("<I", 50)
    data = b"f" * 100 + entry[: 46 - cut] + b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 1, 1, 46 - cut, 100, 0)
    if cut:
        with pytest.raises(EditError, match="is broken"):
            moved_directory(memoryview(data), -1)
    else:
        assert moved_directory(memoryview(data), -1)[42:46] == struct.pack("<I", 49)


MODEL = bytes_of("circle/mlp")


@pytest.mark.parametrize("joined", [False, True])
def test_an_archive_that_counts_from_the_start_of_the_file_still_does_after_any_edit(joined: bool) -> None:
    """Otherwise `unzip` warns of extra bytes at the beginning; undone edits give the original."""
    data = archive(noted(MODEL, "long", bytes(5000)), joined=joined)
    for change in (
        lambda edit: edit.set_metadata("more", b"x" * 70),
        lambda edit: edit.remove_metadata("long"),
        lambda edit: edit.associate("new.txt", b"new"),
    ):
        after = edited(data, change)
        kept = joined and "new.txt" not in members(after)
        assert offsets(after) == offsets(data) if kept else all(after[at : at + 2] == b"PK" for at in offsets(after))
        assert edited(after, change) == after
        assert FILES.items() <= members(after).items()
    assert (
        edited(edited(data, lambda edit: edit.set_metadata("more", b"x")), lambda edit: edit.remove_metadata("more"))
        == data
    )
    with open_model(data) as model:
        assert [bytes(view(part)) for part in move_archive(model, 0, 0)] == [data]


def test_data_that_only_resembles_an_archive_is_unchanged() -> None:
    """In the flatbuffer, before the start, or in front of the end of external data it is none."""
    build = Build()
    build.graph().ends([], [])
    external = build.buffer(offset=1000, size=archive_bytes())
    data = build.to_bytes("circle").ljust(1000, b"\0") + archive()
    with open_model(data) as model:
        assert [bytes(view(part)) for part in move_archive(model, 0, -8)] == [data]
    build.model.buffers[external].size = 1
    data = build.to_bytes("circle").ljust(1000, b"\0") + archive()
    with open_model(data) as model:
        assert len(move_archive(model, 0, -8)) == 2
        start = directory_start(memoryview(data))
        assert start is not None
        assert len(move_archive(model, start, -8)) == 2
        assert len(move_archive(model, start + 1, -8)) == 1


def archive_bytes() -> int:
    return len(archive())
