"""The cases of `same_results.py`: every command, on every model and every trace.

They depend only on the input files, not on the output of commands, so that two records have the same cases. A
tracking pair is `X.before.*` and `X.after.*`; a trace belongs to a model if its name ends with the model's stem.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from struct import error, unpack_from

from tools.result_worker import Given, Group

COMMANDS = (
    "embed-origins", "dump-origins", "track-origins", "fix-outputs", "annotate-affinity",
    "partition", "export-affinity", "split", "verify-split", "metadata remove", "compact", "inspect",
    "check", "diff", "trace-stats", "trace-compare", "trace-export", "attribute", "report",
)  # fmt: skip
MODELS, TRACES = (".circle", ".tflite"), (".html", ".ftrace", ".ctrace", ".pftrace", ".gz", ".csv", ".txt", ".json")
MODES = ("seed", "min")
MADE_TRACES = {
    "mlp.circle": ("FullyConnected", "FullyConnected", "Softmax"),
    "diamond.circle": ("FullyConnected", "Tanh", "Logistic", "Mul", "ReLU", "Add"),
}
EVERY = 4  # one in this many models has the cases that begin with `~`
EXPORTS = (("onert", "on"), ("part", "a-safe"), ("openvino", "a-safe"), ("model-explorer", "3"), ("dot", "3"))
COPIES = ("transpose", "reshape", "concatenation")
RULES = {"two": ("npu", "cpu"), "three": ("npu", "gpu", "cpu"), "other": ("cpu", "npu")}
COSTS = {
    "schema_version": 1,
    "devices": [
        {"name": "npu", "launch_us": 20, "operators": [{"select": "op:*", "time_us": 1, "bytes_per_us": 4000}]},
        {"name": "gpu", "operators": [{"select": "op:*", "time_us": 2, "bytes_per_us": 1500}]},
        {"name": "cpu", "operators": [{"select": "op:*", "bytes_per_us": 700}]},
    ],
    "transfers": [{"from": "npu", "to": "*", "bytes_per_us": 2000, "overhead_us": 3}],
}


def labelled(folders: Iterable[Path], endings: tuple[str, ...]) -> dict[str, Path]:
    """Return the files below the directories, by names that are independent of the directories' location."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name.endswith(endings):
                found[f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}"] = path.resolve()
    return found


def operator_counts(data: bytes) -> list[int]:
    """Return the number of operators in each subgraph; empty if the file cannot be read."""

    def follow(table: int, number: int) -> int:
        virtual: int = table - unpack_from("<i", data, table)[0]
        inside = 4 + 2 * number < unpack_from("<H", data, virtual)[0]
        offset: int = unpack_from("<H", data, virtual + 4 + 2 * number)[0] if inside else 0
        return int(table + offset + unpack_from("<I", data, table + offset)[0]) if offset else 0

    counts: list[int] = []
    with suppress(error):
        if subgraphs := follow(unpack_from("<I", data)[0], 2):
            for place in range(subgraphs + 4, subgraphs + 4 + 4 * unpack_from("<I", data, subgraphs)[0], 4):
                operators = follow(place + unpack_from("<I", data, place)[0], 3)
                counts.append(unpack_from("<I", data, operators)[0] if operators else 0)
    return counts


def random_rules(path: Path, seed: str, devices: tuple[str, ...]) -> str:
    """Return a document of rules that assigns a device to every operator, the same in every record."""
    rules = []
    for subgraph, count in enumerate(operator_counts(path.read_bytes())):
        chosen = defaultdict(list)
        for index in range(count):
            number = hashlib.sha256(f"{seed} {path.name} {subgraph} {index}".encode()).digest()[0]
            chosen[devices[number % len(devices)]].append(str(index))
        rules += [{"select": f"{subgraph}/index:{','.join(some)}", "device": name} for name, some in chosen.items()]
    return json.dumps({"schema_version": 1, "rules": rules, "default": "cpu"})


