"""The verdict about a model: exact results on small graphs."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.fit.remedies import GENERAL, MEASURE
from circletools.fit.unusual import INNER_LOOP
from circletools.fit.verdicts import Blamed, Cuts, Misfit, TargetFit
from circletools.origin.source import NOTHING, SourceDetails
from tests.kit.build import Build, Table, row
from tests.kit.origin_support import embedded, entries, origins
from tests.kit.support import bytes_of, edited, path_of

FLOATS = {"types": ["FLOAT32"]}
blamed_output = partial(Blamed, from_tables=False)


def write_table(folder: Path, operators: dict[str, Any], name: str = "npu", **more: Any) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"device": name, "operators": operators, **more}), encoding="utf-8")
    return str(path)


@pytest.fixture
def fitted(tmp_path: Path) -> Any:
    def fit(data: bytes | Path, operators: dict[str, Any], **more: Any) -> TargetFit:
        with ct.open(data) as model:
            (target,) = ct.fit(model, ct.FitRequest(on=(write_table(tmp_path, operators, **more),))).targets
        return target

    return fit


def misfit(operator: int, code: str, output: str, **more: Any) -> Misfit:
    values: dict[str, Any] = {
        "subgraph": 0,
        "operator": operator,
        "code": code,
        "reason": f"npu does not support {code}",
        "remedy": f"replace {code} with operators that npu supports",
        "measured": True,
        "origin": (output,),
        "from_tables": False,
        "is_new": True,
    }
    return Misfit(**values | more)


def test_a_resident_model(fitted: Any) -> None:
    data = row("TANH", "RELU").to_bytes()
    assert fitted(data, {"TANH": [FLOATS], "RELU": [{}]}, runtime="npu 1.2") == TargetFit(
        "npu", "npu 1.2", 2, (), (), Cuts(1, 0, 0), 0
    )
    assert fitted(data, {"*": [{}]}).verdict == "resident"
    assert fitted(row("TANH").to_bytes(), {"TANH": [{}]}).cuts == Cuts(1, 0, 0)


def test_an_operator_that_stops_it(fitted: Any) -> None:
    found = fitted(row("TANH", "NEG", "RELU").to_bytes(), {"TANH": [{}], "RELU": [{}]})
    assert found == TargetFit(
        "npu", "", 3, (misfit(1, "NEG", "t1"),), (blamed_output("t1", ((0, 1),), 16),), Cuts(2, 2, 32), 0
    )
    assert (found.verdict, found.refused) == ("not_resident", 1)
    assert {pickle.loads(pickle.dumps(found))} == {found}  # noqa: S301


def test_no_operator_at_all(fitted: Any) -> None:
    assert fitted(row().to_bytes(), {}) == TargetFit(
        "npu", "", 0, (), (), Cuts(0, 0, 0), 0, cause="the model has no operators"
    )


MEASURED = [{"operators": ["TANH", "NEG"], "types": ["FLOAT32"]}]


def test_unmeasured_operators_are_neither(fitted: Any) -> None:
    found = fitted(row("TANH", "COS").to_bytes(), {"TANH": [{}]}, measured=MEASURED)
    unknown = misfit(1, "COS", "t1", measured=False, remedy=MEASURE, reason="COS was not tested")
    assert found.misfits == (unknown,)
    assert (found.verdict, found.refused, found.sources, found.cuts) == ("not_known", 0, (), Cuts(1, 1, 16))
    found = fitted(row("NEG", "COS").to_bytes(), {"TANH": [{}]}, measured=MEASURED)
    assert (found.verdict, found.refused, len(found.misfits)) == ("not_resident", 1, 2)
    assert found.sources == (blamed_output("t0", ((0, 0),), 16),)


@pytest.mark.parametrize(
    ("codes", "cuts"),
    [
        (["NEG", "NEG"], Cuts(0, 0, 0)),
        (["TANH", "NEG"], Cuts(1, 1, 16)),
        (["NEG", "TANH"], Cuts(1, 1, 16)),
        (["NEG", "TANH", "NEG", "NEG", "TANH", "TANH", "NEG"], Cuts(2, 4, 64)),
    ],
)
def test_partitions_and_what_crosses(fitted: Any, codes: list[str], cuts: Cuts) -> None:
    assert fitted(row(*codes).to_bytes(), {"TANH": [{}]}).cuts == cuts


def test_a_tensor_crosses_once_and_constants_do_not(fitted: Any) -> None:
    build = Build()
    graph = build.graph()
    x, weights = graph.tensor("x"), graph.tensor("w", data=bytes(16))
    made = graph.compute("TANH", [x], "made", (3, -1))
    for number in range(2):
        graph.operator("ADD", [made, weights], [graph.tensor(f"y{number}")])
    graph.operator("TANH", [weights], [graph.tensor("z")])
    assert fitted(build.to_bytes(), {"TANH": [{}]}).cuts == Cuts(1, 1, 12)


def test_groups_need_not_be_connected(fitted: Any) -> None:
    """As in LiteRT: what is ready together runs together."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    for number in range(3):
        graph.compute("TANH", [graph.compute("NEG", [x], f"n{number}")], f"t{number}")
    assert fitted(build.to_bytes(), {"TANH": [{}]}).cuts == Cuts(1, 3, 48)


