"""Read the operator tables that LiteRT's summarizer prints in `benchmark_model` and in LiteRT's own runtime.

The tables are text, or CSV with the same columns (`--profiling_output_csv_file`):

    ============================== Run Order ==============================
                 [node type]  [first]  [avg ms]  [%]  [cdf%]  [mem KB]  [times called]  [Name]
                     CONV_2D    0.050     0.048  31.2%  31.2%   0.000               1  [model/conv/Relu]:0

Older versions have a column `start` before `first`, some print no titles, and in 2018 and 2019 `avg ms` is `first`.
An operator's name ends with `:<index>`, except in old versions; a delegate operator's name begins with `Delegate/`.
Subgraphs after the first follow `Subgraph (index: N) profile:`, and parts of a delegate's run `Delegate internal:`.
Sources: core/util/stats_calculator.cc, lite/profiling/profile_summarizer.cc, lite/tools/benchmark/*.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import accumulate, chain
from typing import Any, NamedTuple

from circletools.errors import InvalidInputError
from circletools.storage.documents import lines_of
from circletools.trace.operators.litert import printed
from circletools.trace.operators.names import NAMES
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, OtherRow, Whole, nothing_found

DELEGATE_PREFIX = "Delegate/"
_RUN_ORDER, _FILE = "Run Order", ".tflite"
# Lines that begin a run of the program, if it has no line of the same or a higher rank.
_BEGINNINGS = ((4, "run times"), (3, "Markdown block"), (2, "model loaded"), (1, "begins program"))
_CELLS = {"avg ms": r"(?P<mean>[^ \t,]*)"} | dict.fromkeys(("%", "avg %"), r"(?P<share>[^ \t,]*)%")
_CELLS |= {name: rf"(?P<{group}>\d{{1,9}})" for name, group in (("times called", "calls"), ("count", "count"))}
_NUMBER = r"-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|nan|inf)%?"
_CELLS |= {"first": f"(?P<first>{_NUMBER})", "mem KB": f"(?P<memory>{_NUMBER})"}
_ALL = 99  # percent: the sum of a table's shares, allowing for rounding
_LONGEST = 1000  # the longest line with figures: searching takes time quadratic in the length
_REAL = r"(\d{1,15}(?:\.\d{1,9})?(?:e\+\d{1,2})?)"
_LINE = {name: re.compile(pattern.replace("#", _REAL)) for name, pattern in NAMES["lines"].items()}
# The figures that programs log after all runs, and their units; of several patterns for a figure, the last one wins.
_FIGURES = [(re.compile(pattern.replace("#", _REAL)), names, unit) for pattern, names, unit in NAMES["figures"]]
_RANGES = ("min", "max", "std", "p5", "median", "p95")
_DELEGATED = {re.compile(pattern): text for pattern, text in NAMES["delegates"].items()}


class _Row(NamedTuple):
    kind: str
    mean_ms: Decimal
    percent: Decimal
    calls: int
    name: str
    operators: int
    first_ms: Decimal = Decimal(0)
    memory_kb: Decimal = Decimal(0)

    def total_ns(self, mean_us: Decimal) -> Decimal:
        """Return the time per execution, from the share of `mean_us` (the time of all rows) if that is more exact."""
        # The report's integer division gives 0 for fewer calls than runs. The time of a type covers all its calls.
        calls = 1 if self.operators else max(1, self.calls)
        printed, share = self.mean_ms * calls * 1_000_000, self.percent * mean_us * 10
        error = mean_us / 200  # the error of a share with three decimals
        rounded = self.mean_ms.as_tuple().exponent == self.percent.as_tuple().exponent == -3
        return share if rounded and abs(share - printed) - error <= 500 * calls > error else printed

    def other(self, name: str, times: int = 1) -> OtherRow:
        return OtherRow(name, int(self.mean_ms * times * 1_000_000), self.calls, int(self.memory_kb * 1000))


@dataclass(slots=True)
class _Section:
    """The tables of one subgraph or, if `delegates`, of what ran inside delegates; if `open`, the end is missing."""

    subgraph: int = 0
    delegates: bool = False
    rows: list[_Row] = field(default_factory=list)
    listed: set[_Row] = field(default_factory=set)
    types: list[_Row] = field(default_factory=list)
    count: int = 0
    mean_us: Decimal = Decimal(0)
    open: bool = False


def parse(data: bytes) -> OperatorTrace:
    """Parse the last run that lists operators or, if none does, types or only results. Raises InvalidInputError."""
    if b" with stats: " in data or b"stat_summarizer.cc:" in data:
        raise nothing_found("the report is from TensorFlow's own benchmark_model, which runs other models")
    lines = [line.rstrip() for line in lines_of(data)]
    some = ((at, line) for at, line in enumerate(lines) if "%" not in line[1:] or "ode type" in line)  # no rows
    marks = [at for at, line in some if len(line) <= _LONGEST and _search("may be of use", line)]
    sessions = _sessions(lines, marks) or [(0, len(lines), 0)]
    each = [_session(lines, *one) for one in sessions]
    known = [(tables, not one.failure, bool(one.first_ns)) for one, (*_, tables) in zip(each, sessions, strict=True)]
    shown = max(range(len(each)), key=lambda at: (known[at], at))
    begin, end, _ = sessions[shown]
    whole = replace(each[shown], sessions=tuple(each) if len(each) > 1 else ())
    marks = [at for at in marks if begin <= at < end]
    runs, executions = printed(lines[at] for at in marks)
    if runs:
        return OperatorTrace("benchmark_model", runs, executions, True, whole=replace(whole, runs=executions))
    return _trace(*_sections(lines, marks), whole)


def _sessions(lines: Sequence[str], marks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the first line of each run of the program, the line after it, and 2 for operators or 1 for only types.

    A run begins with its options, another model or, after results, a Markdown block, other results, or a table.
    """
    sessions: list[tuple[int, int, bool]] = []
    begin = tables = begun = since = ended = 0
    timings, before, part, wise, logged = "", "", False, False, False
    for at in marks:
        line, match = lines[at], _search("result", lines[at])
        loaded, counted, many = (
            _search(name, line) for name in ("model loaded", "run times", "one of many settings")
        )
        if many and logged:
            continue
        table = 1 if _search("types header", line) else 2 * (_search("operators header", line) is not None)
        again = table and not part and (tables == table == 1 or (tables == table == 2 and ended))
        least = next((rank for rank, name in _BEGINNINGS if _LINE[name].search(line)), 0)
        same = bool(before) and (line.endswith(before) or before.endswith(line))
        if not same and (
            (least and (begun >= least or timings or (tables and not counted)))
            or ("Info for Benchmark Initialization" in line and tables)
            or ("Operator-wise" in line and wise)
            or (match and timings and (since or timings != match[0]))
            or again
            or many
        ):
            sessions.append((begin, tables, bool(timings or begun)))
            begin = ((match or loaded or counted) and since) or (again and ended) or at
            tables, timings, begun, wise, since, ended = 0, "", 0, False, 0, 0
        elif timings and not since and _search("sets up again", line):
            since = at
        part, tables = "rofil" in line or "elegate internal" in line or (part and not table), max(tables, table)
        wise, logged = wise or "Operator-wise" in line, logged or match is not None
        over = sessions and _search("crash", line)
        named = bool(over or _search("names model", line))
        level = 3 + (begun > 2 and not same) if counted else 2 if loaded else named
        begun, before = max(begun, level), line
        ended = at + 1 if _search("times of table", line) else ended * (not part)
        timings = timings or (match[0] if match else "")
    sessions.append((begin, tables, bool(timings or begun)))
    ends = [*(begin for begin, *_ in sessions[1:]), len(lines)]
    return [(begin, end, code) for (begin, code, some), end in zip(sessions, ends, strict=True) if code or some]


