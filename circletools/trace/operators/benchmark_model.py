"""Read the operator tables that LiteRT's summarizer prints in `benchmark_model` and in LiteRT's own runtime.

The tables are CSV (`--profiling_output_csv_file`), or text on standard output:

    ============================== Run Order ==============================
    node type, first, avg_ms, %, cdf%, mem KB, times called, name
    CONV_2D, 0.05, 0.048, 31.2%, 31.2%, 0, 1, [model/conv/Relu]:0

                 [node type]  [first]  [avg ms]  [%]  [cdf%]  [mem KB]  [times called]  [Name]
                     CONV_2D    0.050     0.048  31.2%  31.2%   0.000               1  [model/conv/Relu]:0

Older versions have a column `start` before `first`. In text, columns are separated by tabs or, in newer versions,
spaces. The name of an operator ends with `:<operator index>`, except in old versions; the name of a delegate's own
operator begins with `Delegate/`. Subgraphs other than the first follow `Subgraph (index: N) profile:`, the parts of a
delegate's run follow `Delegate internal:`, and `Timings (microseconds): count=N` gives the number of executions.
Sources: tensorflow/core/util/stats_calculator.cc, tensorflow/lite/profiling/profile_summarizer.cc and
profile_summary_formatter.cc, tensorflow/lite/tools/benchmark/profiling_listener.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import accumulate
from typing import Any, NamedTuple

from circletools.errors import InvalidInputError
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nothing_found

DELEGATE_PREFIX = "Delegate/"

# The prefix of each line from logcat (brief, time and threadtime) or from programs that timestamp their output.
_PREFIX = re.compile(
    r"^(?:\d\d-\d\d \d\d:\d\d:\d\d\.\d+ +(?:\d+ +\d+ +[VDIWEF] [^:]*|[VDIWEF]/[^(]*\( *\d+\)): ?"
    r"|[VDIWEF]/[^(]*\( *\d+\): ?|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?:? )"
)
_RUN_ORDER = re.compile(r"=+ Run Order =+\s*")
_SUBGRAPH = re.compile(r"Subgraph \(index: (\d{1,9})\) profile:")
_COUNT = re.compile(r"(?:Subgraph \(index: \d+\) )?Timings \(microseconds\): count=(\d{1,9})\b")
_NAME = re.compile(r".*:(\d{1,9})")
_NUMBER = r"-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|nan|inf)"
_HEADER = re.compile(r"node type,( start,)? first, avg_ms, %, cdf%, mem KB, times called, name")
# The type of an operator may contain commas, as may its name in older versions; the numbers that follow show where
# these end.
_VALUES = rf"{_NUMBER}, ([^ ,]*), {_NUMBER}%, {_NUMBER}%, {_NUMBER}, (\d{{1,9}}), "
_ROW, _ROW_WITH_START = (re.compile(rf"(.*?), {start}{_VALUES}(.*)") for start in ("", rf"{_NUMBER}, "))
_TEXT_HEADER = re.compile(
    r"\[node type\](\s+\[start\])?\s+\[first\]\s+\[avg ms\]\s+\[%\]\s+\[cdf%\]"
    r"\s+\[mem KB\]\s+\[times called\]\s+\[Name\]"
)
_MILLISECONDS = re.compile(r"\d{1,12}(?:\.\d{0,12})?(?:e[+-]0\d)?")
_CELLS = re.compile(r" *\t *| {2,}")
# The figures that benchmark_model and, in milliseconds, benchmark_litert_model log after all runs, and their units.
_LONGEST = 1000  # such lines are short; searching takes time quadratic in the length
_INIT, _FIRST, _MEAN = "initialization_ns", "first_ns", "mean_ns"
_NUMERAL = r"(\d{1,15}(?:\.\d{1,9})?(?:e\+\d{1,2})?)"
_FIGURES: tuple[tuple[re.Pattern[str], tuple[str, ...], int], ...] = tuple(
    (re.compile(pattern.replace("#", _NUMERAL)), names, unit)
    for pattern, names, unit in (
        (r"Inference timings in us: Init: #, First inference: #,.*\(avg\): #", (_INIT, _FIRST, _MEAN), 1000),
        (r"inference timings in us: .*Init: #, no stats: #", (_INIT, _MEAN), 1000),
        (r"Model initialization: +# ms", (_INIT,), 1_000_000),
        (r"Warmup \(first\): +# ms", (_FIRST,), 1_000_000),
        (r"Inference \(avg\): +# ms", (_MEAN,), 1_000_000),
        (r"Warmup \(avg\): +\S+ ms \(# runs\)", ("warm_up_runs",), 1),
        (r"emory footprint [^(]*\(MB\): init=# overall=#", ("initial_memory_bytes", "memory_bytes"), 1 << 20),
        (r"Init footprint: +# MB", ("initial_memory_bytes",), 1 << 20),
        (r"Overall footprint: +# MB", ("memory_bytes",), 1 << 20),
        (r"model file size \(MB\): #", ("model_bytes",), 1_000_000),
        (r"threads(?: used for CPU inference)?: \[#\]", ("threads",), 1),
        (r"Initialized session in #ms", (_INIT,), 1_000_000),  # the last pattern wins: others round
    )
)
# Statistics of the warm-up and of the regular runs; tables have their own, after `Timings (microseconds): `.
_RANGE = r"\bcount=(\d{1,9}) (?:\w+=#)?(?:.*\bmin=# max=# avg=# std=#(?: p5=# median=# p95=#)?)?".replace(
    "#", _NUMERAL
)
_STATISTICS, _OF_TABLE = re.compile(rf"(?<!\): ){_RANGE}"), re.compile(rf"\): {_RANGE}")
_MODEL = re.compile(r"(?:\bGraph: \[|Loading model from: )(?:[^\]]*/)?([^\]/\r]+)")
_DELEGATED = {
    re.compile(r"Created TensorFlow Lite (\S+) delegate"): "{}",
    re.compile(r"External delegate path: \[(?:[^\]]*/)?([^\]/]+)\]"): "{}",
    re.compile(r"\b(\w+) delegate[^,]*, .*graph will (.{2,12}) executed(?!.* w/ \d)"): "{}: graph will {} executed",
    re.compile(
        r"\b(\w+) delegate[^,]*, .*graph will be (\w+) executed.* w/ (\d+)"
    ): "{}: graph {} executed, parts: {}",
    re.compile(r"Replacing (\d+) out of (\d+) node.* \((\w+)\).* (\d+) part"): "{} of {} operators in {}, parts: {}",
}


class _Row(NamedTuple):
    kind: str
    mean_ms: Decimal
    calls: int
    name: str


@dataclass(slots=True)
class _Section:
    """The table of one subgraph or, if `delegates`, of what ran inside delegates."""

    subgraph: int = 0
    delegates: bool = False
    rows: list[_Row] = field(default_factory=list)
    count: int = 0


def parse(data: bytes) -> OperatorTrace:
    """Parse the report. Raises InvalidInputError."""
    lines = re.sub("\n{3,}", "\n\n", data.decode("utf-8", "surrogateescape")).split("\n")
    if any(_RUN_ORDER.fullmatch(_PREFIX.sub("", line, count=1)) and _PREFIX.match(line) for line in lines):
        lines = [_PREFIX.sub("", line, count=1) for line in lines]
    initial, sections = _sections(lines)
    parts = ((row.kind, int(row.mean_ms * row.calls * 1_000_000)) for section in initial for row in section.rows)
    whole = _whole(lines)
    executions = max([section.count for section in sections], default=0) or whole.runs or 1
    runs, inside, others = list[OperatorRun](), list[OperatorRun](), list[tuple[str, int, int]]()
    for section in sections:
        for row, place in zip(section.rows, _places(section.rows), strict=True):
            if place is not None:
                # The report's integer division gives 0 calls per execution if there is less than one.
                calls = max(1, row.calls) * (section.count or executions)
                total = int((row.mean_ms * calls * 1_000_000).to_integral_value())
                of_delegate = row.name.startswith(DELEGATE_PREFIX)
                label = "" if of_delegate else row.name.removesuffix(f":{place}").strip("[]")
                run = OperatorRun(section.subgraph, place, row.kind, "", 0, total, 0, 0, calls, of_delegate, label)
                (inside if section.delegates else runs).append(run)
            elif row.name.startswith(f"{row.kind}/"):
                others.append((row.kind, int(row.mean_ms * 1_000_000), row.calls))
    if not runs and whole.mean_ns is None:
        raise nothing_found("the tables of the report list no operators")
    whole = replace(whole, parts=tuple(parts), others=tuple(others))
    return OperatorTrace("benchmark_model", tuple(runs), executions, averaged=True, inside=tuple(inside), whole=whole)


def _whole(lines: list[str]) -> Whole:
    """Return the figures in a benchmark's log other than its tables."""
    lines = [line for line in lines if len(line) <= _LONGEST]
    words = dict.fromkeys(_DELEGATED[match.re].format(*match.groups()) for match in _found(lines, _DELEGATED))
    models = _found(lines, (_MODEL,))
    found = Whole(delegates=tuple(words), model=models[-1][1] if models else "")
    for pattern, names, unit in _FIGURES:
        for match in _found(lines, (pattern,)):
            values: Any = (int(Decimal(value) * unit) for value in match.groups())
            found = replace(found, **dict(zip(names, values, strict=True)))
    peak = found.memory_bytes is None or any("Peak memory footprint" in line for line in lines)
    found = replace(found, memory_added=not peak)
    statistics, tables = (_found(lines, (pattern,)) for pattern in (_STATISTICS, _OF_TABLE))
    if len(statistics) > 1:
        warm_up, regular = statistics[-2:]
        first, mean = (int(Decimal(text or 0) * 1000) for text in (warm_up[2], regular[5]))
        found = replace(found, first_ns=first or found.first_ns, mean_ns=mean or found.mean_ns)
        found, tables = replace(found, warm_up_runs=int(warm_up[1])), [regular]
    elif found.mean_ns is not None or not tables:
        return found
    times = (int(Decimal(text) * 1000) for text in tables[-1].group(3, 4, 6, 7, 8, 9) if text)
    return replace(found, range_ns=tuple(times), runs=int(tables[-1][1]))