def test_subgraphs(fitted: Any) -> None:
    build = Build()
    for name in ("main", "second"):
        graph = build.graph(name)
        graph.compute("NEG", [graph.compute("TANH", [graph.tensor("x")], f"{name} t")], f"{name} n")
    found = fitted(build.to_bytes(), {"TANH": [{}]})
    assert found.operators == 4
    assert found.misfits == (misfit(1, "NEG", "main n"), misfit(1, "NEG", "second n", subgraph=1))
    assert found.sources == (blamed_output("main n", ((0, 1),), 16), blamed_output("second n", ((1, 1),), 16))
    assert found.cuts == Cuts(2, 2, 32)


# --- names --------------------------------------------------------------------------------------------------

THREE = row("NEG", "TANH", "NEG").to_bytes()


def test_sources_of_the_tables(fitted: Any) -> None:
    sources = {3: "late", 5: "both", 9: "early"}
    data = embedded(THREE, origins(sources, {0: {5, 9}, 1: {3}, 2: {5}}))
    found = fitted(data, {"TANH": [{}]})
    assert [(one.origin, one.from_tables) for one in found.misfits] == [(("both", "early"), True), (("both",), True)]
    assert found.sources == (Blamed("both", ((0, 0), (0, 2)), 32),)


def test_what_is_known_of_sources(fitted: Any) -> None:
    known = SourceDetails(path="late", file="net.py", line=7)
    wanted = replace(origins({3: "late", 5: "both"}, {0: {3, 5}, 1: {3}}), details={3: known})
    found = fitted(embedded(THREE, wanted), {})
    assert [one.details for one in found.misfits] == [(known, NOTHING), (known,), ()]
    assert [(one.name, one.details) for one in found.sources] == [("late", known), ("t2", NOTHING)]
    wanted = replace(wanted, operators=entries({0: {5}, 1: {3}}))
    assert [one.details for one in fitted(embedded(THREE, wanted), {}).misfits] == [(), (known,), ()]


def test_an_operator_that_the_tables_leave_out(fitted: Any) -> None:
    data = embedded(THREE, origins({0: "zero"}, {0: {0}}))
    found = fitted(data, {"TANH": [{}]})
    assert [(one.origin, one.from_tables) for one in found.misfits] == [(("zero",), True), (("t2",), False)]
    assert [source.name for source in found.sources] == ["zero", "t2"]