def _session(lines: Sequence[str], begin: int, end: int, tables: int) -> Whole:
    """Return the figures of one run of the program, with the reason if it has no results."""
    if tables == 1:
        return _by_type(lines, begin, end)
    found = replace(_figures(lines[begin:end]), line=begin + 1)
    if tables or found.mean_ns is not None:
        return found
    some = [line for line in lines[begin:end] if len(line) <= _LONGEST]
    errors = [match[1] or match[0] for match in _found(some, "error")]
    # A kernel's error line precedes that of its node, which names the operator; any other first error is the cause.
    clear = [error for error in errors if not _search("vague error", error)]
    cause = next((error for error in errors if _search("failed operator", error)), (*clear, *errors, "")[0])
    kind = "failed" if _found(some, "crash") else "cut"
    return replace(found, failure=": ".join(filter(None, (kind, cause.rstrip(".")))))


def _sections(lines: Sequence[str], marks: Sequence[int]) -> tuple[list[_Section], list[_Section]]:
    """Return the tables of the initialization, if marked as such, and those of the runs, in execution order."""
    initial, sections, section, title, end = list[_Section](), list[_Section](), _Section(), "", 0
    for at in marks:
        line = lines[at]
        if "Operator-wise Profiling Info for Regular Benchmark Runs" in line:
            initial, sections, section = sections, [], _Section()
        elif match := _search("subgraph", line):
            section = _Section(int(match[1]))
        elif line.endswith("Delegate internal:"):
            section = _Section(delegates=True)
        elif match := _search("times of table", line):
            statistics = _statistics(match)
            section.count, section.open = int(statistics["count"]), False
            section.mean_us = statistics.get("avg", Decimal(0))
        elif match := _search("title", line):
            title = match[1]
            if title == _RUN_ORDER and not _LINE["header"].search(lines[at + 1] if at + 1 < len(lines) else ""):
                raise InvalidInputError("unknown table columns", location=str(at + 2))
        elif at >= end and (match := _search("header", line)):
            rows, end = _rows(lines, at, match)
            types, shares = _search("types header", line), sum(row.percent for row in rows)
            # The operators are listed again, ordered by time; without titles, only the rows show it.
            whole = not title or (title == "Top by Computation Time" and shares > _ALL)
            if types or title == _RUN_ORDER or (whole and not section.listed.issuperset(rows)):
                if not sections or sections[-1] is not section:  # else a second table continues it
                    sections.append(section)
                (section.types if types else section.rows).extend(rows)
                section.listed.update(() if types else rows)
                section.open = 0 < shares < _ALL or ((title == _RUN_ORDER or section.open) and not _adds_up(rows))
            title = ""
    return initial, sections


