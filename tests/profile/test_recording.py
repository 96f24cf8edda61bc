"""Models run with the profilers of runtimes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.model.model import open_model
from circletools.profile.recording import profile
from circletools.runtimes.programs import PROGRAMS, named
from circletools.trace.operators.profile import self_times
from circletools.trace.operators.read import read_profile
from tests.kit.presence import need
from tests.kit.profile_support import run
from tests.kit.support import path_of

PROGRAMS_WITH_VARIANTS = ("litert:xnnpack", "litert:builtin", "litert:reference", "onert", "openvino")
CNN = path_of("tflite/cnn")


def totals_of(data: bytes, program: str) -> int:
    """Return the nanoseconds of all operators as the runtime wrote them, read without the product."""
    if program == "openvino":
        cells = (line.rsplit(";", 5) for line in data.decode().splitlines() if "Status.EXECUTED" in line)
        return sum(round(float(row[-2]) * 1e6) for row in cells)
    document = json.loads(data)
    if program == "onert":
        events = [event for event in document["traceEvents"] if re.match(r"@\d+ ", event.get("name", ""))]
        return sum(1000 * int(event["ts"]) * (1 if event["ph"] == "E" else -1) for event in events)
    return sum(1000 * event["elapsed_time_us"] for event in document["events"] if event["event_type"] in (2, 8))


@pytest.mark.runtime
@pytest.mark.parametrize("on", PROGRAMS_WITH_VARIANTS)
def test_totals_are_the_runtimes_own(on: str) -> None:
    program = named(on)[0]
    need(PROGRAMS[program].module)
    with open_model(CNN) as model:
        found = profile(model, on, runs=12)
    attribution = found.attribution
    assert (found.program, found.trace.executions) == (":".join(named(on)), 12)
    assert re.match(r"\d+\.", found.version)
    assert sum(self_times(found.trace.runs)) == totals_of(found.data, program)
    times = [row.time for row in attribution.operators if row.time] + [row.time for row in attribution.added]
    parts = sum(time.total_ns for time in times)
    assert parts == attribution.total_ns
    assert attribution.whole.initialization_ns
    assert read_profile(found.data).runs == found.trace.runs


def test_runs_are_distinguished_by_the_means_of_all_so_far() -> None:
    pytest.importorskip("openvino")
    from circletools.runtimes.openvino import run_times  # noqa: PLC0415 - imports the runtime

    for given in ([4019] + [2] * 49, [20] * 30, [89, *[1] * 20]):
        found = run_times([sum(given[:count]) // count for count in range(1, len(given) + 1)])
        assert all(abs(sum(found[at:]) - sum(given[at:])) <= len(given) for at in range(len(given))), found
        assert found[0] == given[0]
        assert max(abs(one - other) for one, other in zip(found, given, strict=True)) <= 2


@pytest.mark.runtime
def test_given_inputs(tmp_path: Path) -> None:
    need("ai_edge_litert")
    with open_model(CNN) as model:
        with pytest.raises(InvalidInputError, match="the number of inputs is 1, not 2"):
            profile(model, "litert", runs=1, inputs=[[np.zeros(4, np.float32)] * 2])
        np.savez(tmp_path / "in.npz", np.zeros((1, 28, 28, 1), np.float32))
        (tmp_path / "bad.npz").write_text("no")
        with pytest.raises(InvalidInputError, match=r"bad.npz: not an .npz file of input arrays"):
            profile(model, "litert", inputs=tmp_path / "bad.npz")


def test_a_program_without_a_profiler() -> None:
    with (
        open_model(CNN) as model,
        pytest.raises(UsageError, match="'tflm' is not a runtime, or has no operator profiler"),
    ):
        profile(model, "tflm")


@pytest.mark.runtime
def test_the_command(tmp_path: Path) -> None:
    need("ai_edge_litert")
    status, out, err = run(CNN, "--on", "litert:builtin", "--runs", "5", "-o", tmp_path / "t.json", command="profile")
    assert (status, out.splitlines()[0].split()[0]) == (0, "litert:builtin")
    assert "the model has no origins" in err
    for words in ("initialization", "first run", "steady state", "GFLOP/s", "types of operators"):
        assert words in out
    status, kept, _ = run(tmp_path / "t.json", "--model", CNN, "--by", "operator", command="attribute")
    assert (status, "CONV_2D" in kept) == (0, True)
    status, out, _ = run(CNN, "--on", "litert:builtin", "--runs", "3", "--json", command="profile")
    (only,) = json.loads(out)["profiles"]
    assert (only["program"], {"types", "operators", "sources", "modules"} <= only.keys()) == ("litert:builtin", True)
    for refused in ("-o x --on litert,onert", "-o - --on litert", "--on nothing"):
        assert run(CNN, *refused.split(), command="profile")[0] == 2
    against = ("--on", "litert:builtin", "--runs", "3", "--against", str(CNN), "--recordings", "2")
    status, out, _ = run(CNN, *against, command="profile")
    assert (status, out.startswith("before: litert, 3 executions (2 recordings)\n")) == (0, True)
