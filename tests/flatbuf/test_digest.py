"""Digests of tables: equal for tables that say the same, wherever they lie, and else different."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from hashlib import blake2b

import pytest

from circletools.flatbuf.digest import Digests, digest
from circletools.flatbuf.schema import Field
from circletools.flatbuf.tables import OldTables
from circletools.flatbuf.writer import Writer
from tests.kit.build import Raw, Table
from tests.kit.every_field import every_field, reader
from tests.kit.objects import file_of, wire_of
from tests.kit.support import bytes_of, put

every_field = cache(every_field)
Instead = Callable[[str, Field, bytes], bytes | None]


def digest_of(data: bytes, left_out: Container[tuple[str, str]] = (), instead: Instead = lambda *_: None) -> bytes:
    wire, schema, root = wire_of(data)
    digests = Digests(wire, schema, left_out, instead)
    assert digests.table("Model", root) == digests.table("Model", root)
    return digests.table("Model", root)


def test_the_digest_is_that_of_the_parts_with_their_lengths() -> None:
    expected = blake2b(b"\3" + bytes(7) + b"abc" + bytes(8) + b"\1" + bytes(7) + b"d", digest_size=16).digest()
    assert digest(b"abc", b"", memoryview(b"d")) == expected
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_what_a_digest_is_made_of() -> None:
    """A slot and a value for each field that is written and no default."""
    data = file_of(Table("Model", version=3, description="text", metadata_buffer=[1]))
    assert digest_of(data) == digest(b"\0\0", b"\3\0\0\0", b"\3\0", b"text", b"\5\0", b"\1\0\0\0")
    data = file_of(Table("Model", version=3, buffers=[Table("Buffer"), Table("Buffer", data=b"ab")]))
    buffers = digest() + digest(b"\0\0", b"ab")
    assert digest_of(data) == digest(b"\0\0", b"\3\0\0\0", b"\4\0", buffers)


@pytest.mark.parametrize("name", ["circle", "tflite"])
def test_positions_in_the_file_do_not_count(name: str) -> None:
    data = every_field(name)
    wire, schema, root = wire_of(data)
    old = OldTables(wire, schema)
    small = b"".join(
        part if isinstance(part, bytes) else data[slice(*part)]
        for part in Writer(old).write(old.copy(schema.root, root))
    )
    assert small != data
    assert digest_of(small) == digest_of(data)


@pytest.mark.parametrize("name", ["tflite/if_cond", "circle/quantized_linear", "tflite/two_signatures"])
def test_every_number_counts(name: str) -> None:
    data = bytes_of(name)
    schema, whole = wire_of(data)[1], digest_of(data)
    for path, (owner, item, at, length) in reader(data).numbers.items():
        codes = {other.type_slot for other in schema.tables[owner].fields if other.kind == "union"}
        if length and item.slot not in codes:
            place = at + length * item.dtype.itemsize - 1
            changed = digest_of(put(data, place, bytes([data[place] ^ 1])))
            assert changed != whole or (item.deprecated and changed == whole), path


def test_a_written_default_is_as_none() -> None:
    raw = Raw()
    assert digest_of(raw.finish(raw.table({0: ("u32", 0)}))) == digest_of(file_of(Table("Model")))


def test_fields_that_are_left_out_deprecated_or_unknown_do_not_count() -> None:
    plain = Table("Model", version=3, subgraphs=[Table("SubGraph", name="a")])
    named = Table("Model", version=3, subgraphs=[Table("SubGraph", name="b")], description="text")
    assert digest_of(file_of(plain)) != digest_of(file_of(named))
    left_out = {("Model", "description"), ("SubGraph", "name")}
    assert digest_of(file_of(plain), left_out) == digest_of(file_of(named), left_out)
    assert digest_of(file_of(plain, unknown={"SubGraph": (30, b"new")})) == digest_of(file_of(plain))
    raw = Raw()
    signature = raw.table({2: raw.string(b"key"), 3: raw.string(b"tag")})
    tagged = raw.finish(raw.table({7: raw.refs([signature])}))
    assert digest_of(tagged) == digest_of(
        file_of(Table("Model", signature_defs=[Table("SignatureDef", signature_key="key")]))
    )


def test_a_number_is_replaced_by_another_value() -> None:
    seen: list[tuple[str, str, bytes]] = []

    def instead(owner: str, item: Field, raw: bytes) -> bytes | None:
        seen.append((owner, item.name, raw))
        return b"same" if item.name in ("version", "metadata_buffer") else None

    first = file_of(Table("Model", version=3, metadata_buffer=[1], description="text"))
    second = file_of(Table("Model", version=4, metadata_buffer=[2, 3], description="text"))
    assert digest_of(first, (), instead) == digest_of(second, (), instead)
    assert seen[:3] == [
        ("Model", "version", b"\3\0\0\0"),
        ("Model", "description", b"text"),
        ("Model", "metadata_buffer", b"\1\0\0\0"),
    ]
    assert digest_of(first, (), instead) == digest(b"\0\0", b"same", b"\3\0", b"text", b"\5\0", b"same")


def test_members_of_unions() -> None:
    def model(options: Table | None) -> bytes:
        operators = [Table("Operator", builtin_options=options)]
        return digest_of(file_of(Table("Model", subgraphs=[Table("SubGraph", operators=operators)])))

    models = [None, Table("SoftmaxOptions", beta=2.0), Table("SoftmaxOptions", beta=3.0), Table("AddOptions")]
    assert len({model(one) for one in models}) == len(models)


def test_an_unknown_member_and_one_without_a_code_do_not_count() -> None:
    def model(fields: dict[int, int | tuple[str, int]], *, member: bool) -> bytes:
        raw = Raw()
        operator = raw.table({**fields, **({4: raw.table({0: ("i32", 7)})} if member else {})})
        return digest_of(raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([operator])})])})))

    assert model({3: ("u8", 250)}, member=True) == model({3: ("u8", 250)}, member=False)
    assert model({}, member=True) == model({}, member=False) == model({3: ("u8", 0)}, member=True)
