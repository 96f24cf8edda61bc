"""Initial inputs: the files of testdata, and small hand-written files of each kind."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

from circletools.render.trace_slices import chrome_parts, perfetto_parts
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import open_trace
from circletools.trace.sources.wire import field_bytes, field_number

ROOT = Path(__file__).parents[1]
TESTDATA = ROOT / "testdata"
_MOST_BYTES = 20_000  # the maximum size of a seed: small inputs are tried more often

_MARKS = b"""# tracer: nop
 app-100   (  100) [000] d..1     1.000000: tracing_mark_write: B|100|[NN_LA_PO]run
 app-100   (  100) [000] d..1     1.000100: tracing_mark_write: B|100|[NN_LA_PBM]benchmark
 app-100   (  100) [000] d..1     1.000200: tracing_mark_write: B|100|[NN_LR_PE]ANeuralNetworksExecution_startCompute
 app-100   (  100) [000] d..1     1.000300: tracing_mark_write: E|100
 app-101   (  100) [001] d..1     1.000350: tracing_mark_write: B|100|HIDL::IDevice::prepareModel::client
 app-101   (  100) [001] d..1     1.000360: tracing_mark_write: B|100|[SW][NN_LC_PCO]x
 app-101   (  100) [001] d..1     1.000370: tracing_mark_write: B|100|[SUB][NN_LR_PTR]x
 app-101   (  100) [001] d..1     1.000380: tracing_mark_write: E
 app-101   (  100) [001] d..1     1.000390: tracing_mark_write: E|100
 drv-200   (-----) [001] ....     1.000400: print: B|200|HIDL::IPreparedModel::execute_1_2::server
 drv-200   (-----) [001] ....     1.000500: 0: E
CPU:1 [LOST 5 EVENTS]
 app-100   (  100) [000] d..1     1.000600: tracing_mark_write: B|100|[NN_LR_PE]ANeuralNetworksEvent_wait
 app-100   (  100) [000] d..1     1.000700: tracing_mark_write: E|100
 app-100   (  100) [000] d..1     1.000800: tracing_mark_write: E|100
 app-100   (  100) [000] d..1     1.000900: tracing_mark_write: E|100
"""

_PART = b"""[partition]
backends=cpu,npu
default=cpu
comply=opcode

; a comment
[OPCODE]
CONV_2D=npu
_=cpu
"""
_RULES = {
    "schema_version": 1,
    "default": "cpu",
    "rules": [
        {"select": "op:CONV*", "device": "npu"},
        {"select": "index:0-3,5", "device": "npu"},
        {"select": "0/name:*conv*", "device": "cpu"},
    ],
}
_CAPABILITY = {
    "schema_version": "1",
    "device": "npu",
    "operators": {
        "CONV_2D": [
            {
                "types": ["FLOAT32", "INT8 per_channel constant"],
                "inputs": ["FLOAT32", ["FLOAT32 constant", "none"], "..."],
                "min_rank": 1,
                "max_version": 3,
                "static": True,
                "options": {"padding": ["SAME"], "stride_w": {"min": 1, "max": 4}},
            }
        ],
        "*": [{}],
    },
}
_COSTS = {
    "schema_version": 1,
    "devices": [
        {
            "name": "npu",
            "launch_us": 40,
            "operators": [
                {"select": "op:CONV_2D", "time_us": 5, "bytes_per_us": 4000},
                {"select": "op:*", "bytes_per_us": 1000},
                {"select": "op:ADD", "time_us": None},
            ],
        },
        {"name": "cpu", "operators": [{"select": "op:*", "time_us": 2}]},
    ],
    "transfers": [{"from": "npu", "to": "*", "bytes_per_us": 2000, "overhead_us": 5}],
}
_ORIGINS = {
    "sources": [{"id": 0, "name": "a"}, {"id": 4294967295, "name": "\udcff"}],
    "operators": [{"operator_index": 1, "sources": [0, 4294967295]}, {"subgraph": 0, "operator_index": 2}],
}
_ORIGINS_CSV = b'subgraph,operator_index,source_id,source_name\n0,1,0,a\n,,7,"b,\n"\n0,2,,\n0,1,7,"b,\n"\n'
_SELECTORS = b"op:CONV_2D=npu\n0/index:0-3,5\nname:*conv[12]?*=cpu\norigin:a*\n"
_ONERT = [
    {"name": "$0 subg", "tid": "$0 sess, $0 subg", "ph": "B", "ts": "1"},
    {"name": "@2 Softmax", "tid": "$0 sess, $0 subg, cpu", "ph": "B", "ts": "2"},
    {"name": "@2 Softmax", "tid": "$0 sess, $0 subg, cpu", "ph": "E", "ts": "7"},
    {"name": "$0 subg", "tid": "$0 sess, $0 subg", "ph": "E", "ts": "9"},
    {},
]


@cache
def model_seed(name: str) -> bytes:
    """Return the bytes of the test model `circle/mlp`."""
    return (TESTDATA / f"{name}.{name.partition('/')[0]}").read_bytes()


@cache
def models() -> list[bytes]:
    """Return the small models of testdata, and edited versions of some."""
    paths = sorted(path for kind in ("tflite", "circle") for path in TESTDATA.glob(f"{kind}/*.{kind}"))
    found = [path.read_bytes() for path in paths]
    return [*(data for data in found if len(data) <= _MOST_BYTES), *attack_files("models")]


def attack_files(kind: str) -> list[bytes]:
    """Return the small hostile files of a kind."""
    from tests.kit.attacks import attacks  # noqa: PLC0415 - it uses what it attacks

    return [data for attack in attacks() if attack.kind == kind and len(data := attack.make()) <= _MOST_BYTES]


def trace_text() -> list[bytes]:
    """Return ftrace text."""
    return [_MARKS, *_of_testdata("litert_custom_op.ftrace"), *attack_files("trace-text")]


def trace_html() -> list[bytes]:
    """Return systrace pages."""
    page = b'<!DOCTYPE html>\n<html>\n<script class="trace-data" type="application/text">\n%s</script>\n</html>\n'
    return [page % _MARKS, page % b"{}" + page % _MARKS, *attack_files("trace-html")]


def trace_chrome() -> list[bytes]:
    """Return traces in Chrome's JSON format."""
    return [_exported(chrome_parts), *attack_files("trace-chrome")]


