"""Results as text, JSON and CSV: functions that format a value and compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.render.affinity import affinity_csv, affinity_json, affinity_text, export_text
    from circletools.render.attribution import attribution_csv, attribution_json, attribution_text
    from circletools.render.comparison import comparison_csv, comparison_json, comparison_text
    from circletools.render.difference import difference_json, difference_text
    from circletools.render.digests import attestation_json, attestation_text, digests_json, digests_text
    from circletools.render.findings import check_json, findings_text, verdict
    from circletools.render.fit import fit_json, fit_sarif, fit_text
    from circletools.render.inspection import inspection_json, inspection_text
    from circletools.render.judging import (
        Tally,
        explanation_text,
        headline_text,
        judgement_github,
        judgement_json,
        judgement_sarif,
        judgement_text,
        statistics_text,
        summary_text,
        tally,
    )
    from circletools.render.junit import JUNIT_BEGIN, JUNIT_END, junit_suite
    from circletools.render.measuring import (
        costs_text,
        measured_plan_json,
        measured_plan_text,
        measurement_json,
        measurement_text,
    )
    from circletools.render.origin_tree import origins_tree
    from circletools.render.origins import origins_csv, origins_json, origins_text
    from circletools.render.plans import plan_json, plan_text
    from circletools.render.rewrite import rewrite_json
    from circletools.render.sarif import sarif_log, sarif_run
    from circletools.render.split import split_json, split_verification_json
    from circletools.render.table import csv_text, fitted, table_text
    from circletools.render.trace_tables import trace_csv, trace_markdown, trace_text
    from circletools.render.traces import trace_json
    from circletools.render.tracking import tracking_json, tracking_text
    from circletools.wording import SCHEMA_VERSION

__all__ = [
    "JUNIT_BEGIN",
    "JUNIT_END",
    "SCHEMA_VERSION",
    "Tally",
    "affinity_csv",
    "affinity_json",
    "affinity_text",
    "attestation_json",
    "attestation_text",
    "attribution_csv",
    "attribution_json",
    "attribution_text",
    "check_json",
    "comparison_csv",
    "comparison_json",
    "comparison_text",
    "costs_text",
    "csv_text",
    "difference_json",
    "difference_text",
    "digests_json",
    "digests_text",
    "explanation_text",
    "export_text",
    "findings_text",
    "fit_json",
    "fit_sarif",
    "fit_text",
    "fitted",
    "headline_text",
    "inspection_json",
    "inspection_text",
    "judgement_github",
    "judgement_json",
    "judgement_sarif",
    "judgement_text",
    "junit_suite",
    "measured_plan_json",
    "measured_plan_text",
    "measurement_json",
    "measurement_text",
    "origins_csv",
    "origins_json",
    "origins_text",
    "origins_tree",
    "plan_json",
    "plan_text",
    "rewrite_json",
    "sarif_log",
    "sarif_run",
    "split_json",
    "split_verification_json",
    "statistics_text",
    "summary_text",
    "table_text",
    "tally",
    "trace_csv",
    "trace_json",
    "trace_markdown",
    "trace_text",
    "tracking_json",
    "tracking_text",
    "verdict",
]

_PLACES = {
    "JUNIT_BEGIN": "circletools.render.junit",
    "JUNIT_END": "circletools.render.junit",
    "SCHEMA_VERSION": "circletools.wording",
    "Tally": "circletools.render.judging",
    "affinity_csv": "circletools.render.affinity",
    "affinity_json": "circletools.render.affinity",
    "affinity_text": "circletools.render.affinity",
    "attestation_json": "circletools.render.digests",
    "attestation_text": "circletools.render.digests",
    "attribution_csv": "circletools.render.attribution",
    "attribution_json": "circletools.render.attribution",
    "attribution_text": "circletools.render.attribution",
    "check_json": "circletools.render.findings",
    "comparison_csv": "circletools.render.comparison",
    "comparison_json": "circletools.render.comparison",
    "comparison_text": "circletools.render.comparison",
    "costs_text": "circletools.render.measuring",
    "csv_text": "circletools.render.table",
    "difference_json": "circletools.render.difference",
    "difference_text": "circletools.render.difference",
    "explanation_text": "circletools.render.judging",
    "digests_json": "circletools.render.digests",
    "digests_text": "circletools.render.digests",
    "export_text": "circletools.render.affinity",
    "findings_text": "circletools.render.findings",
    "fit_json": "circletools.render.fit",
    "fit_sarif": "circletools.render.fit",
    "fit_text": "circletools.render.fit",
    "headline_text": "circletools.render.judging",
    "inspection_json": "circletools.render.inspection",
    "inspection_text": "circletools.render.inspection",
    "judgement_github": "circletools.render.judging",
    "judgement_json": "circletools.render.judging",
    "judgement_sarif": "circletools.render.judging",
    "judgement_text": "circletools.render.judging",
    "junit_suite": "circletools.render.junit",
    "measured_plan_json": "circletools.render.measuring",
    "measured_plan_text": "circletools.render.measuring",
    "measurement_json": "circletools.render.measuring",
    "measurement_text": "circletools.render.measuring",
    "origins_csv": "circletools.render.origins",
    "origins_json": "circletools.render.origins",
    "origins_text": "circletools.render.origins",
    "origins_tree": "circletools.render.origin_tree",
    "plan_json": "circletools.render.plans",
    "plan_text": "circletools.render.plans",
    "rewrite_json": "circletools.render.rewrite",
    "sarif_log": "circletools.render.sarif",
    "sarif_run": "circletools.render.sarif",
    "split_json": "circletools.render.split",
    "split_verification_json": "circletools.render.split",
    "statistics_text": "circletools.render.judging",
    "summary_text": "circletools.render.judging",
    "fitted": "circletools.render.table",
    "table_text": "circletools.render.table",
    "tally": "circletools.render.judging",
    "trace_csv": "circletools.render.trace_tables",
    "trace_json": "circletools.render.traces",
    "trace_markdown": "circletools.render.trace_tables",
    "trace_text": "circletools.render.trace_tables",
    "tracking_json": "circletools.render.tracking",
    "tracking_text": "circletools.render.tracking",
    "verdict": "circletools.render.findings",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