def origin_cases(m: str, e: str) -> list[str]:
    """Return cases about the sources of a model's operators, and of commands that write models."""
    return [
        *(f"{name} {m} --json" for name in ("inspect", "check --structure-only", "check")),
        *(f"~ {name} {m}" for name in ("inspect", "check --structure-only", "check")),
        f"~ inspect - --json < {m}",
        f"~ embed-origins - - < {m}",
        f"embed-origins {m} o{e}",
        f"embed-origins {m} t{e} --names tensor-names --no-stamp",
        f"~ embed-origins {m} d{e} --names debug-metadata",
        f"~ embed-origins o{e} r{e} --names tensor-names",
        f"~ embed-origins o{e} r{e} --replace --names tensor-names",
        *(f"dump-origins o{e} --format {form}" for form in ("json", "csv")),
        f"~ dump-origins o{e}",
        f"~ dump-origins t{e} --json",
        f"~ dump-origins d{e} --json",
        f"~ dump-origins {m} --json",
        f"~ dump-origins o{e} --operators 0-3,5 --json --subgraph 0",
        f"~ dump-origins o{e} --source [aeiou] --json",
        f"dump-origins o{e} --tables tables",
        f"~ embed-origins {m} again{e} --origins tables/origins.json",
        f"check o{e} t{e} --json",
        f"metadata remove o{e} back{e} --origins",
        f"~ metadata remove {m} x{e} --name nothing",
        f"compact {m} c{e}",
        f"~ compact o{e} oc{e}",
        f"track-origins {m} c{e} tr{e} --json",
        f"track-origins o{e} c{e} tro{e}",
        f"~ track-origins o{e} {m} --dry-run --json --min-confidence 0.6 --strict",
        f"dump-origins tro{e} --json",
        f"diff {m} o{e} --json",
        f"~ diff {m} o{e}",
        f"~ diff {m} c{e} --json --full",
        f"~ diff o{e} back{e} --json --ignore metadata.*",
        f"~ diff {m} c{e} --only structure,file --json",
        f"~ metadata remove o{e} --in-place --origins",
        f"report {m} -o page.html",
    ]


def output_cases(m: str, e: str) -> list[str]:
    """Return cases of fix-outputs."""
    return [
        f"~ fix-outputs {m} f{e}",
        f"~ fix-outputs {m} j{e} --json",
        f"fix-outputs {m} all{e} --subgraph all --json",
        f"~ fix-outputs {m} one{e} --subgraph 1 --json",
        *(f"~ fix-outputs {m} {op}{e} --copy-operator {op} --json" for op in COPIES),
        f"~ fix-outputs {m} auto{e} --copy-operator auto",
        f"fix-outputs {m} keep{e} --keep-constants --json",
        f"~ fix-outputs {m} --detach-taps --dry-run --json",
        f"fix-outputs {m} taps{e} --detach-taps --subgraph all",
        f"diff {m} all{e} --json",
        f"~ diff {m} taps{e} --json",
        f"check all{e} --json",
    ]


