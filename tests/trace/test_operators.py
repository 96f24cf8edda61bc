"""Operator-level traces of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.trace.operators.profile import self_times
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import SAMPLES, TRACES


def test_standard_input_and_names_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"{")
    with pytest.raises(InvalidInputError) as caught:
        read_profile(path)
    assert caught.value.location == f"{path}:1"
    with pytest.raises(InvalidInputError, match="cannot read it: No such file"):
        read_profile(tmp_path / "missing")


@pytest.mark.parametrize("name", SAMPLES)
@given(st.data())
def test_any_bytes_give_a_trace_or_one_error(name: str, data: st.DataObject) -> None:
    try:
        trace = read_profile(data.draw(mutations((TRACES / name).read_bytes())))
    except CircleToolsError:
        return
    assert trace.runs
    assert all(0 <= run.execution < trace.executions and run.duration_ns >= 0 for run in trace.runs)
    assert all(time >= 0 for time in self_times(trace.runs))


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Return `data` cut, with bytes replaced, removed or put in, or with lines in another order."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(changed)))
        changed[at : at + draw(st.integers(0, 9))] = draw(
            st.binary(max_size=6) | st.sampled_from([b"9" * 30, b"\n", b"@"])
        )
    lines = bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))]).split(b"\n")
    if draw(st.booleans()):
        first, second = draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
        lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)
