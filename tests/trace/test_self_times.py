"""Runs of operators within runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from circletools.trace.operators.profile import OperatorRun, self_times


@st.composite
def nested(draw: st.DrawFn, start: int = 0, subgraph: int = 0) -> tuple[list[OperatorRun], int]:
    """Return the runs of a subgraph one after the other, some of which call the next subgraph; and the end."""
    runs = []
    for index in range(draw(st.integers(1, 3))):
        start += draw(st.integers(0, 3))
        inner, end = draw(nested(start, subgraph + 1)) if subgraph < 3 and draw(st.booleans()) else ([], start)
        end += draw(st.integers(0, 5))
        runs += [OperatorRun(subgraph, index, "X", "", start, end - start, 0), *inner]
        start = end
    return runs, start


@given(nested(), st.randoms(use_true_random=False))
def test_self_times_add_up_to_what_was_covered(made: tuple[list[OperatorRun], int], random: object) -> None:
    runs, end = made
    order = sorted(range(len(runs)), key=lambda _: random.random())  # type: ignore[attr-defined]
    own = self_times([runs[at] for at in order])
    assert min(own) >= 0
    assert sum(own) == sum(run.duration_ns for run in runs if run.subgraph == 0) <= end


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20), st.integers(0, 1))))
def test_self_times_of_any_runs(rows: list[tuple[int, int, int, int]]) -> None:
    runs = [OperatorRun(subgraph, 0, "X", "", start, time, 0, lane) for subgraph, start, time, lane in rows]
    own = self_times(runs)
    assert all(0 <= time <= run.duration_ns for time, run in zip(own, runs, strict=True))
    for lane in (0, 1):
        covered = {
            at for run in runs if run.lane == lane for at in range(run.start_ns, run.start_ns + run.duration_ns)
        }
        assert sum(time for time, run in zip(own, runs, strict=True) if run.lane == lane) >= len(covered)


def test_operators_side_by_side_keep_their_times() -> None:
    runs = [OperatorRun(0, index, "X", "", index, 10, 0) for index in range(3)]
    assert self_times(runs) == [10, 10, 10]
