"""`.part` files for circle-partitioner: what is written is what its reader makes of it, and ours too."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.documents import PartFile, format_part, parse_part
from circletools.affinity.exports.export import part_file
from circletools.affinity.exports.pictures import current_affinity
from circletools.errors import EditError, InvalidInputError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.exports_support import alternating, named, with_affinity
from tests.kit.support import own_models, title


def parted(data: bytes) -> PartFile:
    with open_model(data) as model:
        return part_file(model_graph(model), current_affinity(model_graph(model)))


# The rules of ONE's compiler/crew/src/PConfigIni.cpp and compiler/circle-partitioner/src/PartitionRead.cpp, retold.
def as_one_reads(text: bytes) -> dict[str, dict[bytes, bytes]]:
    sections: dict[str, dict[bytes, bytes]] = {}
    section: dict[bytes, bytes] = {}
    for line in re.split(b"[\r\n]+", text.split(b"\0")[0]):
        if line[:1] == b"[":
            section = sections.setdefault(line[1 : line.index(b"]")].decode(), {})
        elif line and line[:1] not in (b"#", b";"):
            key, _, value = line.partition(b"=")
            while b"\\;" in key:
                key = key.replace(b"\\;", b";", 1)
            section.setdefault(key, value)
    return sections


BACKENDS = st.text(st.characters(blacklist_characters=",/\r\n\0", blacklist_categories=["Cs"]), min_size=1)
NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])) | st.sampled_from(
    ["", "_", ";a", "a;b", "\\;", "\\\\;", "[a", "#a", "a=b", "\u0085", "\u2028", " a ", "a]"]
)


@given(st.lists(BACKENDS, min_size=1, unique=True), st.lists(NAMES), st.data())
def test_part_files_survive(backends: list[str], names: list[str], data: st.DataObject) -> None:
    def backend() -> str:
        return data.draw(st.sampled_from(backends))

    rules = {name: (backend(), 0) for name in names}
    part = PartFile(tuple(backends), backend(), data.draw(st.sampled_from(["opname", "opcode"])), {}, rules)
    no_room = [name for name in names if re.search(r"\A\Z|\A_\Z|\A[\[#]|[=\r\n]|\\;", name)]
    if no_room:
        with pytest.raises(EditError, match=re.escape(repr(no_room[0]))):
            format_part(part)
        return
    text = format_part(part)
    again = parse_part(text, "x.part")
    assert {name: backend for name, (backend, _) in again.opnames.items()} == {
        name: backend for name, (backend, _) in rules.items()
    }
    assert (again.backends, again.default, again.comply) == (part.backends, part.default, part.comply)
    lines = text.split("\n")
    assert all(lines[line - 1].endswith(f"={backend}") for backend, line in again.opnames.values())
    sections = as_one_reads(text.encode())
    assert sections["partition"][b"backends"].decode().split(",") == backends
    assert {key.decode(): value.decode() for key, value in sections.get("OPNAME", {}).items()} == {
        name: backend for name, (backend, _) in rules.items()
    }


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_the_partitioner_gets_each_operator(path: Path) -> None:
    data = alternating(path.read_bytes(), "cpu", "npu")
    refused = {"only_input": "names no device", "hashtable": "has no name", "variable": "has no name"}
    if path.stem in refused:
        with pytest.raises(EditError, match=refused[path.stem]):
            parted(data)
        return
    part = parse_part(format_part(parted(data)), "x.part")
    rules = as_one_reads(format_part(parted(data)).encode("utf-8", "surrogateescape"))["OPNAME"]
    with open_model(data) as model:
        for index, outputs in enumerate(model.output_names(0)):
            assert rules[outputs[0]] == [b"cpu", b"npu"][index % 2]
    assert part.comply == "opname"


def test_a_part_file_of_their_own() -> None:
    text = "[partition]\nbackends=cpu,acl_cl\ndefault=cpu\ncomply=opcode\n\n[OPCODE]\n_=acl_cl\n# DIV=cpu\nSUB=cpu\n"
    expected = PartFile(("cpu", "acl_cl"), "acl_cl", "opcode", {"SUB": ("cpu", 9)}, {})
    assert parse_part(text, "x.part") == parse_part(text.replace("\n", "\r\n"), "x.part") == expected


@given(st.text("[]=;#\\_\n\r\0abcdefilmnoprtuy,OPNAMECDE"))
def test_any_text_is_a_part_file_or_an_error(text: str) -> None:
    for whole in (text, "[partition]\nbackends=a\ndefault=a\ncomply=opcode\n" + text):
        with suppress(InvalidInputError):
            parse_part(whole, "x.part")


def test_a_long_line_takes_no_longer() -> None:
    head = "[partition]\nbackends=a\ndefault=a\ncomply=opname\n[OPNAME]\n"
    slashes = "\\" * 1_000_000
    assert set(parse_part(f"{head}{slashes};x=a\n{slashes}=a", "x.part").opnames) == {";x", slashes}
    for much, message in ((slashes, "contains no ="), ("=" * 1_000_000, "x.part: the text has far more lines")):
        with pytest.raises(InvalidInputError, match=message) as caught:
            parse_part(head + much, "x.part")
        assert len(str(caught.value)) < 200


def test_operators_of_one_name_may_share_a_device() -> None:
    assert parted(with_affinity(named("a", "a"), ["cpu", "cpu"])).opnames == {"a": ("cpu", 0)}


@pytest.mark.parametrize(("text", "trimmed"), [
    ("[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opname\n[OPNAME]\na=npu\n", False),
    ("[partition]\nbackends = cpu, npu\ndefault = cpu\ncomply = opname\n[OPNAME]\na = npu\n", True),
    (" [partition]\n\tbackends=cpu ,npu\ndefault=cpu \ncomply=opname\n[OPNAME]\n  a\t=npu  \n", True),
])  # fmt: skip
def test_blanks_around_names_are_taken_away_where_it_makes_no_sense_otherwise(text: str, trimmed: bool) -> None:
    found = parse_part(text, "x.part")
    assert (found.backends, found.default, found.comply) == (("cpu", "npu"), "cpu", "opname")
    assert {name: backend for name, (backend, _) in found.opnames.items()} == {"a": "npu"}
    assert found.trimmed is trimmed


def test_blanks_that_are_part_of_a_name_stay() -> None:
    text = "[partition]\nbackends=cpu, npu\ndefault=cpu\ncomply=opname\n[OPNAME]\na = npu\n"
    found = parse_part(text, "x.part")
    assert (found.backends, found.trimmed) == (("cpu", " npu"), False)
    assert found.opnames == {"a ": (" npu", 6)}
