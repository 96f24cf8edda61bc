"""Every finding occurs: models, traces and requests that give each code, as in the example of its explanation."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import circletools as ct
from circletools.findings import explanations
from circletools.origin.tables import encode_op_table
from circletools.requires.minimum import lower_versions
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole
from circletools.trace.sources import open_trace
from circletools.trace.sources.wire import field_bytes, field_number
from tests.check.test_check import EXAMPLES
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, Code, Raw, Table, floats, row
from tests.kit.costs_support import diamond_trace
from tests.kit.origin_support import OP, embedded, origins
from tests.kit.outputs_support import findings_of
from tests.kit.profile_support import traced
from tests.kit.soundness_support import chain
from tests.kit.support import bytes_of, edited, packed, unpacked
from tests.kit.surgery_support import extracted, wired
from tests.kit.trace_support import SIMPLE, lines, read, table
from tests.soundness.test_soundness import BROKEN
from tests.trace.test_diagnostics import CASES

Found = Iterable[ct.Finding]
MLP, LOOP, DIAMOND = map(bytes_of, ("circle/mlp", "circle/while_loop", "circle/diamond"))
NEEDS_A_PROGRAM = {
    "UNREADABLE_MODEL", "NOT_LOADED", "DEVICE_NOT_MEASURED", "REFUSED_MODEL", "TABLE_DISAGREES", "SOURCE_NOT_RUN",
    "PART_NOT_RUN", "PACKAGE_NOT_CALLED", "PACKAGE_NOT_RUN", "VALUES_DIFFER", "VALUES_NOT_REPEATED",
    "LAYOUT_CHANGES_VALUES", "OPTIMIZED_KERNELS", "OTHER_WEIGHTS",
}  # fmt: skip
"""These take a broken file, a runtime that fails, or hundreds of operators; the tests of their rooms have them."""


def negations(count: int, *, name: str = "y{}", kind: str = "circle") -> bytes:
    """Return a model of NEG operators one after another."""
    return row(*(("NEG", name.format(number)) for number in range(count))).to_bytes(kind)


def on_two_devices(data: bytes, *devices: int) -> bytes:
    """Return the model of one subgraph, with an operator on each of these devices, which are partitions too."""
    return annotated(data, affinity(["npu", "cpu"], (devices, range(len(devices)))))


def check_found(_: Path) -> Found:
    for make, _severity, _place in EXAMPLES.values():
        yield from findings_of(make())
    for change, _expected, _words in BROKEN.values():
        yield from chain(change)
    yield from chain(lambda graph: graph.ends(graph.table.inputs, []))
    none = Build()
    none.model.buffers = None
    yield from findings_of(none.to_bytes())
    sparse = Table("SparsityParameters", traversal_order=[0], dim_metadata=[])
    yield from chain(lambda graph: setattr(graph.table.tensors[2], "sparsity", sparse))
    build = Build()
    graph = build.graph()
    x, weights = graph.tensor("x", (1, 2, 2, 1)), graph.constant("w", floats(1, 4, 3, 1))
    graph.operator(
        "CONV_2D", [x, weights], [graph.tensor("y", (1, 1, 1, 1))], padding="VALID", stride_w=1, stride_h=1
    )
    graph.ends([x], [2])
    yield from findings_of(build.to_bytes(), "litert")
    for name in ("dynamic_shape", "sparse", "variable_tensor"):
        yield from findings_of(bytes_of(f"tflite/{name}"), "onert")
    build = Build()
    build.graph()
    build.code(Code("FULLY_CONNECTED", 12))
    build.metadata("min_runtime_version", b"1.5.0".ljust(16, b"\0"))
    yield from findings_of(build.to_bytes())
    build = Build()
    build.graph()
    build.metadata("min_runtime_version", b"1.5.0".ljust(16, b"\0"))
    build.model.buffers[-1].data = None
    build.graph().operator("RESHAPE", [], [])
    build.model.operator_codes[0].deprecated_builtin_code = 0
    yield from findings_of(build.to_bytes())
    with mock.patch("circletools.model.verify.MAX_TABLES", 3):
        yield from findings_of(MLP)


def edit_notes(folder: Path) -> Found:
    def removed(edit: ct.ModelEdit) -> None:
        edit.remove_metadata("secret")
        notes.extend(edit.remaining())

    notes: list[ct.Finding] = []
    with ct.open(edited(MLP, lambda edit: edit.set_metadata("secret", b"value"))) as model:
        ct.compact(model, folder / "compact")
    edited((folder / "compact").read_bytes(), removed)
    return notes


def version_notes(_: Path) -> Found:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.operator(Code("FULLY_CONNECTED", 14), [x, graph.tensor("w", type="INT16", data=bytes(8)), -1], [y])
    graph.ends([x], [y])
    with ct.open(build.to_bytes()) as model:
        yield from lower_versions(ct.edit(model)).notes


def origin_notes(_: Path) -> Found:
    shared = edited(
        embedded(LOOP, stamp=False), lambda edit: edit.set_metadata(OP, encode_op_table({0: {0}, 2: {0}}))
    )
    for data in (MLP, embedded(MLP, stamp=False), shared):
        with ct.open(data) as model:
            yield from ct.origins.describe(model).notes
    with ct.open(MLP) as model:
        yield from ct.origins.embed(ct.edit(model)).notes
    with ct.open(embedded(MLP)) as before, ct.open(negations(2)) as after:
        yield from ct.track_origins(before, after, min_confidence=0.25).notes


def written(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def plan_notes(folder: Path) -> Found:
    def noted(source: Path | bytes, **request: Any) -> Found:
        with ct.open(source) as model:
            return ct.plan(model, ct.PlanRequest(**request)).notes

    two: Mapping[str, Any] = {"devices": ("npu", "cpu"), "default": "cpu"}
    head = "[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opcode\n"
    yield from noted(DIAMOND, rules_file=written(folder, "x.part", f"{head}[OPCODE]\n NEG = npu\n"))
    measured = [{"operators": ["FULLY_CONNECTED"], "types": ["FLOAT32"]}]
    document = {"device": "npu", "measured": measured, "operators": {"FULLY_CONNECTED": [{}]}}
    capability = f"npu={written(folder, 'npu.json', document)}"
    yield from noted(DIAMOND, **two, capabilities=(capability,), rules=("op:TANH=npu",))
    yield from noted(DIAMOND, **two, rules=("index:3=npu",), min_size=2)
    yield from noted(bytes_of("tflite/variable"), **two, rules=("index:5=npu",))
    trace = diamond_trace(folder / "a.json", ("cpu", "ruy"), leave_out=(5,))
    yield from noted(DIAMOND, devices=("cpu", "ruy"), default="cpu", traces=(f"cpu={trace}",))
    names = {0: "a", 1: "b"}
    before = origins(names, {0: {0}, 1: {1}})
    earlier = folder / "earlier.circle"
    earlier.write_bytes(embedded(on_two_devices(negations(2), 0, 1), before))
    yield from noted(embedded(negations(2), origins(names, {0: {0, 1}})), **two, reproject=earlier)
    with ct.open(MLP) as model:
        yield from ct.planning.inspect_affinity(model).notes


def notes_on_parts(folder: Path) -> Found:
    build = wired()
    build.model.subgraphs[0].tensors[6].shape_signature = [-1, 2]
    data = build.to_bytes()
    for request in ({"from_": ("c",), "to": ("e",)}, {"to": ("h",)}, {"operators": "0,8"}, {"operators": "8"}):
        yield from extracted(data, **request)[1].notes
    described = edited(negations(2), lambda edit: edit.set_metadata("TFLITE_METADATA", b"inputs and outputs"))
    for data, operators in ((bytes_of("tflite/zip_tail"), "0"), (stateful(), "0-2"), (described, "0")):
        yield from extracted(data, operators=operators)[1].notes
    with ct.open(wired().to_bytes()) as model:
        signature = ct.surgery.SignatureRequest(add="new", inputs=("first=z",))
        yield from ct.surgery.sign(ct.edit(model), signature).notes
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    build.model.subgraphs[0].tensors[x].shape_signature = [-1, 2]
    graph.ends([x], [graph.compute("ADD", [x, graph.compute("NEG", [x], "")], "sum")])
    graph = (unknown := Build()).graph()
    graph.ends([graph.tensor("x", (-1, -1))], [])
    with ct.open(unknown.to_bytes()) as model:
        yield from ct.surgery.set_shape(ct.edit(model), ct.surgery.ShapeRequest(static=True)).notes
    source = folder / "net.circle"
    source.write_bytes(on_two_devices(build.to_bytes("circle"), 0, 1))
    with ct.open(source) as model:
        yield from ct.split(model, folder / "parts").notes
    source.write_bytes(on_two_devices(opened(), 0, 1))
    with ct.open(source) as model:
        yield from ct.split(model, folder / "open").notes


def opened() -> bytes:
    """Return a model whose tensor between two operators has a dynamic dimension."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    build.model.subgraphs[0].tensors[y].shape_signature = [-1, 2]
    graph.ends([x], [graph.compute("NEG", [y], "z")])
    return build.to_bytes("circle")


