"""The figures of executions as a whole; ranks of times, which are shared if the trace cannot distinguish them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from statistics import median
from textwrap import wrap
from typing import Any, NamedTuple

from circletools.profile.attribution import Attribution
from circletools.profile.joining import Time
from circletools.render.table import filled, number_columns, table_text
from circletools.trace.operators.profile import OtherRow, Whole
from circletools.wording import counted, microseconds, milliseconds

_ADDED = (" peak", " more than at the start")
_FIELDS = ("initial_memory_bytes", "memory_added", "model_bytes", "model", "delegates", "runs", "warm_up_ns", "clock")
_PART = ("name", "total_ns", "calls", "memory_bytes")
_OF_RUN = ("model", "threads", "initialization_ns", "first_ns", "mean_ns", "memory_bytes", "failure")
_RUN_HEAD: tuple[str, ...] = ("run", "init", "first", "median", "average", "deviation", "operators", "MiB")
_RUN_HEAD += ("threads", "line", "program", "model", "delegates or options")
_USE = re.compile(r"use (?!caching).*")  # the options of delegates; Ruy's cache is not one
_WHOLLY = ("parts: ", " piece", "completely", "not be exec", "not applied", "none (")  # texts of parts
_PIECES = re.compile(r"((\d+)( of \d+)? operators in (?:TfLite)?(\w+?)(?: ?Delegate)?(?:V2)?), pieces: (\d+)")
_TYPED = re.compile(r"\(.*\b[PQ]?[FQ][SUDCP]?\d+")  # the types in an XNNPACK row, such as (NC, PF32)
_SETTINGS = attrgetter("model", "model_bytes", "threads", "options")
_OF_RECORDINGS = ("threads", "initialization", "first run", "steady state", "memory")  # microcontrollers: only memory
_WIDTH, _SCREEN = 78, 118  # the width of a figure's text, and that of the longest line
_SHORT = 10  # a run that takes less than this fraction of the average is not a whole run
_NEAR = 0.1  # times that differ by less than this share may change order between recordings of a model


def whole_json(attribution: Attribution) -> dict[str, Any]:
    """Return the figures as a JSON object."""
    whole = attribution.whole
    return {
        "initialization_ns": whole.initialization_ns,
        "first_ns": _first_ns(attribution),
        "steady_ns": _steady_ns(attribution),
        "warm_up": attribution.warm_up,
        **{name: getattr(whole, name) for name in ("memory_bytes", "threads", "range_ns", "warm_up_runs")},
        "initialization_parts": [dict(zip(_PART, part, strict=True)) for part in whole.parts],
        **{name: getattr(whole, name) for name in _FIELDS},
        "others": [row._asdict() for row in whole.others],
        "options": dict(whole.options),
        "sessions": [{name: getattr(one, name) for name in _OF_RUN} for one in whole.sessions],
    }


def time_text(time_ns: int, attribution: Attribution) -> str:
    """Return a time in microseconds or, if its unit is unknown, in ticks; ticks of TFLite Micro are known to 1%."""
    if attribution.runtime == "tflm" and attribution.unit == "ns":
        return f"{float(f'{time_ns / 1000:.3g}'):,.12g}"
    return microseconds(time_ns) if attribution.unit == "ns" else str(time_ns)


def _first_ns(attribution: Attribution) -> int | None:
    """Return the time of the first execution, or None if it is not in the trace."""
    whole = attribution.whole
    return whole.elapsed_ns[0] if whole.first_ns is None and whole.elapsed_ns else whole.first_ns


def _steady_ns(attribution: Attribution) -> int | None:
    """Return the median time of an execution after the warm-up, or the mean of averages; None if it is unknown."""
    settled = attribution.whole.elapsed_ns[attribution.warm_up :]
    return round(median(settled)) if settled else attribution.whole.mean_ns


def whole_cells(attribution: Attribution) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the figures that are known, and the names of those that a log lacks.

    Long values continue in rows without a name.
    """
    whole, first, steady = attribution.whole, _first_ns(attribution), _steady_ns(attribution)
    parts = ", ".join(_other_text(part) + f" in {part.calls} calls" * (part.calls > 1) for part in whole.parts)
    overlap = len(whole.parts) > 1 and whole.initialization_ns != sum(part.mean_ns for part in whole.parts)
    parts += " (these may overlap)" * overlap
    total = "" if whole.initialization_ns is None else f"{milliseconds(whole.initialization_ns)} ms"
    initial, memory, size = whole.initial_memory_bytes, whole.memory_bytes, whole.model_bytes or 0
    megabytes = "" if memory is None else f"{memory / (1 << 20):.1f} MiB" + _ADDED[whole.memory_added]
    delegates, absent = _delegates(attribution)
    options = [one for one in whole.options if not (delegates.startswith("none (") and _USE.fullmatch(one[0]))]
    figures = [
        ("model", ", ".join(filter(None, (whole.model, f"{size:,} bytes" * bool(size))))),
        ("delegates", delegates),
        ("options", "; ".join(filter(None, (_options(options, off=off) for off in (False, True))))),
        ("threads", str(whole.threads or "")),
        ("clock", whole.clock),
        ("initialization", ": ".join(filter(None, (total, parts)))),
        ("warm-up", _warm_up(attribution)),
        ("first run", "" if first is None else f"{milliseconds(first)} ms"),
        *_run_cells(attribution, steady),
        ("memory", megabytes + ("" if initial is None else f", {initial / (1 << 20):.1f} after initialization")),
    ]
    missing = [name for name, text in figures if not text]
    if attribution.runtime == "benchmark_model":
        known = ("options", "clock", "first run" if whole.first_operators_ns else "")
        missing = ["times of operators"] * bool(whole.types) + [name for name in missing if name not in known]
        missing = ["memory of the process" if name == "memory" else name for name in missing]
        figures.append(("not in the log", ", ".join([*missing, *absent, *_missing_in_log(attribution)])))
    else:
        expected = _OF_RECORDINGS[-1:] if attribution.runtime == "tflm" else _OF_RECORDINGS
        figures.append(("not recorded", ", ".join(name for name in missing if name in expected)))
    for name, text in figures:
        yield from zip((name, *[""] * len(text)), wrap(text, _WIDTH, break_on_hyphens=False), strict=False)


