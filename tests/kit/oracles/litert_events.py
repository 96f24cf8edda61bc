"""What LiteRT records of a run: `python -m tests.kit.oracles.litert_events MODEL RUNS [VARIANT]` prints it as JSON.

The document has `events`, and `summary`, the text that LiteRT itself makes of them. Each event is [tag, type, start,
microseconds, number, subgraph]; types are those of tflite::Profiler::EventType.
"""

from __future__ import annotations

import json
import sys
from ctypes import byref, c_char_p

import numpy as np

OPERATOR = 1 << 1
DELEGATE_PROFILED_OPERATOR = 1 << 3

_FIELDS = ("tag", "event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")


def record(model: str, runs: int, variant: str = "xnnpack") -> dict[str, object]:
    """Run the first signature `runs` times, with zeros, since an input may control how often a loop runs."""
    from circletools.runtimes.litert import Profiled  # noqa: PLC0415 - imports the runtime

    profiled = Profiled(model, variant)
    events = profiled.events(None, lambda _, dtype, shape: np.zeros(shape, dtype), runs)
    summary = c_char_p()
    profiled.lite("GetProfileSummary", profiled.profiler, profiled.compiled, byref(summary))
    return {
        "events": [[event[name] for name in _FIELDS] for event in events],
        "summary": (summary.value or b"").decode(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(record(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
