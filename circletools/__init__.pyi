from circletools import affinity as affinity
from circletools import checks as checks
from circletools import entries, origin, storage
from circletools import outputs as outputs
from circletools import planning as planning
from circletools import render as render
from circletools import surgery as surgery
from circletools import types as types
from circletools.check import check as check
from circletools.cost.cost import cost as cost
from circletools.diff.difference import compare_models
from circletools.edit.compact import compact as compact
from circletools.edit.edit import ModelEdit as ModelEdit
from circletools.editing import edit as edit
from circletools.errors import CircleToolsError as CircleToolsError
from circletools.errors import EditError as EditError
from circletools.errors import InvalidInputError as InvalidInputError
from circletools.errors import ModelFormatError as ModelFormatError
from circletools.errors import OutputError as OutputError
from circletools.errors import TableFormatError as TableFormatError
from circletools.errors import UsageError as UsageError
from circletools.findings import Finding as Finding
from circletools.fit.fit import fit as fit
from circletools.fit.request import FitRequest as FitRequest
from circletools.html.difference import difference_html as difference_html
from circletools.html.numbers import numbers_html as numbers_html
from circletools.html.report import report_html as report_html
from circletools.inspection import inspect_model
from circletools.model.digests import attest as attest
from circletools.model.digests import content_digests
from circletools.model.model import Model as Model
from circletools.model.model import open_model as open_model
from circletools.numerics.compare import compare as compare
from circletools.numerics.request import CompareRequest as CompareRequest
from circletools.origin import exporters as exporters
from circletools.origin.tracking.tracker import track
from circletools.parts.split import split as split
from circletools.parts.verify import verify_split as verify_split
from circletools.planning.planner import plan as plan
from circletools.planning.request import PlanRequest as PlanRequest
from circletools.profile.attribution import attribute as attribute
from circletools.profile.comparisons import compare_profiles as compare_profiles
from circletools.profile.comparisons import compare_traces as compare_traces
from circletools.profile.recording import profile as profile
from circletools.reduction.reduce import ReduceRequest as ReduceRequest
from circletools.reduction.reduce import reduce as reduce
from circletools.render.trace_slices import export_trace as export_trace
from circletools.requires.minimum import rewrite_requirements as rewrite_requirements
from circletools.requires.requirements import requires as requires
from circletools.requires.resolver import resolver_code as resolver_code
from circletools.trace.nnapi.analysis import read_trace as read_trace
from circletools.trace.operators.read import read_profile as read_profile
from circletools.version import __version__ as __version__
from circletools.wording import CallWarning as CallWarning

diff = compare_models
digests = content_digests
files = storage
inspect = inspect_model
metadata = entries
open = open_model  # noqa: A001  (`ct.open`, as in gzip and zipfile)
origins = origin
track_origins = track