def _missing_in_log(attribution: Attribution) -> list[str]:
    """Return what is missing in a log of benchmark_model, except figures."""
    whole, kernels = attribution.whole, any(_TYPED.search(row.code) for row in attribution.operators)
    precise = kernels or any("fp16" in name or "precision" in name for name, _ in whole.options)
    others = (one for one in whole.sessions if one.line != whole.line and one.mean_ns is not None)
    others = (one for one in others if {*one.delegates} <= {*whole.delegates} and not one.first_operators_ns)
    plain = (one for one in others if _SETTINGS(one) == _SETTINGS(whole))
    lacking = {
        "model's name": whole.model_bytes and not whole.model,
        "model's size": whole.model and not whole.model_bytes,
        "initialization's parts": whole.initialization_ns is not None and not whole.parts,
        "precision": not precise,
        "spread": not whole.range_ns,
        "percentiles": len(whole.range_ns) in (2, 3),
        "times without the profiler": attribution.total_ns and not any(plain),
        "number of runs": whole.known(attribution.executions, True) is None,
        "times of single runs": whole.runs != 1,
    }
    return [*(name for name, is_absent in lacking.items() if is_absent), "device", "energy"]


def of_first(attribution: Attribution) -> bool:
    """Return whether the rows describe only the first of several runs, whose average is known."""
    whole = attribution.whole
    known = whole.operators_ns not in (None, whole.first_operators_ns)
    return known and attribution.executions == 1 < (whole.runs or 0)


def without_model(attribution: Attribution) -> bool:
    """Return whether rows of averages are shown as they are in the report."""
    return attribution.averaged and attribution.named and not attribution.source_names


def _delegates(attribution: Attribution) -> tuple[str, list[str]]:
    """Return what is known about the delegates, and what is not."""
    counts = Counter(row.code for row in attribution.operators) | Counter(dict(attribution.whole.types))
    rows = {name: count for name, count in counts.items() if "delegate" in name.lower()}
    known, absent = "; ".join(_delegate_texts(attribution.whole.delegates)), list[str]()
    if rows and "parts: " not in known:
        known = "; ".join(filter(None, (known, *(f"{name}, parts: {count}" for name, count in rows.items()))))
    options = attribution.whole.options
    used = {name.removeprefix("use "): text for name, text in options if _USE.fullmatch(name)}
    if used and attribution.operators and not (known or rows) and {*used.values()} <= {"0", "false"}:
        known = f"none ({', '.join(used)} off)"
    if known and not any(words in known for words in _WHOLLY):
        absent.append("delegate's parts")
    if rows and not any(row.kind == "inside" for row in attribution.added):
        absent.append("operators inside delegates")
    elif without_model(attribution) and any(row.time and row.backends for row in attribution.operators):
        absent.append("operators in delegate rows (give --model)")
    return known, absent


