"""Removed metadata is erased on request, and otherwise reported to remain."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from tests.kit.build import Build, Table
from tests.kit.command_support import run
from tests.kit.program import compacted
from tests.kit.public import public_models
from tests.kit.support import bytes_of, edited, own_models, packed, unpacked, value_of

SECRET = b"the name of a customer, 7f3a9c"


def with_secret(data: bytes) -> bytes:
    """Return a model whose original file has the secret: nothing shows that an edit wrote it."""
    return compacted(edited(data, lambda edit: edit.set_metadata("secret", SECRET)))


def test_no_byte_of_an_erased_value_remains(tmp_path: Path) -> None:
    target, tried = tmp_path / "out", 0
    for path in (*own_models(), *public_models()):
        try:
            data = with_secret(path.read_bytes())
        except Exception:  # noqa: S112 - what cannot be edited or compacted is tested elsewhere
            continue
        with open_model(data) as model, ModelEdit(model) as edit:
            edit.remove_metadata("secret")
            assert SECRET in edit.to_bytes()
            assert [(note.code, note.location) for note in edit.remaining()] == [
                ("OLD_VALUE_REMAINS", "metadata secret")
            ]
            edit.save(target, erase=True)
        assert SECRET not in target.read_bytes()
        assert list(tmp_path.iterdir()) == [target]
        tried += 1
    assert tried > 40


def test_entries_of_one_name_that_stay_do_not_remain() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([x := graph.tensor("x")], [graph.compute("NEG", [x], "y")])
    build.metadata("twice", b"one")
    build.metadata("twice", b"two")
    with open_model(compacted(build.to_bytes())) as model, ModelEdit(model) as edit:
        assert edit.remaining() == ()
        edit.remove_metadata("twice")
        assert [note.location for note in edit.remaining()] == ["metadata twice"] * 2


def test_what_is_replaced_is_erased_too(tmp_path: Path) -> None:
    data, target = with_secret(bytes_of("tflite/cnn")), tmp_path / "out"
    with open_model(data) as model, ModelEdit(model) as edit:
        edit.set_metadata("secret", b"none")
        assert len(edit.remaining()) == 1
        edit.save(target, erase=True)
    with open_model(target) as model:
        assert value_of(model, "secret") == b"none"
    assert SECRET not in target.read_bytes()


def test_data_after_the_flatbuffer_is_not_erased(tmp_path: Path) -> None:
    build = Build()
    build.metadata("secret", b"")
    build.model.buffers[-1] = Table("Buffer", offset=1 << 12, size=len(SECRET))
    with open_model(build.to_bytes().ljust(1 << 12, b"-") + SECRET) as model, ModelEdit(model) as edit:
        edit.remove_metadata("secret")
        with pytest.raises(EditError, match="outside the flatbuffer and cannot be erased"):
            edit.save(tmp_path / "out", erase=True)
    assert not list(tmp_path.iterdir())


def test_what_an_edit_wrote_does_not_remain() -> None:
    data = edited(bytes_of("circle/mlp"), lambda edit: edit.set_metadata("secret", SECRET))
    with open_model(data) as model, ModelEdit(model) as edit:
        edit.remove_metadata("secret")
        assert edit.remaining() == ()
        assert edit.to_bytes() == bytes_of("circle/mlp")


def test_nothing_remains_of_what_stays() -> None:
    with open_model(with_secret(bytes_of("circle/mlp"))) as model, ModelEdit(model) as edit:
        edit.set_metadata("secret", SECRET)
        edit.set_metadata("other", b"new")
        assert edit.remaining() == ()


def test_the_command_reports_or_erases_old_values(tmp_path: Path) -> None:
    source, target = tmp_path / "in.circle", tmp_path / "out.circle"
    source.write_bytes(with_secret(bytes_of("circle/mlp")))
    for more, shown in (((), True), (("--erase",), False)):
        ran = run("metadata", "remove", source, target, "--name", "secret", *more)
        assert (ran.returncode, "the old value is still in the file" in ran.stderr) == (0, shown)
        assert (SECRET in target.read_bytes()) == shown
    assert run("metadata", "remove", source, "--name", "secret", "--erase", "--in-place").returncode == 0
    assert source.read_bytes() == target.read_bytes()


def test_setting_what_is_there_changes_nothing() -> None:
    """Also where the list of metadata buffers names the buffer, as in LiteRT's models for NPUs."""
    model = unpacked(bytes_of("tflite/cnn"))
    names = [entry.name.decode() for entry in model.metadata]
    model.metadataBuffer = [entry.buffer for entry in model.metadata]
    data = packed(model, b"TFL3")
    for name in names:
        with open_model(data) as opened:
            value = value_of(opened, name)
        assert value is not None
        assert edited(data, partial(ModelEdit.set_metadata, name=name, value=value)) == data


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_nothing_piles_up_without_buffers(kind: str) -> None:
    build = Build()
    build.model.buffers = None
    data = once = build.to_bytes(kind)
    sizes = set()
    for _ in range(4):
        data = edited(data, lambda edit: edit.set_metadata("note", b"value"))
        sizes.add(len(data))
        data = edited(data, lambda edit: edit.remove_metadata("note"))
        assert data == once
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["tflite/cnn", "tflite/two_signatures", "tflite/zip_tail"])
@pytest.mark.parametrize("together", [True, False])
def test_what_is_removed_and_set_again_is_the_original(name: str, together: bool) -> None:
    data = edited(
        bytes_of(name), lambda edit: edit.set_metadata("one", b"1"), lambda edit: edit.set_metadata("two", b"2")
    )
    data = compacted(data)
    with open_model(data) as model:
        values = {entry.name: value_of(model, entry.name) or b"" for entry in model.metadata}
    for entry, value in values.items():
        remove = partial(ModelEdit.remove_metadata, name=entry)
        put = partial(ModelEdit.set_metadata, name=entry, value=value)
        again = edited(data, remove, put) if together else edited(edited(data, remove), put)
        assert again == data


def test_another_value_is_not_the_original_one() -> None:
    data = with_secret(bytes_of("tflite/cnn"))
    gone = edited(data, lambda edit: edit.remove_metadata("secret"))
    other = edited(gone, lambda edit: edit.set_metadata("secret", b"other"))
    with open_model(other) as model:
        assert value_of(model, "secret") == b"other"
    assert edited(other, lambda edit: edit.set_metadata("secret", SECRET)) == data or SECRET in other


def test_a_buffer_that_something_else_names_now_is_not_taken_back() -> None:
    build = Build()
    build.metadata("a", b"1")
    build.model.metadata = [*build.model.metadata, Table("Metadata", name="b", buffer=1)]
    data = build.to_bytes()
    gone = edited(data, lambda edit: edit.remove_metadata("a"))
    again = edited(gone, lambda edit: edit.set_metadata("a", b"1"))
    with open_model(again) as model:
        assert (value_of(model, "a"), value_of(model, "b")) == (b"1", b"1")
