"""What a model needs of a TFLite runtime, against LiteRT's own resolver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.origin.embed import embed
from circletools.requires.forms import forms, lowest_version
from circletools.requires.minimum import (
    lower_versions,
    minimum_findings,
    minimum_of,
    rewrite_requirements,
    write_minimum,
)
from circletools.requires.requirements import requires
from circletools.requires.resolver import method_of
from circletools.requires.table import ELSEWHERE, NEVER, OUTSIDE, runtime_table
from tests.kit.build import CODES, Build, Code, Table, floats, quantization
from tests.kit.command_support import run
from tests.kit.origin_support import origins
from tests.kit.support import ROOT, bytes_of

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
        rewrite_requirements(edit, lower=True)
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
        (of_codes(), "tflite-2.8.0", []),
        (of_codes(Code("GELU", 2)), "tflite-2.9.1", ["GELU version 2"]),
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
    assert found.is_oldest == (first == TABLE.runtimes[0])
    assert [one.takes for one in found.verdicts] == [
        (first is not None and at >= TABLE.runtimes.index(first)) or (first == "litert-2.1.0" and at == EARLY)
        for at in range(NEWEST + 1)
    ]
    assert [at for at, one in enumerate(found.verdicts) if one.wrong] == [5, 8, 9, 11, 12] * (first == "litert-2.1.0")


def test_a_constant_and_custom_options_behind_the_flatbuffer_both_count() -> None:
    offsets = [Table("Buffer", offset=offset, size=1) for offset in (0, 1, 2)]  # converters write 1 for no offset
    for data, count in ((bytes_of("tflite/custom_options_external"), 2), (of_codes(buffers=offsets), 1)):
        with ct.open(data) as model:
            assert [row.count for row in requires(model).rows] == [count]


def test_a_requirement_names_the_first_operators_that_have_it() -> None:
    build = Build()
    for number in range(2):
        graph = build.graph()
        last = graph.tensor(f"x{number}", (1,))
        for at in range(4):
            last = graph.compute(Code("ABS", 99), [last], f"g{number}.{at}", (1,))
    build.code(Code("ADD", 4))
    with ct.open(build.to_bytes()) as model:
        (row,) = requires(model).to_rows()
        edit = ct.edit(model)
        embed(edit, origins({2: "first", 5: "second"}, {0: {2}, 1: {5, 2}, 3: {5}}, {2: {2}}), stamp=False)
        with ct.open(edit.to_bytes()) as named:
            (of_origins,) = requires(named).to_rows()
    assert [*row.values()] == ["operator", "ABS version 99", None, 8, "g0.0; g0.1; g0.2; g0.3; g1.0"]
    assert of_origins["sources"] == "first; g0.2; second; g1.0"
    graph.table.operators[-1].opcode_index = 2  # there are fewer codes
    with ct.open(build.to_bytes()) as model:
        assert [row.count for row in requires(model).rows] == [7]


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
    ("codes", "declared", "state", "needed", "finding"),
    [
        ([Code("ADD", 4)], None, "missing", "2.8.0", None),
        ([Code("ADD", 5)], None, "missing", "2.13.0", "info: it is missing; 2.13.0 is correct"),
        ([Code("ADD", 4)], b"1.5.0", "correct", "2.8.0", None),
        ([Code("ADD", 4)], b"2.8", "correct", "2.8.0", None),
        ([Code("ADD", 4)], b"3", "too high", "2.8.0", "info: it is 3, which is too high; 2.8.0 is correct"),
        ([Code("ADD", 5)], b"2.8", "too low", "2.13.0", "warning: it is 2.8, which is too low; 2.13.0 is correct"),
        ([Code("ADD", 5), Code("GELU", 2)], b"2.13", "correct", "2.13.0", None),
        ([Code("FULLY_CONNECTED", 12)], b"2.17.0", "correct", "2.17.0", None),
        ([Code("FULLY_CONNECTED", 14)], b"2.17.0", "unknown", None, None),
        ([Code("FULLY_CONNECTED", 14), Code("ADD", 5)], b"2.13.0", "unknown", None, None),
        ([Code("FULLY_CONNECTED", 14), Code("ADD", 5)], b"2.12.0", "too low", None,
            "warning: it is 2.12.0, which is too low; no TensorFlow release has all operators"),
        ([Code("ADD", 4)], b"new", "unknown", "2.8.0", None),
        ([Code("ADD", 4)], b"100000", "unknown", "2.8.0", None),
        ([Code("CUSTOM", 1, "mine")], b"1.5.0", "correct", "2.8.0", None),
    ],
)  # fmt: skip
def test_the_recorded_runtime_is_compared(
    codes: list[Code], declared: bytes | None, state: str, needed: str | None, finding: str | None
) -> None:
    with ct.open(of_codes(*codes, declared=declared)) as model:
        found = minimum_of(graph := model_graph(model), TABLE)
        assert found.is_bound == (found.needed == "2.8.0")  # the oldest that was measured
        reported = [f"{one.severity}: {one.message}" for one in minimum_findings(graph)]
    assert (found.state, found.needed, reported) == (state, needed, [finding] * (finding is not None))


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
    with ct.open(linear(14)) as model, pytest.raises(ct.EditError, match="no known"):
        rewrite_requirements(ct.edit(model), write=True)


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
    for data, message in (
        (bytes_of("tflite/composite"), "STABLEHLO_COMPOSITE stays at version 1: there is no lower version"),
        (of_codes(Code("STABLEHLO_CLAMP")), "STABLEHLO_CLAMP stays at version 1: there is no lower version"),
        (of_codes(types=("UINT16",)), "UINT16 tensors: lower operator versions do not help"),
    ):
        with ct.open(data) as model:
            assert [one.message for one in lower_versions(ct.edit(model)).notes] == [message]


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


def formed(*words: str) -> bytes:
    """Return a model of one operator: its code, slots and options.

    A slot is a type with perhaps a shape (`:2x2`) and scales (`*1,2`), an index of no tensor, or `-` if left out.
    """
    graph = (build := Build()).graph()
    sides: tuple[list[int], list[int]] = ([], [])
    for at, word in enumerate(words):
        kind, shape, scales = re.fullmatch(r"([^:*]*):?([^*]*)[*]?(.*)", word).groups()  # type: ignore[union-attr]
        fields: dict[str, Any] = {"quantization": quantization([*map(float, scales.split(","))])} if scales else {}
        fields |= {"sparsity": Table("SparsityParameters")} if kind == "SPARSE" else {}
        if at and kind != ">" and "=" not in kind:
            sizes, name = [*map(int, (shape or "1x1x1x4").split("x"))], kind.replace("SPARSE", "FLOAT32")
            slot = graph.tensor(word, sizes, name, **fields) if kind.isalnum() and not kind.isdigit() else -1
            sides[">" in words[:at]].append(int(kind) if kind.isdigit() else slot)
    options: dict[str, Any] = {
        name: int(value) for name, _, value in (word.partition("=") for word in words) if value
    }
    graph.operator(words[0], *sides, **options)
    return build.to_bytes()


def test_every_form_of_the_table_has_its_version() -> None:
    for line in Path(__file__).with_name("forms.txt").read_text().splitlines():
        words, version = line.split(" = ")
        with ct.open(formed(*words.split())) as model:
            assert str(lowest_version(model_graph(model).graphs[0], 0)) == version, line


def test_every_form_leads_to_a_version_that_a_runtime_resolves() -> None:
    assert [
        (code, form.line)
        for code, lines in forms().items()
        for form in lines
        if form.version and TABLE.first_for_operator(code, form.version) == NEVER
    ] == []


@pytest.mark.parametrize(
    ("code", "method"),
    [
        ("ADD", "AddAdd"),
        ("DEPTHWISE_CONV_2D", "AddDepthwiseConv2D"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "AddUnidirectionalSequenceLSTM"),
        ("RESIZE_NEAREST_NEIGHBOR", "AddResizeNearestNeighbor"),
        ("CUSTOM:TFLite_Detection_PostProcess", "AddDetectionPostprocess"),
        ("CUSTOM:SignalFftAutoScale", "AddFftAutoScale"),
        ("CUSTOM:SignalRfft", "AddRfft"),
        ("CUSTOM:mine", None),
    ],
)
def test_the_resolver_has_methods_of_tflm(code: str, method: str | None) -> None:
    assert method_of(code) == method


def test_the_resolver_registers_the_operators_of_all_models() -> None:
    graph = (build := Build()).graph()
    x, y, z = (graph.tensor(name, (1,)) for name in "xyz")
    graph.operator("ADD", [x, x], [y])
    graph.operator(Code("CUSTOM", 1, 'a"b'), [y], [z], table=None)
    graph.operator(Code("CUSTOM", 1, "a.b"), [y], [z], table=None)
    graph.ends([x], [z])
    with ct.open(build.to_bytes()) as model, ct.open(of_codes()) as empty, ct.open(formed("VAR_HANDLE")) as handle:
        text = ct.resolver_code([model, model])
        assert "Resolver<1>&" in ct.resolver_code([empty])
        assert "// VAR_HANDLE: pass a tflite::MicroResourceVariables" in ct.resolver_code([handle])
    assert "MicroMutableOpResolver<3>& resolver" in text
    assert "resolver.AddAdd()" in text
    assert "VAR_HANDLE" not in text
    assert 'AddCustom("a\\042b", Register_A_B())' in text
    assert 'AddCustom("a.b", Register_A_B_2())' in text


def test_the_resolver_refuses_what_tflm_does_not_have() -> None:
    with ct.open(ROOT / "testdata/tflite/hashtable.tflite") as model, pytest.raises(ct.EditError) as error:
        ct.resolver_code([model])
    words = "TFLM has no kernel for HASHTABLE, HASHTABLE_FIND, HASHTABLE_IMPORT (`circletool"
    assert f"hashtable.tflite: {words}" in str(error.value)


def test_the_resolver_of_a_model_that_tflm_refuses_comes_with_a_warning(tmp_path: Path) -> None:
    (named := tmp_path / "a\\\n.tflite").write_bytes(of_codes())
    with ct.open(named) as model:
        assert ct.resolver_code([model]).startswith(f"// The operators of {tmp_path}/a??.tflite.\n")
    names = ("cnn_float16.tflite", "cnn_int8.tflite", "while_loop.tflite")
    refused, taken, loop = (str(ROOT / "testdata/tflite" / name) for name in names)
    done = run("requires", taken, loop, "--resolver", tmp_path / "ops.h", "--also", refused)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"warning: {refused}: TFLM does not run this model")
    assert all(f"resolver.Add{code}()" in (tmp_path / "ops.h").read_text() for code in ("Conv2D", "While"))
