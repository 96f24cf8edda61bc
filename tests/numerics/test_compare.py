"""Which operator is wrong: with faults planted, without any, and where something cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.numerics import compare, running
from circletools.numerics.cells import allowance
from circletools.numerics.results import difference
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Answer, Array
from circletools.runtimes.worker import Worker
from circletools.types import Comparison
from tests.kit.build import Build, Code, Table
from tests.kit.program import run
from tests.kit.support import ROOT, bytes_of, path_of
from tests.laws.test_docs import blocks, shell

pytest.importorskip("ai_edge_litert")
from tests.numerics import faults, oracle

pytestmark = pytest.mark.runtime

LITERT = ("litert:reference", "litert:builtin", "litert:xnnpack")
STRANGE = tuple(f"tflite/{name}" for name in (
    "cnn_float16", "sparse", "dynamic_shape", "if_cond", "while_nested", "composite", "variable_tensor", "scalar"
))  # fmt: skip
MODELS = ("tflite/cnn", "tflite/cnn_int8", "tflite/shuffle", "tflite/transformer_block", "tflite/blockwise_int4")


@pytest.fixture(scope="module", autouse=True)
def kept_programs() -> Iterator[None]:
    """Keep programs from test to test: to start one takes longer than most comparisons."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        kept = cache(lambda name, seconds: stack.enter_context(Worker(name, seconds)))
        patch.setattr(running, "Worker", lambda name, seconds: nullcontext(kept(name, seconds)))
        yield


def compared(data: bytes | str | Path, other: bytes | None = None, **asked: object) -> Comparison:
    request = ct.CompareRequest(**asked)  # type: ignore[arg-type]
    with ct.open(data) as model:
        if other is None:
            return ct.compare(model, request)
        with ct.open(other) as second:
            return ct.compare(model, request, other=second)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", faults.KINDS, ids=lambda kind: kind.__name__)
def test_a_planted_fault_is_found(name: str, kind: Callable[[faults.Planting], bool]) -> None:
    data = bytes_of(name)
    every = list(faults.plant(data, kind))
    programs = {"tflite/cnn_int8": LITERT[::2], "tflite/blockwise_int4": LITERT[1:2]}.get(name, LITERT[:1])
    for fault in every[:1] + every[1:][-1:]:
        found = compared(data, fault.model, on=programs)
        changed = found.operators[fault.operator].cells[0].own
        if found.first_own() is None and changed is not None and (changed.unequal == 0 or changed.rms < 1e-4):
            continue  # the fault does nothing: no value was beyond the clamp, a bias was 0
        for at in range(len(programs)):
            first = found.first_own(at) or found.first_not_run(at)
            assert first is not None
            assert first.operator == fault.operator


@pytest.mark.parametrize("name", [*MODELS[:-1], *STRANGE])
def test_nothing_is_blamed_without_a_fault(name: str) -> None:
    found = compared(path_of(name), on=LITERT, runs=2)
    assert [found.first_own(at) for at in (0, 1)] == [None, None]
    assert {cell.verdict for row in found.operators for cell in row.cells} <= {"ok", "skipped"}
    assert [column.exposing_changes for column in found.columns] == ["", ""]


@pytest.mark.parametrize("name", [*STRANGE, "tflite/output_twice", "tflite/custom_op", "tflite/two_signatures"])
def test_a_part_computes_what_the_whole_does(name: str) -> None:
    for row in compared(path_of(name), on=LITERT[:1] * 2, runs=2).operators:
        (cell,) = row.cells
        assert cell.own is not None
        assert cell.own == cell.inherited
        assert cell.own.unequal == 0


@pytest.mark.parametrize("name", ["tflite/cnn", "tflite/cnn_int8", "tflite/transformer_block"])
def test_own_errors_are_those_of_operators_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_SLICE_BYTES", 5000)
    data = bytes_of(name)
    with ct.open(data) as model:
        graph = model.subgraphs[0]
        tensors = [graph.tensors[at] for at in graph.inputs]
    inputs = [make_input(0, at, np.dtype(one.type.lower()), one.shape) for at, one in enumerate(tensors)]
    known = oracle.every_value(data, inputs)
    found = compared(data, on=("litert:reference", "litert:xnnpack"))
    for row in found.operators:
        (cell,) = row.cells
        assert cell.own is not None
        assert cell.own.max_abs == pytest.approx(
            oracle.furthest(data, row.operator, "litert:xnnpack", known), rel=1e-6
        )