def affinity_cases(m: str, e: str) -> list[str]:
    """Return cases of devices, partitions, exports and splits; the rule files exist."""
    two, three = "--devices npu,cpu", "--devices npu,gpu,cpu"
    tables = f"{two} --capabilities npu=xnnpack --default cpu"
    return [
        *(f"annotate-affinity {m} a-{mode}{e} {two} --rules two.json --mode {mode} --json" for mode in MODES),
        *(f"partition {m} {three} --rules three.json --mode {mode} --json" for mode in MODES),
        *(f"~ partition {m} {two} --rules other.json --mode {mode} --json" for mode in MODES),
        f"~ partition {m} {two} --rules two.json",
        f"partition {m} {two} --rules two.json --costs costs.json --json",
        f"~ partition {m} {tables} --explain --json",
        f"partition {m} {tables} --min-size 3 --set index:0=cpu --json",
        f"~ partition {m} --costs costs.json --explain --json",
        f"annotate-affinity {m} 3{e} {three} --rules three.json --min-size 2 --explain",
        f"annotate-affinity {m} t{e} {tables} --min-size 2 --explain --json",
        f"annotate-affinity {m} l{e} {two} --capabilities npu=litert-cpu --capabilities cpu=onert-cpu --json",
        f"~ annotate-affinity {m} k{e} --costs costs.json --copy-rate 300 --copy-overhead 2 --launch 4 --json",
        f"annotate-affinity {m} p{e} --costs costs.json --solve-time 1 --json",
        f"~ annotate-affinity {m} y{e} {two} --costs costs.json --memory npu=3000 --json",
        f"~ annotate-affinity {m} u{e} {two} --set op:*=tpu --json",
        f"~ annotate-affinity {m} u{e} {two} --set index:99999=npu --default cpu --json",
        f"~ annotate-affinity a-safe{e} again{e} {two} --set op:*=npu --json",
        *(f"partition a-safe{e} --format {form}" for form in ("json", "csv")),
        f"~ partition a-safe{e}",
        f"partition 3{e} --by partition --json",
        f"~ partition 3{e} --by partition --format csv",
        f"~ partition 3{e} --costs costs.json --json",
        f"~ partition {m} --json",
        f"~ partition 3{e} --json --mode min",
        f"annotate-affinity {m} on{e} --devices ruy,cpu --capabilities ruy=onert-ruy --default cpu --json",
        *(f"export-affinity {model}{e} --to {to} -o {model}.{to}.export" for to, model in EXPORTS),
        f"~ export-affinity 3{e} --to part",
        f"~ export-affinity on{e} --to onert --json",
        f"split a-safe{e} parts --json",
        f"~ split a-safe{e} parts",
        f"~ split a-safe{e} parts --force",
        f"verify-split parts --on none --json --source a-safe{e}",
        f"~ split a-min{e} min --json",
        f"~ split 3{e} three --json",
        "~ verify-split three --on none --json",
        f"embed-origins {m} o{e}",
        f"annotate-affinity o{e} oa{e} {two} --rules two.json",
        f"compact oa{e} oac{e}",
        f"annotate-affinity o{e} oar{e} --reproject oa{e} --default cpu --json",
        f"fix-outputs oa{e} oaf{e} --json",
        f"check oa{e} oac{e} oaf{e} --json",
        f"~ diff oa{e} 3{e} --json",
        f"~ metadata remove oa{e} os{e} --affinity",
        f"report oa{e} -o page.html",
    ]


def broken_cases(names: list[str]) -> list[str]:
    """Return cases with damaged models."""
    steps = ("check {} --json", "~ embed-origins {} e{}", "~ inspect {} --json", "~ compact {} c{}")
    return [step.format(name, name) for name in names for step in steps]


def model_groups(label: str, path: Path, after: Path) -> Iterator[Group]:
    """Yield the cases of a model; `after` is another model to compare with."""
    m, e, size = path.name.replace(" ", "_"), path.suffix, path.stat().st_size
    model = {m: Given(str(path))}
    yield Group(f"{label} origins", model, origin_cases(m, e))
    yield Group(f"{label} outputs", model, output_cases(m, e))
    rules = {f"{name}.json": Given(text=random_rules(path, name, devices)) for name, devices in RULES.items()}
    costs = {"costs.json": Given(text=json.dumps(COSTS))}
    yield Group(f"{label} affinity", {**model, **rules, **costs}, affinity_cases(m, e))
    other = {f"other{after.suffix}": Given(str(after))}
    yield Group(f"{label} pair", {**model, **other}, [f"diff {m} {name} --json" for name in other])
    digests = (hashlib.sha256(f"{m} {n}".encode()).digest() for n in range(3))
    places = [int.from_bytes(digest[:4], "big") % max(1, size) for digest in digests]
    damaged = {
        f"cut{e}": Given(str(path), keep=places[0]),
        f"end{e}": Given(str(path), keep=max(0, size - 3)),
        f"early{e}": Given(str(path), flip=places[1] % 200),
        f"late{e}": Given(str(path), flip=places[2]),
    }
    yield Group(f"{label} damaged", damaged, broken_cases(list(damaged)))


