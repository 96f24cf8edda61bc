"""Logs of TFLite Micro's profiler."""

from __future__ import annotations

import pytest

import circletools as ct
from circletools.errors import InvalidInputError
from circletools.profile.attribution import Attribution
from tests.kit.support import path_of

CODES = ("CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX")
SET_UP = "InitializeKeywordRunner took 405 ticks (0 ms).\r\n\r\nRun(1) took 5600000 ticks (5600 ms)\n"
TOTALS = '"Unique Tag","Total ticks across all events with that tag."\ntflite::GetModel, 4\nADD, 5\nMUL, 15\n'


def log(first: int, *codes: str, prefix: str = "") -> str:
    """Return the lines for operators that take `first` ticks, one more, and so on, of a clock of 1 MHz."""
    rows = enumerate(codes or CODES, first)
    return "".join(f"{prefix}{code} took {ticks} ticks ({ticks // 1000} ms).\r\n" for ticks, code in rows)


def table(first: int) -> str:
    return '"Event","Tag","Ticks"\n' + "".join(f"{at},{code},{first + at}\n" for at, code in enumerate(CODES))


def attributed(text: str) -> Attribution:
    with ct.open(path_of("tflite/cnn_int8")) as model:
        return ct.attribute(model, ct.read_profile(text.encode(), ticks=True))


@pytest.mark.parametrize("prefix", ["", "12:00:01.250 -> ", "I (1532) tflm: ", "[APP] "])
def test_executions_of_a_model(prefix: str) -> None:
    one, two = log(800_000, prefix=prefix), log(900_000, prefix=prefix)
    for text, left in (
        (one + "score: 3\n" + two, 0),
        (one + two, 0),  # the events were not cleared
        (one + "score: 3\n" + one + two, 0),
        (one + "-\n" + two + "-\n" + log(7, "CONV_2D", "ADD"), 2),
    ):
        found = attributed(SET_UP + text)
        assert (found.runtime, found.unit, found.executions, found.incomplete) == ("tflm", "ns", 2, left)
        for at, row in enumerate(found.operators):
            assert row.time
            assert row.time.total_ns == pytest.approx((1_700_000 + 2 * at) * 1000, rel=1e-3)
        assert [name for name, *_ in found.whole.others] == ["InitializeKeywordRunner", "Run(1)"]
        assert any("not in the model's order (left out): 2" in note.message for note in found.notes) == (left > 0)
    cut = log(5, *CODES[:3], prefix=prefix) + "wifi: ready\n" + log(8, *CODES[3:], prefix=prefix)
    assert [row.time and row.time.total_ns for row in attributed(cut).operators] == [*range(5, 12)]


def test_ticks_of_an_unknown_clock() -> None:
    found = attributed(table(50) + "Perf counters off\n" + table(70))
    assert (found.unit, found.executions, found.total_ns) == ("ticks", 2, 882)
    text = list(ct.render.attribution_text(found))
    assert text[0] == "tflm: 2 executions, 882 ticks in all, median 441 ticks; 7 of 7 operators timed"
    assert text[1] == "  clock         the length of a tick is unknown; times are in ticks"
    assert "median_ticks" in text[5]
    assert "total_ticks" in ct.render.attribution_csv(found)
    assert ct.render.attribution_json(found)["unit"] == "ticks"
    headed = "Run(1) took 31 ticks (0 ms)\n" + log(1) + "Run(2) took 40 ticks (0 ms)\n" + log(2)
    assert ct.attribute(None, ct.read_profile(headed.encode(), ticks=True)).executions == 2
    totals = ct.attribute(None, ct.read_profile(TOTALS.encode(), ticks=True))
    assert [(row.name, row.time.total_ns) for row in totals.types] == [("ADD", 5), ("MUL", 15)]
    assert totals.whole.others == (("tflite::GetModel", 4, 1, 0),)


def test_traces_that_fit_no_model() -> None:
    for text, message in (
        (log(9, *CODES[:-1]), "operator 6 is missing in the log, and SOFTMAX in the model"),
        (log(9, *CODES, "ADD"), "operator 7 is ADD in the log, and missing in the model"),
        (TOTALS, "has times only by type"),
        (log(0, "ADD"), "no operator that took a tick"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            attributed(text)
    with pytest.raises(InvalidInputError, match="no times in seconds: 1 ms is"):
        ct.read_profile(log(1500, "ADD").encode())