def test_stale_and_broken_tables_are_a_note(tmp_path: Path) -> None:
    stale = edited(
        row("NEG", "COS", "NEG").to_bytes(),
        *(partial(ct.ModelEdit.set_metadata, name=name, value=value) for name, value in entries_of(embedded(THREE))),
    )
    broken = edited(THREE, lambda edit: edit.set_metadata("ONE_op_table", b"\1\0\0\0"))
    request = ct.FitRequest(on=(write_table(tmp_path, {"TANH": [{}], "COS": [{}]}),))
    for data, code in ((stale, "STALE_ORIGIN"), (broken, "MALFORMED_ORIGIN_TABLE")):
        with ct.open(data) as model:
            found = ct.fit(model, request)
        assert [note.code for note in found.notes] == [code]
        assert [(one.origin, one.from_tables) for one in found.targets[0].misfits] == [
            (("t0",), False),
            (("t2",), False),
        ]
    with ct.open(embedded(THREE)) as model:
        assert ct.fit(model, request).notes == ()


def entries_of(data: bytes) -> list[tuple[str, bytes]]:
    with ct.open(data) as model:
        return [(entry.name, bytes(model.metadata_value(entry.name) or b"")) for entry in model.metadata]


@pytest.mark.parametrize(
    ("outputs", "name"), [([], "(noname)"), ([-1], "(noname)"), ([None], "(noname)"), (["first", "second"], "first")]
)
def test_an_operator_has_the_name_of_its_first_output(fitted: Any, outputs: list[Any], name: str) -> None:
    build = Build()
    graph = build.graph()
    made = [output if output == -1 else graph.tensor(output) for output in outputs]
    graph.operator("NEG", [graph.tensor("x")], made)
    (found,) = fitted(build.to_bytes(), {}).misfits
    assert found.origin == (name,)


# --- composites and unpacked constants ----------------------------------------------------------------------


COMPOSITE = ("STABLEHLO_COMPOSITE", "StableHLOCompositeOptions", "decomposition_subgraph_index")
SORT = ("STABLEHLO_SORT", "StablehloSortOptions", "comparator_subgraph_index")


def composites(*calls: tuple[int, int], caller_of: tuple[str, str, str] = COMPOSITE) -> bytes:
    """Return a model of subgraphs in which composites call each other: (caller, called); 3 is a subgraph of NEG."""
    code, options, called_field = caller_of
    build = Build()
    graphs = [build.graph(str(number)) for number in range(4)]
    for graph in graphs:
        graph.tensor("x")
    for caller, called in calls:
        made = graphs[caller].tensor("c")
        if caller == 2:
            graphs[2].operator("WHILE", [0], [made], cond_subgraph_index=called, body_subgraph_index=called)
        else:
            more = {"name": "odml.1"} if code == COMPOSITE[0] else {}
            graphs[caller].operator(code, [0], [made], table=options, **{called_field: called}, **more)
    graphs[3].compute("NEG", [0], "inside")
    return build.to_bytes()


TAKEN: dict[str, Any] = {"STABLEHLO_COMPOSITE": [{"options": {"name": ["odml.1"]}}], "WHILE": [{}]}


@pytest.mark.parametrize(
    ("calls", "operators", "verdict"),
    [
        ([(0, 3)], 1, "resident"),
        ([(0, 1), (1, 3)], 1, "resident"),  # one in another
        ([(0, 2), (2, 3)], 1, "resident"),  # a loop in one
        ([(2, 3)], 2, "not_resident"),  # a loop alone
        ([(0, 3), (2, 3)], 3, "not_resident"),  # called from elsewhere as well
        ([(0, 1), (1, 3), (2, 3)], 3, "not_resident"),
    ],
)
def test_the_inside_of_a_composite(fitted: Any, calls: list[tuple[int, int]], operators: int, verdict: str) -> None:
    found = fitted(composites(*calls), TAKEN)
    assert (found.operators, found.verdict) == (operators, verdict)
    found = fitted(composites(*calls), TAKEN | {"STABLEHLO_COMPOSITE": [{}]})  # of any name: run by their inside
    assert (found.operators, found.verdict) == (len(calls) + 1, "not_resident")
    for name, expected in (("", verdict), ("odml.2", "not_resident")):  # a composite that was not measured
        forms = {COMPOSITE[0]: [{"options": {"name": [name]}}]} if name else {}
        found = fitted(composites(*calls), {"WHILE": [{}], **forms}, measured=[{"operators": ["NEG"]}])
        assert found.verdict == ("not_known" if expected == "resident" else expected)


