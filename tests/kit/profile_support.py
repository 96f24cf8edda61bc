"""What the tests of attributed time share: traces of small models, and the command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.read import Origins
from circletools.profile.attribution import Attribution, attribute_to
from circletools.profile.joining import Time
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from tests.kit.command_support import run_bytes
from tests.kit.operator_support import TRACES
from tests.kit.support import bytes_of, path_of

MLP = bytes_of("circle/mlp")  # FULLY_CONNECTED, FULLY_CONNECTED, SOFTMAX

IF_TRACE, IF_MODEL = TRACES / "onert_if_cond.chrome.json", path_of("circle/if_cond")

CODES = ("FullyConnected", "FullyConnected", "Softmax")


def joined(data: bytes, trace: OperatorTrace, wanted: Origins | None = None, depth: int | None = None) -> Attribution:
    with open_model(data) as model:
        return attribute_to(model_graph(model), trace, wanted, depth)


def traced(*executions: Mapping[int, int], extra: tuple[OperatorRun, ...] = ()) -> OperatorTrace:
    """Return a trace of `mlp`: for each execution the nanoseconds of operators by index."""
    runs = [
        OperatorRun(0, index, CODES[min(index, 2)], "cpu", 1000 * number + 100 * index, time, number)
        for number, times in enumerate(executions)
        for index, time in times.items()
    ]
    return OperatorTrace("onert", (*runs, *extra), len(executions))


def usual(time: Time) -> tuple[int, int, int | None]:
    """Return runs, total and median of a time."""
    return time.runs, time.total_ns, time.median_ns


def totals(found: Attribution) -> tuple[int, int, int, int]:
    """Return the sums over operators, sources, modules, and what was added."""
    return (
        sum(row.time.total_ns for row in found.operators if row.time is not None),
        sum(row.time.total_ns for row in found.sources),
        sum(row.time.total_ns for row in found.modules if row.parent is None),
        sum(row.time.total_ns for row in found.added if row.kind != "inside"),
    )


def run(*args: str | Path, stdin: bytes = b"", command: str = "attribute") -> tuple[int, str, str]:
    """Run `circletool attribute`, or another command."""
    done = run_bytes(command, *args, stdin=stdin)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def shown(tmp_path: Path, *events: tuple[str, str, int]) -> Path:
    """Write a trace of onert: names, phases, microseconds."""
    path = tmp_path / "trace.chrome.json"
    document = [
        {"name": name, "tid": "$0 sess, $0 subg" + ", cpu" * name.startswith("@"), "ph": phase, "ts": str(time)}
        for name, phase, time in events
    ]
    path.write_text(json.dumps({"traceEvents": [*document, {}]}), encoding="utf-8")
    return path
