"""Times shared out among sources and modules."""

from __future__ import annotations

import json
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import CircleToolsError
from circletools.origin.modules import split
from circletools.origin.read import Origins
from circletools.render.attribution import attribution_csv, attribution_json, attribution_text
from circletools.trace.operators.profile import OperatorRun, without_first
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import SAMPLES, TRACES
from tests.kit.origin_support import origins
from tests.kit.profile_support import MLP, joined, totals, traced
from tests.kit.support import bytes_of
from tests.trace.test_operators import mutations


@given(st.integers(0, 10**30), st.integers(1, 1000))
def test_parts_add_up_and_differ_by_one_at_most(total: int, count: int) -> None:
    parts = split(total, count)
    assert (sum(parts), len(parts)) == (total, count)
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


SETS = st.lists(st.frozensets(st.integers(0, 5), max_size=4), min_size=3, max_size=3)

TIMES = st.dictionaries(st.integers(0, 2), st.integers(0, 10**6))

NAMES = st.lists(st.text("ab/;:", max_size=8), min_size=6, max_size=6)


@given(SETS, st.lists(TIMES, min_size=1, max_size=5), NAMES, st.none() | st.integers(1, 3))
def test_sums_are_exact(
    chosen: list[frozenset[int]], times: list[dict[int, int]], names: list[str], depth: int | None
) -> None:
    wanted = Origins(dict(enumerate(names)), ({index: found for index, found in enumerate(chosen) if found},))
    permute = OperatorRun(0, 7, "Permute", "builtin", 999, 11, 0)
    found = joined(MLP, traced(*times, extra=(permute,)), wanted, depth)
    expected = [sum(execution.get(index, 0) for execution in times) for index in range(3)]
    assert [row.time.total_ns if row.time else 0 for row in found.operators] == expected
    assert totals(found) == (sum(expected),) * 3 + (11,)
    assert found.total_ns == sum(expected) + 11
    for group in found.sources:
        exact = sum(
            (
                Fraction(expected[index], len(sources) or 1)
                for index, sources in enumerate(chosen)
                if group.source in sources or (group.source is None and not sources)
            ),
            Fraction(0),
        )
        assert abs(group.time.total_ns - exact) < 3  # a nanosecond for each operator
        assert group.shared == any(len(found) > 1 and group.source in found for found in chosen)
    for row in found.operators:
        if row.time is not None:
            series = [execution.get(row.index, 0) for execution in times]
            assert row.time.median_ns == int(statistics.median(series))


def test_fission_and_fusion() -> None:
    """Operators 0 and 1 are what source 5 became; operator 2 is what sources 5, 6 and 7 became."""
    wanted = origins({5: "a/x", 6: "a/y", 7: "b/z", 8: "gone"}, {0: {5}, 1: {5}, 2: {5, 6, 7}})
    found = joined(MLP, traced({0: 100, 1: 10, 2: 8}, {0: 200, 1: 20, 2: 3}, {2: 0}), wanted)
    assert {
        row.source: (row.time.total_ns, row.time.median_ns, row.shared, row.operators) for row in found.sources
    } == {
        5: (334, 113, True, ((0, 0), (0, 1), (0, 2))),  # 330 and 4 of 11; the median of 112.7, 221 and 0
        6: (4, 1, True, ((0, 2),)),
        7: (3, 1, True, ((0, 2),)),
    }
    assert {row.name: row.time.total_ns for row in found.modules} == {"a": 338, "b": 3}


def test_without_the_first_executions() -> None:
    trace = traced({0: 100}, {0: 1, 1: 2}, {0: 3})
    left = without_first(trace, 1)
    assert (left.executions, [(run.execution, run.duration_ns) for run in left.runs]) == (2, [(0, 1), (0, 2), (1, 3)])
    assert without_first(trace, 0) is trace


@pytest.mark.parametrize("name", SAMPLES)
@given(st.data())
def test_any_trace_gives_an_attribution_or_one_error(name: str, data: st.DataObject) -> None:
    model = bytes_of("circle/if_cond" if "if_cond" in name else "tflite/custom_op")
    try:
        found = joined(model, read_profile(data.draw(mutations((TRACES / name).read_bytes()))))
    except CircleToolsError:
        return
    operators, by_source, by_module, added = totals(found)
    assert operators == by_source == by_module
    assert operators + added == found.total_ns
    list(attribution_text(found))
    json.dumps(attribution_json(found))
    attribution_csv(found)
