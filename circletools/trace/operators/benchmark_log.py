"""Read the figures in a benchmark's log other than its tables, such as the time of a run, and the options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from circletools.trace.operators.profile import Whole

LONGEST = 1000  # of a line with figures; searching takes time quadratic in the length
_INIT, _FIRST, _MEAN = "initialization_ns", "first_ns", "mean_ns"
_NUMERAL = r"(\d{1,15}(?:\.\d{1,9})?(?:e\+\d{1,2})?)"
# The figures that benchmark_model and, in milliseconds, benchmark_litert_model log after all runs, and their units.
_FIGURES: tuple[tuple[re.Pattern[str], tuple[str, ...], int], ...] = tuple(
    (re.compile(pattern.replace("#", _NUMERAL)), names, unit)
    for pattern, names, unit in (
        (r"nference timings in us: .*\bInit: #", (_INIT,), 1000),
        (r"nference timings in us: .*First inference: #", (_FIRST,), 1000),
        (r"nference timings in us: .*(?:\(avg\)|no stats|Inference): #", (_MEAN,), 1000),
        (r"Model initialization: +# ms", (_INIT,), 1_000_000),
        (r"(?:Warmup \(first\)|First inference): +# ms", (_FIRST,), 1_000_000),
        (r"Inference \(avg\): +# ms", (_MEAN,), 1_000_000),
        (r"Warmup \(avg\): +\S+ ms \(# runs\)", ("warm_up_runs",), 1),
        (r"Inference \(avg\): +\S+ ms \(# runs\)", ("runs",), 1),
        (r"emory footprint [^(]*\(MB\): init=# overall=#", ("initial_memory_bytes", "memory_bytes"), 1 << 20),
        (r"peak memory footprint \(MB\) via periodic monitoring: #", ("memory_bytes",), 1 << 20),
        (r"Init footprint: +# MB", ("initial_memory_bytes",), 1 << 20),
        (r"Overall footprint: +# MB", ("memory_bytes",), 1 << 20),
        (r"Peak memory: +# MB", ("memory_bytes",), 1 << 20),
        (r"model file size \(MB\): #", ("model_bytes",), 1_000_000),
        (r"threads(?: used for CPU inference)?(?:: \[|=)#", ("threads",), 1),
        (r"Initialized session in #ms", (_INIT,), 1_000_000),  # the last pattern wins: others round
        (r"Initialized session in #s", (_INIT,), 1_000_000_000),
    )
)
# Statistics of the warm-up and of the regular runs; tables have their own, after `Timings (microseconds): `.
_RANGE = r"\bcount=(\d{1,9}) (?:\w+=#)?(?:.*\bmin=# max=# avg=# std=#(?: p5=# median=# p95=#)?)?".replace(
    "#", _NUMERAL
)
_STATISTICS, _OF_TABLE = re.compile(rf"(?<!s\): ){_RANGE}"), re.compile(rf"seconds\): {_RANGE}")
_MODEL = re.compile(r"(?:\bGraph: \[|Loading model from: |Loaded model |--graph=)([^]\r`' <]+)")
_LIKELY = re.compile(r": \[|=|elegate|nference|armup|nitiali|[Mm]odel |emory|footprint|ersion|hreads")
_PEAK = re.compile(r"eak memory(?: footprint|: )")
_RANGES = ("min", "max", "std", "p5", "median", "p95")
_SPREAD = re.compile(rf"Inference \(({'|'.join(_RANGES)})\): +{_NUMERAL}")
_WARM_UP = re.compile(rf"\bWarmup(?: \(avg\))?: +{_NUMERAL}( ms)?")
_OPTION = re.compile(
    r"(?:--((?:\w+_)?(?:use|allow|require|accelerator|backend)_\w+)=|\b((?:Use|Allow|Enable running|Require"
    r"|CPU affinity|Tensorflow Version|NNAPI accelerator name|GPU backend)[^:[]*?) ?: (?:\[|(?<=Version : )))"
    r"([^]\s\"'`\\]+)"
)
_DELEGATED = {
    re.compile(pattern): text
    for pattern, text in (
        (r"Created TensorFlow Lite (\S+) delegate", "{}"),
        (r"External delegate path ?: \[(?:[^\]]*/)?([^\]/]+)\]", "{}"),
        (r"\b(\w+) delegate[^,]*, .*graph will (.{2,14}) executed(?!.* w/ \d)", "{}: graph will {} executed"),
        (r"\b(\w+) delegate[^,]*, .*graph will be (\w+) executed.* w/ (\d+)", "{}: graph {} executed, parts: {}"),
        (r"Replacing (\d+) out of (\d+) node.* \(([^()]+)\).* (\d+) part", "{} of {} operators in {}, parts: {}"),
        (r"Replacing (\d+) node.* \(([^()]+)\).* (\d+) part", "{} operators in {}, parts: {}"),
        (r"(\w+) delegate: (\d+) nodes delegated out of (\d+)", "{}: {} of {} operators"),
    )
}


def figures(lines: Iterable[str]) -> Whole:
    """Return the figures of one run of the program."""
    lines = [line for line in lines if len(line) <= LONGEST and "%" not in line and _LIKELY.search(line)]
    models = [match[1].strip() for match in _found(lines, (_MODEL,)) if match[1].strip()]
    means = [int(Decimal(match[1]) * (1_000_000 if match[2] else 1000)) for match in _found(lines, (_WARM_UP,))]
    words = dict.fromkeys(_DELEGATED[match.re].format(*match.groups()) for match in _found(lines, _DELEGATED))
    options = {(match[1] or match[2]).replace("_", " ").lower(): match[3] for match in _found(lines, (_OPTION,))}
    values: dict[str, Any] = {"delegates": tuple(words), "options": tuple(options.items())}
    values |= {"model": _named(models[-1]) if models else "", "warm_up_ns": tuple(means[-1:])}
    for pattern, names, unit in _FIGURES:
        for match in _found(lines, (pattern,)):
            values |= zip(names, (int(Decimal(value) * unit) for value in match.groups()), strict=True)
    added = "memory_bytes" in values and not any(_PEAK.search(line) for line in lines)
    spread = {match[1]: int(Decimal(match[2]) * 1_000_000) for match in _found(lines, (_SPREAD,))}
    times = tuple(spread[name] for name in _RANGES if name in spread)
    found = Whole(**values, memory_added=added, range_ns=times if len(times) in (3, 6) else ())
    statistics, tables = (_found(lines, (pattern,)) for pattern in (_STATISTICS, _OF_TABLE))
    if len(statistics) > 1:
        warm_up, regular = statistics[-2:]
        if any("with stats: " in line for line in lines):  # TensorFlow's benchmark_model runs once without, once with
            warm_up = statistics[-3] if len(statistics) > 2 else warm_up
        first, mean = (int(Decimal(text or 0) * 1000) for text in (warm_up[2], regular[5]))
        found = replace(found, first_ns=first or found.first_ns, mean_ns=mean or found.mean_ns)
        found = replace(found, warm_up_runs=int(warm_up[1]), warm_up_ns=_times(warm_up, 5, 3, 4) or found.warm_up_ns)
        tables = [regular]
    elif statistics and statistics[0][5] and int(Decimal(statistics[0][5]) * 1000) == found.mean_ns:
        tables = statistics
    elif found.mean_ns is not None or not tables:
        return found
    return replace(found, range_ns=_times(tables[-1], 3, 4, 6, 7, 8, 9), runs=int(tables[-1][1]))


def _times(match: re.Match[str], *groups: int) -> tuple[int, ...]:
    return tuple(int(Decimal(match[group]) * 1000) for group in groups if match[group])


def _named(path: str) -> str:
    """Return the file's name, after its folder's if it is only a number, as in `net-v1/1.tflite`."""
    *folders, name = path.split("/")
    return "/".join([*folders[-1:], name]) if name.partition(".")[0].isdigit() else name


def _found(lines: Iterable[str], patterns: Iterable[re.Pattern[str]]) -> list[re.Match[str]]:
    return [match for line in lines for pattern in patterns if (match := pattern.search(line))]
