from circletools.render.attribution import attribution_csv as attribution_csv
from circletools.render.attribution import attribution_json as attribution_json
from circletools.render.attribution import attribution_text as attribution_text
from circletools.render.comparison import comparison_json as comparison_json
from circletools.render.comparison import comparison_text as comparison_text
from circletools.render.cost import cost_text as cost_text
from circletools.render.difference import difference_json as difference_json
from circletools.render.difference import difference_text as difference_text
from circletools.render.difference_lines import ModelVerdicts as ModelVerdicts
from circletools.render.difference_lines import difference_markdown as difference_markdown
from circletools.render.digests import attestation_statement as attestation_statement
from circletools.render.digests import attestation_text as attestation_text
from circletools.render.digests import digests_text as digests_text
from circletools.render.findings import JUNIT_BEGIN as JUNIT_BEGIN
from circletools.render.findings import JUNIT_END as JUNIT_END
from circletools.render.findings import SarifText as SarifText
from circletools.render.findings import Tally as Tally
from circletools.render.findings import error_json as error_json
from circletools.render.findings import explanation_text as explanation_text
from circletools.render.findings import findings_text as findings_text
from circletools.render.findings import headline_text as headline_text
from circletools.render.findings import judgement_github as judgement_github
from circletools.render.findings import judgement_gitlab as judgement_gitlab
from circletools.render.findings import judgement_json as judgement_json
from circletools.render.findings import judgement_sarif as judgement_sarif
from circletools.render.findings import judgement_text as judgement_text
from circletools.render.findings import junit_suite as junit_suite
from circletools.render.findings import rewrite_json as rewrite_json
from circletools.render.findings import sarif_log as sarif_log
from circletools.render.findings import sarif_run as sarif_run
from circletools.render.findings import statistics_text as statistics_text
from circletools.render.findings import summary_text as summary_text
from circletools.render.findings import tally as tally
from circletools.render.findings import verdict as verdict
from circletools.render.fit import fit_json as fit_json
from circletools.render.fit import fit_judgement as fit_judgement
from circletools.render.fit import fit_sarif as fit_sarif
from circletools.render.fit import fit_text as fit_text
from circletools.render.inspection import inspection_json as inspection_json
from circletools.render.inspection import inspection_text as inspection_text
from circletools.render.numerics import numbers_json as numbers_json
from circletools.render.numerics import numbers_text as numbers_text
from circletools.render.numerics import reduction_text as reduction_text
from circletools.render.origins import origins_csv as origins_csv
from circletools.render.origins import origins_csv_lines as origins_csv_lines
from circletools.render.origins import origins_json as origins_json
from circletools.render.origins import origins_text as origins_text
from circletools.render.origins import origins_tree as origins_tree
from circletools.render.parts import measurement_file as measurement_file
from circletools.render.parts import measurement_json as measurement_json
from circletools.render.parts import measurement_text as measurement_text
from circletools.render.parts import split_json as split_json
from circletools.render.parts import split_verification_json as split_verification_json
from circletools.render.plans import affinity_json as affinity_json
from circletools.render.plans import affinity_text as affinity_text
from circletools.render.plans import export_text as export_text
from circletools.render.plans import plan_json as plan_json
from circletools.render.plans import plan_text as plan_text
from circletools.render.profiles import collapsed_text as collapsed_text
from circletools.render.profiles import profile_json as profile_json
from circletools.render.profiles import profile_text as profile_text
from circletools.render.profiles import speedscope_text as speedscope_text
from circletools.render.requirements import requirements_text as requirements_text
from circletools.render.table import csv_text as csv_text
from circletools.render.table import document_json
from circletools.render.table import entries_json as entries_json
from circletools.render.table import fitted as fitted
from circletools.render.table import rows_csv as rows_csv
from circletools.render.table import rows_text as rows_text
from circletools.render.table import table_text as table_text
from circletools.render.traces import trace_csv as trace_csv
from circletools.render.traces import trace_json as trace_json
from circletools.render.traces import trace_text as trace_text
from circletools.render.tracking import tracking_json as tracking_json
from circletools.render.tracking import tracking_text as tracking_text
from circletools.wording import SCHEMA_VERSION as SCHEMA_VERSION

attestation_json = document_json
cost_json = document_json
digests_json = document_json
explanation_json = document_json
reduction_json = document_json
requirements_json = document_json
