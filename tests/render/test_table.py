"""Tables as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from circletools.render.table import csv_text, fitted, number_columns, table_text

ROWS = [["name", "time", "count", ""], ["a|b", "1,000.5", "-", "slower"], ["long <name>", "-2", "", ""]]


def test_columns_are_two_blanks_apart() -> None:
    assert list(table_text(ROWS)) == [
        "  name         time     count",
        "  a|b          1,000.5  -      slower",
        "  long <name>  -2",
    ]


def test_columns_that_are_flush_right() -> None:
    assert list(table_text(ROWS, right=(1, 2), indent="")) == [
        "name            time  count",
        "a|b          1,000.5      -  slower",
        "long <name>       -2",
    ]
    assert list(table_text([["a", "b"], ["1", "22"]], right=(1,))) == ["  a   b", "  1  22"]


def test_a_column_is_padded_to_a_limit() -> None:
    assert list(table_text([["a", "x"], ["abcdef", "y"]], widest=3)) == ["  a    x", "  abcdef  y"]


def test_an_empty_table_has_no_lines() -> None:
    assert list(table_text([])) == []


def test_the_last_column_is_not_padded() -> None:
    assert sum(map(len, table_text([["a", "x" * 100_000], *[["b", "y"]] * 10]))) < 101_000


def test_numbers_are_distinguished_from_text() -> None:
    assert number_columns(ROWS) == {1, 2}
    assert number_columns([["a"], ["12 ms"]]) == set()
    assert number_columns([["a"], [""], ["-"]]) == {0}


def test_csv() -> None:
    assert csv_text(["a", "b"], [[1, None], ["x,y", 'q"'], [0.5, True]]) == 'a,b\n1,\n"x,y","q"""\n0.5,True\n'
    assert csv_text(["a"], [["\0"], ['\\"']]) == 'a\n\0\n"\\"""\n'


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_any_text_is_read_back(rows: list[tuple[str, str]]) -> None:
    read = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows), newline="")))
    assert read == [["a", "b"], *map(list, rows)]


def test_a_table_fits_its_screen() -> None:
    rows = [["at", "code", "name"], ["10", "CONV_2D_TRANSPOSE", "a name of a tensor"], ["2", "ADD", "b"]]
    lines = list(table_text(rows, right=(0,)))
    assert [fitted(line, 43) for line in lines] == lines
    assert max(map(len, lines)) == 43
    assert [fitted(line, 42) for line in lines] == [
        "  at  code               name",
        "  10  CONV_2D_TRANSPOSE  a name of a tens…",
        "   2  ADD                b",
    ]
    assert [fitted(line, 26) for line in lines] == [
        "  at  code       name",
        "  10  CONV_2D_…  a name o…",
        "   2  ADD        b",
    ]
    assert [fitted(line, 9) for line in lines] == ["  at  co…", "  10  CO…", "   2  AD…"]
    assert [fitted(line, 15) for line in lines] == ["  at  code  na…", "  10  CON…  a …", "   2  ADD   b"]
    two = list(table_text([["abc", "defghijklm"], ["a", "b"]], indent=""))
    assert [fitted(line, 9) for line in two] == ["abc  def…", "a    b"]
    four = list(table_text([["a", "bb", "c" * 9, "d" * 9]], indent=""))
    assert [fitted(line, 19) for line in four] == ["a  bb  cccc…  dddd…"]
    assert fitted("a line of words", 4) == "a line of words"


@given(st.lists(st.lists(st.text("ab", max_size=30), min_size=3, max_size=3), min_size=1), st.integers(24, 120))
def test_no_line_of_a_table_is_wider_than_its_screen(rows: list[list[str]], width: int) -> None:
    for line, row in zip(table_text(rows), rows, strict=True):
        shown = fitted(line, width)
        assert len(shown) <= width
        assert shown == line or max(map(len, row)) > 4 or max(len(cell) for one in rows for cell in one) > 4
        assert all(cell in shown for cell in row if len(cell) <= 4)