TRACKING = ROOT / "testdata" / "tracking"
QUANTIZED = ("cnn.static8", "cnn.weights8", "cnn.dynamic4", "transformer_block.weights8", "two_signatures.weights8")


@pytest.mark.parametrize("name", QUANTIZED)
def test_a_quantizer_is_not_blamed_for_rounding(name: str) -> None:
    other = (TRACKING / f"{name}.after.tflite").read_bytes()
    found = compared(TRACKING / f"{name}.before.tflite", other, on=("litert:reference", "litert:xnnpack"))
    assert [found.first_own(at) for at in (0, 1)] == [None, None]
    assert sum(cell.verdict == "ok" for row in found.operators for cell in row.cells) >= len(found.operators)
    assert "OTHER_WEIGHTS" not in {note.code for note in found.notes}


def test_weights_of_another_model_are_noted() -> None:
    (note,) = compared(path_of("tflite/cnn"), bytes_of("tflite/cnn_int8"), on=("litert:reference",)).notes
    assert (note.code, note.severity) == ("OTHER_WEIGHTS", "warning")


def chain(codes: str, ends: dict[str, float]) -> bytes:
    """Return operators in a row; `ends` are the names and scales of their values, INT8 if the scale is not 0."""
    build = Build()
    graph = build.graph()
    tensors = [
        graph.tensor(
            name, (8, 8), "INT8", quantization=Table("QuantizationParameters", scale=[scale], zero_point=[0])
        )
        if scale
        else graph.tensor(name, (8, 8))
        for name, scale in ends.items()
    ]
    order = graph.constant("order", np.array([1, 0], np.int32))
    for code, (given, made) in zip(codes.split(), pairwise(tensors), strict=True):
        graph.operator(Code(code, 2), [given, order] if code == "TRANSPOSE" else [given], [made])
    graph.ends(tensors[:1], tensors[-1:])
    return build.to_bytes("tflite")


@pytest.mark.parametrize(("scale", "wrong"), [(2 / 127, None), (1 / 256, 2)])
def test_rounding_inside_of_what_is_cut_out_is_no_fault(scale: float, wrong: int | None) -> None:
    quantized = chain("QUANTIZE RELU DEQUANTIZE", {"x": 0, "qx": 2 / 127, "qy": scale, "y": 0})
    found = compared(chain("RELU", {"x": 0, "y": 0}), quantized, on=LITERT[:2], runs=4)
    first = found.first_own()
    assert (first.operator if first else None) == wrong
    assert found.operators[2].cells[0].words == "together with operators 0-1"


@pytest.mark.parametrize("kind", [faults.transposed, faults.kernel, faults.saturation])
def test_a_fault_in_a_quantized_model_is_found_by_the_float_model(kind: Callable[[faults.Planting], bool]) -> None:
    for fault in faults.plant((TRACKING / "cnn.static8.after.tflite").read_bytes(), kind):
        found = compared(TRACKING / "cnn.static8.before.tflite", fault.model, on=("litert:reference",))
        assert [row.operator for row in [found.first_own()] if row] == [fault.operator]


def test_a_crash_costs_its_column_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Worker.run_each

    def crashing(worker: Worker, model: Path, inputs: Iterable[Iterable[Array]]) -> Answer:
        crashes = worker.variant == "xnnpack"
        return Answer([], [], "litert ended with signal 6 (SIGABRT)") if crashes else real(worker, model, inputs)

    monkeypatch.setattr(Worker, "run_each", crashing)
    found = compared(path_of("tflite/cnn"), on=("litert:reference", "litert:xnnpack", "litert:builtin"))
    crashed, other = zip(*(row.cells for row in found.operators), strict=True)
    assert {cell.verdict for cell in crashed} == {"not_run"}
    assert {cell.verdict for cell in other} == {"ok"}
    assert found.failed