def _adds_up(rows: Sequence[_Row]) -> bool:
    """Return whether the shares of rows add up to 100% but for rounding, so that no row with a share is missing."""
    decimals = -int(rows[0].percent.as_tuple().exponent) if rows else 0
    return abs(100 - sum(float(row.percent) for row in rows)) <= len(rows) / 2 * 10.0**-decimals


def _rows(lines: Sequence[str], at: int, header: re.Match[str]) -> tuple[list[_Row], int]:
    """Return the rows below the header at line `at` (from 0), and the line after them."""
    text = header[2].startswith("[")
    names = re.findall(r"\[([^]]*)\]", header[2]) if text else header[2].replace("_", " ").split(", ")
    inner = names[1:] if _search("types header", header[2]) else names[1:-1]
    if "avg ms" not in inner or len({*names}) < len(names):
        raise InvalidInputError("unknown table columns", location=str(at + 1))
    gap = r"[ \t]{1,99}" if text else ", "  # matching must not take time quadratic in the length of a line
    cells = gap.join(_CELLS.get(name, _NUMBER) for name in inner)
    # The kind may contain commas and spaces, as may the name; the numbers between show where these end.
    pattern = re.compile(rf"(?P<kind>.{{1,300}}?){gap}{cells},?[ \t]*(?P<name>.*)")
    shapes = (re.sub(r"\d+", r"\\d+(?!\\d)", re.escape(part)) for part in ["", *header[1].split()])
    prefix = re.compile(r"\s*".join(shapes))
    rows = list[_Row]()
    for number in range(at + 1, len(lines)):
        own = prefix.match(lines[number])
        line = (lines[number][own.end() :] if own else lines[number]).lstrip()
        if not line.strip("` \t") or _LINE["end of table"].match(line):  # the table or its Markdown block ends
            return rows, number
        if match := pattern.fullmatch(line):
            kind, mean, name = match.group("kind", "mean", "name")
            if not _LINE["milliseconds"].fullmatch(mean):
                raise InvalidInputError(f"{mean[:40]!r} is not a time in milliseconds", location=str(number + 1))
            found = {"calls": "1", "count": "0", "share": "", "first": "", "memory": ""} | match.groupdict()
            texts = (found[name] for name in ("share", "first", "memory"))
            share, first, memory = (Decimal(one if _LINE["milliseconds"].fullmatch(one) else 0) for one in texts)
            place = int(found["calls"]), name, int(found["count"])
            rows.append(_Row(kind, Decimal(mean), share, *place, first, memory))
        elif own and (not rows or number < len(lines) - 1):  # else another program's line in a log, or half a line
            raise InvalidInputError("the row does not match the table's columns", location=str(number + 1))
    return rows, len(lines)