def trace_perfetto() -> list[bytes]:
    """Return traces in Perfetto's protobuf format."""
    return [_exported(perfetto_parts), _ftrace_packets(), *attack_files("trace-perfetto")]


def _exported(parts: object) -> bytes:
    assert callable(parts)
    trace = open_trace(_MARKS)
    return b"".join(parts(trace, analyse(trace)))


def _ftrace_packets() -> bytes:
    """Return the text trace in Perfetto's encoding."""
    events = []
    for number, line in enumerate(_MARKS.splitlines()[1:]):
        head, _, mark = line.partition(b": ")[2].partition(b": ")
        if not head or not mark:
            continue
        content = field_number(1, 7) + field_bytes(2, mark + b"\n")
        event = field_number(1, 10**9 + number * 1000) + field_number(2, 100 + number % 3) + field_bytes(3, content)
        events.append(field_bytes(2, event))
    tree = field_bytes(1, field_number(1, 100) + field_number(2, 1) + field_bytes(3, b"app"))
    tree += field_bytes(2, field_number(1, 101) + field_bytes(2, b"thread") + field_number(3, 100))
    bundles = [field_number(1, cpu) + b"".join(events[cpu::2]) + field_number(3, cpu) for cpu in (0, 1)]
    return field_bytes(1, field_bytes(2, tree)) + b"".join(field_bytes(1, field_bytes(1, one)) for one in bundles)


def operator_traces() -> list[bytes]:
    """Return traces of operators, in each format of `circletools.trace.operators.read`."""
    names = ("onert_if_cond.chrome.json", "litert_custom_op.ftrace", "benchmark_custom_op.csv")
    foreign = ("executorch.etdp", "litert_cnn.events.json", "openvino_cnn.csv")
    others = ("benchmark_custom_op.txt", *(f"foreign/{name}" for name in foreign))
    found = [json.dumps(_ONERT).encode(), b"ADD took 999 ticks (999 ms).\n", *_of_testdata(*names, *others)]
    return [*found, gzip.compress(found[3], mtime=0), *attack_files("operators")]


def _of_testdata(*names: str) -> list[bytes]:
    return [(TESTDATA / "trace" / name).read_bytes() for name in names]


def rules() -> list[bytes]:
    """Return documents of rules."""
    return [json.dumps(_RULES, indent=1).encode(), *attack_files("rules")]


def parts() -> list[bytes]:
    """Return `.part` files."""
    return [_PART, _PART.replace(b"opcode", b"opname").replace(b"OPCODE", b"OPNAME"), *attack_files("part")]


def capabilities() -> list[bytes]:
    """Return capability tables."""
    return [json.dumps(_CAPABILITY).encode(), *attack_files("capability")]


def baselines() -> list[bytes]:
    """Return outputs of `fit --json`."""
    finding = {"code": "ADD", "reason": "onert-ruy does not support ADD", "origin": ["add"]}
    document = {
        "schema_version": 1,
        "file": "a",
        "targets": [{"target": "onert-ruy", "findings": [finding, finding]}],
    }
    return [json.dumps(document).encode(), b"\n".join([json.dumps(document).encode()] * 2), *attack_files("baseline")]


def costs() -> list[bytes]:
    """Return cost documents."""
    plain = json.dumps(_COSTS).replace("op:CONV_2D", "index:0").replace("op:ADD", "index:0").encode()
    return [json.dumps(_COSTS).encode(), plain, *attack_files("costs")]


def origins_json() -> list[bytes]:
    """Return origins as JSON."""
    return [json.dumps(_ORIGINS).encode(), *attack_files("origins-json")]


def origins_csv() -> list[bytes]:
    """Return origins as CSV."""
    return [_ORIGINS_CSV, *attack_files("origins-csv")]


def selectors() -> list[bytes]:
    """Return selectors, one per line."""
    return [_SELECTORS]