def stateful() -> bytes:
    """Return a model with a variable that another subgraph sets too."""
    build = Build()
    for number in range(2):
        graph = build.graph(f"graph{number}")
        x, handle = graph.tensor("x"), graph.tensor("handle", (1,), "RESOURCE")
        graph.operator("VAR_HANDLE", [], [handle], shared_name="v")
        graph.operator("ASSIGN_VARIABLE", [handle, x], [])
        graph.ends([x], [graph.compute("NEG", [x], "y")])
        build.signature(f"run{number}", [("x", 0)], [("y", 2)], number)
    return build.to_bytes()


def notes_of_a_check(folder: Path) -> Found:
    source, parts = folder / "net.circle", folder / "parts"
    data = edited(negations(4), lambda edit: edit.set_metadata("mine", b"mine"))
    source.write_bytes(on_two_devices(data, 0, 1, 0, 1))
    manifest = parts / "metadata" / "MANIFEST"

    def checked(change: Callable[[], object], **options: Any) -> Found:
        with ct.open(source) as model:
            ct.split(model, parts, force=True)
        change()
        return ct.verify_split(parts, **{"runtime": "none", **options}).findings

    def in_connections(change: Callable[[Any], object]) -> Callable[[], object]:
        def apply() -> None:
            (path,) = parts.glob("*.part.conn.json")
            document = json.loads(path.read_bytes())
            change(document)
            path.write_text(json.dumps(document))

        return apply

    def in_part(change: Callable[[Any], object]) -> Callable[[], object]:
        def apply() -> None:
            path = sorted(parts.glob("*.part.00002*"))[0]
            model = unpacked(path.read_bytes())
            change(model)
            path.write_bytes(packed(model, b"CIR0"))

        return apply

    def reshaped(model: Any) -> None:
        model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shape = np.array([7, 7], np.int32)

    def recoded(model: Any) -> None:
        model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 101

    def bare(model: Any) -> None:
        model.metadata = [entry for entry in model.metadata if entry.name != b"mine"]

    for change in (
        in_connections(lambda document: document["parts"].reverse()),
        in_connections(lambda document: document["source"]["outputs"].append("nobody")),
        in_connections(lambda document: document["parts"].append(document["parts"][0])),
        in_connections(lambda document: document["parts"][-1]["outputs"].append("further")),
        in_part(reshaped),
        in_part(recoded),
        in_part(bare),
        manifest.unlink,
        lambda: manifest.write_text("{}"),
        (parts / "notes.txt").touch,
    ):
        yield from checked(change)
    with ct.open(bytes_of("circle/two_signatures")) as model:
        edit = ct.edit(model)
        ct.affinity.annotate(edit, ct.plan(model, ct.PlanRequest(devices=("npu",), default="npu")))
        source.write_bytes(edit.to_bytes())
    with ct.open(source) as model:
        ct.split(model, folder / "second", subgraph=1)
    yield from ct.verify_split(folder / "second", runtime="onert", subgraph=1).findings


