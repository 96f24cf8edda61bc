"""Numbers as they are written."""

from __future__ import annotations

from circletools.render.trace_tables import trace_text
from circletools.render.traces import trace_json
from circletools.wording import SCHEMA_VERSION, Word, counted, microseconds, milliseconds
from tests.kit.trace_support import (
    read,
)


def test_numbers_in_text() -> None:
    found = trace_json(read("10 T1 B [NN_LA_PE]e\n10 T1 B [NN_LR_PE]r\n30 T1 E\n30 T1 E"))
    rows = [line.split() for line in trace_text(found)]
    assert ["Application", "self", "-", "-"] in rows
    assert ["inclusive", "0.020"] in rows
    assert (milliseconds(-400), microseconds(-400), microseconds(1_234_567)) == ("0.000", "-0.400", "1234.567")
    assert found["schema_version"] == SCHEMA_VERSION == 1
    assert (counted(1, "run"), counted(2000, "run")) == ("1 run", "2,000 runs")


def test_a_word_is_written_as_its_value() -> None:
    class Kind(Word):
        ONE = "the first"

    assert (str(Kind.ONE), f"{Kind.ONE:>10}", Kind("the first")) == ("the first", " the first", Kind.ONE)
