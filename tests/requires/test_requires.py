"""What a model needs of a TFLite runtime, against LiteRT's own resolver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.requires.forms import forms
from circletools.requires.minimum import lower_versions, minimum_of, write_minimum
from circletools.requires.requirements import requires
from circletools.requires.table import ELSEWHERE, NEVER, OUTSIDE, runtime_table
from tests.kit.build import CODES, Build, Code, Table, floats, quantization
from tests.kit.support import bytes_of

TABLE = runtime_table()
NEWEST = len(TABLE.runtimes) - 1
EARLY = TABLE.runtimes.index("litert-1.3.0")  # it reads blockwise quantization, and the next two do not


def of_codes(
    *codes: Code, declared: bytes | None = None, types: tuple[str, ...] = (), external_buffer: int = 0, **model: Any
) -> bytes:
    """Return a model with these operator codes, tensors of these types and min_runtime_version."""
    build = Build()
    graph = build.graph()
    for code in codes:
        build.code(code)
    for number, name in enumerate(types):
        graph.tensor(f"t{number}", (1,), name, external_buffer=external_buffer)
    if declared is not None:
        build.metadata("min_runtime_version", declared.ljust(16, b"\0"))
    for name, value in model.items():
        setattr(build.model, name, value)
    return build.to_bytes()


def linear(version: int, *, channels: int = 3, kind: str = "INT8", **options: Any) -> bytes:
    """Return a FULLY_CONNECTED of FLOAT32 with quantized weights of this many scales."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (1, 4)), graph.tensor("y", (1, 3))
    weights = np.arange(12, dtype=np.int8).reshape(3, 4).tobytes()
    scales = quantization([0.5, 0.25, 0.125][:channels])
    w = graph.tensor("w", (3, 4), kind, data=weights, quantization=scales)
    graph.operator(Code("FULLY_CONNECTED", version), [x, w, graph.constant("b", floats(3))], [y], **options)
    graph.ends([x], [y])
    return build.to_bytes()


def lowered(data: bytes) -> bytes:
    """Return the model with lowered versions."""
    with ct.open(data) as model:
        edit = ct.edit(model)
        lower_versions(edit)
        return edit.to_bytes()


def test_a_newer_runtime_takes_whatever_an_older_one_does() -> None:
    assert all(list(highest) == sorted(highest) for _, highest in TABLE.operators.values())


@pytest.mark.runtime
def test_litert_resolves_the_operator_versions_that_the_table_has_for_it() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    wrong = []
    for name in CODES:
        for version in (*range(1, 17), 32):
            if not 0 <= CODES[name] <= max(TABLE_CODES) or name == "CUSTOM":
                continue
            try:
                litert.Interpreter(model_content=of_codes(Code(name, version)))
                resolved = True
            except (RuntimeError, ValueError):
                resolved = False
            if resolved != (TABLE.first_for_operator(name, version) <= NEWEST):
                wrong.append((name, version))
    assert wrong == []


TABLE_CODES = [number for name, number in CODES.items() if name in TABLE.operators]


@pytest.mark.parametrize(
    ("data", "first", "what"),
    [
        (of_codes(Code("ADD", 4)), "tflite-2.8.0", []),
        (of_codes(Code("FULLY_CONNECTED", 12)), "litert-1.0.1", ["FULLY_CONNECTED version 12"]),
        (of_codes(Code("ADD", 99)), None, ["ADD version 99"]),
        (of_codes(Code("BROADCAST_TO", 1)), None, ["BROADCAST_TO version 1"]),
        (of_codes(types=("INT4", "INT4")), "tflite-2.11.0", ["INT4 tensors"]),
        (of_codes(Code("CUSTOM", 1, "Mfcc")), "tflite-2.8.0", []),
        (of_codes(Code("CUSTOM", 2, "Mfcc")), None, ["CUSTOM:Mfcc version 2"]),
        (of_codes(Code("CUSTOM", 1, "mine")), None, ["CUSTOM:mine"]),
        (bytes_of("tflite/blockwise_int4"), "litert-2.1.0", ["blockwise quantization", "INT4 tensors"]),
        (bytes_of("tflite/cnn_external"), "tflite-2.14.0", [OUTSIDE]),
        (of_codes(types=("INT8",), external_buffer=1), "litert-2.1.6", [ELSEWHERE]),
        (of_codes(version=2), None, ["schema version 2"]),
        (of_codes(buffers=[]), None, ["a model without buffers"]),
        (of_codes(subgraphs=[]), None, ["a model without subgraphs"]),
    ],
)
def test_the_first_runtime_that_takes_all(data: bytes, first: str | None, what: list[str]) -> None:
    with ct.open(data) as model:
        found = requires(model)
    assert (found.first, [row.what for row in found.rows]) == (first, what)
    assert [one.takes for one in found.verdicts] == [
        (first is not None and at >= TABLE.runtimes.index(first)) or (first == "litert-2.1.0" and at == EARLY)
        for at in range(NEWEST + 1)
    ]
    assert [at for at, one in enumerate(found.verdicts) if one.wrong] == [5, 8, 9, 11, 12] * (first == "litert-2.1.0")


def test_a_constant_and_custom_options_behind_the_flatbuffer_both_count() -> None:
    with ct.open(bytes_of("tflite/custom_options_external")) as model:
        assert [row.count for row in requires(model).rows] == [2]