def _found(lines: Iterable[str], patterns: Iterable[re.Pattern[str]]) -> list[re.Match[str]]:
    return [match for line in lines for pattern in patterns if (match := pattern.search(line))]


def _places(rows: list[_Row]) -> list[int | None]:
    """Return the operator index of each row, or None for rows that are not operators, such as AllocateTensors.

    Old versions write no index: without a delegate, their operators are in the model's order.
    """
    places = [match and int(match[1]) for row in rows for match in (_NAME.fullmatch(row.name),)]
    if any(place is not None for place in places) or any(row.kind == "DELEGATE" for row in rows):
        return places
    operators = [row.name.startswith("[") for row in rows]
    return [at - 1 if own else None for own, at in zip(operators, accumulate(operators), strict=True)]


def _sections(lines: list[str]) -> tuple[list[_Section], list[_Section]]:
    """Return the `Run Order` tables of the initialization, if marked as such, and those of the runs."""
    initial, sections = list[_Section](), list[_Section]()
    section = _Section()
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        at += 1
        if line.endswith("Operator-wise Profiling Info for Regular Benchmark Runs:"):
            initial, sections, section = sections, [], _Section()
        elif match := _SUBGRAPH.fullmatch(line):
            section = _Section(int(match[1]))
        elif line.rstrip() == "Delegate internal:":
            section = _Section(delegates=True)
        elif match := _COUNT.match(line):
            section.count = int(match[1])
        elif _RUN_ORDER.fullmatch(line):
            if not sections or sections[-1] is not section:  # else a second table continues it
                sections.append(section)
            columns, at = _columns(lines, at), at + 1
            while at < len(lines) and lines[at].strip("` \t\r"):  # or up to the end of a Markdown block
                section.rows.append(_row(lines[at].rstrip("\r"), columns, at + 1))
                at += 1
    return initial, sections


def _columns(lines: list[str], at: int) -> tuple[re.Pattern[str], int]:
    """Parse the header at line `at` (from 0); return the pattern of rows, and the gaps of a text row (CSV: 0)."""
    header = lines[at].strip() if at < len(lines) else ""
    if match := _HEADER.fullmatch(header) or _TEXT_HEADER.fullmatch(header):
        pattern, gaps = (_ROW_WITH_START, 8) if match[1] else (_ROW, 7)
        return pattern, gaps if match.re is _TEXT_HEADER else 0
    raise InvalidInputError("unknown table columns", location=str(at + 1))


def _row(line: str, columns: tuple[re.Pattern[str], int], number: int) -> _Row:
    pattern, gaps = columns
    # The name comes last; newer versions replace its commas with tabs in text.
    match = pattern.fullmatch(", ".join(_CELLS.split(line.strip(), gaps)) if gaps else line)
    if match is None:
        raise InvalidInputError("the row does not match the table's columns", location=str(number))
    if not _MILLISECONDS.fullmatch(match[2]):
        raise InvalidInputError(f"{match[2][:40]!r} is not a time in milliseconds", location=str(number))
    return _Row(match[1], Decimal(match[2]), int(match[3]), match[4])
