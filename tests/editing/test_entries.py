"""`ct.metadata` and the commands of `circletool metadata`: list, get, set, remove, rename."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.origin_support import embedded
from tests.kit.program import put, run
from tests.kit.support import bytes_of

MODEL = bytes_of("tflite/cnn")
FIRST = "min_runtime_version"


def edited(data: bytes, *changes: Callable[[ct.ModelEdit], object]) -> bytes:
    with ct.open(data) as model, ct.edit(model) as edit:
        for change in changes:
            change(edit)
        return edit.to_bytes()


def entries(data: bytes) -> dict[str, bytes]:
    with ct.open(data) as model:
        return {str(row["name"]): ct.metadata.get(model, row["name"]) for row in ct.metadata.list(model).to_rows()}


def test_a_value_can_be_read_and_removed_without_trace() -> None:
    data = edited(MODEL, lambda edit: ct.metadata.set(edit, "note", b"checked"))
    assert entries(data) == entries(MODEL) | {"note": b"checked"}
    assert data.endswith(MODEL)
    assert entries(edited(data, lambda edit: ct.metadata.set(edit, "note", b"")))["note"] == b""
    assert edited(data, lambda edit: ct.metadata.remove(edit, ["note", "note"])) == MODEL


def test_names_change_all_at_once() -> None:
    data = edited(MODEL, lambda edit: ct.metadata.set(edit, "a", b"1"), lambda edit: ct.metadata.set(edit, "b", b"2"))
    for names in ({"a": "b", "b": "a"}, ("a=b", "b=a")):
        swapped = edited(data, lambda edit, names=names: ct.metadata.rename(edit, names))  # type: ignore[misc]
        assert entries(swapped) == entries(data) | {"a": b"2", "b": b"1"}
        assert list(entries(swapped))[-2:] == ["b", "a"]
    with pytest.raises(ct.EditError, match="there is already a metadata entry 'b'"):
        edited(data, lambda edit: ct.metadata.rename(edit, {"a": "b"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda edit: ct.metadata.remove(edit, [f"{FIRST}s"]), f"did you mean '{FIRST}'"),
        (lambda edit: ct.metadata.get(edit.model, "nothing"), "no metadata entry 'nothing' .available: CONV"),
        (lambda edit: ct.metadata.rename(edit, {"nothing": "x"}), "no metadata entry is called 'nothing'"),
        (lambda edit: ct.metadata.set(edit, "note", "text"), "`value` must be bytes"),  # type: ignore[arg-type]
    ],
)
def test_a_name_that_is_not_there_is_an_error(change: Callable[[ct.ModelEdit], object], message: str) -> None:
    with pytest.raises(ct.UsageError, match=message):
        edited(MODEL, change)


def test_origins_and_affinity_go_only_where_they_are_named() -> None:
    def annotate(edit: ct.ModelEdit) -> object:
        return ct.affinity.annotate(edit, ct.plan(edit.model, ct.PlanRequest(devices=("cpu",), default="cpu")))

    tables = edited(embedded(MODEL), annotate, lambda edit: ct.metadata.set(edit, "note", b"x"))
    for origins in (False, True):
        for affinity in (False, True):
            names = set(
                entries(
                    edited(
                        tables,
                        lambda edit, one=origins, two=affinity: ct.metadata.remove(  # type: ignore[misc]
                            edit, ["note"], origins=one, affinity=two
                        ),
                    )
                )
            )
            assert ("ONE_op_table" in names, "CIRCLETOOLS_affinity" in names) == (not origins, not affinity)
            assert "note" not in names
    assert edited(MODEL, lambda edit: ct.metadata.remove(edit, origins=True, affinity=True)) == MODEL


def test_the_commands_do_the_same(tmp_path: Path) -> None:
    model, out = put(tmp_path / "in.tflite", MODEL), tmp_path / "out.tflite"
    value = put(tmp_path / "value", b"\0\xff")
    assert run("metadata", "set", model, out, "--name", "note", "--file", value).err == "metadata note: 2 bytes\n"
    assert run("metadata", "get", out, "note").out == b"\0\xff"
    assert run("metadata", "set", out, "--in-place", "--name", "note", "--text", "a b").status == 0
    assert run("metadata", "get", out, "note", "-o", tmp_path / "got").out == b""
    assert (tmp_path / "got").read_bytes() == b"a b"
    rows = json.loads(run("metadata", "list", out, "--json").out)["entries"]
    assert [(row["name"], row["bytes"]) for row in rows][-1] == ("note", 3)
    assert run("metadata", "list", out, "--format", "csv").out.splitlines()[0] == b"name,buffer,bytes"
    assert b"note" in run("metadata", "list", out).out
    assert run("metadata", "rename", out, "--in-place", "--name", "note=remark").status == 0
    assert run("metadata", "remove", out, "--in-place", "--name", "remark", "--erase").status == 0
    assert list(entries(out.read_bytes())) == list(entries(MODEL))
    assert b"a b" not in out.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "IN", "OUT", "--name", "x"], "give the value with either --text or --file"),
        (["set", "IN", "OUT", "--name", "x", "--text", "a", "--file", "b"], "give the value with either"),
        (["set", "-", "OUT", "--name", "x", "--file", "-"], "cannot both come from standard input"),
        (["remove", "IN", "OUT"], "nothing to remove"),
        (["get", "IN", "nothing"], "no metadata entry 'nothing'"),
    ],
)
def test_usage(words: list[str], message: str, tmp_path: Path) -> None:
    places = {"IN": put(tmp_path / "in.tflite", MODEL), "OUT": tmp_path / "out"}
    ran = run("metadata", *(places.get(word, word) for word in words))
    assert (ran.status, places["OUT"].exists()) == (2, False)
    assert message in ran.err