def _delegate_texts(delegates: Sequence[str], *, short: bool = False) -> Iterator[str]:
    """Yield what a log states about delegates, in clearer words; the pieces of the graph include the CPU's."""
    api = "".join(f" ({text})" for text in delegates if text.startswith("Open"))
    for text in (text for text in delegates if not text.startswith("Open")):
        match = _PIECES.fullmatch(text)
        if match is None:
            whole = text.replace("graph will be completely executed", "whole graph") if short else text
            yield whole.replace("GPU", f"GPU{api}")
            continue
        name, done, of, delegate, count = match.groups("")
        of_gpu, pieces = api * ("Gpu" in name), counted(int(count), "piece")
        brief = f"{delegate.upper()}{of_gpu} {done}{of.replace(' of ', '/')}, {pieces}"
        yield brief if short else f"{name}{of_gpu}, {pieces}" + ", including the CPU's" * (count != "1")


def _options(options: Iterable[tuple[str, str]], *, off: bool = False) -> str:
    """Return the options that are on, with their values, or those that are off."""
    some = [(name, text) for name, text in options if (text in ("0", "false")) is off]
    shown = ", ".join(name if off or text in ("1", "true") else f"{name} {text}" for name, text in some)
    return f"off: {shown}" if off and shown else shown


def program_runs_text(attribution: Attribution, top: int) -> Iterator[str]:
    """Yield a table of a log's runs; below it, values too wide for the table, and why results are missing."""
    whole, some = attribution.whole, slice(top or None)
    if not whole.sessions:
        return
    cut = f", the first {top}" if 0 < top < len(whole.sessions) else ""
    yield ""
    ends = Counter(one.failure.partition(":")[0] for one in whole.sessions if one.failure)
    failed = "".join(f", {count} {end}" for end, count in ends.items())
    title = f"runs of the program in the file, in ms: {len(whole.sessions)}{failed}{cut}"
    yield f"{title}; above: run {[one.line for one in whole.sessions].index(whole.line)}"
    rows, how = [_RUN_HEAD], [*_settings(whole.sessions)]
    several = [len({getattr(one, name) for one in whole.sessions}) > 1 for name in ("program", "model")]
    less = not all(one.failure or (one.model and one.mean_ns is not None) for one in whole.sessions)
    for at, one in enumerate(whole.sessions[some]):
        _, _, deviation, _, middle = (*one.range_ns, None, None, None, None, None)[:5]
        times = one.initialization_ns, one.first_ns, middle, one.mean_ns, deviation
        of = ["" if time is None else milliseconds(time) for time in (*times, one.operators_ns if less else None)]
        of += ["" if one.memory_bytes is None else f"{one.memory_bytes / (1 << 20):.1f}", str(one.threads or "")]
        program = (one.program or attribution.runtime) * several[0]
        rows.append((str(at), *of, str(one.line) if less else "", program, one.model * several[1], how[at]))
    for apart in (False, True):
        cells = [[text or "-" for text in row] for row in filled([row[: len(row) - apart] for row in rows])]
        lines = [*table_text(cells, right=number_columns(cells))]
        if not top or max(map(len, lines)) <= _SCREEN:
            break
    yield from (line if len(line) <= _SCREEN or not top else f"{line[: _SCREEN - 3]}..." for line in lines)
    texts = ["; ".join(filter(None, (how[at] * apart, one.failure))) for at, one in enumerate(whole.sessions)]
    yield from [f"  run {at} {text}" for at, text in enumerate(texts) if text][some]


def _settings(sessions: Sequence[Whole]) -> Iterator[str]:
    """Yield the delegates of each run and, unless all runs have them, its options."""
    common = set.intersection(*({*one.options} for one in sessions))
    for one in sessions:
        stated = sorted(one.delegates, key=lambda text: " operators" in text)  # the last is the most informative
        delegates = [*_delegate_texts(stated, short=True)][-1:]
        own = [each for each in one.options if each not in common]
        yield ", ".join(filter(None, (*delegates, _options(own) or _options(own, off=True) * (not delegates))))


def _warm_up(attribution: Attribution) -> str:
    whole = attribution.whole
    runs = "" if whole.warm_up_runs is None else counted(whole.warm_up_runs, "run")
    mean, *bounds = [milliseconds(time) for time in whole.warm_up_ns if whole.warm_up_runs != 1] or [""]
    return ", ".join(filter(None, (runs, mean and f"average {mean} ms", " to ".join(bounds))))


