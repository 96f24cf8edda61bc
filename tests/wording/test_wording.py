"""Numbers, ranges and hints as people read them; exit statuses of errors."""

from __future__ import annotations

import pytest

from circletools import errors
from circletools.wording import Word, counted, did_you_mean, microseconds, milliseconds, ranges, suggestion


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0-1"), ([0, 1, 2, 3, 7], "0-3,7"), ([5, 7, 9, 10], "5,7,9-10")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1000, "1,000 runs"), (-1, "-1 runs")]
)
def test_counted(count: int, text: str) -> None:
    assert counted(count, "run") == text
    assert counted(count, "copy", "copies") == text.replace("runs", "copies").replace("run", "copy")


@pytest.mark.parametrize(
    ("time_ns", "milli", "micro"),
    [(0, "0.000", "0.000"), (1, "0.000", "0.001"), (-1, "0.000", "-0.001"), (-400, "0.000", "-0.400"),
     (1_234_567_890, "1,234.568", "1234567.890"), (-1_234_567, "-1.235", "-1234.567")],
)  # fmt: skip
def test_times(time_ns: int, milli: str, micro: str) -> None:
    assert (milliseconds(time_ns), microseconds(time_ns)) == (milli, micro)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("nqu", "did you mean 'npu'?"),
        ("conv_2D", "did you mean 'CONV_2D'?"),
        ("CONV2D" + "_" * 1000, "available: CONV_2D, cpu, npu"),
        ("xyz", "available: CONV_2D, cpu, npu"),
        ("c" * 3, "available: CONV_2D, cpu, npu"),
        ("onv", "did you mean 'CONV_2D'?"),
    ],
)
def test_suggestion(word: str, hint: str) -> None:
    known = ["npu", "cpu", "CONV_2D"]
    assert suggestion(word, iter(known)) == hint
    assert did_you_mean(word, iter(known)) == (hint if hint.startswith("did") else "")


def test_a_suggestion_lists_eight_words() -> None:
    words = [f"word{index}" for index in range(9)]
    assert suggestion("?", words[:8]) == "available: " + ", ".join(words[:8])
    assert suggestion("?", words) == "available: " + ", ".join(words[:8]) + ", …"


@pytest.mark.parametrize(
    ("name", "code"),
    [("CircleToolsError", 3), ("UsageError", 2), ("InvalidInputError", 3), ("ModelFormatError", 3),
     ("TableFormatError", 3), ("EditError", 4), ("OutputError", 4)],
)  # fmt: skip
def test_exit_codes(name: str, code: int) -> None:
    offset = {"offset": 0} if name == "TableFormatError" else {}
    assert getattr(errors, name)("no", **offset).exit_code == code


@pytest.mark.parametrize(
    ("location", "hint", "text"),
    [(None, None, "no"), ("here", None, "here: no"), (None, "go", "no (go)"), ("here", "go", "here: no (go)")],
)
def test_an_error_gives_place_problem_and_remedy(location: str | None, hint: str | None, text: str) -> None:
    assert str(errors.CircleToolsError("no", location=location, hint=hint)) == text


def test_long_parts_of_an_error_lose_their_middle() -> None:
    exact, long = "a" * 750 + "b" * 750, "a" * 750 + "-" + "b" * 750
    assert str(errors.UsageError(exact)) == exact
    assert str(errors.UsageError(long)) == f"{'a' * 750} … {'b' * 750}"


def test_errors_with_an_offset() -> None:
    table = errors.TableFormatError("cut", offset=8, location="table")
    model = errors.ModelFormatError("cut", offset=0)
    assert (str(table), table.offset, str(model), model.offset) == ("table: cut at byte 8", 8, "cut at byte 0", 0)
    assert str(errors.ModelFormatError("cut")) == "cut"


def test_a_word_is_written_as_its_value() -> None:
    class Kind(Word):
        ONE = "the first"

    assert (str(Kind.ONE), f"{Kind.ONE:>10}", Kind("the first")) == ("the first", " the first", Kind.ONE)
