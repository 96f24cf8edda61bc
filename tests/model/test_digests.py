"""Digests of contents: equal for equal contents, different for each part that differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.edit.compact import compact_parts
from circletools.errors import ModelFormatError
from circletools.flatbuf.digest import digest
from circletools.model.digests import ContentDigests, content_digests
from circletools.model.model import open_model
from circletools.storage.files import view
from tests.kit.build import Build, Graph, Packer, Shared, Table, schema_of
from tests.kit.outside import PLACES, outside
from tests.kit.support import EXTERNAL, bytes_of, edited, own_models, packed, put, title, unpacked

PART = "subgraphs[0]."


def digests(data: bytes) -> ContentDigests:
    with open_model(data) as model:
        return content_digests(model)


def built(name: str = "x", value: bytes = b"\1\2\3\4", unused: bool = False) -> Build:
    build = Build("text")
    if unused:
        build.buffer(b"nobody")
        build.code("SUB")
    graph: Graph = build.graph()
    x = graph.tensor(name, (1,))
    constant = graph.tensor("c", (1,), data=value)
    graph.ends([x], [graph.compute("ADD", [x, constant], "y", (1,))])
    build.signature("run", [("in", x)], [("out", 2)])
    build.metadata("note", b"one")
    build.metadata("note", b"two")
    return build


def changed(other: bytes) -> set[str]:
    old, new = digests(built().to_bytes()), digests(other)
    assert (old.digest == new.digest) == (old.parts == new.parts)
    return {part for part in {*old.parts, *new.parts} if old.parts.get(part) != new.parts.get(part)}


def test_an_archive_that_was_joined_by_position() -> None:
    with pytest.raises(ModelFormatError, match="offsets are not relative to the start of the file"):
        digests(bytes_of("tflite/zip_tail_joined"))


@pytest.mark.parametrize("path", [one for one in own_models() if title(one) != "tflite/zip_tail_joined"], ids=title)
def test_a_model_compacted_edited_or_packed_again_has_its_digests(path: Path) -> None:
    data = path.read_bytes()
    found = digests(data)
    with open_model(data) as model:
        assert digests(b"".join(map(view, compact_parts(model)))) == found
    assert found.format == path.suffix[1:]
    noted = digests(edited(data, lambda edit: edit.set_metadata("a note", b"value")))
    assert {part: value for part, value in noted.parts.items() if part != "metadata[a note]"} == found.parts
    # The object API loses what lies behind.
    if title(path) not in EXTERNAL and not title(path).startswith("tflite/zip_tail"):
        assert digests(packed(unpacked(data), data[4:8])) == found


def test_the_parts() -> None:
    found = digests(built().to_bytes())
    assert list(found.parts) == [
        "model",
        "subgraphs[0]",
        *(f"{PART}tensors[{index}]" for index in range(3)),
        f"{PART}operators[0]",
        "signatures[0]",
        "metadata[note]",
        "metadata[note#2]",
    ]
    assert found.parts["metadata[note]"] == digest(b"one").hex()
    assert len({*found.parts.values()}) == len(found.parts)
    pieces = [piece for name, value in sorted(found.parts.items()) for piece in (name.encode(), bytes.fromhex(value))]
    assert found.digest == digest(*pieces).hex()


def test_what_each_part_covers() -> None:
    assert changed(built(unused=True).to_bytes()) == {"model"}  # a runtime may refuse unused operator codes too
    assert changed(built("z").to_bytes()) == {f"{PART}tensors[0]"}
    assert changed(built(value=b"\1\2\3\5").to_bytes()) == {f"{PART}tensors[1]"}
    build = built()
    build.model.metadata_buffer = [2]
    assert changed(build.to_bytes()) == {"model"}
    build.model.buffers.insert(1, Table("Buffer"))  # all behind it get other numbers
    for table in (*build.model.subgraphs[0].tensors, *build.model.metadata):
        table.buffer = (table.buffer or 0) and table.buffer + 1
    build.model.metadata_buffer = None
    assert changed(build.to_bytes()) == set()
    build = built()
    build.model.operator_codes[0].version = 2
    assert changed(build.to_bytes()) == {f"{PART}operators[0]"}
    build = built()
    build.model.subgraphs[0].outputs = [1]
    build.model.signature_defs = []
    build.model.metadata[1].name = "other"
    build.model.description = "text"
    assert changed(build.to_bytes()) == {"subgraphs[0]", "signatures[0]", "metadata[note#2]", "metadata[other]"}


def test_external_data_is_compared_by_bytes_not_by_position() -> None:
    """Buffers, large custom options and a compiled program."""
    data = outside(PLACES)
    found = digests(data)
    program = "subgraphs[1].operators[4]"
    assert found.parts[program] == "52363b6f775c80e5f9b4549731fc982a"  # as docs/attest.py has it too
    moved = edited(data, lambda edit: edit.set_metadata("a note", b"value"))
    assert {part: value for part, value in digests(moved).parts.items() if "note" not in part} == found.parts
    for name, (start, _) in PLACES.items():
        flipped = bytearray(data)
        flipped[(1 << 13) + start] ^= 1
        other = digests(bytes(flipped)).parts
        differing = [part for part in found.parts if found.parts[part] != other[part]]
        kind = "operators" if name in ("options", "program") else "tensors"
        assert [kind in part for part in differing] == [True], (name, differing)


def test_what_the_schema_does_not_know_is_refused() -> None:
    build = built()
    packer = Packer(schema_of("tflite"), {"Tensor": (40, b"new")})
    with pytest.raises(
        ModelFormatError, match="a table of type Tensor has a field that the tflite schema does not know"
    ):
        digests(packer.finish(packer.write(build.model), b"TFL3"))
    data = build.to_bytes()
    with open_model(data) as model:
        tables = model.operator_columns.tables
        at = int(tables.slot_positions(tables.field("builtin_options_type").slot)[0])
    with pytest.raises(ModelFormatError, match="a table of type Operator has a member of builtin_options that"):
        digests(put(data, at, b"\xfa"))


def test_codes_and_data_that_do_not_exist() -> None:
    build = built()
    build.model.subgraphs[0].operators[0].opcode_index = 1
    with pytest.raises(ModelFormatError, match="operator code 1 does not exist"):
        digests(build.to_bytes())
    build = built()
    build.model.buffers[1].offset, build.model.buffers[1].size = 64, 1 << 40
    with pytest.raises(ModelFormatError, match="outside the file"):
        digests(build.to_bytes())
    build = built()
    build.model.metadata_buffer = [-1, 9]
    nothing = digests(build.to_bytes()).parts["model"]
    build.model.buffers[0].data = b"something"
    assert digests(build.to_bytes()).parts["model"] == nothing
    build.model.metadata_buffer = [-1, 0]
    assert digests(build.to_bytes()).parts["model"] != nothing
    build = built()
    build.model.metadata[0].buffer = 9
    assert digests(build.to_bytes()).parts["metadata[note]"] == digest(digest(), b"", b"").hex()


def test_what_is_shared_is_charged_and_read_once() -> None:
    build, data = Build(), Shared(bytes(1 << 20))
    graph = build.graph()
    for _ in range(100):
        build.model.buffers.append(Table("Buffer", data=data))
        shared = len(build.model.buffers) - 1
        graph.tensor("x", (1 << 20,), "INT8", buffer=shared)
    assert len(digests(build.to_bytes()).parts) == 102
    inputs, code = Shared([0] * 100_000), build.code("ADD")
    graph.table.operators = [Table("Operator", opcode_index=code, inputs=inputs) for _ in range(100)]
    with pytest.raises(ModelFormatError, match="all uses"):
        digests(build.to_bytes())
