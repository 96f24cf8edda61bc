"""Tracking where two rules meet: names of what shrank, constants that changed, main subgraphs that moved."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.origin.tracking import constants
from circletools.origin.tracking.constants import CLOSE
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.names import pair_by_name
from circletools.origin.tracking.score import drop_the_unlikely
from tests.kit.build import Build, floats, quantization
from tests.kit.sketches import sources
from tests.kit.tracking_support import found, matcher, tracked

FULL, HALF = (4, 4), (4, 2)


def named(*operators: tuple[str, str, tuple[int, int]]) -> bytes:
    """Return operators one behind the other: code, name and shape of what each makes."""
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", FULL)
    for code, name, shape in operators:
        value = graph.compute(code, [value], name, shape)
    graph.ends([start], [value])
    return build.to_bytes()


def test_what_was_fused_into_an_operator_may_have_changed_its_size() -> None:
    before = named(("TANH", "a", FULL), ("NEG", "b", FULL), ("SUM", "c", HALF))
    both = matcher(before, named(("TANH", "a", FULL), ("NEG", "c", HALF)))
    assert pair_by_name(both) == {1: [2]}
    assert both.pairs.to_after.tolist() == [0, 1, -1]


def test_a_name_goes_back_six_steps_and_no_further() -> None:
    for steps, partner in ((6, 1), (7, -1)):
        fused = [("EXP", f"e{number}", FULL) for number in range(steps)]
        both = matcher(
            named(("TANH", "a", FULL), ("NEG", "b", FULL), *fused),
            named(("TANH", "a", FULL), ("NEG", f"e{steps - 1}", FULL)),
        )
        assert pair_by_name(both) == {1: [steps + 1]}
        assert both.pairs.to_before.tolist() == [0, partner]


def test_a_name_that_nothing_else_tells_of_comes_after_the_graph() -> None:
    """A tool numbered some values anew: the first RELU has the name of the second one."""
    end = "k = FC2 h; l = TANH k; m = FC3 l; n = FC4 m -> n"
    before = "a = FC1 x; b c d = SPLIT a; e = RELU b; f = TANH c; g = RELU d; o = NEG e; p = EXP g; h = SUM o f p"
    after = "a = FC1 x; c d e = SPLIT a; g = RELU c; i = TANH d; j = RELU e; q = NEG g; r = EXP j; h = SUM q i r"
    before, after = (f"{start}; {end}" for start in (before, after))
    assert sources(before, after, named=True) == list("abefgophklmn")


def test_a_name_that_nothing_else_tells_of_is_better_than_nothing() -> None:
    before = "a = FC1 x; b = NEG a; c = NEG a; d = TANH b; e = TANH c; f = ADD d e; g = FC2 f -> g"
    after = "a = FC1 x; i = ABS a; c = NEG i; j = EXP c; b = NEG i; k = EXP b; f = ADD j k; g = FC2 f -> g"
    found = sources(before, after, named=True)
    assert (found[2], found[4]) == ("ce", "bd")


# --- constants ----------------------------------------------------------------------------------------------


def layers(second: NDArray[np.float32], *, middle: bool, steps: float = 0.0) -> bytes:
    """Return two FULLY_CONNECTED, of which the second has these weights, in `steps` if given; NEG between them."""
    build = Build()
    graph = build.graph()
    start = graph.tensor("x", FULL)
    value = graph.compute("FULLY_CONNECTED", [start, graph.constant("", floats(12, 12, seed=1))], "", FULL)
    if middle:
        value = graph.compute("NEG", [value], "", FULL)
    if steps:
        data = np.rint(second / steps).astype(np.int8).tobytes()
        weights = graph.tensor("", second.shape, "INT8", data=data, quantization=quantization([steps]))
    else:
        weights = graph.constant("", second)
    graph.ends([start], [graph.compute("FULLY_CONNECTED", [value, weights], "", FULL)])
    return build.to_bytes()


def test_what_is_gone_was_folded_into_what_holds_other_constants() -> None:
    """Close ones of the same type are other constants; quantized ones are the same."""
    weights = floats(12, 12, seed=2)
    before = layers(weights, middle=True)
    assert found(before, layers(weights, middle=False)) == [{0, 1}, {2}]
    assert found(before, layers(weights * np.float32(1.001), middle=False)) == [{0}, {1, 2}]
    assert found(before, layers(weights, middle=False, steps=float(abs(weights).max()) / 127)) == [{0, 1}, {2}]
    scaled = weights * np.linspace(0.5, 4, 12, dtype=np.float32)[:, None]
    assert found(before, layers(scaled, middle=False)) == [{0}, {1, 2}]


def test_a_constant_that_is_close_to_one_is_not_scaled_to_another() -> None:
    """Each sample has a grid of its own: `b` is alike in the second one where `a` and `c` are paired already."""
    a, b, c, d = floats(4, 256, seed=5).astype(np.float64)
    olds, news = np.array([[a, b, b], [c, c, c]]), np.array([[a, d, d], [d, b, d]])
    assert constants._best_pairs(olds, news, True) == [(0, 0, CLOSE)]
    olds, news = np.array([[a, d, d], [d, b, d]]), np.array([[a, b, b], [c, c, c]])
    assert constants._best_pairs(olds, news, True) == [(0, 0, CLOSE)]


def test_as_many_samples_are_compared_as_there_are_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(most: int) -> int:
        monkeypatch.setattr(constants, "_MOST_SAMPLES", most)
        models = []
        for kind in ("float32", "float16"):
            build = Build()
            graph = build.graph()
            for seed in range(3):
                graph.constant("", floats(6, 6, seed=seed).astype(kind))
            models.append(build.to_bytes())
        return int(matcher(*models).classes.shared.sum())

    assert (shared(6), shared(5)) == (3, 0)


# --- how sure, and how long -----------------------------------------------------------------------------------


def test_a_pair_stays_where_a_third_of_what_is_around_it_agrees() -> None:
    """Of 50 inputs as many stand in the slot they had; the others moved on by one."""

    def reading(same: int) -> bytes:
        build = Build()
        graph = build.graph()
        inputs = [graph.tensor(f"x{number}", FULL) for number in range(50)]
        graph.compute("PACK", [*inputs[:same], *inputs[same + 1 :], *inputs[same : same + 1]], "y", FULL)
        graph.ends(inputs, [])
        return build.to_bytes()

    for same, partner in ((16, -1), (17, 0)):
        both = matcher(reading(50), reading(same))
        both.pairs.add(0, 0)
        drop_the_unlikely(both)
        assert (both.pairs.to_after.tolist(), both.pairs.to_before.tolist()) == ([partner], [partner])


@pytest.mark.parametrize(("always", "by_size", "expected"), [
    (False, True, [True] * 2 + [False]), (True, True, [True] * 8 + [False] * 8), (True, False, [False] * 8),
])  # fmt: skip
def test_rounds_go_on_while_they_find_pairs_but_not_for_ever(
    always: bool, by_size: bool, expected: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []

    def one_round(_: Matcher, *, with_constants: bool, by_size: bool) -> int:
        rounds.append(with_constants)
        return int(always or len(rounds) == 1)

    monkeypatch.setattr(Matcher, "_match_colours", one_round)
    matcher(named(("TANH", "a", FULL)), named(("TANH", "a", FULL))).match(by_size=by_size)
    assert rounds == expected


# --- subgraphs ----------------------------------------------------------------------------------------------


def calling(order: str) -> bytes:
    """Return a main subgraph M, the one of the signature, that calls B; I does the same as B, and nobody calls it."""
    build = Build()
    graphs = {letter: build.graph("") for letter in order}
    for letter in "BI":
        graph = graphs[letter]
        given = graph.tensor("", FULL)
        graph.ends([given], [graph.compute("NEG", [given], "", FULL)])
    main = graphs["M"]
    given, made = main.tensor("", FULL), main.tensor("", FULL)
    main.operator("STABLEHLO_COMPOSITE", [given], [made], decomposition_subgraph_index=order.index("B"))
    main.ends([given], [made])
    build.signature("main", [("x", given)], [("y", made)], subgraph=order.index("M"))
    return build.to_bytes()


def test_what_is_called_is_followed_to_and_from_the_first_subgraph() -> None:
    for before, after in (("BMI", "MIB"), ("MIB", "BMI"), ("MBI", "MIB")):
        sources = tracked(calling(before), calling(after)).origins.operators
        assert sources[after.index("B")] == {0: {before.index("B")}}
        assert sources[after.index("M")] == {0: {before.index("M")}}


def handles(*names: str) -> bytes:
    """Return a model with a handle of each variable."""
    build = Build()
    graph = build.graph()
    for name in names:
        graph.operator("VAR_HANDLE", [], [graph.tensor(name, [])], shared_name=name, container="")
    return build.to_bytes()


def test_handles_are_of_one_code_where_they_name_the_same_variable() -> None:
    found = matcher(handles("a", "b"), handles("b", "a"))
    assert found.codes[0].tolist() == found.codes[1].tolist()[::-1]
    assert len(set(found.codes[0].tolist())) == 2
    for others in (("a", "c"), ("a", "b", "c")):  # names that not both models have tell nothing
        renamed = matcher(handles("a", "b"), handles(*others))
        assert len({*renamed.codes[0].tolist(), *renamed.codes[1].tolist()}) == 1