def test_a_model_of_composites_alone(fitted: Any) -> None:
    build = Build()
    graphs = [build.graph(str(number)) for number in range(3)]
    for graph, called in zip(graphs[:2], (1, 2), strict=True):
        x, y = graph.tensor("x"), graph.tensor("y")
        more = {COMPOSITE[2]: called, "name": f"odml.{called}"}
        graph.operator(COMPOSITE[0], [x], [y], table=COMPOSITE[1], **more)
    taken = {COMPOSITE[0]: [{"options": {"name": ["odml.1", "odml.2"]}}]}
    assert fitted(build.to_bytes(), taken).operators == 1
    assert [one.reason for one in fitted(build.to_bytes(), {}).misfits] == [
        f"odml.{called}: npu does not support STABLEHLO_COMPOSITE" for called in (1, 2)
    ]


@pytest.mark.parametrize(
    ("caller", "calls", "taken", "blamed", "remedy"),
    [
        (COMPOSITE, [(0, 3)], [], [(0, 0), (3, 0)], "replace NEG"),  # its operators remain without it
        (SORT, [(0, 3)], [], [(0, 0)], "first change operator 0 (STABLEHLO_SORT), which calls"),
        (SORT, [(0, 3), (1, 3)], [], [(0, 0), (1, 0)], "first change operator 1/0 (STABLEHLO_SORT), which calls"),
        (SORT, [(0, 3)], ["STABLEHLO_SORT"], [(3, 0)], "replace NEG"),
    ],
)
def test_the_inside_of_what_is_refused(
    fitted: Any, caller: Any, calls: Any, taken: list[str], blamed: Any, remedy: str
) -> None:
    found = fitted(composites(*calls, caller_of=caller), {code: [{}] for code in taken})
    assert [one.remedy[: len(remedy)] for one in found.misfits if one.subgraph == 3] == [remedy]
    assert sorted(place for source in found.sources for place in source.operators) == blamed


@pytest.mark.parametrize("measured", [True, False])
def test_operators_that_unpack_a_constant_are_not_the_cause(fitted: Any, measured: bool) -> None:
    unpack = {"inputs": ["FLOAT16 constant"], "outputs": ["FLOAT32"], "unpacks": True}
    asked = [{"operators": ["DEQUANTIZE"]}, *([{"operators": ["*"]}] if measured else [])]
    with ct.open(bytes_of("tflite/cnn_float16")) as model:
        codes = model.code_names(0)
    others: dict[str, Any] = {code: [{}] for code in codes if code not in ("FULLY_CONNECTED", "DEQUANTIZE")}
    found = fitted(bytes_of("tflite/cnn_float16"), {"DEQUANTIZE": [unpack], **others}, measured=asked)
    kinds = [one.code for one in found.misfits]
    assert {"DEQUANTIZE", "FULLY_CONNECTED"} == set(kinds)
    assert {one.measured for one in found.misfits} == {measured}
    assert found.verdict == ("not_resident" if measured else "not_known")
    blamed = {codes[index] for source in found.sources for _, index in source.operators}
    assert blamed == ({"FULLY_CONNECTED"} if measured else set())


# --- several targets, and the built-in tables ---------------------------------------------------------------


def test_targets_are_in_their_order(tmp_path: Path) -> None:
    tables = [write_table(tmp_path, {"NEG": [{}], "TANH": [{}]}, "a"), write_table(tmp_path, {}, "b")]
    with ct.open(THREE) as model:
        found = ct.fit(model, ct.FitRequest(on=(tables[1], "xnnpack", tables[0], tables[1])))
    verdicts = " ".join(f"{target.name} {target.verdict}" for target in found.targets)
    assert verdicts == "b not_resident xnnpack resident a resident"
    assert (found.file, found.model_format, found.has_baseline, found.new_refusals) == ("<bytes>", "tflite", False, 3)


