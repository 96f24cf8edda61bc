"""The file that an error names, and findings as values."""

from __future__ import annotations

import pytest

from circletools.errors import CircleToolsError
from circletools.findings import Finding


def test_the_file_is_named_once() -> None:
    error = CircleToolsError("wrong", location="subgraphs[0]")
    assert not error.names_file
    error.name_file("a.circle")
    error.name_file("b.circle")
    assert (str(error), error.names_file) == ("a.circle: subgraphs[0]: wrong", True)
    error = CircleToolsError("wrong")
    error.name_file("-")
    assert str(error) == "<standard input>: wrong"
    error = CircleToolsError("wrong", location="a.circle")
    error.name_file("a.circle")
    assert (str(error), error.names_file) == ("a.circle: wrong", True)
    error = CircleToolsError("wrong", location="<standard input>")
    error.name_file("-")
    assert str(error) == "<standard input>: wrong"


def test_findings_are_values() -> None:
    one, other = (Finding("NO_SUBGRAPH", "error", "subgraphs[0]", "text") for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    with pytest.raises(AttributeError):
        one.code = "OTHER"  # type: ignore[misc]
