"""Which operators a program means that talks of indices, codes, or names of outputs."""

from __future__ import annotations

from circletools.runtimes.operators import Operators, located
from circletools.runtimes.protocol import Placed, Verdict
from tests.kit.steps import steps

KNOWN: list[Operators] = [
    (["ADD", "DEPTHWISE_CONV_2D", "CUSTOM:Fancy", "ADD"], [(b"a",), (b"b",), (b"c", b"d"), (b"e",)]),
    (["WHILE"], [(b"f",)]),
    (["ADD", "TANH"], [(b"a",), (b"\xff",)]),
]


def places(*operators: Placed, others: str = "") -> list[tuple[int | None, int | None, str, str]]:
    """Return subgraph, operator, device and words of each."""
    verdict = located(Verdict("ok", "", operators, others), KNOWN)
    return [(one.subgraph, one.operator, one.device, one.words) for one in verdict.operators]


def test_an_index_with_a_code_is_that_of_the_main_subgraph_if_it_fits() -> None:
    assert places(Placed("", "w", None, 0, "ADD")) == [(0, 0, "", "w")]
    assert places(Placed("", "w", None, 1, "TANH")) == [(2, 1, "", "w")]
    assert places(Placed("", "w", None, 1, "TfLiteXNNPackDelegate")) == [(None, None, "", "w")]
    assert places(Placed("", "w", None, 7, "ADD")) == [(None, None, "", "w")]


def test_equal_operators_are_each_assigned_once() -> None:
    twice = Placed("", "w", None, 0, "ADD"), Placed("", "v", None, 0, "ADD")
    assert places(*twice) == [(0, 0, "", "w"), (2, 0, "", "v")]
    assert places(*twice, Placed("", "u", None, 0, "ADD"))[-1] == (None, None, "", "u")
    assert places(Placed("", "w", None, 2)) == [(0, 2, "", "w")]


def test_codes_are_compared_by_their_letters() -> None:
    assert places(Placed("", "w", code="DepthwiseConv2D")) == [(0, 1, "", "w")]
    for name in ("CUSTOM", "Fancy", "CUSTOM Fancy", "CUSTOM:Fancy"):
        assert places(Placed("", "w", code=name)) == [(0, 2, "", "w")], name


def test_ambiguous_or_unmatched_operators_have_no_place() -> None:
    assert places(Placed("", "w", code="ADD")) == [(None, None, "", "w")]
    assert places(Placed("", "w", code="GELU")) == [(None, None, "", "w")]
    assert places(Placed("", "w", tensor="a")) == [(None, None, "", "w")]


def test_as_many_reasons_as_operators_of_a_code_are_about_all_of_them() -> None:
    three = [Placed("cpu", words, code="ADD") for words in "abc"]
    assert places(*three) == [(0, 0, "cpu", "a"), (0, 3, "cpu", "b"), (2, 0, "cpu", "c")]
    assert places(*three[:2]) == [(None, None, "cpu", "a"), (None, None, "cpu", "b")]


def test_names_of_outputs_go_with_codes() -> None:
    assert places(Placed("cpu", "w", code="CUSTOM", tensor="d")) == [(0, 2, "cpu", "w")]
    assert places(Placed("cpu", "w", code="ADD", tensor="e")) == [(0, 3, "cpu", "w")]
    assert places(Placed("cpu", "w", code="RELU", tensor="e")) == [(0, 3, "cpu", "w")]  # fused into the ADD
    assert places(Placed("cpu", "w", code="RELU", tensor="a")) == [(None, None, "cpu", "w")]
    assert places(Placed("cpu", "w", code="ADD", tensor="h")) == [(None, None, "cpu", "w")]
    assert places(Placed("cpu", tensor="e"), Placed("cpu", "w", tensor="e")) == [(0, 3, "cpu", "w")]
    assert places(Placed("cpu", "w", tensor="e"), Placed("cpu", tensor="e")) == [(0, 3, "cpu", "w")]


def test_outputs_with_equal_names_are_distinguished_by_code() -> None:
    known: list[Operators] = [(["ADD", "MUL"], [(b"x",), (b"y",)]), (["TANH"], [(b"x",)])]
    for code, place in (("ADD", (0, 0)), ("Tanh", (1, 0)), ("MUL", (None, None))):
        (found,) = located(Verdict("ok", "", (Placed("cpu", code=code, tensor="x"),)), known).operators
        assert (found.subgraph, found.operator) == place, code


def test_the_first_verdict_on_an_operator_counts() -> None:
    assert places(Placed("cpu", "w", tensor="e"), Placed("npu", "v", tensor="e")) == [(0, 3, "cpu", "w")]
    assert places(Placed("cpu", tensor="e"), Placed("npu", tensor="e")) == [(0, 3, "cpu", "")]


def plan(subgraph: int, *devices: str) -> list[Placed]:
    return [Placed(device, "", subgraph, operator) for operator, device in enumerate(devices)]


def test_reasons_go_to_the_refused_operators_of_a_code() -> None:
    found = places(
        Placed("", "no INT64", code="ADD"),
        *plan(0, "", "gpu", "", ""),
        Placed("", "unknown", code="CUSTOM Fancy"),
        Placed("", "no BOOL", code="ADD"),
        Placed("", "what?", code="GELU"),
    )
    both = "no INT64 or no BOOL"
    expected = [
        (0, 0, "", both),
        (0, 1, "gpu", ""),
        (0, 2, "", "unknown"),
        (0, 3, "", both),
        (None, None, "", "what?"),
    ]
    assert found == expected


def test_subgraphs_that_a_program_hides_or_makes_are_passed_over() -> None:
    shown = [*plan(0, *"aaaa"), *plan(1, *"bb")]
    assert places(*shown) == [*((0, index, "a", "") for index in range(4)), (2, 0, "b", ""), (2, 1, "b", "")]
    assert places(*plan(0, *"aaaa"), *plan(1, *"bbb")) == [(0, index, "a", "") for index in range(4)]
    assert places(Placed("a", "", 0, 9)) == []


def test_the_others_are_named_with_their_device() -> None:
    found = places(Placed("cpu", "w", code="TANH"), others="npu")
    main = [(0, index, "npu", "") for index in range(4)]
    assert found == [*main, (1, 0, "npu", ""), (2, 0, "npu", ""), (2, 1, "cpu", "w")]


def test_names_that_are_no_text_are_found() -> None:
    assert places(Placed("cpu", "w", tensor="\udcff")) == [(2, 1, "cpu", "w")]


def named(count: int) -> int:
    """Find so many operators by the names of their outputs, and return how many steps that takes."""
    known = [(["ADD"] * count, [(f"t{index}".encode(),) for index in range(count)])]
    placed = tuple(Placed("cpu", "w", code="ADD", tensor=f"t{index}") for index in range(count))
    verdict = Verdict("ok", "", placed)
    assert [one.operator for one in located(verdict, known).operators] == list(range(count))
    return steps(lambda: located(verdict, known))


def test_twice_as_many_operators_take_twice_as_many_steps() -> None:
    assert 4 * 200 < named(400) < 2.1 * named(200)