def tracking_groups(models: dict[str, Path]) -> Iterator[Group]:
    """Yield the cases of models before and after a tool."""
    for label, path in models.items():
        after = path.with_name(path.name.replace(".before.", ".after."))
        if after != path and after.is_file():
            e = path.suffix
            yield Group(
                f"{label} tracking",
                {f"before{e}": Given(str(path)), f"after{e}": Given(str(after))},
                [
                    f"track-origins before{e} after{e} out{e} --json",
                    f"track-origins before{e} after{e} loose{e} --min-confidence 0 --no-stamp",
                    f"track-origins after{e} before{e} --dry-run --json --strict",
                    f"dump-origins out{e} --json",
                    f"diff before{e} after{e} --json --full",
                    f"diff before{e} after{e}",
                ],
            )


def made_trace(codes: tuple[str, ...]) -> str:
    """Return a trace, in onert's format, of three executions of these operators."""
    events = []
    for start in (1000, 2000, 3000):
        marks = [("$0 subg", "$0 sess, $0 subg", start, start + 900)]
        marks += [
            (
                f"@{index} {code}",
                "$0 sess, $0 subg, cpu",
                start + 50 * index + 10,
                start + 55 * index + 30 + start // 1000,
            )
            for index, code in enumerate(codes)
        ]
        for name, thread, begin, end in marks:
            for phase, stamp in (("B", begin), ("E", end)):
                args = {"session": "0", "subgraph": "0"}
                events.append({"name": name, "pid": "0", "tid": thread, "ph": phase, "ts": str(stamp), "args": args})
    return json.dumps({"traceEvents": [*sorted(events, key=lambda event: int(str(event["ts"]))), {}]})


def timed_cases(m: str, t: str) -> list[str]:
    """Return cases of a model with a trace of its operators."""
    return [
        f"attribute {t} --model {m}",
        f"attribute {t} --model {m} --json",
        f"attribute {t} --model {m} --format csv --by operator",
        f"attribute {t} --model {m} --by source --by module --json",
        f"attribute {t} --model {m} --skip 1 --depth 1 --json",
        f"report {m} -o page.html --trace {t}",
        f"partition {m} --trace cpu={t} --json",
        f"annotate-affinity {m} on-{m} --devices cpu,ruy --set op:*=cpu",
        f"partition on-{m} --trace cpu={t} --json",
    ]


def trace_groups(traces: dict[str, Path], models: dict[str, Path]) -> Iterator[Group]:
    """Yield the cases of traces, with the models to which they belong."""
    for (label, path), after in zip_longest(traces.items(), list(traces.values())[1:]):
        t, other = path.name, f"other{(after or path).suffix}"
        mine = {
            f"{path.suffix[1:]}-{m.name}": Given(str(m))
            for m in models.values()
            if re.search(rf"(^|_){re.escape(m.stem)}\.", t)
        }
        commands = [
            *(f"trace-stats {t}{form}" for form in (
                "", " --json", " --format csv", " --per-execution --json", " --per-execution",
                " --by bucket --json", " --by function --format csv", " --strict",
            )),
            f"trace-stats {t} {other} --json --jobs 2",
            f"trace-stats - --json < {t}",
            *(f"trace-compare {other} {t}{form}" for form in ("", " --format csv", " --threshold 5", " --operators")),
            *(f"trace-export {t} {to}.json --to {to}" for to in ("chrome", "perfetto")),
            *(f"trace-stats {to}.json --json" for to in ("chrome", "perfetto")),
        ]  # fmt: skip
        for name in mine:
            commands += [f"report {name} -o two.html --trace {t} --trace {other} --skip 1", *timed_cases(name, t)]
        given = {t: Given(str(path)), other: Given(str(after or path)), **mine}
        yield Group(f"{label} trace", given, commands)
    given = {path.name: Given(str(path)) for path in traces.values()}
    pairs = [
        f"trace-compare {one} {two}{form}"
        for one in given
        for two in given
        for form in (" --json", " --operators --json")
    ]
    yield Group("pairs of traces", given, pairs)
    for path in models.values():
        if path.name in MADE_TRACES:
            given = {path.name: Given(str(path)), "made.json": Given(text=made_trace(MADE_TRACES[path.name]))}
            yield Group(f"{path.name} made trace", given, timed_cases(path.name, "made.json"))


