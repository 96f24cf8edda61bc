"""Data behind the flatbuffer, compared by its bytes: constants, custom options and compiled programs."""

from __future__ import annotations

from typing import Any

import pytest

from circletools.errors import ModelFormatError
from circletools.flatbuf.comparison import Difference
from tests.kit.build import Build, Code
from tests.kit.difference_models import at
from tests.kit.difference_support import differences
from tests.kit.outside import program

START = 1 << 12  # of the data behind the flatbuffer

Data = bytes | tuple[int, int]
"""What a field holds, or the offset and the size of what lies behind the flatbuffer."""


def finished(build: Build, tail: bytes) -> bytes:
    data = build.to_bytes("circle")
    assert len(data) < START
    return data.ljust(START, b"\0") + tail


def constants(tail: bytes, *buffers: Data) -> bytes:
    """Return a model with a tensor for each buffer."""
    build = Build()
    graph = build.graph()
    for number, given in enumerate(buffers):
        fields = {"data": given} if isinstance(given, bytes) else {"offset": given[0], "size": given[1]}
        graph.tensor(f"t{number}", buffer=build.buffer(**fields))
    return finished(build, tail)


def options(tail: bytes, *given: Data) -> bytes:
    """Return a model with an operator for each custom options."""
    build = Build()
    graph = build.graph()
    for number, one in enumerate(given):
        operator = graph.operator(Code("CUSTOM", 1, "mine"), [], [graph.tensor(f"t{number}")])
        if isinstance(one, bytes):
            operator.custom_options = one
        else:
            operator.large_custom_options_offset, operator.large_custom_options_size = one
    return finished(build, tail)


def whole(count: int, index: int, value: int | None) -> dict[str, Any]:
    return {"count": count, "index": index, "value": value}


def shown(before: bytes, after: bytes) -> list[Difference]:
    return differences(before, after, "structure")


def test_the_position_of_data_does_not_matter() -> None:
    for other in (
        constants(b"", b"abcdef", b"second"),
        constants(b"-abcdefsecond", (START + 1, 6), (START + 7, 6)),
        constants(b"abcdef", (START, 6), b"second"),
    ):
        assert shown(constants(b"secondabcdef", (START + 6, 6), (START, 6)), other) == []
    for same in (options(b"", b"first", b"last"), options(b"-lastfirst", (START + 5, 5), (START + 1, 4))):
        assert shown(options(b"firstlast", (START, 5), (START + 5, 4)), same) == []


@pytest.mark.parametrize("behind", [True, False])
def test_the_first_byte_that_differs_is_reported(behind: bool) -> None:
    def holding(data: bytes) -> bytes:
        return constants(data, b"same", (START, len(data))) if behind else constants(b"", b"same", data)

    before = constants(b"..abcdef", b"same", (START + 2, 6))
    for data, old, new in (
        (b"abcdeX", whole(6, 5, ord("f")), whole(6, 5, ord("X"))),
        (b"Xbcdef", whole(6, 0, ord("a")), whole(6, 0, ord("X"))),
        (b"abc", whole(6, 3, ord("d")), whole(3, 3, None)),
        (b"abcdefg", whole(6, 6, None), whole(7, 6, ord("g"))),
    ):
        assert shown(before, holding(data)) == [at("changed", "buffers[2].data", old, new)]
        assert shown(holding(data), before) == [at("changed", "buffers[2].data", new, old)]


def test_options_that_differ_are_reported_where_their_operator_is() -> None:
    before = options(b"firstlast", (START, 5), (START + 5, 4))
    expected = at("changed", "subgraphs[0].operators[1].custom_options", whole(4, 3, ord("t")), whole(4, 3, ord("T")))
    for after in (options(b"", b"first", b"lasT"), options(b"lasTfirst", (START + 4, 5), (START, 4))):
        assert shown(before, after) == [expected]


def test_positions_up_to_1_mean_that_there_is_nothing() -> None:
    for offset in (0, 1):
        assert shown(constants(b"tail", (offset, 4)), constants(b"tail", (1 - offset, 2))) == []
        assert shown(constants(b"tail", (offset, 4)), constants(b"tail", b"tail")) == [
            at("changed", "buffers[1].data", None, [*b"tail"])
        ]
    build = Build()
    build.graph().tensor("t0", buffer=build.buffer(b"tail", offset=1, size=3))
    assert shown(finished(build, b"tail"), constants(b"tail", (START, 4))) == []
    # Position 2 is in the file: here in its first word, which is small.
    assert shown(constants(b"", (2, 2)), constants(b"", b"\0\0")) == []
    assert shown(constants(b"", (2, 2)), constants(b"", b"\0\1")) == [
        at("changed", "buffers[1].data", whole(2, 1, 0), whole(2, 1, 1))
    ]


def test_data_must_end_inside_the_file() -> None:
    good = constants(b"four", b"four")
    assert shown(constants(b"four", (START, 4)), good) == []
    for offset, size in ((START, 5), (START + 1, 4), (START + 5, 0), (1 << 40, 4)):
        with pytest.raises(ModelFormatError, match="external data lies outside the file") as caught:
            shown(constants(b"four", (offset, size)), good)
        assert caught.value.offset == offset
        assert str(caught.value.location).endswith("Buffer.data")


def programs(tail: bytes, first: bytes, second: bytes) -> bytes:
    """Return a model with two operators whose options name programs, and one between them that has others."""
    return options(tail, first, b"plain", second)


def test_programs_are_compared_by_their_bytes_and_not_by_their_places() -> None:
    before = programs(b"onetwo!", program(START, 3), program(START + 3, 4))
    moved = programs(b"..two!.one", program(START + 7, 3), program(START + 2, 4))
    assert shown(before, moved) == []
    changed = programs(b"onetwo?", program(START, 3), program(START + 3, 4))
    expected = at("changed", "subgraphs[0].operators[2].custom_options", {"program_bytes": 4}, {"program_bytes": 4})
    assert shown(before, changed) == shown(moved, changed) == [expected]
    assert shown(changed, moved) == [expected]


def test_what_else_is_in_the_options_of_a_program_counts() -> None:
    small, large = program(START, 3), program(START, 3, name=7)
    other = program(START, 3, name=8)
    assert len(small) < len(large) == len(other)

    def with_first(first: bytes) -> bytes:
        return programs(b"onetwo!", first, program(START + 3, 4))

    path = "subgraphs[0].operators[0].custom_options"
    for old, new in ((small, large), (large, other), (program(START, 2), small)):
        assert shown(with_first(old), with_first(new)) == [
            at("changed", path, {"count": len(old)}, {"count": len(new)})
        ]


def test_a_program_against_options_without_one() -> None:
    before = programs(b"onetwo!", program(START, 3), program(START + 3, 4))
    after = programs(b"onetwo!", b"none", program(START + 3, 4))
    (change,) = shown(before, after)
    assert change.path == "subgraphs[0].operators[0].custom_options"
    assert change.after == [*b"none"]