def notes_of_traces(_: Path) -> Found:
    run = OperatorRun(0, 0, "New", "", 0, 5, 0)
    mine, model_of_if = embedded(MLP), embedded(bytes_of("circle/if_cond"))
    for data, trace in (
        (MLP, traced({0: 1})),
        (mine, OperatorTrace("onert", (run, run._replace(operator=1)), 1, incomplete=3, name="trace.json")),
        (mine, OperatorTrace("litert", (run, run._replace(name="Other")), 1, name="trace.json")),
        (model_of_if, OperatorTrace("litert", (run._replace(subgraph=-1, name="FULLY_CONNECTED"),), 1)),
        (mine, traced(*({0: time} for time in (900, 100, 100, 100)))),
        (MLP, replace(traced({0: 1}), skipped=1, whole=Whole(model_bytes=9999))),
        (mine, ct.read_profile(marks((11, ADDS), (11, MLP_CODES), (12, MLP_CODES)))),
        (row(*((code, f"t{at}") for at, code in enumerate(GROUPS))).to_bytes(), averaged()),
    ):
        with ct.open(data) as model:
            yield from ct.attribute(model, trace).notes


GROUPS = ("ADD", "MUL", "POW", "ADD", "SUB", "ADD", "POW", "ABS")
"""POW is none of XNNPACK's, so there are three groups."""