def _run_cells(attribution: Attribution, steady: int | None) -> Iterator[tuple[str, str]]:
    """Yield the time of a run, the time of its operators, and their rate."""
    if attribution.unit == "ticks":
        apart = ", ".join(f"{row.name} {row.mean_ns:,}" for row in attribution.whole.others)
        yield "other rows", f"{apart} ticks" if apart else ""
        return
    each, outside, spread = attribution.medians_ns or attribution.total_ns / attribution.executions, "", ""
    each = attribution.whole.operators_ns or each if attribution.whole.types or of_first(attribution) else each
    percentiles = [milliseconds(time) for time in attribution.whole.range_ns[3:]]
    of_operators = attribution.whole.range_of_operators
    if steady is not None:
        beside = max(0.0, steady - each) if attribution.outside_ns is None else attribution.outside_ns
        share = f" ({100 * beside / steady:.0f}%)" if steady else ""
        outside = f", {milliseconds(round(beside))} ms{share} outside operators"
    settled = attribution.whole.elapsed_ns[attribution.warm_up :]
    if len(settled) > 1:
        spread = f", {milliseconds(min(settled))} to {milliseconds(max(settled))}"
    elif times := attribution.whole.range_ns:
        low, high, *deviation = map(milliseconds, times[:3])
        spread = f", {low} to {high}"
        usual = each if of_operators else steady or each
        for one in deviation:
            spread += f", standard deviation {one} ({100 * times[2] / max(usual, 1):.1f}%)"
    if not attribution.averaged:
        yield "steady state", "" if steady is None else f"{milliseconds(steady)} ms a run{spread}{outside}"
    else:
        yield "average run", "" if steady is None else f"{milliseconds(steady)} ms{spread * (not of_operators)}"
        spread *= of_operators
        if percentiles:
            yield "percentiles", "5% {} ms, median {}, 95% {}".format(*percentiles)
        more = attribution.executions - (attribution.whole.runs or attribution.executions)
        if 0 < more <= (attribution.whole.warm_up_runs or 0):
            outside += f"; of {attribution.executions:,} runs, with warm-up"
        ahead, count = attribution.whole.first_operators_ns, attribution.executions
        if ahead and _first_ns(attribution) is None and attribution.whole.runs != 1:
            rest = f", {milliseconds(round((each * count - ahead) / max(1, count - 1)))} in the others"
            spread = f", {milliseconds(ahead)} in the first{rest * (count > 1 and ahead * _SHORT < each)}{spread}"
        yield "operators", f"{milliseconds(round(each))} ms a run{spread}{outside}" if each else ""
    if others := attribution.whole.others:
        yield "other rows", ", ".join(_other_text(row) + " (some runs)" * (not row.calls) for row in others)
    counts = [row.macs for row in attribution.operators if row.time or attribution.groups]
    if (macs := sum(count or 0 for count in counts)) and (steady or each):
        yield "rate", f"{2 * macs / (steady or each):.2f} GFLOP/s, {macs:,} MACs a run"


def _other_text(row: OtherRow) -> str:
    memory = f" and {row.memory_bytes / 1000:,g} kB" * bool(row.memory_bytes)
    return f"{row.name.removeprefix('LiteRT::Run').strip('[]')} {milliseconds(row.mean_ns)} ms{memory}"


class Rank(NamedTuple):
    """A place in the order, from 1; `shared` is the first place whose time is indistinguishable from this one's."""

    place: int
    shared: int


def ranks(times: Sequence[Time], tick_ns: int, work: Sequence[int] | None = None) -> list[Rank]:
    """Return the rank of each time; the longest time comes first.

    Medians are compared. Those that share a rank differ from the longest of them by at most a step of the clock, or
    by less than a tenth; the one with the most `work` comes first, because work is the same in every trace. Averages,
    and operators that do not run in most executions, are ranked by their totals.
    """
    groups: list[list[int]] = []
    for at in sorted(range(len(times)), key=lambda at: _key(times[at])):
        if groups and _near(times[groups[-1][0]], times[at], tick_ns):
            groups[-1].append(at)
        else:
            groups.append([at])
    found, done = {}, 0
    for group in groups:
        for place, at in enumerate(sorted(group, key=lambda at: (-work[at] if work else 0, at)), done + 1):
            found[at] = Rank(place, done + 1)
        done += len(group)
    return [found[at] for at in range(len(times))]


def _key(time: Time) -> tuple[int, int]:
    return -(time.median_ns or 0), 0 if time.median_ns else -time.total_ns


def _near(greater: Time, time: Time, tick_ns: int) -> bool:
    if not greater.median_ns or not time.median_ns:
        return _key(greater) == _key(time)
    less = greater.median_ns - time.median_ns
    return less <= tick_ns or less < _NEAR * greater.median_ns
