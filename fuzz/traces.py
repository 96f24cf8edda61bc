"""Targets that read traces in every encoding, of marks and of operators."""

from __future__ import annotations

import gzip
import json
import zlib

from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.profile.attribution import attribute_to
from circletools.profile.comparisons import ProfileComparison, TraceComparison, compare_profiles, compare_traces
from circletools.render.attribution import attribution_csv, attribution_json, attribution_text
from circletools.render.comparison import comparison_json, comparison_text
from circletools.render.table import rows_csv
from circletools.render.trace_slices import chrome_parts, perfetto_parts
from circletools.render.traces import trace_csv, trace_json, trace_text
from circletools.trace.nnapi.analysis import Analysis, analyse
from circletools.trace.operators.profile import OperatorTrace, without_first
from circletools.trace.operators.read import read_profile
from circletools.trace.sources import Trace, open_trace
from circletools.trace.sources.wire import field_bytes
from fuzz.models import exhaust
from fuzz.seeds import model_seed
from fuzz.target import no_refusal

_MODELS = ("circle/if_cond", "circle/mlp", "tflite/custom_op")


def marks(data: bytes) -> None:
    """Analyze a trace, show it in every form, compare it with itself, export it and read the exports."""
    trace = open_trace(data)
    analysis = analyse(trace)
    _show(analysis)
    compared = compare_traces(analysis, analysis, 10.0)
    _check_comparison(compared)
    _export(trace, analysis)


def _check_comparison(compared: TraceComparison | ProfileComparison) -> None:
    """Show the comparison of a trace with itself in every form."""
    assert not compared.regressed
    assert json.dumps(comparison_json(compared))
    assert rows_csv(compared) is not None
    exhaust(comparison_text(compared))


def _show(analysis: Analysis) -> None:
    assert json.dumps(trace_json(analysis, None, per_execution=True, stream=False))
    document = trace_json(analysis, None, per_execution=True, stream=True)
    exhaust(trace_text(document, None))
    for by in ("bucket", "function"):
        document = trace_json(analysis, by, per_execution=True, stream=True)
        assert trace_csv(document, by, per_execution=True)
    for table in analysis.tables.values():
        for bucket, self_ns in table.self_ns.items():
            assert 0 <= self_ns <= table.inclusive_ns[bucket], (bucket, self_ns, table.inclusive_ns[bucket])


def _export(trace: Trace, analysis: Analysis) -> None:
    for parts in (chrome_parts, perfetto_parts):
        exported = b"".join(parts(trace, analysis))
        if analysis.threads:
            with no_refusal("an export cannot be read"):
                again = analyse(open_trace(exported))
            assert again.threads == analysis.threads


def packed(data: bytes) -> None:
    """Read a trace in each compression (gzip, atrace -z, a compressed Perfetto packet), also truncated."""
    keep = len(data) % 7 + 1
    forms = (
        gzip.compress(data, 1, mtime=0),
        b"capturing trace... done\nTRACE:\n" + zlib.compress(data, 1),
        field_bytes(1, field_bytes(50, zlib.compress(data, 1))),
    )
    for form in forms:
        for content in (form, form[: len(form) * keep // 8]):
            try:
                marks(content)
            except CircleToolsError:
                continue


def operators(data: bytes) -> None:
    """Read an operator-level trace and join it with models."""
    times = read_profile(data)
    compared = compare_profiles(times, times, 10.0)
    _check_comparison(compared)
    for name in _MODELS:
        try:
            _attribute(times, name)
        except CircleToolsError:
            continue
    if not times.averaged and times.executions > 1:
        assert without_first(times, 1).executions == times.executions - 1


def _attribute(times: OperatorTrace, name: str) -> None:
    with open_model(model_seed(name)) as model:
        result = attribute_to(model_graph(model), times, None, 2)
    assert json.dumps(attribution_json(result))
    assert attribution_csv(result)
    exhaust(attribution_text(result))
    assert sum(row.time.total_ns for row in result.sources) <= result.total_ns
