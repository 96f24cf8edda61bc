"""What is known of sources beside their names: the table, the documents, and edits."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from zlib import crc32

import pytest

from circletools.errors import InvalidInputError, TableFormatError
from circletools.model.model import open_model
from circletools.origin.describe import describe
from circletools.origin.embed import embed, strip
from circletools.origin.exchange import origins_document, parse_csv, parse_json
from circletools.origin.read import Origins
from circletools.origin.source import DETAILS_TABLE, SourceDetails, decode_details, encode_details, relative_file
from circletools.render.origins import origins_csv, origins_json
from tests.kit.origin_support import embedded, entries, origins_of, u32s, value_of
from tests.kit.support import bytes_of, edited
from tests.kit.tracking_support import tracked

SOURCES = {3: "layers.0::add", 7: "head::linear", 9: "bare"}
ADD = SourceDetails("layers.0", "net.Block", "net.py", 12, "aten.add.Tensor")
HEAD = SourceDetails(path="head", file="net.py", line=30)
DETAILS = {7: HEAD, 3: ADD}
MLP = bytes_of("circle/mlp")
WANTED = Origins(SOURCES, entries({0: {3}, 1: {3, 7}, 2: {9}}), details=DETAILS)
TEXTS = ((0, b"aten.add.Tensor"), (0, b"net.Block"), (4, b"py"), (0, b"layers.0"), (0, b"head"))
BYTES = (
    u32s(2, len(TEXTS))
    + b"".join(bytes((shared, len(text))) + text for shared, text in TEXTS)
    + bytes((2,))
    + b"".join(
        (
            bytes((2 * 3,)), u32s(crc32(b"layers.0::add"))[:2], bytes((2 * 4, 2, 3, 2 * 12, 1, 0)),
            bytes((2 * 4,)), u32s(crc32(b"head::linear"))[:2], bytes((2 * 1, 0, 3, 2 * 18, 0, 0)),
        )
    )
)  # fmt: skip


def test_the_bytes_of_the_table() -> None:
    assert encode_details(DETAILS | {9: SourceDetails(), 10: ADD}, SOURCES) == BYTES
    assert decode_details(BYTES, SOURCES) == DETAILS
    assert encode_details({}, SOURCES) == u32s(2, 0) + bytes(1)


def test_details_of_other_sources_do_not_count() -> None:
    """Another tool may have given the id to another source, or none."""
    assert decode_details(BYTES, SOURCES | {3: "other"}) == {7: HEAD}
    assert decode_details(BYTES, {3: "layers.0::add"}) == {3: ADD}


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (u32s(1, 0) + bytes(1), 0),
        (u32s(2, 1), 8),
        (u32s(2, 1) + b"\0\5text", 10),
        (u32s(2, 1) + b"\1\4text", 10),
        (u32s(2, 0), 8),
        (u32s(2, 0) + b"\1\6", 10),
        (u32s(2, 0) + b"\1\6\0\0\2" + bytes(5), 9),
        (u32s(2, 0) + b"\1\6\0\0\0\1" + bytes(4), 9),
        (u32s(2, 0) + b"\1\6\0\0\0\0\0\1" + bytes(2), 9),
        (u32s(2, 0) + b"\2" + (b"\6" + bytes(8)) + bytes(9), 18),
        (u32s(2, 0) + b"\xff" * 5, 13),
        (BYTES + b"\0", len(BYTES)),
    ],
)
def test_malformed_tables(data: bytes, offset: int) -> None:
    with pytest.raises(TableFormatError) as caught:
        decode_details(data, SOURCES)
    assert (caught.value.location, caught.value.offset) == (DETAILS_TABLE, offset)


def test_details_are_in_the_model_and_come_out() -> None:
    data = embedded(MLP, WANTED)
    assert value_of(data, DETAILS_TABLE) == BYTES
    assert origins_of(data) == Origins(SOURCES, WANTED.operators, "main", DETAILS)
    assert edited(data, strip) == MLP
    without = Origins(SOURCES, WANTED.operators)
    assert value_of(embedded(data, without, replace=True), DETAILS_TABLE) is None
    assert (
        value_of(embedded(MLP, Origins(SOURCES, WANTED.operators, details={3: SourceDetails()})), DETAILS_TABLE)
        is None
    )


def test_details_are_in_the_documents() -> None:
    with open_model(embedded(MLP, WANTED)) as model:
        table = describe(model)
    document = origins_json(table)
    assert document["sources"][0] == {
        "id": 3, "name": "layers.0::add", "path": "layers.0", "class": "net.Block", "file": "net.py", "line": 12,
        "call": "aten.add.Tensor", "operators": document["sources"][0]["operators"],
    }  # fmt: skip
    assert list(document["sources"][2]) == ["id", "name", "operators"]
    for found in (
        parse_json(json.dumps(document)),
        parse_json(json.dumps(origins_document(WANTED))),
        parse_csv(origins_csv(table)),
    ):
        assert found == WANTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('"path": 1', "`path` must be a string"),
        ('"line": -1', "`line` must be a whole number below 2^32, not -1"),
        ('"file": "a\\u0000b"', "the name contains a NUL character: 'a\\x00b'"),
    ],
)
def test_details_that_do_not_fit_a_table(fields: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_json(f'{{"sources": [{{"id": 1, "name": "a", {fields}}}], "operators": []}}')
    assert (caught.value.message, caught.value.location) == (message, "JSON: sources[0]")


def test_details_are_tracked() -> None:
    assert tracked(embedded(MLP, WANTED), MLP).origins.details == DETAILS


def test_what_tensorflow_left_gets_into_the_table() -> None:
    data = bytes_of("tflite/debug_metadata")
    written = edited(data, lambda edit: embed(edit, replace=True))
    assert origins_of(written).details[0] == SourceDetails(call="MatMul")


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/u/nets/net.py", "nets/net.py"),
        ("/home/u2/net.py", "net.py"),
        ("nets/net.py", "nets/net.py"),
        ("C:\\nets\\net.py", "net.py"),
        ("/venv/lib/python3.11/site-packages/timm/layers/mlp.py", "timm/layers/mlp.py"),
        ("/home/u/venv/lib/python3/dist-packages/timm/x.py", "timm/x.py"),
        ("C:\\venv\\Lib\\site-packages\\timm\\x.py", "timm/x.py"),
        ("/run/ipykernel_71/902.py", "<cell 902>"),
        ("<string>", "<string>"),
        ("", ""),
    ],
)
def test_files_are_shown_without_what_one_machine_has(file: str, shown: str) -> None:
    assert relative_file(file, "/home/u") == shown
    assert relative_file(shown, "/home/u") == shown


def test_cells_are_called_as_their_notebook_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/run/ipykernel_71/902.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=files.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    shown = [relative_file(f"/run/ipykernel_71/{cell}.py", "/") for cell in (902, 903)]
    assert shown == ["<cell In[3]>", "<cell 903>"]


def test_models_contain_no_absolute_paths_by_default() -> None:
    details = SourceDetails(file="/venv/lib/python3/site-packages/timm/a.py", line=3, caller="/home/secret/net.py:4")
    data = embedded(MLP, Origins({0: "a"}, entries({0: {0}}), details={0: details}))
    assert origins_of(data).details == {0: SourceDetails(file="timm/a.py", line=3, caller="net.py:4")}
    assert b"secret" not in data
    asked = edited(data, lambda edit: embed(edit, Origins({0: "a"}, entries({0: {0}}), details={0: details}),
                                            replace=True, absolute_paths=True))  # fmt: skip
    assert origins_of(asked).details == {0: details}


def test_where_a_source_was_called() -> None:
    assert SourceDetails(file="a/net.py", line=42).place == "a/net.py:42"
    called = SourceDetails(file="timm/a.py", line=3, caller="net.py:4")
    assert called.place == "timm/a.py:3 from net.py:4"
    assert (SourceDetails(file="net.py").place, SourceDetails(path="x", line=3).place) == ("net.py", "")