table_of = cache(ct.affinity.load_capability)


@pytest.mark.parametrize("device", ct.affinity.shipped())
def test_a_verdict_agrees_with_the_table(device: str, own_model: Path) -> None:
    """Each operator that a table refuses is there, but for those inside of composites."""
    table = table_of(device)
    with ct.open(own_model) as model:
        (found,) = ct.fit(model, ct.FitRequest(on=(device,))).targets
        refused = {
            (subgraph.index, index): refusal
            for subgraph in model.subgraphs
            for index, refusal in enumerate(ct.affinity.refusals(table, model, subgraph.index))
            if refusal is not None
        }
    here = {(one.subgraph, one.operator): one for one in found.misfits if one.reason != INNER_LOOP}
    assert all(one.reason.endswith(refused[at].reason) for at, one in here.items())
    assert all(one.measured <= refused[at].measured for at, one in here.items())
    if own_model != path_of("tflite/composite"):
        assert here.keys() == refused.keys()
    assert (found.verdict == "resident") == (not found.misfits and not found.obstacles)
    assert all(one.remedy and GENERAL not in one.remedy for one in found.misfits)


@pytest.mark.parametrize(
    ("kinds", "causes"), [(("UINT8", "UINT8", "INT8"), True), (("UINT8", "INT8", "INT8"), False)]
)
def test_the_cause_of_a_model_of_an_old_type(fitted: Any, kinds: tuple[str, ...], causes: bool) -> None:
    build = Build()
    graph = build.graph()
    for kind in kinds:
        scale: dict[str, Any] = {"quantization": Table("QuantizationParameters", scale=[1.0], zero_point=[0])}
        graph.operator("TANH", [graph.tensor("x", (2,), kind, **scale)], [graph.tensor("y", (2,), kind, **scale)])
    found = fitted(build.to_bytes(), {"TANH": [{"types": ["INT8 per_tensor"]}]})
    words = "UINT8 model (2 of 3 operators): quantize the model to INT8 instead"
    assert found.cause == words * causes


POOL = {"table": "Pool2DOptions", "filter_width": 1, "filter_height": 1, "stride_w": 1, "stride_h": 1}
UNKNOWN = {"table": "L2NormOptions", "fused_activation_function": 99}


@pytest.mark.parametrize(
    ("made", "end", "verdicts"),
    [
        (("TANH", (), "FLOAT32"), ("MAX_POOL_2D", POOL), [*["resident"] * 3, "not_known"]),
        (("TANH", (1, 4, 4), "FLOAT32"), ("MAX_POOL_2D", POOL), ["resident"]),
        (("CEIL", (1, 4, 4, 2), "INT32"), ("MAX_POOL_2D", POOL), ["not_known"]),
        (("TANH", (1, 4, 4, 2), "FLOAT32"), ("L2_NORMALIZATION", UNKNOWN), ["not_known"]),
    ],
)
def test_programs_set_types_and_shapes(made: Any, end: tuple[str, Any], verdicts: list[str]) -> None:
    build = Build()
    graph = build.graph()
    x, z = (graph.tensor(name, (1, 4, 4, 2)) for name in "xz")
    y = graph.tensor("y", *made[1:])
    graph.operator(made[0], [x], [y])
    graph.operator(end[0], [y], [z], **end[1])
    graph.ends([x], [z])
    with ct.open(build.to_bytes()) as model:
        targets = ("litert-cpu", "onert-cpu", "openvino-cpu", "tflm")[: len(verdicts)]
        found = ct.fit(model, ct.FitRequest(on=targets)).targets
        assert not [one for one in ct.check(model, for_=["litert"]) if one.severity == "error"]
    assert [one.verdict for one in found] == verdicts
