"""What `check` finds: each code on a model that has it, none on one that has not, and all as documented."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.check import check
from circletools.findings import Finding, explain
from circletools.model.model import open_model
from circletools.model.verify import check_model
from circletools.origin.tables import encode_source_table
from tests.kit.affinity_support import affinity, annotated, produced_twice
from tests.kit.build import Build, Graph, floats
from tests.kit.command_support import run_bytes as run
from tests.kit.origin_support import EXACT, OP, SOURCE, STAMP, embedded, origins, rebuilt, u32s
from tests.kit.outputs_support import findings_of, with_outputs
from tests.kit.support import bytes_of, edited, path_of

CLEAN = "circle/mlp"
ONE_SOURCE = encode_source_table({0: "a"})


def changed(change: Callable[[Any], object]) -> bytes:
    """Return the clean model, changed by a tool that knows nothing of findings."""
    return rebuilt(bytes_of(CLEAN), change)


def with_tables(model: str = CLEAN, /, **tables: bytes) -> bytes:
    """Return a model, clean unless another is named, with these metadata entries."""
    return edited(bytes_of(model), *(lambda edit, item=item: edit.set_metadata(*item) for item in tables.items()))


def index_out_of_range() -> bytes:
    def change(model: Any) -> None:
        model.subgraphs[0].operators[0].opcodeIndex = 99

    return changed(change)


def sentinel_not_empty() -> bytes:
    def change(model: Any) -> None:
        model.buffers[0].data = np.frombuffer(b"data", np.uint8)

    return changed(change)


def stale(data: bytes = b"") -> bytes:
    """Return a model whose operators were renamed after the tables were written."""

    def change(model: Any) -> None:
        (graph,) = model.subgraphs
        graph.tensors[graph.operators[1].outputs[0]].name = b"another name"

    return rebuilt(data or embedded(bytes_of(CLEAN)), change)


def tapped() -> bytes:
    def outputs(graph: Graph) -> list[int]:
        return [1, graph.compute("NEG", [1], "again")]

    return with_outputs(outputs)


def with_devices(numbers: Sequence[int | None], partitions: Sequence[int | None], data: bytes | None = None) -> bytes:
    """Return a model with operators on `npu` (0) and `cpu` (1)."""
    return annotated(
        bytes_of("circle/diamond") if data is None else data, affinity(["npu", "cpu"], (numbers, partitions))
    )


def stale_devices() -> bytes:
    return stale(with_devices([1] * 6, [0] * 6))


# code -> a model that has it, the severity there, and the place
EXAMPLES: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "INDEX_OUT_OF_RANGE": (index_out_of_range, "warning", "subgraphs[0].operators[0].opcode_index"),
    "EXTERNAL_DATA_OUTSIDE_FILE": (lambda: bytes_of("circle/mlp_external")[:-1], "warning", "buffers[4]"),
    "SENTINEL_BUFFER_NOT_EMPTY": (sentinel_not_empty, "warning", "buffers[0]"),
    "OFFLINE_PLAN": (
        lambda: with_tables(OfflineMemoryAllocation=u32s(1, 0, 4) + bytes(16)),
        "warning",
        "metadata OfflineMemoryAllocation",
    ),
    "CONSTANT_OUTPUT": (
        lambda: with_outputs(lambda graph: [1, graph.constant("c", floats(2, 2))]),
        "warning",
        "subgraphs[0].outputs[1]",
    ),
    "INPUT_ALIASED_OUTPUT": (lambda: with_outputs(lambda _: [1, 0]), "warning", "subgraphs[0].outputs[1]"),
    "DUPLICATE_OUTPUT": (lambda: with_outputs(lambda _: [1, 1]), "warning", "subgraphs[0].outputs[1]"),
    "UNPRODUCED_OUTPUT": (
        lambda: with_outputs(lambda graph: [1, graph.tensor("lost")]),
        "warning",
        "subgraphs[0].outputs[1]",
    ),
    "OUTPUT_TAP": (tapped, "info", "subgraphs[0].outputs[0]"),
    "MALFORMED_ORIGIN_TABLE": (lambda: with_tables(**{SOURCE: ONE_SOURCE, OP: b"\1"}), "error", f"metadata {OP}"),
    "MALFORMED_EXECUTION_PLAN": (
        lambda: with_tables(ONE_execution_plan_table=u32s(1, 0, 0)),
        "warning",
        "metadata ONE_execution_plan_table",
    ),
    "UNKNOWN_SOURCE_ID": (
        lambda: with_tables(**{SOURCE: ONE_SOURCE, OP: u32s(1, 0, 1, 7)}),
        "error",
        f"metadata {OP}",
    ),
    "STALE_ORIGIN": (stale, "warning", "subgraphs[0].operators[1]"),
    "PARTIAL_OP_TABLE": (
        lambda: embedded(bytes_of(CLEAN), origins({0: "a"}, {0: {0}})),
        "info",
        "subgraphs[0].operators[1]",
    ),
    "SUBGRAPH_WITHOUT_ORIGINS": (
        lambda: embedded(bytes_of("tflite/two_signatures"), origins({0: "a"}, {0: {0}, 1: {0}})),
        "info",
        "subgraphs[1]",
    ),
    "MALFORMED_AFFINITY_TABLE": (
        lambda: with_tables(CIRCLETOOLS_affinity=b"\1"),
        "error",
        "metadata CIRCLETOOLS_affinity",
    ),
    "STALE_AFFINITY": (stale_devices, "warning", "subgraphs[0].operators[1]"),
    "UNASSIGNED_OPERATOR": (
        lambda: with_devices([1, 1, None, 1, 1, 1], [0, 0, None, 1, 1, 1]),
        "warning",
        "subgraphs[0].operators[2]",
    ),
    "MIXED_PARTITION": (lambda: with_devices([0, 1, 1, 1, 1, 1], [0] * 6), "error", "subgraphs[0]"),
    # FULLY_CONNECTED feeds TANH and LOGISTIC, both MUL, and MUL feeds ADD: one partition cannot leave out LOGISTIC.
    "CYCLIC_PARTITION": (lambda: with_devices([1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0]), "error", "subgraphs[0]"),
    "MISNUMBERED_PARTITION": (lambda: with_devices([1] * 6, [1, 0, 0, 0, 1, 0]), "warning", "subgraphs[0]"),
    "UNSCHEDULABLE_OPERATORS": (
        lambda: with_devices([0, 0], [0, 0], produced_twice()),
        "error",
        "subgraphs[0].tensors[1]",
    ),
    "CROSS_DEVICE_TAP": (
        lambda: with_devices([0, 1], [0, 1], with_outputs(lambda graph: [1, graph.compute("NEG", [1], "again")])),
        "warning",
        "subgraphs[0].outputs[0]",
    ),
}
COMPANY = {
    "CROSS_DEVICE_TAP": {"OUTPUT_TAP"},
    "UNSCHEDULABLE_OPERATORS": {"PRODUCED_TWICE"},
    "SUBGRAPH_WITHOUT_ORIGINS": {"NOT_USED"},
}
"""What a finding, or its example, never comes without."""


def written(folder: Path, data: bytes, name: str = "model.circle") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_model_that_has_it(code: str, tmp_path: Path) -> None:
    make, severity, place = EXAMPLES[code]
    data = make()
    (found,) = (finding for finding in findings_of(data) if finding.code == code)
    assert (found.severity, found.location) == (severity, place)
    assert found.message
    assert {finding.code for finding in findings_of(data)} - COMPANY.get(code, set()) == {code}
    ran = run("check", written(tmp_path, data))
    assert ran.returncode == (0 if severity == "info" else 1)
    assert f"  {severity} {code} {place}: {found.message}\n" in ran.stdout.decode()
    assert ran.stderr == b""


def test_too_many_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circletools.model.verify.MAX_TABLES", 3)
    (found,) = findings_of(bytes_of(CLEAN))
    assert (found.code, found.severity, found.location) == ("TOO_MANY_TABLES", "warning", "model")


@pytest.mark.parametrize("name", [CLEAN, "circle/transformer_block", "tflite/cnn", "circle/cnn_external"])
def test_a_clean_model_has_none(name: str, tmp_path: Path) -> None:
    assert findings_of(bytes_of(name)) == []
    assert findings_of(embedded(bytes_of(name))) == []
    ran = run("check", path_of(name))
    assert (ran.returncode, ran.stdout.decode()) == (0, f"{path_of(name)}: ok\n")
    assert run("check", written(tmp_path, embedded(bytes_of(name)))).returncode == 0


def test_check_has_all_that_verify_has(any_model: Path) -> None:
    with open_model(any_model) as model:
        verified, found = check_model(model), check(model)
    assert found[: len(verified)] == verified
    assert {explain(finding.code).subject for finding in found} <= {"check"}


def test_an_index_error_prevents_dependent_checks() -> None:
    """Outputs are not looked at where an index leads nowhere."""

    def change(model: Any) -> None:
        model.subgraphs[0].outputs = [999, 0, 0]

    assert {finding.code for finding in findings_of(changed(change))} == {"INDEX_OUT_OF_RANGE"}


def test_severities_in_called_subgraphs() -> None:
    """What only operators call may do as it likes; a signature makes a subgraph one that users call."""
    for named, severity in ((False, "info"), (True, "warning")):
        build = Build()
        main, body = build.graph(), build.graph("body")
        main.ends([main.tensor("x")], [main.compute("NEG", [0], "y")])
        x, c, lost = body.tensor("x"), body.constant("c", floats(2, 2)), body.tensor("lost")
        total = body.compute("ADD", [x, c], "total")
        body.ends([x], [total, total, x, c, lost])
        if named:
            build.signature("body", [("x", x)], [(str(end), end) for end in (total, x, c, lost)], 1)
        assert [
            (found.code, found.severity, found.location)
            for found in findings_of(build.to_bytes())
            if found.code in EXAMPLES
        ] == [
            ("DUPLICATE_OUTPUT", severity, "subgraphs[1].outputs[1]"),
            ("INPUT_ALIASED_OUTPUT", severity, "subgraphs[1].outputs[2]"),
            ("CONSTANT_OUTPUT", severity, "subgraphs[1].outputs[3]"),
            ("UNPRODUCED_OUTPUT", "warning", "subgraphs[1].outputs[4]"),
        ]


def test_the_first_reason_counts() -> None:
    """A slot has one finding: of a constant, an input, an earlier output and a tap the first."""
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.constant("c", floats(2, 2))
    total = graph.compute("ADD", [x, c], "total")
    graph.ends([x], [total, total, graph.compute("NEG", [total], "negative"), x, x, c, c])
    assert [finding.code for finding in findings_of(build.to_bytes())] == [
        "OUTPUT_TAP",
        "DUPLICATE_OUTPUT",
        *["INPUT_ALIASED_OUTPUT"] * 2,
        *["CONSTANT_OUTPUT"] * 2,
    ]


def test_a_variable_is_not_unproduced() -> None:
    assert findings_of(with_outputs(lambda graph: [1, graph.tensor("state", is_variable=True)])) == []


@pytest.mark.parametrize(
    ("tables", "code", "place"),
    [
        ({SOURCE: b"\1"}, "MALFORMED_ORIGIN_TABLE", SOURCE),
        ({SOURCE: ONE_SOURCE, OP: u32s(1)}, "MALFORMED_ORIGIN_TABLE", OP),
        ({SOURCE: ONE_SOURCE, OP: u32s(1, 0, 1, 0), EXACT: b"\1\2"}, "MALFORMED_ORIGIN_TABLE", EXACT),
        ({SOURCE: ONE_SOURCE, OP: u32s(1, 0, 1, 0), STAMP: b"\1\2"}, "MALFORMED_ORIGIN_TABLE", STAMP),
        ({SOURCE: ONE_SOURCE, OP: u32s(1, 0, 0)}, "MALFORMED_ORIGIN_TABLE", OP),  # an entry without a source
        ({SOURCE: ONE_SOURCE, OP: b""}, "MALFORMED_ORIGIN_TABLE", OP),
        ({OP: u32s(1, 0, 1, 0)}, "UNKNOWN_SOURCE_ID", OP),
        ({SOURCE: u32s(0), OP: u32s(1, 0, 1, 0)}, "UNKNOWN_SOURCE_ID", OP),
    ],
)
def test_tables_that_are_broken(tables: dict[str, bytes], code: str, place: str) -> None:
    (found,) = findings_of(with_tables(**tables))
    assert (found.code, found.severity, found.location) == (code, "error", f"metadata {place}")


@pytest.mark.parametrize("tables", [{SOURCE: ONE_SOURCE, OP: u32s(0)}, {OP: u32s(0)}, {SOURCE: ONE_SOURCE}])
@pytest.mark.parametrize("name", [CLEAN, "circle/while_loop", "circle/only_input"])
def test_tables_that_name_nothing(name: str, tables: dict[str, bytes]) -> None:
    """Where there is an operator that they could name; several subgraphs share an op table of ONE."""
    found = [one for one in findings_of(with_tables(name, **tables)) if "OP_TABLE" in one.code]
    expected = [] if "only_input" in name else [("PARTIAL_OP_TABLE", "info", f"metadata {OP}")]
    assert [(one.code, one.severity, one.location) for one in found] == expected


@pytest.mark.parametrize(
    "plan", [b"", b"\0\0\0", u32s(1), u32s(1, 0, 0), u32s(1, 0, 3, 1), u32s(2, 0, 1, 0), u32s(2, 0, 1, 0, 0, 1, 0)]
)
def test_execution_plans_that_are_broken(plan: bytes) -> None:
    (found,) = findings_of(with_tables(ONE_execution_plan_table=plan))
    assert (found.code, found.severity) == ("MALFORMED_EXECUTION_PLAN", "warning")
    assert found.location == "metadata ONE_execution_plan_table"
    assert findings_of(with_tables(ONE_execution_plan_table=u32s(2, 0, 1, 0, 1, 2, 3, 4))) == []


@given(
    tables=st.dictionaries(
        st.sampled_from([SOURCE, OP, EXACT, STAMP]),
        st.binary(max_size=40) | st.lists(st.integers(0, 4), max_size=8).map(lambda numbers: u32s(*numbers)),
    )
)
def test_no_table_breaks_the_check(tables: dict[str, bytes]) -> None:
    assert all(isinstance(finding, Finding) for finding in findings_of(with_tables(**tables)))


def test_tables_without_a_stamp_are_not_stale() -> None:
    assert findings_of(embedded(bytes_of(CLEAN), stamp=False)) == []


def test_both_outputs_and_origins_are_reported() -> None:
    data = embedded(with_outputs(lambda _: [1, 1]), origins({0: "a", 1: "b"}, {}))
    assert [finding.code for finding in findings_of(data)] == ["DUPLICATE_OUTPUT", "PARTIAL_OP_TABLE"]

    def change(model: Any) -> None:
        model.subgraphs[0].tensors[1].name = b"another"

    described = embedded(with_outputs(lambda _: [1, 1]))
    assert [finding.code for finding in findings_of(rebuilt(described, change))] == [
        "DUPLICATE_OUTPUT",
        "STALE_ORIGIN",
    ]
