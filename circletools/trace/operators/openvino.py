"""Read the detailed counters of OpenVINO's benchmark_app (`-report_type detailed_counters`, with a report folder).

    layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)
    MaxPool_21;Status.EXECUTED;MaxPool;jit_avx512_bf16;0.017;0.017
    Total;;;;0.859;0.859

There is one table for each request, with the mean times of its stream's inferences (openvino/tools/benchmark/utils/
statistics_report.py; the C++ program writes the same); `profile` writes a table for each run. A layer that computes
the result of an operator of the main subgraph has the operator's index in its name (seen in 2026.4), unless it was
replaced. Fused layers have no kernel; others that took less than a microsecond are also marked as not run. Layers
without an index are reported as rows of a delegate.
"""

from __future__ import annotations

import re

from circletools.trace.operators.profile import OperatorRun, OperatorTrace, nanoseconds, nothing_found

HEADER = b"layerName;execStatus;layerType;execType;realTime"
_NO_KERNELS = ("Parameter", "Result", "Constant", "")  # the last is the total
_INDEX = re.compile(r"\d{1,9}", re.ASCII)


def parse(data: bytes) -> OperatorTrace:
    """Parse the report. Raises InvalidInputError."""
    runs: list[OperatorRun] = []
    tables = at_ns = order = 0
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").splitlines(), 1):
        cells = line.rstrip(";").rsplit(";", 5)
        if line.startswith(HEADER.decode()):
            tables, at_ns, order = tables + 1, 0, 0
        elif len(cells) == 6:
            name, status, kind, kernel, real, _ = cells
            if status.endswith("EXECUTED") or (kernel != "undef" and kind not in _NO_KERNELS):
                duration, known = nanoseconds(real, "milliseconds", str(number)), _INDEX.fullmatch(name)
                run = OperatorRun(0, int(name) if known else order, kind, kernel, at_ns, duration, tables - 1, tables)
                runs.append(run._replace(of_delegate=known is None))
                at_ns, order = at_ns + duration, order + 1
    if not any(run.duration_ns for run in runs):
        raise nothing_found("no layer of the report was executed")
    return OperatorTrace("openvino", tuple(runs), tables)