def directory_groups(models: dict[str, Path]) -> Iterator[Group]:
    """Yield the cases of many models at once: every third model, so that each command stays within its time limit."""
    some = {f"models/{label}": Given(str(models[label])) for label in list(models)[::3]}
    for jobs in (1, 2):
        yield Group(
            f"directory {jobs}",
            some,
            [
                *(f"{name} models --json --jobs {jobs}" for name in ("inspect", "check --structure-only", "check")),
                f"check models --jobs {jobs} --log check.jsonl",
                f"check models --jobs {jobs} --log check.jsonl --resume --json",
                f"embed-origins models out --log run.jsonl --jobs {jobs}",
                f"dump-origins out --format csv --jobs {jobs}",
                f"dump-origins out --json --jobs {jobs}",
                f"dump-origins out --tables tables --jobs {jobs}",
                f"fix-outputs models fixed --json --jobs {jobs}",
                f"annotate-affinity models placed --devices cpu --default cpu --json --jobs {jobs}",
                f"partition placed --format csv --jobs {jobs}",
                f"partition placed --json --jobs {jobs}",
                f"metadata remove out back --origins --jobs {jobs}",
                f"compact out small --jobs {jobs}",
            ],
        )


def error_groups(models: dict[str, Path]) -> Iterator[Group]:
    """Yield the cases of help, missing files and unknown options, for every command."""
    endings = {path.suffix: path for path in models.values()}
    for e, path in endings.items():
        out = {"attribute": f"--model m{e}", "report": "-o p.html", "trace-export": "o --to chrome",
               "export-affinity": "--to dot", "track-origins": f"m{e} o{e}", "diff": f"m{e}"}  # fmt: skip
        commands = ["--version", "--help", "", "nothing", "nothing --json"]
        for name in COMMANDS:
            rest = out.get(name, "")
            commands += [
                f"{name} --help",
                name,
                f"{name} missing{e} {rest}",
                f"{name} m{e} {rest} --no-such-option",
                f"{name} empty{e} {rest}",
                f"{name} folder {rest}",
                f"{name} m{e} {rest}",
                f"{name} m{e} m{e}",
                f"{name} m{e} no/such/folder/x{e}",
            ]
        given = {f"m{e}": Given(str(path)), f"empty{e}": Given(text=" ", keep=0), "folder/file": Given(text="x")}
        yield Group(f"errors {e}", given, list(dict.fromkeys(map(str.strip, commands))))


def all_groups(models: dict[str, Path], traces: dict[str, Path]) -> list[Group]:
    """Return all cases."""
    last = {path.suffix: path for path in models.values()}
    groups: list[Group] = []
    for number, (label, path) in enumerate(models.items()):
        for group in model_groups(label, path, last[path.suffix]):
            kept = (text for text in group.commands if text[0] != "~" or number % EVERY == 0)
            group.commands = [text.removeprefix("~ ") for text in kept]
            groups.append(group)
        last[path.suffix] = path
    groups += tracking_groups(models)
    groups += trace_groups(traces, models)
    groups += error_groups(models)
    return [*directory_groups(models), *groups] if models else groups
