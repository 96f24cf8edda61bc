"""JSON that others write is read strictly, and errors name the line."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import InvalidInputError
from circletools.storage.documents import Object, read_json

DOCUMENT = '{\n  "a": [{"b": 1},\n    {"c": {}}],\n  "d": 2.5\n}'


@pytest.mark.parametrize(
    "data", [DOCUMENT, DOCUMENT.encode(), DOCUMENT.encode("utf-16"), b"\xef\xbb\xbf" + DOCUMENT.encode()]
)
@pytest.mark.parametrize("lines", [False, True])
def test_the_value_is_that_of_the_standard_library(data: str | bytes, *, lines: bool) -> None:
    assert read_json(data, "x.json", lines=lines) == json.loads(DOCUMENT)


def test_objects_know_the_line_that_they_begin_in() -> None:
    document = read_json(DOCUMENT, "x.json", lines=True)
    assert isinstance(document, Object)
    found = [document, *document["a"], document["a"][1]["c"]]
    assert [value.line for value in found] == [1, 2, 3, 3]
    assert read_json(DOCUMENT, "x.json").line == 0


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "x.json:1: not JSON: Expecting value"),
        ("{\n\n,}", "x.json:3: not JSON"),
        (b"\xff\xfe\xfd", "x.json:1: not JSON"),
        ('{"a": 1, "a": 1}', "x.json:1: not JSON: the key 'a' occurs twice in one object"),
        ('[{},\n{"b": 1, "a": [\n{"c": 1,\n"c": 2}], "b": 1}]', "x.json:3: not JSON: the key 'c' occurs twice"),
        ('[{"b": 1},\n{"b": 1, "c": {},\n"b": 2}]', "x.json:2: not JSON: the key 'b' occurs twice"),
        ('{\n"a":\n{"b": NaN}}', "x.json:3: not JSON: NaN is not a JSON number"),
        ('{"a": -Infinity}', "x.json:1: not JSON: -Infinity is not a JSON number"),
        ('\n{"a": 1e999}', "x.json:2: not JSON: 1e999 is too large"),
        ("-1" + "0" * 60 + "e400", f"-1{'0' * 48} is too large"),
        ("9" * 5000, "x.json:1: not JSON"),
        ("[" * 101 + "]" * 101, "x.json:1: not JSON: arrays and objects are nested more than 100 deep"),
        ('{"a":' * 150 + "0" + "}" * 150, "nested more than 100 deep"),
        ("[" * 100_000, "nested more than 100 deep"),
        ("[" + "[]," * 600_000 + "0]", "far more arrays, objects and keys"),
        ('{"a":0,"a":0' + ',"b":1' * 1_200_000 + "}", "far more arrays, objects and keys"),
    ],
)  # fmt: skip
def test_what_is_refused(data: str | bytes, message: str, *, lines: bool) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_json(data, "x.json", lines=lines)


@pytest.mark.parametrize("lines", [False, True])
def test_what_is_just_accepted(*, lines: bool) -> None:
    deep = "[" * 50 + '{"a":' * 50 + "1e308" + "}" * 50 + "]" * 50
    assert read_json(deep, "x", lines=lines) == json.loads(deep)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda deeper: st.lists(deeper) | st.dictionaries(st.text(), deeper),
        max_leaves=20,
    )
)
def test_what_is_written_is_read(value: Any) -> None:
    for lines in (False, True):
        assert read_json(json.dumps(value, indent=1), "x", lines=lines) == value
