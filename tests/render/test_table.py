"""Tables as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from circletools.render.table import csv_text, markdown_table, number_columns, table_text

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


def test_numbers_are_told_from_text() -> None:
    assert number_columns(ROWS) == {1, 2}
    assert number_columns([["a"], ["12 ms"]]) == set()
    assert number_columns([["a"], [""], ["-"]]) == {0}


def test_markdown() -> None:
    assert list(markdown_table(ROWS)) == [
        "| name | time | count |  |",
        "| --- | ---: | ---: | --- |",
        "| a\\|b | 1,000.5 | - | slower |",
        "| long &lt;name> | -2 |  |  |",
    ]
    assert next(markdown_table([["a\\b"]])) == "| a\\\\b |"


def test_csv() -> None:
    assert csv_text(["a", "b"], [[1, None], ["x,y", 'q"'], [0.5, True]]) == 'a,b\n1,\n"x,y","q"""\n0.5,True\n'


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_any_text_is_read_back(rows: list[tuple[str, str]]) -> None:
    read = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows), newline="")))
    assert read == [["a", "b"], *map(list, rows)]
