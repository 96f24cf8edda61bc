"""Indented JSON is what the standard library writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from circletool_cli.console.terminal import indented
from hypothesis import given
from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(['"},\0{"', "\0", "},{", "\n"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none(), inner)
        | st.lists(st.dictionaries(st.text(), SCALARS))
    ),
)


@given(VALUES)
def test_the_same_as_the_standard_library(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=2)
    assert indented([value], "\n  ") == json.dumps([[value]], indent=2)[4:-2]


@pytest.mark.parametrize(
    "value",
    [
        [], {}, (), [{}], [[]], [{}, {"a": 1}], [{"a": 1, "b": 2}, {"c": "},\0{"}], [{"a": 1}, {"b": []}],
        {"a": {}, "b": [1, (2,)]}, {1: {None: [2]}}, [{1: 2, None: 3}], [1, "a"], {"a\n": "b\0"}, [[{"a": 1}], [2]],
        [{"a": {}}, 1], 5,
    ],
)  # fmt: skip
def test_each_shape(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=2)
    assert indented([value], "\n  ") == json.dumps([[value]], indent=2)[4:-2]
