"""Capability tables as files: what is malformed, the shipped ones, and their documentation."""

from __future__ import annotations

import contextlib
import json
import re
from ast import literal_eval
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.capability import file
from circletools.affinity.capability.file import FORM_KEYS, load_capability, parse_capability, shipped_devices
from circletools.errors import InvalidInputError, UsageError
from tests.kit.support import ROOT

_CHIPS = ("ethos-u55", "ethos-u65", "ethos-u85")
_OTHERS = ("intel-npu", "litert-cpu", "litert-gpu", "onert-cpu", "onert-ruy", "openvino-cpu", "tflm", "xnnpack")
DEVICES = (*_CHIPS, *_OTHERS)
PROGRAMS = {"ai-edge-litert", "onert", "openvino", "ethos-u-vela", "tflite_micro"}


def test_what_is_malformed_is_refused_with_its_place() -> None:
    for row in Path(__file__).with_name("malformed_tables.txt").read_text().splitlines():
        document, place, message = literal_eval(row)
        with pytest.raises(InvalidInputError) as caught:
            parse_capability(json.dumps(document).encode(), "t.json")
        assert place in str(caught.value.location)
        assert message in str(caught.value)


def test_a_table_has_a_limit_of_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    assert file._MOST_FORMS == 20_000
    monkeypatch.setattr(file, "_MOST_FORMS", 2)
    assert len(parse_capability(b'{"operators": {"ADD": [{}, {}]}}', "t.json").forms("ADD")) == 2
    with pytest.raises(InvalidInputError, match="exceeds the limit of 2 forms in a table"):
        parse_capability(b'{"operators": {"ADD": [{}, {}], "SUB": [{}]}}', "t.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t.json:1: not JSON"),
        (b'{\n"operators": {},,}', "t.json:2: not JSON"),
        (b'{"operators": {}, "operators": {}}', "the key 'operators' occurs twice"),
        (b'{"operators": {"ADD": [{"max_rank": NaN}]}}', "NaN is not a JSON number"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"operators": {"ADD": [{"max_rank": ' + b"9" * 5000 + b"}]}}", "not JSON"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_invalid_json_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match="not JSON") as caught:
        parse_capability(data, "t.json")
    assert message in str(caught.value)


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,ADoperts01', max_size=100).map(str.encode))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidInputError):
        parse_capability(data, "t.json")


def test_devices_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'xnnpack'\?"):
        load_capability("xnnpak")
    with pytest.raises(UsageError, match=r"a file name must end in \.json"):
        load_capability("zzz")
    with pytest.raises(InvalidInputError, match="cannot read it"):
        load_capability(str(tmp_path / "none.json"))
    with pytest.raises(InvalidInputError, match="embedded null byte"):
        load_capability("a\0b.json")


def test_a_table_file_is_named_after_itself_by_default(tmp_path: Path) -> None:
    path = tmp_path / "npu.json"
    path.write_text('{"operators": {"*": [{}]}}')
    assert load_capability(str(path)).device == str(tmp_path / "npu")
    path.write_text('{"device": "edge", "operators": {}}')
    assert load_capability(str(path)).device == "edge"


def test_the_built_in_tables_name_their_runtimes() -> None:
    assert shipped_devices() == DEVICES
    for name in DEVICES:
        table = load_capability(name)
        assert table.device == name
        assert table.runtime.split()[0] in PROGRAMS
        assert table.method
        assert table.operators


def test_options_that_are_texts_are_compared_as_texts() -> None:
    form = {"operators": {"VAR_HANDLE": [{"options": {"shared_name": ["a", "b"]}}]}}
    table = parse_capability(json.dumps(form).encode(), "table.json")
    (found,) = table.operators["VAR_HANDLE"]
    values = found.options["shared_name"]
    assert (values.text, sorted(values.names.values())) == ("a or b", ["a", "b"])
    assert all(map(values.holds, values.values))
    with pytest.raises(InvalidInputError, match="must be a string"):
        parse_capability(json.dumps(form).replace('"b"', "3").encode(), "table.json")


DOCUMENT = (ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8")


def test_the_table_of_the_document_is_accepted() -> None:
    (block,) = re.findall(r"^    (\{\n.*?^    \})$", DOCUMENT, re.MULTILINE | re.DOTALL)
    table = parse_capability(block.encode(), "npu.json")
    assert {*table.operators} == {"ADD", "CONV_2D", "CUSTOM:AudioSpectrogram"}


def test_the_document_lists_the_keys_and_the_devices() -> None:
    named = {
        word for row in re.findall(r"^\| (`.*?) \|", DOCUMENT, re.MULTILINE) for word in re.findall(r"`(\S+)`", row)
    }
    assert named >= {*FORM_KEYS, *DEVICES}


def test_the_document_has_the_scoreboard_of_every_table() -> None:
    for device in DEVICES:
        assert device == "onert-ruy" or re.search(rf"^\| `{device}` \| \d", DOCUMENT, re.MULTILINE)