def test_a_program_that_is_wrong_is_found_but_not_as_the_reference() -> None:
    path = path_of("tflite/blockwise_int4")  # LiteRT's reference kernel computes zeros
    found = compared(path, on=LITERT[::-1])
    assert [(one.first_own(1), one.first_own(0)) for one in [found]] == [(found.operators[0], None)]
    found = compared(path, on=LITERT)
    assert (found.has_faults, found.failed) == (False, True)
    assert found.reference.failure.startswith("operator 0 FULLY_CONNECTED: the reference is wrong: scales of blocks")


def test_a_copied_output_is_compared_with_what_was_copied() -> None:
    with ct.open(path_of("tflite/output_twice")) as model, ct.edit(model) as edit:
        ct.outputs.fix(edit)
        found = compared(path_of("tflite/output_twice"), edit.to_bytes(), on=LITERT[:1])
    assert found.columns[0].outputs == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", ["variable", "hashtable", "flex_op", "custom_op"])
def test_what_cannot_be_compared_has_a_reason(name: str) -> None:
    words = "the name of a resource" if name == "variable" else ""
    found = compared(path_of(f"tflite/{name}"), on=LITERT, runs=2)
    skipped = [cell.words for row in found.operators for cell in row.cells if cell.verdict == "skipped"]
    assert found.reference.failure or all(skipped)
    assert any(words in one for one in (*skipped, found.reference.failure))


def test_each_signature_is_compared() -> None:
    with ct.open(path_of("tflite/two_signatures")) as model:
        keys = [one.key for one in model.signatures]
    found = [compared(path_of("tflite/two_signatures"), on=LITERT, signature=key) for key in keys]
    assert [one.operators[0].subgraph for one in found] == [0, 1]
    assert [one.first_own() for one in found] == [None, None]
    with pytest.raises(ct.UsageError, match="no signature"):
        compared(path_of("tflite/cnn"), signature="other")


def test_inputs_come_from_files(tmp_path: Path) -> None:
    with ct.open(path_of("tflite/cnn_int8")) as model:
        graph = model.subgraphs[0]
        tensor = graph.tensors[graph.inputs[0]]
    values = make_input(3, 0, np.dtype(tensor.type.lower()), tensor.shape)
    np.savez(tmp_path / "named.npz", allow_pickle=False, **{tensor.name: values})
    np.savez(tmp_path / "placed.npz", values)
    (tmp_path / "image.bin").write_bytes(values.tobytes())
    names = ("named.npz", "placed.npz", "image.bin")
    rows = [compared(path_of("tflite/cnn_int8"), inputs=(str(tmp_path / name),)).to_rows() for name in names]
    assert rows[0] == rows[1] == rows[2] != compared(path_of("tflite/cnn_int8")).to_rows()
    (tmp_path / "image.bin").write_bytes(b"short")
    np.savez(tmp_path / "other.npz", other=values)
    np.savez(tmp_path / "floats.npz", values.astype(np.float32))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 but no archive")
    np.save(tmp_path / "one.npy", values)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    for name in ("image.bin", "/dev/zero", "other.npz", "none.npz", "broken.npz", "one.npz", "floats.npz"):
        with pytest.raises(ct.InvalidInputError):
            compared(path_of("tflite/cnn_int8"), inputs=(str(tmp_path / name),))


def test_a_varying_reference_causes_no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    real = running.Runner.part

    shifted = lambda *given: {at: [one + 1 for one in every] for at, every in real(*given).items()}  # noqa: E731
    monkeypatch.setattr(running.Runner, "part", shifted)
    found = compared(path_of("tflite/cnn"), on=LITERT[:2])
    words = {cell.words for row in found.operators for cell in row.cells}
    assert words == {"litert:reference: the operator computes different values when run alone"}


def test_an_imprecise_reference_causes_no_faults() -> None:
    build = Build()
    graph = build.graph()
    form = Table("QuantizationParameters", scale=[0.01], zero_point=[0])
    x, y = (graph.tensor(*one, "INT8", quantization=form) for one in (("x", (1, 5, 28, 3)), ("y", (1, 77, 38, 3))))
    graph.operator(Code("RESIZE_BILINEAR", 3), [x, graph.constant("size", np.array([77, 38], np.int32))], [y])
    graph.ends([x], [y])
    found = compared(build.to_bytes("tflite"), on=LITERT[::2])
    assert not found.has_faults
    assert found.to_rows()[0]["own_max_steps"] > 1