def _trace(initial: Sequence[_Section], sections: Sequence[_Section], whole: Whole) -> OperatorTrace:
    parts = tuple(row.other(row.kind, row.calls) for section in initial for row in section.rows) or whole.parts
    executions = max([section.count for section in sections], default=0) or whole.runs or 1
    runs, inside, others = list[OperatorRun](), list[OperatorRun](), list[OtherRow]()
    types, listed = Counter[str](), any(section.rows for section in sections)
    each = [section.rows if listed else section.types for section in sections]
    if _of_first([*chain(*each)], executions, whole):
        scale, executions = 1 if listed else executions, 1
        each = [[row._replace(mean_ms=row.mean_ms * scale) for row in rows] for rows in each]
        sections = [replace(section, count=1, mean_us=Decimal(0)) for section in sections]
    for section, rows in zip(sections, each, strict=True):
        for row, place in zip(rows, _places(rows), strict=True):
            if place is None:
                of_kind = row.operators or row.name.startswith(f"{row.kind}/")
                name = row.kind if of_kind else row.name.rpartition("/")[0] or row.name
                others.append(row.other(name))
                continue
            count = section.count or executions
            calls = max(1, row.calls, row.operators) * count
            total = int((row.total_ns(section.mean_us) * count).to_integral_value())
            of_delegate, outputs = row.name.startswith(DELEGATE_PREFIX), _LINE["output names"].fullmatch(row.name)
            label = "" if of_delegate else outputs[1] if outputs else row.name.removesuffix(f":{place}")
            run = OperatorRun(section.subgraph, place, row.kind, "", 0, total, 0, 0, calls, of_delegate, label)
            (inside if section.delegates else runs).append(run)
            types[row.kind] += row.operators
    if not runs and whole.mean_ns is None and whole.first_ns is None:
        if whole.failure.startswith("failed"):
            raise InvalidInputError(f"benchmark_model {whole.failure}")
        reason = f" ({whole.failure})" * bool(whole.failure)
        raise nothing_found(f"benchmark_model's report has neither tables nor results like `count=9 first=5`{reason}")
    if listed and not any(section.count for section in sections):  # no summary has the first run's time
        first = sum(row.first_ms for section in sections if not section.delegates for row in section.rows)
        whole = replace(whole, first_operators_ns=whole.first_operators_ns or int(first * 1_000_000) or None)
    whole = replace(whole, parts=parts, others=tuple(others), types=tuple((+types).items()))
    # Rows are numbered from 0 in each part of a delegate; equal rows of several parts are one row with more calls.
    delegated = [run for run in runs if run.of_delegate]
    least = max(sum(not run.operator for run in delegated), *(run.calls // executions for run in delegated), 0)
    if least > 1 and "parts: " not in "".join(whole.delegates):
        whole = replace(whole, delegates=(*whole.delegates, f"delegate's parts: {least} or more"))
    cut = sum(section.open for section in sections)
    return OperatorTrace("benchmark_model", tuple(runs), executions, True, tuple(inside), cut, whole=whole)


def _of_first(rows: Sequence[_Row], runs: int, whole: Whole) -> bool:
    """Return whether the times of rows are the first run's, but shares and times by type are means of all runs."""
    total_ns = sum(row.mean_ms * (runs if row.operators else 1) for row in rows) * 1_000_000
    rounding = sum(1000 * runs * row.operators or 500 for row in rows)
    once = not any(row.calls for row in rows) or 2 * sum(row.percent for row in rows) < _ALL
    first, mean = (abs(int(total_ns) - (time or 0)) for time in (whole.first_operators_ns, whole.operators_ns))
    return runs > 1 and once and first <= rounding < mean


def _places(rows: Sequence[_Row]) -> list[int | None]:
    """Return the operator index of each row (-1 for types), or None for other rows, such as AllocateTensors."""
    if rows and rows[0].operators:
        return [None if _LINE["not an operator"].fullmatch(row.kind) else -1 for row in rows]
    # Old versions write no index: their operators are in the model's order.
    places = [match and int(match[1]) for row in rows for match in (_LINE["operator index"].fullmatch(row.name),)]
    if any(place is not None for place in places):
        return places
    operators = [row.name.startswith("[") for row in rows]
    return [at - 1 if own else None for own, at in zip(operators, accumulate(operators), strict=True)]


def _by_type(lines: Sequence[str], begin: int, end: int) -> Whole:
    """Return the figures of a table by type; if no log precedes it, a document may name its model just before."""
    table = next(at for at in range(begin, end) if _search("types header", lines[at][:_LONGEST]))
    logged = any("Graph: [" in lines[at] for at in range(begin, table))
    first = next((at for at in range(table, begin, -1) if _FILE in lines[at][:_LONGEST] and not logged), begin)
    name = re.split(r"[^\w.-]", lines[first][:_LONGEST].rpartition(_FILE)[0])[-1]
    found = _figures(lines[first:end])
    return replace(found, model=found.model or (name and name + _FILE), line=table + 1)


def _figures(lines: Iterable[str]) -> Whole:
    """Return the figures of one run of the program."""
    lines = [
        line for line in lines if len(line) <= _LONGEST and "%" not in line and _search("may have figures", line)
    ]
    lines = lines[:1] + [line for line in lines[1:] if not _search("one of many settings", line)]
    paths = ["", *(match[1] or match[2] for match in _found(lines, "model"))]
    *folders, name = paths[-1].rstrip("/").split("/")
    folder = folders[-1:] if name.partition(".")[0].isdigit() else []  # a bare number is vague: `net-v1/1.tflite`
    means = [int(Decimal(match[1]) * (1_000_000 if match[2] else 1000)) for match in _found(lines, "warm up")]
    stated = _found(filter(_LINE["about delegates"].search, lines), *_DELEGATED)
    texts = dict.fromkeys(_DELEGATED[match.re].format(*match.groups()) for match in stated)
    # Texts that state only that a delegate exists or was applied are omitted if another text is more specific.
    bare = {text: text.removesuffix(": applied").lower() for text in texts}
    less = {text for text in texts for one in list(texts)[:99] if bare[text] in one.lower() and len(text) < len(one)}
    words = tuple(text for text in texts if text not in less or ":" in bare[text])
    options = {(match[1] or match[2]).replace("_", " ").lower(): match[3] for match in _found(lines, "option")}
    options |= (("performance option", match[1]) for match in _found(lines[:1], "one of many settings"))
    values: dict[str, Any] = {"delegates": words, "options": tuple(options.items())}
    parts = tuple(OtherRow(match[1], int(Decimal(match[2]) * 1_000_000)) for match in _found(lines, "loading time"))
    programs = (name for mark, name in NAMES["programs"].items() if any(mark in line for line in lines))
    values["program"] = next(programs, "")
    values |= {"parts": parts, "initialization_ns": sum(part.mean_ns for part in parts)} if parts else {}
    values |= {"model": "/".join([*folder, name]), "warm_up_ns": tuple(means[-1:])}
    for pattern, names, unit in _FIGURES:
        for match in _found(lines, pattern):
            values |= zip(names, (int(Decimal(value) * unit) for value in match.groups()), strict=True)
    added = "memory_bytes" in values and not any(_search("peak memory", line) for line in lines)
    spread = {match[1].lower(): int(Decimal(match[2]) * 1_000_000) for match in _found(lines, "spread")}
    times = tuple(spread[name] for name in _RANGES if name in spread)
    found = Whole(**values, memory_added=added, range_ns=times if len(times) in (2, 3, 6) else ())
    first = next((at for at, line in enumerate(lines) if "Operator-wise" in line), 0)  # end of initialization
    statistics = [*map(_statistics, _found(lines, "statistics"))]
    shown = tables = [*map(_statistics, _found(lines[first:], "times of table"))]
    if tables:
        first_ns, mean_ns, *_ = _times(tables[0], "first", "avg", "first")
        found = replace(found, first_operators_ns=first_ns or None, operators_ns=mean_ns or None)
    if len(statistics) > 1 or (statistics and found.mean_ns is None and not tables):
        warm_up, *regular = statistics[-2:]
        first_ns, mean_ns = sum(_times(warm_up, "first")), sum(_times(regular[0], "avg")) if regular else 0
        found = replace(found, first_ns=first_ns or found.first_ns, mean_ns=mean_ns or found.mean_ns)
        times = _times(warm_up, "avg", "min", "max") or found.warm_up_ns
        found, shown = replace(found, warm_up_runs=int(warm_up["count"]), warm_up_ns=times), regular
    elif statistics and found.mean_ns in _times(statistics[0], "avg"):
        shown = statistics
    elif not tables or (found.mean_ns is not None and found.runs is not None):
        return found
    if shown:
        found = replace(found, range_ns=_times(shown[-1], *_RANGES), runs=int(shown[-1]["count"]))
    return replace(found, range_of_operators=shown is tables)


def _statistics(match: re.Match[str]) -> dict[str, Decimal]:
    """Return the figures of a line such as `count=9 first=5 curr=4 min=3`, in microseconds (of one run: `curr`)."""
    found = {name: Decimal(value) for name, value in _LINE["one statistic"].findall(match.string, match.start())}
    return {"first": found.get("curr", Decimal(0))} | found


def _times(statistics: Mapping[str, Decimal], *names: str) -> tuple[int, ...]:
    return tuple(int(statistics[name] * 1000) for name in names if name in statistics)


def _search(form: str, line: str) -> re.Match[str] | None:
    return _LINE[form].search(line)


def _found(lines: Iterable[str], *forms: str | re.Pattern[str]) -> list[re.Match[str]]:
    patterns = [_LINE[form] if isinstance(form, str) else form for form in forms]
    return [match for line in lines for pattern in patterns if (match := pattern.search(line))]