def averaged() -> OperatorTrace:
    """Return averages of a run of `GROUPS`, whose first row may be of two groups."""
    rows = ((0, "Add (ND)"), (1, "Multiply (ND)"), (2, "POW"), (1, "Subtract (ND)"), (2, "Add (ND)"), (6, "POW"))
    runs = [
        OperatorRun(0, number, name, "", at, 60, 0, calls=6 if at == 0 else 3, of_delegate=name != "POW")
        for at, (number, name) in enumerate((*rows, (0, "Abs (NC)")))
    ]
    return OperatorTrace("benchmark_model", tuple(runs), 3, averaged=True)


ADDS, MLP_CODES = ("CONV_2D", "ADD"), ("FULLY_CONNECTED", "FULLY_CONNECTED", "SOFTMAX")


def marks(*executions: tuple[int, Sequence[str]]) -> bytes:
    """Return ftrace text of LiteRT's marks: the thread and the operators of each execution."""
    out = ["# tracer: nop"]
    for thread, names in executions:
        events = ["B|10|Invoke@0/0"]
        for at, name in enumerate(names):
            events += [f"B|10|{name}@{at}/0", "E|10"]
        for event in (*events, "E|10"):
            out.append(f"  app-{thread} (10) [001] .... 1.{len(out):06}: tracing_mark_write: {event}")
    return "\n".join([*out, ""]).encode()


def notes_of_a_comparison(_: Path) -> Found:
    broken = edited(MLP, lambda edit: edit.set_metadata(OP, b"\1"))
    with ct.open(MLP) as before, ct.open(broken) as after:
        yield from ct.diff(before, after).notes
    with ct.open(unknown_field(5)) as before, ct.open(unknown_field(6)) as after:
        yield from ct.diff(before, after).notes


def unknown_field(value: int) -> bytes:
    """Return a model with a field of a schema to come."""
    raw = Raw()
    code = raw.table({0: ("i8", 1), 9: ("u32", value)})
    return raw.finish(raw.table({1: raw.refs([code])}), b"CIR0")


def notes_of_a_page(_: Path) -> Found:
    with ct.open(bytes_of("circle/output_twice")) as model:
        return ct.report_html(model).notes


def diagnostics(_: Path) -> Found:
    for case in CASES.values():
        yield from read(case).diagnostics
    event = field_bytes(
        1, field_bytes(2, field_number(1, 10) + field_number(2, 8) + field_bytes(3, field_bytes(2, b"E")))
    )
    yield from analyse(open_trace(field_bytes(1, event + field_number(98, 3)))).diagnostics
    for line in (b"CPU:3 [LOST 39 EVENTS]\n", b"  task-9 (    9) [003] ...1 5.1: tracing_mark_write: B|10\n"):
        yield from read(b"#\n" + line + b"".join(lines(table(SIMPLE)))).diagnostics


OCCUR: dict[str, Callable[[Path], Found]] = {
    "check": check_found,
    "edits": lambda folder: [*edit_notes(folder), *version_notes(folder)],
    "origins": origin_notes,
    "devices": plan_notes,
    "parts": notes_on_parts,
    "verify-split": notes_of_a_check,
    "measured time": notes_of_traces,
    "comparison": notes_of_a_comparison,
    "report": notes_of_a_page,
    "traces": diagnostics,
}


def test_every_subject_has_its_cases() -> None:
    assert OCCUR.keys() == {one.subject for one in explanations().values()}
    assert explanations().keys() >= NEEDS_A_PROGRAM


@pytest.mark.parametrize("subject", OCCUR)
def test_every_code_occurs_and_its_example_is_one_of_them(subject: str, tmp_path: Path) -> None:
    found = defaultdict[str, set[str]](set)
    for one in OCCUR[subject](tmp_path):
        found[one.code].add(f"{one.location}: {one.message}".replace(f"{tmp_path}{os.sep}", "").removeprefix(": "))
    rules = [one for one in explanations().values() if one.subject == subject and one.code not in NEEDS_A_PROGRAM]
    wrong = {one.code: sorted(found[one.code]) for one in rules if one.example not in found[one.code]}
    assert wrong == {}, "these occurred; `circletools/codes.json` has another example"


@pytest.mark.parametrize("code", sorted(NEEDS_A_PROGRAM))
def test_there_is_an_example_of_what_programs_do(code: str) -> None:
    assert explanations()[code].example
