"""Compacting: the smallest flatbuffer, what lies behind it, and what is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from circletools.edit.compact import compact
from circletools.edit.members import original_start
from circletools.errors import EditError, UsageError
from circletools.model.external import external_data
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.program import compacted
from tests.kit.support import (
    by_content,
    bytes_of,
    edited,
    field_at,
    locate,
    noted,
    put_u32,
    read,
    target,
    u32,
    vtable_of,
)


def built(*, external: int = 0, at: int = 0) -> Build:
    """Return a model, with a buffer of `external` bytes at `at` in the file."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [graph.compute("TANH", [x], "y")])
    if external:
        build.buffer(offset=at, size=external)
    return build


def test_a_compact_model_gives_the_same_and_compacting_it_again_changes_nothing(own_model: Path) -> None:
    data = own_model.read_bytes()
    small = compacted(noted(noted(data), "two", bytes(3000)))
    assert compacted(small) == small
    assert by_content(read(small)) == by_content(read(noted(noted(data), "two", bytes(3000))))
    assert by_content(read(compacted(data))) == by_content(read(data))


@pytest.mark.parametrize("tail", [b"", b"\1", b"\0\0tail\0", b"\0" * 100, b"\0" * (1 << 20) + b"far"])
def test_trailing_data_stays_except_leading_zeros(tail: bytes) -> None:
    data = built().to_bytes()
    assert compacted(data + tail) == compacted(data) + tail.lstrip(b"\0")
    assert compacted(noted(data + tail)).endswith(tail.lstrip(b"\0"))


def test_unused_data_of_the_original_is_dropped() -> None:
    data = built().to_bytes()
    long = edited(data, lambda edit: edit.set_metadata("long", b"secret" * 1000))
    assert len(compacted(edited(long, lambda edit: edit.remove_metadata("long")))) == len(compacted(data))
    changed = edited(compacted(long), lambda edit: edit.remove_metadata("long"))
    assert b"secret" in changed
    assert b"secret" not in compacted(changed)


@pytest.mark.parametrize("at", [1000, 1024, 1087, 4096])
def test_external_data_keeps_its_alignment_to_64_bytes(at: int) -> None:
    value = b"external" * 20
    data = built(external=len(value), at=at).to_bytes("circle").ljust(at, b"\7") + value + b"behind"
    small = compacted(data)
    with open_model(small) as model:
        (found,) = external_data(model)
        offset = int(found.offsets[0])
        assert bytes(model.buffers[int(found.rows[0])].data) == value
        assert offset % 64 == at % 64
        assert 0 <= offset - model.reachable.end < 64
        assert small[model.reachable.end : offset] == bytes(offset - model.reachable.end)
    assert small.endswith(value + b"behind")
    assert compacted(small) == small


def test_external_data_that_begins_where_the_flatbuffer_ends() -> None:
    build = built(external=4, at=2)
    with open_model(build.to_bytes("circle")) as model:
        end = model.reachable.end
    for at in (end, end - 1, 2):
        build.model.buffers[1].offset = at
        data = build.to_bytes("circle").ljust(end, b"\0") + b"1234"
        if at >= end:
            with open_model(compacted(data)) as model:
                assert bytes(model.buffers[1].data) == b"1234"
        else:
            with pytest.raises(EditError, match="external data lies inside the flatbuffer"):
                compacted(data)


def test_an_archive_behind_opens_as_before() -> None:
    for prefix in (b"", b"x" * 5000):
        file = io.BytesIO(built().to_bytes())
        file.seek(0, io.SEEK_END)
        file.write(prefix)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr("labels", b"one\ntwo")
        with zipfile.ZipFile(io.BytesIO(compacted(noted(file.getvalue(), value=bytes(9000))))) as archive:
            assert archive.read("labels") == b"one\ntwo"


def test_the_size_is_returned_and_the_input_is_not_written_over(tmp_path: Path) -> None:
    path, to = tmp_path / "in.circle", tmp_path / "out.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    with open_model(path) as model:
        assert compact(model, to) == to.stat().st_size
        with pytest.raises(UsageError, match="same file"):
            compact(model, path)
        assert compact(model, path, in_place=True) == path.stat().st_size
    assert path.read_bytes() == to.read_bytes() == compacted(bytes_of("circle/mlp"))


def start_of(data: bytes) -> int:
    with open_model(data) as model:
        return original_start(model)


def test_an_original_that_needs_its_prefix_has_no_start_of_its_own() -> None:
    """Each case is a valid file whose part after the prefix means something else by itself."""
    build = built(external=4, at=4096)
    build.metadata("held", b"value")
    old = build.to_bytes("circle").ljust(4096, b"\0") + b"1234"
    data = noted(old)
    base = len(data) - len(old)
    assert start_of(data) == base
    (written,), behind = (locate(data, "buffers", 1),), base + locate(old, "buffers", 1)
    assert written < base < behind
    element = target(data, field_at(data, locate(data), 4)) + 4 + 4
    named = put_u32(data, element, behind - element)  # the old table, with an offset that was not moved
    assert start_of(named) == 0
    before = put_u32(data, field_at(data, written, 1), base - 1)  # data in the prefix
    assert start_of(before) == 0
    assert start_of(put_u32(data, field_at(data, written, 1), base)) == base
    # A table that only the new root refers to, and whose vtable is in the prefix.
    held = base + locate(old, "metadata", 0)
    assert locate(data, "metadata", 0) == held
    alone = put_u32(data, target(data, field_at(data, base + u32(old, 0), 6)), 0)
    assert start_of(alone) == base
    vtable, own = 24, vtable_of(data, held)  # padding follows the marker
    assert data[vtable : vtable + 8] == bytes(8)
    alone = alone[:vtable] + data[own : own + 8] + alone[vtable + 8 :]
    assert start_of(put_u32(alone, held, (held - vtable) % 2**32)) == 0
    assert start_of(put_u32(data, base, len(data))) == 0  # no flatbuffer of its own


def test_the_original_begins_behind_the_prefix() -> None:
    data = built().to_bytes()
    for file, start in ((data, 0), (noted(data), len(noted(data)) - len(data)), (compacted(noted(data)), 0)):
        with open_model(file) as model:
            assert original_start(model) == start
