"""Make the traces of `testdata/trace/`: python testdata/generate_traces.py.

The times are measured, so they are new ones each time. Needs the project's `test` extra.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit.operator_support import (  # noqa: E402
    as_atrace,
    as_events,
    as_report,
    as_rows,
    litert_events,
    litert_record,
    onert_traces,
)

RUNS = 3
DELEGATED = "xnnpack"


def main() -> None:
    """Write every trace."""
    with tempfile.TemporaryDirectory() as folder:
        traces = onert_traces(ROOT / "testdata" / "circle" / "if_cond.circle", RUNS, Path(folder))
    model = ROOT / "testdata" / "tflite" / "custom_op.tflite"
    delegated = as_rows(litert_events(model, RUNS, DELEGATED))
    written = {
        "onert_if_cond.chrome.json": traces["trace.chrome.json"],
        "litert_custom_op.ftrace": as_atrace(litert_events(model, RUNS)),
        "benchmark_custom_op.csv": as_report(delegated, RUNS),
        "benchmark_custom_op.txt": as_report(delegated, RUNS, text=True),
    }
    written |= foreign()
    for name, data in written.items():
        (ROOT / "testdata" / "trace" / name).write_bytes(data)


def foreign() -> dict[str, bytes]:
    """Return what LiteRT's profiler recorded of XNNPACK, with its own summary, and OpenVINO's counters."""
    model = ROOT / "testdata" / "tflite" / "cnn.tflite"
    events, summary = litert_record(model, 5, DELEGATED)
    program = Path(sys.executable).resolve().with_name("benchmark_app")
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "-m", model, "-d", "CPU", "-niter", "6", "-nireq", "2", "-report_type", "detailed_counters"]
        subprocess.run([*words, "-report_folder", folder], check=True, capture_output=True)  # noqa: S603 - ours
        counters = (Path(folder) / "benchmark_detailed_counters_report.csv").read_bytes()
    return {
        "foreign/litert_cnn.events.json": as_events(events),
        "foreign/litert_cnn.summary.txt": summary,
        "foreign/openvino_cnn.csv": counters,
    }


if __name__ == "__main__":
    main()
