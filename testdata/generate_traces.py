"""Make the traces of `testdata/trace/`: python testdata/generate_traces.py.

The times are measured, so they are new ones each time. Needs the project's `test` extra.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit.operator_support import as_atrace, as_report, as_rows, litert_events, onert_traces  # noqa: E402

RUNS = 3
DELEGATED = 0


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
    for name, data in written.items():
        (ROOT / "testdata" / "trace" / name).write_bytes(data)


if __name__ == "__main__":
    main()
