"""Capability tables as files: what is malformed, the shipped ones, and their documentation."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.capability.file import FORM_KEYS, load_capability, parse_capability, shipped_devices
from circletools.errors import InvalidInputError, UsageError
from tests.kit.support import ROOT

_CHIPS = ("ethos-u55", "ethos-u65", "ethos-u85")
_OTHERS = ("intel-npu", "litert-cpu", "litert-gpu", "onert-cpu", "onert-ruy", "openvino-cpu", "tflm", "xnnpack")
DEVICES = (*_CHIPS, *_OTHERS)
PROGRAMS = {"ai-edge-litert", "onert", "openvino", "ethos-u-vela", "tflite_micro"}


def form(**keys: Any) -> dict[str, Any]:
    return {"operators": {"ADD": [keys]}}


MALFORMED: list[tuple[Any, str, str]] = [
    ([], "t.json", "must be an object"),
    ({}, "t.json", "has no operators"),
    ({"operators": {}, "schema_version": "2"}, "schema_version", "'2' is not known"),
    ({"operators": {}, "schema_version": 2}, "schema_version", "schema_version 2 is not known"),
    ({"operators": {}, "devise": "x"}, "t.json", "did you mean 'device'?"),
    ({"operators": {}, "device": 3}, "device", "must be a string"),
    ({"operators": []}, "operators", "must be an object"),
    ({"operators": {}, "context": {}}, "context", "must be a list"),
    ({"operators": {"CONV2D": [{}]}}, "operators", "did you mean 'CONV_2D'?"),
    ({"operators": {"add": [{}]}}, "operators", "did you mean 'ADD'?"),
    ({"operators": {"AudioSpectrogram": [{}]}}, "operators", "CUSTOM: and its custom code"),
    ({"operators": {"ADD": {}}}, "operators.ADD", "must be a list of forms"),
    ({"operators": {"ADD": ["x"]}}, "operators.ADD[0]", "must be an object"),
    ({"operators": {"ADD": [{}, {"max_ranks": 4}]}}, "operators.ADD[1]", "did you mean 'max_rank'?"),
    ({"operators": {}, "measured": []}, "measured", "a nonempty list"),
    ({"operators": {}, "measured": [{"types": ["BOOL"]}]}, "measured[0].operators", "a nonempty list"),
    ({"operators": {}, "measured": [{"operators": ["ADDS"]}]}, "measured[0].operators", "did you mean 'ADD'?"),
    ({"operators": {}, "measured": [{"operators": [3]}]}, "measured[0].operators", "must be a string"),
    ({"operators": {}, "measured": [{"operators": ["ADD"], "type": 1}]}, "measured[0]", "did you mean 'types'?"),
    (form(types="FLOAT32"), "operators.ADD[0].types", "a nonempty list"),
    (form(types=[]), "operators.ADD[0].types", "a nonempty list"),
    (form(types=["FLOAT32", 3]), "operators.ADD[0].types[1]", "must be a string"),
    (form(types=["FLOAT"]), "operators.ADD[0].types[0]", "unknown type 'FLOAT'"),
    (form(types=["float32"]), "operators.ADD[0].types[0]", "did you mean 'FLOAT32'?"),
    (form(types=[""]), "operators.ADD[0].types[0]", "must name a type"),
    (form(types=["INT8 per_chanel"]), "operators.ADD[0].types[0]", "did you mean 'per_channel'?"),
    (form(types=["INT8 per_tensor per_channel"]), "operators.ADD[0].types[0]", "repeats or contradicts another word"),
    (form(types=["INT8 constant computed"]), "operators.ADD[0].types[0]", "repeats or contradicts another word"),
    (form(types=["INT8 constant constant"]), "operators.ADD[0].types[0]", "repeats or contradicts another word"),
    (form(types=["FLOAT32 per_tensor"]), "operators.ADD[0].types[0]", "tensors have no quantization"),
    (form(inputs="FLOAT32"), "operators.ADD[0].inputs", "must be a list"),
    (form(inputs=["..."]), "operators.ADD[0].inputs[0]", "repeats nothing"),
    (form(inputs=["...", "FLOAT32"]), "operators.ADD[0].inputs[0]", "unknown type '...'"),
    (form(inputs=["FLOAT32", []]), "operators.ADD[0].inputs[1]", "a nonempty list"),
    (form(outputs=[["FLOAT32", "none 3"]]), "operators.ADD[0].outputs[0]", "unknown type 'none'"),
    (form(min_rank=-1), "operators.ADD[0].min_rank", "a whole number of at least 0"),
    (form(max_rank=1.5), "operators.ADD[0].max_rank", "a whole number of at least 0"),
    (form(max_rank=True), "operators.ADD[0].max_rank", "a whole number of at least 0"),
    (form(min_rank=4, max_rank=3), "operators.ADD[0].max_rank", "nothing can match"),
    (form(min_version=0), "operators.ADD[0].min_version", "a whole number of at least 1"),
    (form(max_inputs="2"), "operators.ADD[0].max_inputs", "a whole number of at least 0"),
    (form(min_outputs=2, max_outputs=1), "operators.ADD[0].max_outputs", "nothing can match"),
    (form(static=1), "operators.ADD[0].static", "must be true, false or batch"),
    ({"operators": {}, "rules": [{"operators": ["ADD"]}]}, "rules[0]", "needs a reason, or forms in `needs`"),
    (
        {"operators": {}, "rules": [{"operators": ["ADD"], "needs": {"max_rank": "4"}}]},
        "needs[0].max_rank",
        "a whole",
    ),
    ({"operators": {}, "rules": [{"operators": [], "reason": "x"}]}, "rules[0].operators", "a nonempty list"),
    ({"operators": {}, "unread": {"RESHAPE": "1"}}, "unread.RESHAPE", "must be a whole number"),
    (form(unpacks="yes"), "operators.ADD[0].unpacks", "must be true or false"),
    (form(options=[]), "operators.ADD[0].options", "must be an object"),
    (
        form(options={"fused_activation": ["NONE"]}),
        "options.fused_activation",
        "did you mean 'fused_activation_function'?",
    ),
    (form(options={"fused_activation_function": ["RELU7"]}), "fused_activation_function[0]", "did you mean 'RELU"),
    (form(options={"fused_activation_function": [0]}), "fused_activation_function[0]", "available: NONE, RELU"),
    (form(options={"fused_activation_function": []}), "fused_activation_function", "a nonempty list"),
    (form(options={"keep_dims": ["yes"]}), "options.keep_dims[0]", "must be a number, true or false"),
    (form(options={"stride_w": {}}), "options.stride_w", "must have min or max"),
    (form(options={"stride_w": {"least": 1}}), "options.stride_w", "unknown key 'least'"),
    (form(options={"stride_w": {"min": "1"}}), "options.stride_w.min", "must be a number"),
    (form(options={"beta": [10**400]}), "options.beta[0]", "is too large"),
]


def test_what_is_malformed_is_refused_with_its_place() -> None:
    for document, place, message in MALFORMED:
        with pytest.raises(InvalidInputError) as caught:
            parse_capability(json.dumps(document).encode(), "t.json")
        assert place in str(caught.value.location)
        assert message in str(caught.value)


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
def test_what_is_no_json_is_refused(data: bytes, message: str) -> None:
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


def test_a_file_of_ones_own_is_named_after_itself_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "npu.json"
    path.write_text('{"operators": {"*": [{}]}}')
    assert load_capability(str(path)).device == str(tmp_path / "npu")
    path.write_text('{"device": "edge", "operators": {}}')
    assert load_capability(str(path)).device == "edge"


def test_the_shipped_tables_are_there_and_say_what_they_were_measured_with() -> None:
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