def test_equal_values_are_rounded_equally() -> None:
    alike, apart = (allowance([x], "INT8", 1.0, difference([x], [x])).rms for x in (np.zeros(999), np.arange(999.0)))
    assert alike > 1 > apart


def test_thresholds_replace_what_rounding_explains() -> None:
    model = path_of("tflite/cnn_int8")
    # XNNPACK rounds some values to the other step.
    assert [compared(model, max_steps=steps).has_faults for steps in (0.5, 1.0)] == [True, False]
    asked = (
        "--max-steps=0.5",
        "--min-snr=99",
        "--max-abs=99",
        "--on=litert:reference",
        "--on=litert:reference,nothing",
    )
    assert [run("compare", model, one).status for one in asked] == [1, 1, 0, 2, 2]


def test_no_program_is_right_at_a_pole(tmp_path: Path) -> None:
    """XNNPACK has NaN for 1 / sqrt(0); what is infinite without a pole has to stay so."""

    def single(code: str, *least: float) -> bytes:
        build = Build()
        graph = build.graph()
        x = graph.tensor("x", [1, 4])
        inputs = [x, *(graph.constant("least", np.full((1, 4), one, np.float32)) for one in least)]
        graph.ends([x], [graph.compute(code, inputs, "y", [1, 4])])
        return build.to_bytes()

    np.savez(tmp_path / "x.npz", x=np.array([[0, 1, 4, 9]], np.float32))
    asked: dict[str, Any] = {"on": LITERT, "inputs": (str(tmp_path / "x.npz"),)}
    assert not any(compared(one, **asked).has_faults for one in (single("RSQRT"), single("DIV", 0.0)))
    assert compared(single("MINIMUM", -np.inf), single("MINIMUM", 0.0), **asked).has_faults


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    text = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    for step in re.split(r"^\$ ", "".join(blocks(text, "console")), flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        assert shell(f"{command}; true", tmp_path) == expected


def test_the_page_of_a_comparison_is_plain_markup(tmp_path: Path) -> None:
    data = bytes_of("tflite/cnn_int8")
    (fault, *_) = faults.plant(data, faults.saturation)
    (tmp_path / "<b>.tflite").write_bytes(fault.model)
    page = tmp_path / "page.html"
    assert run("compare", path_of("tflite/cnn_int8"), tmp_path / "<b>.tflite", "--html", page).status == 1
    html = page.read_text(encoding="utf-8")
    assert "<b>" not in html
    assert "<script" not in html
    assert html.count("<rect") == 2 * len(compared(data).operators)
    assert html.count("#d73027") >= 2
    assert f"first wrong operator: {fault.operator} CONV_2D" in html


def test_names_that_went_to_other_operators_pair_nothing() -> None:
    """A converter calls what a new QUANTIZE makes as it called what TRANSPOSE made, which has another name then."""
    names = ["x", "a", "t", "t1", "y"]
    quantized = chain("ABS QUANTIZE TRANSPOSE RELU", dict.fromkeys(names, 1 / 127))
    plain = chain("ABS TRANSPOSE RELU", dict.fromkeys(["x", "a", "t", "y"], 0.0))
    found = compared(plain, quantized, on=LITERT[:1])
    assert found.first_own() is None
    beginning = compared(plain, chain("ABS", dict.fromkeys("xa", 0.0)), on=LITERT[:1])
    assert beginning.columns[0].outputs == (None,)  # the output has an inner tensor for a counterpart
    assert [row.partner for row in found.operators] == [0, None, 1, 2]
    numbered = [chain(codes, dict.fromkeys(["x", "m;1", "y"], 0.0)) for codes in ("TRANSPOSE ABS", "ABS TRANSPOSE")]
    assert compared(*numbered, on=LITERT[:1]).first_own() is None  # "m;1" is not the same tensor
