"""Which operators a program means that talks of indices, codes, or names of outputs."""

from __future__ import annotations

import time

from circletools.runtimes.operators import Known, located
from circletools.runtimes.protocol import Placed, Verdict

KNOWN = [
    Known(0, 0, "ADD", ("a",)),
    Known(0, 1, "DEPTHWISE_CONV_2D", ("b",)),
    Known(0, 2, "CUSTOM:Fancy", ("c", "d")),
    Known(0, 3, "ADD", ("e",)),
    Known(1, 0, "WHILE", ("f",)),
    Known(2, 0, "ADD", ("a",)),
    Known(2, 1, "TANH", ("g",)),
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


def test_codes_are_compared_by_their_letters() -> None:
    assert places(Placed("", "w", code="DepthwiseConv2D")) == [(0, 1, "", "w")]
    for name in ("CUSTOM", "Fancy", "CUSTOM Fancy", "CUSTOM:Fancy"):
        assert places(Placed("", "w", code=name)) == [(0, 2, "", "w")], name


def test_what_fits_several_or_none_is_nowhere() -> None:
    assert places(Placed("", "w", code="ADD")) == [(None, None, "", "w")]
    assert places(Placed("", "w", code="GELU")) == [(None, None, "", "w")]
    assert places(Placed("", "w", tensor="a")) == [(None, None, "", "w")]


def test_names_of_outputs_go_with_codes() -> None:
    assert places(Placed("cpu", "w", code="CUSTOM", tensor="d")) == [(0, 2, "cpu", "w")]
    assert places(Placed("cpu", "w", code="ADD", tensor="e")) == [(0, 3, "cpu", "w")]
    assert places(Placed("cpu", "w", code="TANH", tensor="e")) == [(None, None, "cpu", "w")]
    assert places(Placed("cpu", tensor="e"), Placed("cpu", "w", tensor="e")) == [(0, 3, "cpu", "w")]
    assert places(Placed("cpu", "w", tensor="e"), Placed("cpu", tensor="e")) == [(0, 3, "cpu", "w")]


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


def test_subgraphs_that_a_program_hides_are_passed_over() -> None:
    shown = [*plan(0, *"aaaa"), *plan(1, *"bb")]
    assert places(*shown) == [*((0, index, "a", "") for index in range(4)), (2, 0, "b", ""), (2, 1, "b", "")]
    assert places(*plan(0, *"aaaaa")) == [(None, None, "a", "")] * 5
    assert places(Placed("a", "", 0, 9)) == [(None, None, "a", "")]


def test_the_others_are_named_with_their_device() -> None:
    found = places(Placed("cpu", "w", code="TANH"), others="npu")
    assert found == [
        (one.subgraph, one.operator, *(("cpu", "w") if one.code == "TANH" else ("npu", ""))) for one in KNOWN
    ]


def test_many_operators_take_no_time() -> None:
    known = [Known(0, index, "ADD", (f"t{index}",)) for index in range(20_000)]
    named = tuple(Placed("cpu", "w", code="ADD", tensor=f"t{index}") for index in range(20_000))
    start = time.process_time()
    assert [one.operator for one in located(Verdict("ok", "", named), known).operators] == list(range(20_000))
    assert time.process_time() - start < 5
