"""Outputs of graphs that nobody thought of: a fix keeps every rule and every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.outputs.analysis import AliasKind
from tests.kit.build import Build, floats
from tests.kit.oracles import run_litert, same_behavior
from tests.kit.origin_support import embedded, freshness_of, origins, origins_of
from tests.kit.outputs_support import (
    aliased_slots,
    assert_every_output_is_its_own,
    assert_fixed,
    findings_of,
    fixed,
    fixed_with_changes,
    telling,
    vector,
)
from tests.kit.support import read

_OPERANDS = {"ADD": 2, "MUL": 2, "RELU": 1, "NEG": 1}
_NAMES = ("x", "x_permute", "x_permute_2", "copy_operand_0_1", "c", "t", "")


@dataclass(frozen=True)
class Case:
    """A model, and how it is to be mended."""

    data: bytes
    operators: int
    keep_constants: bool
    detach_taps: bool


@st.composite
def cases(draw: st.DrawFn, kinds: Sequence[str] = ("tflite", "circle")) -> Case:
    """Draw a graph of some inputs, constants and float operators; any of its tensors may be outputs, repeatedly."""
    build = Build()
    graph = build.graph()
    name = st.sampled_from(_NAMES)
    inputs = [graph.tensor(draw(name)) for _ in range(draw(st.integers(1, 3)))]
    known = [*inputs]
    for seed in range(draw(st.integers(0, 2))):
        known.append(graph.tensor(draw(name), (2, 2), data=floats(2, 2, seed=seed).tobytes()))
    operators = draw(st.lists(st.sampled_from(sorted(_OPERANDS)), max_size=5))
    for code in operators:
        operands = draw(st.lists(st.sampled_from(known), min_size=_OPERANDS[code], max_size=_OPERANDS[code]))
        known.append(graph.compute(code, operands, draw(name)))
    outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=6))
    graph.ends(inputs, outputs)
    if draw(st.booleans()):
        named = draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=6))
        entries = [(f"y{number}", tensor) for number, tensor in enumerate(named)]
        build.signature("serving", [(f"x{number}", tensor) for number, tensor in enumerate(inputs)], entries)
    return Case(
        build.to_bytes(draw(st.sampled_from(kinds))), len(operators), draw(st.booleans()), draw(st.booleans())
    )


@given(case=cases())
def test_the_rules_are_followed(case: Case) -> None:
    after, changes = fixed_with_changes(case.data, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    expected = aliased_slots(read(case.data), 0, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    assert len(changes) == len(expected)
    assert (after == case.data) == (not expected)
    assert_fixed(case.data, after, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    again = fixed_with_changes(after, keep_constants=case.keep_constants)
    assert again == (after, ())
    if not case.keep_constants:
        assert_every_output_is_its_own(after)
        assert telling(after) == []


@given(case=cases())
def test_findings_are_what_is_mended(case: Case) -> None:
    slots = aliased_slots(read(case.data), 0, detach_taps=True, copies=False)
    expected = [(kind, f"subgraphs[0].outputs[{slot}]") for kind, slot in slots]
    codes = {kind.value for kind in AliasKind} - {"UNPRODUCED_OUTPUT"}
    found = [one for one in findings_of(case.data) if one.code in codes]
    assert [(one.code, one.location) for one in found] == expected
    assert {one.severity for one in found if one.code != "OUTPUT_TAP"} <= {"warning"}


@given(case=cases(["tflite"]))
def test_no_value_changes(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    before, after = folder / "random-before.tflite", folder / "random-after.tflite"
    after_data = fixed(case.data, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    for path, data in ((before, case.data), (after, after_data)):
        path.write_bytes(data)
    outcome = run_litert(before)
    assert outcome.stage == "ok"
    assert same_behavior(outcome, run_litert(after), names=False) is None


@given(case=cases(), data=st.data())
def test_origins_stay_true(case: Case, data: st.DataObject) -> None:
    """A copy has the origins of what computes its tensor, and all other operators have theirs."""
    sources = {number: f"source {number}" for number in range(4)}
    some = st.sets(st.sampled_from(sorted(sources)), min_size=1)
    described = data.draw(
        st.dictionaries(st.integers(0, case.operators - 1), some) if case.operators else st.just({})
    )
    stamped = embedded(case.data, origins(sources, described))
    after = fixed(stamped, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    assert_fixed(
        stamped, after, keep_constants=case.keep_constants, detach_taps=case.detach_taps, metadata=after == stamped
    )
    (graph,) = read(stamped)["subgraphs"]
    outputs, producers = vector(graph["outputs"]), dict[int, int]()
    for index, operator in enumerate(graph["operators"] or ()):
        producers |= dict.fromkeys(vector(operator["outputs"]), index)
    expected = {index: frozenset(origin) for index, origin in described.items()}
    odd = aliased_slots(read(stamped), 0, keep_constants=case.keep_constants, detach_taps=case.detach_taps)
    for number, (_, slot) in enumerate(odd):
        origin = expected.get(producers.get(outputs[slot], -1))
        if origin:
            expected[case.operators + number] = origin
    found = origins_of(after)
    assert found.operators == (expected,)
    assert found.sources == sources
    assert freshness_of(after).state == "fresh"
    assert fixed(after, keep_constants=case.keep_constants) == after
