"""Statements that a model is another one but for named parts, and the program of its own that checks them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from flatbuffers import flexbuffers

from circletools.errors import ModelFormatError, UsageError
from circletools.model.digests import Attestation, attest, content_digests
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.render.digests import attestation_text
from circletools.render.table import document_json
from tests.kit.build import Build, Code, Table
from tests.kit.outside import PLACES, outside
from tests.kit.support import ROOT, bytes_of, edited, own_models, title


def stated(old: bytes, new: bytes) -> Attestation:
    with open_model(old) as before, open_model(new) as after:
        return attest(before, after)


def checked(folder: Path, statement: object, old: bytes, new: bytes) -> tuple[int, list[str]]:
    """Run the program of docs without anything of circletools."""
    paths = [folder / name for name in ("statement.json", "old", "new")]
    for path, data in zip(paths, (json.dumps(statement).encode(), old, new), strict=True):
        path.write_bytes(data)
    program = [sys.executable, str(ROOT / "docs" / "attest.py"), *map(str, paths)]
    ran = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert not ran.stderr
    return ran.returncode, ran.stdout.splitlines()


def test_what_changed_is_named() -> None:
    old = bytes_of("circle/diamond")
    new = edited(old, embed)
    found = stated(old, new)
    assert [change.part for change in found.changes] == [
        f"metadata[{name}]" for name in ("CIRCLETOOLS_stamp", "ONE_op_table", "ONE_source_table")
    ]
    assert all(change.before is None and change.after for change in found.changes)
    with open_model(old) as model:
        digests = content_digests(model)
    assert (found.before, found.equal_parts, found.format) == (digests.digest, len(digests.parts), "circle")
    assert list(attestation_text(found))[-1] == f"{len(digests.parts)} parts equal, 3 not"
    back = stated(new, old)
    assert [line.split()[0] for line in attestation_text(back)][:3] == ["removed"] * 3
    assert (back.after, back.before) == (found.before, found.after)


def test_a_part_that_differs() -> None:
    old = outside(PLACES)
    new = bytearray(old)
    new[(1 << 13)] ^= 1
    (change,) = stated(old, bytes(new)).changes
    assert change.before != change.after
    assert next(iter(attestation_text(stated(old, bytes(new))))) == f"changed  {change.part}"
    assert stated(old, old).changes == ()


def noted_models(*names: str | None) -> bytes:
    build = Build()
    build.graph().tensor("x")
    for number, name in enumerate(names):
        build.metadata(name, b"%d" % number)
    return build.to_bytes()


def compiled(program: bytes, **more: object) -> bytes:
    """Return a model with a compiled program behind it, to which its custom options refer."""
    build = Build()
    graph = build.graph()
    operator = graph.operator(Code("CUSTOM", 1, "c"), [graph.tensor("x")], [graph.tensor("y")])
    referring = bytes(flexbuffers.Dumps({"bytecode_offset": 1 << 17, "bytecode_size": len(program), **more}))
    operator.custom_options = referring
    return build.to_bytes().ljust(1 << 17, b"-") + program


def placed(buffer: int, inside: bytes | None) -> bytes:
    """Return a model with equal data in three buffers, one of which a tensor has; the last also lies outside."""
    build = Build()
    build.graph().tensor("x", (4,), "INT8", buffer=buffer)
    build.model.buffers = [Table("Buffer", data=b"data"), Table("Buffer", data=b"data")]
    build.model.buffers.append(Table("Buffer", data=inside, offset=1 << 12, size=4))
    return build.to_bytes().ljust(1 << 12, b"-") + b"data"


def noted(**value: object) -> bytes:
    """Return a model with a metadata entry; `note` is in the file, outside the flatbuffer too."""
    build = Build()
    build.metadata("a", b"")
    build.model.buffers[-1] = Table("Buffer", **value)
    return build.to_bytes().ljust(1 << 12, b"-") + b"note"


def stored(buffer: int, *data: bytes | None, **more: int) -> bytes:
    """Return a model with these data in its buffers, one of which a tensor has."""
    build = Build()
    build.graph().tensor("x", (4,), "INT8", buffer=buffer)
    build.model.buffers = [Table("Buffer", data=one, **more) for one in data]
    return build.to_bytes()


def bare(*codes: Table, named: list[int] | None = None, **vectors: object) -> bytes:
    build = Build()
    build.model.operator_codes, build.model.metadata_buffer = [*codes], named
    build.model.subgraphs.append(Table("SubGraph", **vectors))
    return build.to_bytes()


def behind(offset: int, size: int) -> bytes:
    """Return a model whose custom options hold the position of what they refer to twice, or end behind the file."""
    build = Build()
    graph = build.graph()
    operator = graph.operator(Code("CUSTOM", 1, "c"), [graph.tensor("x")], [graph.tensor("y")])
    operator.large_custom_options_offset, operator.large_custom_options_size = offset, size
    return build.to_bytes().ljust(2048, b"-")


ZIPPED = bytes_of("tflite/zip_tail")
POSITION = (1 << 17).to_bytes(8, "little")
FORGED = {
    "a program behind long options": (compiled(b"a", pad="x" * 70_000), compiled(b"b", pad="x" * 70_000)),
    "a value equal to the position": (compiled(b"a", x=POSITION), compiled(b"a", x=bytes(8))),
    "data in buffer 0": (placed(1, b"old"), placed(0, b"old")),
    "a byte of a file in the archive": (ZIPPED, ZIPPED.replace(b"green", b"Green")),
    "an empty list of operators": (bare(tensors=[], operators=[]), bare(tensors=[])),
    "an absent name": (noted_models(""), noted_models(None)),
    "data inside and outside": (placed(2, b"old"), placed(2, b"new")),
    "metadata outside": (noted(data=b"note"), noted(offset=1 << 12, size=4)),
    "an empty vector beside data outside": (placed(2, None), placed(2, b"")),
    "an empty vector": (stored(1, None, None), stored(1, None, b"")),
    "empty large options": (behind(0, 0), behind(2, 0)),
    "empty data outside": (stored(1, None, None), stored(1, None, None, offset=100, size=0)),
    "an empty vector in buffer 0": (stored(0, None), stored(0, b"")),
    "no buffer for metadata, and an unused ADD": (bare(named=[9]), bare(Table("OperatorCode"))),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_statements_are_detected(tmp_path: Path, name: str) -> None:
    old, new = FORGED[name]
    assert (count := len(stated(old, new).changes))
    assert checked(tmp_path, document_json(stated(old, new)), old, new) == (0, [f"as stated; changes: {count}"])
    other = new[:4] + b"CIR0" + new[8:]
    assert "not as stated: the formats" in checked(tmp_path, document_json(stated(new, new)), new, other)[1]


def test_what_would_fool_a_statement() -> None:
    ways = [("n", "n"), ("n", "n#2"), ("n#2", "n", "n"), ("n#2", "n", "n#2"), ("n##2", "n"), ("n", "n##2")]
    wholes = [stated(noted_models(*names), noted_models()).before for names in ways]
    assert len(set(wholes)) == len(ways)
    build = Build()
    build.graph().tensor("x", buffer=9)
    sound = Build()
    sound.graph().tensor("x")
    assert [one.part for one in stated(sound.to_bytes(), build.to_bytes()).changes] == ["subgraphs[0].tensors[0]"]
    assert not stated(behind(1024, 1024), behind(1024, 1024)).changes
    with pytest.raises(ModelFormatError, match="outside the file"):
        stated(behind(1024, 1024), behind(1024, 4096))


def test_a_statement_with_false_claims(tmp_path: Path) -> None:
    old = bytes_of("circle/diamond")
    new = edited(old, embed)
    claims = document_json(stated(old, new))
    more = {**claims, "changes": [{**claims["changes"][0], "after": "0" * 32}, *claims["changes"]]}
    for wrong in (more, {**claims, "equal_parts": 99}):
        assert checked(tmp_path, wrong, old, new) == (1, ["not as stated: the number of parts"])
    source = {"digest": {"sha256": hashlib.sha256(old).hexdigest()}, "verdict": "harmless"}
    for key, value in (
        ("verdict", "harmless"),
        ("changes", [{**more["changes"][1], "kind": "none"}]),
        ("from", source),
    ):
        with pytest.raises(AssertionError, match=r"more, or less, than this program checks|about these files"):
            checked(tmp_path, {**claims, key: value}, old, new)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one model is circle, the other tflite"):
        stated(bytes_of("circle/cnn"), bytes_of("tflite/cnn"))
    claims = document_json(stated(ZIPPED, ZIPPED))
    text = bytes_of("tflite/custom_op").replace(b"Spectrogram\0", b"Spectrogram!")
    again = ZIPPED[:-2] + b"\x16\0PK\5\6" + bytes(18)
    prefixed = bytes_of("tflite/cnn") + ZIPPED[ZIPPED.index(b"PK\3\4") :]
    for new in (ZIPPED[:-2] + b"\4\0PK\6\7", ZIPPED + b"PK\6\7", text, again, ZIPPED + bytes(65_513), prefixed):
        with pytest.raises(ModelFormatError, match=r"ZIP64|no NUL|is empty|minizip|are not relative"):
            stated(ZIPPED, new)
        with pytest.raises(
            AssertionError, match=r"ZIP64|without its final NUL|second end record|minizip|contradicts"
        ):
            checked(tmp_path, claims, ZIPPED, new)


@pytest.mark.parametrize("path", [*own_models()[::5], None], ids=lambda path: title(path) if path else "outside")
def test_a_program_of_its_own_agrees(path: Path | None, tmp_path: Path) -> None:
    old = path.read_bytes() if path else outside(PLACES)
    new = edited(old, lambda edit: edit.set_metadata("a note", b"value"))
    statement = document_json(stated(old, new))
    assert checked(tmp_path, statement, old, new) == (0, ["as stated; changes: 1"])


def test_the_program_finds_what_is_not_as_stated(tmp_path: Path) -> None:
    old = bytes_of("circle/diamond")
    new = edited(old, embed)
    statement = document_json(stated(old, new))
    changes = statement["changes"]
    assert isinstance(changes, list)
    silent = statement | {"changes": changes[1:]}
    assert checked(tmp_path, silent, old, new) == (1, ["not as stated: metadata[CIRCLETOOLS_stamp]"])
    more = statement | {"changes": [*changes, {"part": "\nas stated\x1b[2K", "before": "00", "after": "01"}]}
    assert checked(tmp_path, more, old, new) == (1, [r"not as stated: \nas stated\x1b[2K"])
    other = edited(new, lambda edit: edit.set_metadata("a note", b"value"))
    status, lines = checked(tmp_path, statement, old, other)
    assert status == 1
    assert lines == ["not as stated: metadata[a note]", "not as stated: the digests of the models"]


def test_a_statement_of_in_toto_names_both_files_by_what_is_in_them(tmp_path: Path) -> None:
    old, new = tmp_path / "old.circle", tmp_path / "new.circle"
    old.write_bytes(bytes_of("circle/diamond"))
    new.write_bytes(edited(old.read_bytes(), embed))
    tool, words = Path(sys.executable).with_name("circletool"), ("diff", "--attest", "--format", "in-toto")
    statement = json.loads(subprocess.run([tool, *words, old, new], capture_output=True, check=True).stdout)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (old, new)]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "new.circle", "digest": {"sha256": digests[1]}}]
    assert statement["predicate"]["from"] == {"name": "old.circle", "digest": {"sha256": digests[0]}}
    texts = [checked(tmp_path, x, old.read_bytes(), new.read_bytes()) for x in (statement, statement["predicate"])]
    assert texts == [(0, ["as stated; changes: 3"])] * 2
