"""Models in bundles: looked at where they lie, taken out, put back; every other byte stays."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circletools as ct
from circletools.model.bundles import BLOCK_BYTES, bundle_members
from tests.kit.bundles import litertlm, task
from tests.kit.program import put, run
from tests.kit.support import bytes_of, noted, path_of

MODEL, LARGER = bytes_of("tflite/scalar"), noted(bytes_of("tflite/scalar"), value=bytes(9999))


BUNDLES: dict[str, tuple[str, Callable[[list[bytes]], bytes]]] = {
    "task": ("b.tflite", lambda parts: task(list(zip(("a.txt", "b.tflite", "c.bin", "d"), parts, strict=True)))),
    "aligned": ("b.tflite", lambda parts: task(list(zip(("a", "b.tflite", "c", "d"), parts, strict=True)), 64)),
    "litertlm": (
        "decode",
        lambda parts: litertlm(list(zip(("", "decode", "", "x"), (1, 3, 4, 7), parts, strict=True))),
    ),
}


@pytest.mark.parametrize("kind", BUNDLES)
@settings(max_examples=7)
@given(st.lists(st.integers(0, 70000), min_size=3, max_size=3))
def test_a_model_is_extracted_and_another_inserted(
    kind: str, tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    others = [random.Random(size).randbytes(size) for size in sizes]  # noqa: S311
    name, build = BUNDLES[kind]
    folder = tmp_path_factory.mktemp("bundle")
    parts = [others[0], MODEL, *others[1:]]
    data = build(parts)
    bundle, model = put(folder / f"a.{kind}", data), put(folder / "model.tflite", LARGER)
    with ct.open(f"{bundle}!{name}") as opened:
        assert (opened.source.octets == MODEL, opened.source.name) == (True, f"{bundle}!{name}")
    out = folder / "out.tflite"
    ct.surgery.extract_member(f"{bundle}!{name}", out)
    assert out.read_bytes() == MODEL
    assert ct.surgery.replace_member(f"{bundle}!{name}", model).changes
    after = bundle.read_bytes()
    before, now = bundle_members(memoryview(data)), bundle_members(memoryview(after))
    assert [(one.name, one.reason) for one in now] == [(one.name, "") for one in before]
    assert [after[one.start : one.end] for one in now] == [others[0], LARGER, *others[1:]]
    step = {"task": 4, "aligned": 64, "litertlm": BLOCK_BYTES}[kind]
    assert not any(one.start % step for one in now if one.end > one.start)
    if kind != "litertlm":
        with zipfile.ZipFile(bundle) as archive:
            assert archive.testzip() is None
    assert not ct.surgery.replace_member(f"{bundle}!{name}", model).changes
    ct.surgery.replace_member(f"{bundle}!{name}", out)
    assert bundle.read_bytes() == data


def test_the_commands(tmp_path: Path) -> None:
    bundle = put(tmp_path / "a.task", task([("a.tflite", MODEL), ("b.tflite", bytes_of("tflite/cnn"))]))
    out = tmp_path / "out.tflite"
    assert run("inspect", f"{bundle}!a.tflite").out == run("inspect", path_of("tflite/scalar")).out
    ran = run("inspect", bundle)
    assert (ran.status, f"name a model in it: {bundle}!a.tflite, {bundle}!b.tflite" in ran.err) == (3, True)
    assert run("extract", f"{bundle}!b.tflite", out).status == 0
    assert out.read_bytes() == bytes_of("tflite/cnn")
    assert run("replace", f"{bundle}!a.tflite", out, tmp_path / "copy.task").status == 0
    assert bundle_members(memoryview((tmp_path / "copy.task").read_bytes()))[0].end > len(bytes_of("tflite/cnn"))
    for words, status, text in (
        (("inspect", f"{bundle}!c.tflite"), 2, "no members are called 'c.tflite'"),
        (("inspect", f"{out}!c.tflite"), 3, "it is not a bundle"),
        (("rename", f"{bundle}!a.tflite", "--in-place", "--input", "0=x"), 2, "cannot be overwritten"),
        (("replace", bundle, out), 2, "not a member of a bundle"),
        (("replace", f"{bundle}!a.tflite", put(tmp_path / "no.tflite", b"no model")), 3, "neither a TFLite nor"),
    ):
        ran = run(*words)
        assert (ran.status, text in ran.err) == (status, True), ran.err
    assert bundle.read_bytes() == task([("a.tflite", MODEL), ("b.tflite", bytes_of("tflite/cnn"))])


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def hostile() -> list[tuple[bytes, str]]:
    """Return bundles that lie, with words of the refusal."""
    plain = task([("a", MODEL), ("b", b"x" * 100)])
    line = plain.index(b"PK\1\2")
    second = plain.index(b"PK\1\2", line + 4)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10_000_000))
    sections = litertlm([("a", 3, MODEL), ("b", 1, b"y" * 100)])
    first, other = (sections.index(struct.pack("<Q", at)) for at in (BLOCK_BYTES, 2 * BLOCK_BYTES))
    return [
        (changed(plain, line + 42, struct.pack("<I", 10**9)), "directory does not point to this member"),
        (changed(plain, line + 20, struct.pack("<II", 10**9, 10**9)), "claims more bytes than"),
        (changed(plain, second + 42, struct.pack("<I", 0)), "'b' overlaps this member"),
        (stream.getvalue(), "compressed"),
        (plain[: line + 20], "no directory"),
        (changed(sections, 24, struct.pack("<Q", 2**63)), "the header cannot end at"),
        (changed(sections, first, struct.pack("<Q", 2**62)), "outside"),
        (changed(sections, other, struct.pack("<Q", BLOCK_BYTES)), "overlaps"),
        (sections[:40], "the header cannot end at"),
    ]


@pytest.mark.parametrize(("data", "words"), hostile(), ids=[words for _, words in hostile()])
def test_an_inconsistent_bundle_is_refused_and_unchanged(data: bytes, words: str, tmp_path: Path) -> None:
    bundle, model = put(tmp_path / "bundle", data), put(tmp_path / "model.tflite", LARGER)
    ran = run("replace", f"{bundle}!a", model)
    assert (ran.status in (3, 4), words in ran.err, bundle.read_bytes() == data) == (True, True, True), ran.err