def test_runtimes_are_named_by_any_part_of_their_version_and_read_only_tflite() -> None:
    with ct.open(of_codes(Code("FULLY_CONNECTED", 12))) as model:
        found = requires(model, ["litert-1.4", "tflite-2.12.0", "LiteRT-2"])
        assert [(one.runtime, one.takes) for one in found.verdicts] == [
            ("litert-1.4.0", True), ("tflite-2.12.0", False), ("litert-2.0.3", True)
        ]  # fmt: skip
        with pytest.raises(ct.UsageError, match="no data for the runtime 'litert-9'"):
            requires(model, ["litert-9"])
    with ct.open(bytes_of("circle/mlp")) as model, pytest.raises(ct.UsageError, match="Circle"):
        requires(model)


@pytest.mark.parametrize(
    ("codes", "declared", "state", "needed"),
    [
        ([Code("ADD", 4)], None, "missing", "2.8.0"),
        ([Code("ADD", 4)], b"1.5.0", "true", "2.8.0"),
        ([Code("ADD", 4)], b"2.8", "true", "2.8.0"),
        ([Code("ADD", 4)], b"2.17.0", "too high", "2.8.0"),
        ([Code("ADD", 5)], b"2.8.0", "too low", "2.13.0"),
        ([Code("ADD", 5), Code("GELU", 2)], b"2.13.0", "true", "2.13.0"),
        ([Code("FULLY_CONNECTED", 12)], b"2.17.0", "true", "2.17.0"),
        ([Code("FULLY_CONNECTED", 14)], b"2.17.0", "unknown", None),
        ([Code("FULLY_CONNECTED", 14), Code("ADD", 5)], b"2.12.0", "too low", None),
        ([Code("ADD", 4)], b"new", "unknown", "2.8.0"),
        ([Code("CUSTOM", 1, "mine")], b"1.5.0", "true", "2.8.0"),
    ],
)
def test_what_the_file_says_of_the_runtime_is_compared(
    codes: list[Code], declared: bytes | None, state: str, needed: str | None
) -> None:
    with ct.open(of_codes(*codes, declared=declared)) as model:
        found = minimum_of(model_graph(model), TABLE)
    assert (found.state, found.needed) == (state, needed)


def test_the_true_version_is_written_once() -> None:
    with ct.open(of_codes(Code("ADD", 5), declared=b"1.5.0")) as model:
        edit = ct.edit(model)
        assert write_minimum(edit).changes == ("metadata min_runtime_version: 16 bytes",)
        once = edit.to_bytes()
    with ct.open(once) as model:
        assert bytes(model.metadata_value("min_runtime_version") or b"") == b"2.13.0".ljust(16, b"\0")
        edit = ct.edit(model)
        assert write_minimum(edit).changes == ()
        assert edit.to_bytes() == once


def test_a_version_that_only_litert_has_cannot_be_written() -> None:
    with ct.open(of_codes(Code("FULLY_CONNECTED", 14))) as model, pytest.raises(ct.EditError, match="no known"):
        write_minimum(ct.edit(model))


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (linear(14), 12),
        (linear(14, channels=1), 3),
        (linear(12, channels=1, asymmetric_quantize_inputs=True), 9),
        (linear(9, channels=1), 9),  # all measured runtimes resolve it
        (linear(14, kind="INT16"), 14),  # a form that is not known
        (of_codes(Code("FULLY_CONNECTED", 14)), 14),  # no operator has it
    ],
)
def test_a_code_gets_the_lowest_version_of_its_operators(data: bytes, version: int) -> None:
    once = lowered(data)
    with ct.open(once) as model:
        assert [code.version for code in model.operator_codes] == [version]
    assert lowered(once) == once
    if version == TABLE.operators["FULLY_CONNECTED"][1][-1]:
        assert once == data


def test_entries_that_share_a_table_are_lowered_apart() -> None:
    build = Build()
    graph = build.graph()
    code = Table("OperatorCode", builtin_code=CODES["ABS"], deprecated_builtin_code=CODES["ABS"], version=5)
    for number, kind in enumerate(("FLOAT32", "INT32")):
        x, y = graph.tensor(f"x{number}", (1,), kind), graph.tensor(f"y{number}", (1,), kind)
        graph.operator("ABS", [x], [y]).opcode_index = number
    build.model.operator_codes = [code, code]
    with ct.open(lowered(build.to_bytes())) as model:
        assert [one.version for one in model.operator_codes] == [1, 5]
    with ct.open(bytes_of("tflite/composite")) as model:
        (note,) = lower_versions(ct.edit(model)).notes  # version 1 of a code that only newer runtimes have
        assert note.message == "STABLEHLO_COMPOSITE stays at version 1: there is no lower version"


@pytest.mark.runtime
def test_lowering_changes_no_bit_in_litert() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")

    def run(data: bytes) -> bytes:
        interpreter = litert.Interpreter(model_content=data)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], floats(1, 4))
        interpreter.invoke()
        return bytes(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tobytes())

    data = linear(14)
    assert lowered(data) != data
    assert run(lowered(data)) == run(data)


def test_every_form_leads_to_a_version_that_a_runtime_resolves() -> None:
    assert [
        (code, form.line)
        for code, lines in forms().items()
        for form in lines
        if form.version and TABLE.first_for_operator(code, form.version) == NEVER
    ] == []
