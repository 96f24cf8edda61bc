"""The oracles themselves: they must see what happened, and survive it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.runtimes import inputs
from tests.kit.build import Build
from tests.kit.oracles import (
    OracleError,
    Outcome,
    Pool,
    Value,
    is_deterministic,
    run_litert,
    run_onert,
    same_behavior,
)
from tests.kit.oracles import pool as pool_module
from tests.kit.oracles.inputs import make_input
from tests.kit.public import public_models

FLOAT32 = np.dtype(np.float32)
SHAPE = (2, 3)
Run = Callable[[Path], Outcome]
Make = Callable[..., NDArray[Any]]
both_makers = pytest.mark.parametrize("make", [make_input, inputs.make_input], ids=["oracle", "product"])


def binary_model(
    operator: str = "ADD",
    *,
    kind: str = "tflite",
    order: tuple[int, int, int] = (0, 1, 2),
    output_slots: int = 1,
    shape: tuple[int, ...] = SHAPE,
    signature: bool = False,
) -> bytes:
    """Build `c = operator(a, b)`; `order` gives the tensor indices of a, b and c."""
    build = Build()
    graph = build.graph()
    for _, name in sorted(zip(order, "abc", strict=True)):
        graph.tensor(name, shape)
    a, b, c = order
    graph.operator(operator, [a, b], [c])
    graph.ends([a, b], [c] * output_slots)
    if signature:
        build.signature("sign", [("left", a), ("right", b)], [("z", c), ("again", c)])
    return build.to_bytes(kind)


def written(folder: Path, content: bytes | str, name: str = "m.tflite") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture(scope="module")
def faults() -> Iterator[Pool]:
    with Pool(seconds=2) as pool:
        yield pool


# --- the runtimes -------------------------------------------------------------------------------------------


def test_litert_computes_what_numpy_does(tmp_path: Path) -> None:
    outcome = run_litert(written(tmp_path, binary_model("SUB")), seed=7)
    expected = make_input(7, 0, FLOAT32, SHAPE) - make_input(7, 1, FLOAT32, SHAPE)
    assert outcome == Outcome("litert", "ok", "", (("c", "float32", SHAPE, expected.tobytes()),))


@pytest.mark.parametrize("kind", ["tflite", "circle"])
@pytest.mark.parametrize("operator", ["ADD", "SUB"])
def test_onert_computes_what_numpy_does(tmp_path: Path, kind: str, operator: str) -> None:
    model = written(tmp_path, binary_model(operator, kind=kind), f"m.{kind}")
    outcome = run_onert(model, seed=7)
    left, right = (make_input(7, position, FLOAT32, SHAPE) for position in (0, 1))
    expected = left + right if operator == "ADD" else left - right
    assert outcome == Outcome("onert", "ok", "", (("0", "float32", SHAPE, expected.tobytes()),))


def test_a_signature_runs_by_its_own_names(tmp_path: Path) -> None:
    outcome = run_litert(written(tmp_path, binary_model("SUB", signature=True)))
    expected = make_input(0, "left", FLOAT32, SHAPE) - make_input(0, "right", FLOAT32, SHAPE)
    value = ("float32", SHAPE, expected.tobytes())
    assert outcome.signatures == {"sign": (("again", *value), ("z", *value))}
    assert outcome.outputs[0][3] != expected.tobytes()


@pytest.mark.parametrize("run", [run_litert, run_onert])
def test_every_output_slot_is_read(tmp_path: Path, run: Run) -> None:
    one = run(written(tmp_path, binary_model(), "one.tflite"))
    three = run(written(tmp_path, binary_model(output_slots=3), "three.tflite"))
    assert [value[1:] for value in three.outputs] == [one.outputs[0][1:]] * 3


@pytest.mark.parametrize("run", [run_litert, run_onert])
def test_renumbering_the_tensors_is_no_difference(tmp_path: Path, run: Run) -> None:
    before = run(written(tmp_path, binary_model("SUB"), "before.tflite"))
    after = run(written(tmp_path, binary_model("SUB", order=(2, 0, 1)), "after.tflite"))
    assert before.stage == "ok"
    assert same_behavior(before, after) is None


@pytest.mark.parametrize("run", [run_litert, run_onert])
def test_another_operator_is_a_difference(tmp_path: Path, run: Run) -> None:
    before = run(written(tmp_path, binary_model("SUB"), "before.tflite"))
    after = run(written(tmp_path, binary_model("ADD"), "after.tflite"))
    found = same_behavior(before, after)
    assert found is not None
    assert found.startswith("outputs[0]")
    assert "bytes differ" in found


@pytest.mark.parametrize("run", [run_litert, run_onert])
def test_another_shape_is_a_difference(tmp_path: Path, run: Run) -> None:
    before = run(written(tmp_path, binary_model(), "before.tflite"))
    after = run(written(tmp_path, binary_model(shape=(3, 2)), "after.tflite"))
    found = same_behavior(before, after)
    assert found is not None
    assert "shape [2, 3] before, [3, 2] after" in found


@pytest.mark.parametrize("run", [run_litert, run_onert])
def test_no_elements_are_no_obstacle(tmp_path: Path, run: Run) -> None:
    model = written(tmp_path, binary_model(shape=(0, 3)))
    assert same_behavior(run(model), run(model)) is None


def test_garbage_fails_to_load_in_the_same_words_anywhere(tmp_path: Path) -> None:
    outcomes = [run_litert(written(tmp_path, b"\0garbage" * 40, name)) for name in ("a.tflite", "b.tflite")]
    assert {outcome.stage for outcome in outcomes} == {"load"}
    assert outcomes[0].message
    assert same_behavior(*outcomes) is None


def test_garbage_in_onert_ends_no_later_than_loading_and_is_survived(tmp_path: Path) -> None:
    # This onert has no verifier: what it does with garbage depends on the garbage.
    outcome = run_onert(written(tmp_path, b"\0garbage" * 40, "garbage.tflite"))
    assert outcome.stage == "load" or (outcome.stage, outcome.reached) == ("crash", "load")
    assert run_onert(written(tmp_path, binary_model())).stage == "ok"


def test_onert_gives_its_reason_for_a_refusal(tmp_path: Path) -> None:
    outcome = run_onert(written(tmp_path, binary_model("ATAN2")))
    expected = "nnfw_load_model_from_file: ERROR: Fail to load model: Unsupported operation: ATAN2"
    assert outcome == Outcome("onert", "load", expected)


def test_a_missing_file_is_not_an_outcome(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_litert(tmp_path / "absent.tflite")


# --- the worker processes -----------------------------------------------------------------------------------


def pid(pool: Pool, folder: Path) -> bytes:
    return pool.run("faults", written(folder, "pid", "pid.txt")).outputs[0][3]


def test_a_worker_is_reused(tmp_path: Path, faults: Pool) -> None:
    assert pid(faults, tmp_path) == pid(faults, tmp_path)


@pytest.mark.parametrize(("fault", "message"), [("crash", "signal 11"), ("exit", "exit status 3")])
def test_a_crash_is_survived(tmp_path: Path, faults: Pool, fault: str, message: str) -> None:
    before = pid(faults, tmp_path)
    outcome = faults.run("faults", written(tmp_path, fault))
    assert outcome == Outcome("faults", "crash", message, reached="run")
    assert pid(faults, tmp_path) != before


def test_a_hang_is_survived(tmp_path: Path) -> None:
    with Pool(seconds=0.5) as pool:
        before = pid(pool, tmp_path)
        outcome = pool.run("faults", written(tmp_path, "hang"))
        assert outcome == Outcome("faults", "timeout", "no answer in 0.5 s", reached="run")
        assert pid(pool, tmp_path) != before


def test_what_a_runtime_prints_is_not_an_answer(
    tmp_path: Path, faults: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = faults.run("faults", written(tmp_path, "chatter"))
    assert outcome.stage == "ok"
    assert capfd.readouterr() == ("", "")


def test_a_bug_of_the_harness_is_not_an_outcome(tmp_path: Path, faults: Pool) -> None:
    with pytest.raises(OracleError, match="a bug of the harness"):
        faults.run("faults", written(tmp_path, "bug"))
    assert pid(faults, tmp_path)


def test_a_runtime_that_cannot_start_is_not_an_outcome(tmp_path: Path, faults: Pool) -> None:
    with pytest.raises(OracleError, match="no_such_runtime"):
        faults.run("no_such_runtime", written(tmp_path, ""))


@pytest.mark.parametrize(("fault", "expected"), [("nothing", True), ("random", False), ("unwritten memory", False)])
def test_determinism(tmp_path: Path, fault: str, expected: bool) -> None:
    assert is_deterministic(written(tmp_path, fault), "faults") is expected


def test_determinism_is_found_once_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_deterministic(written(tmp_path, "cached", "one.txt"), "faults")
    monkeypatch.setattr(pool_module, "_POOL", None)
    assert is_deterministic(written(tmp_path, "cached", "other.txt"), "faults")


# --- the inputs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float64", "complex64"]
)
@both_makers
def test_inputs_repeat_and_differ_by_place_and_seed(dtype: str, make: Make) -> None:
    def values(seed: int, place: int | str) -> bytes:
        array = make(seed, place, np.dtype(dtype), (4, 50))
        assert array.dtype == dtype
        assert array.shape == (4, 50)
        return array.tobytes()

    assert values(0, 0) == values(0, 0)
    assert len({values(0, 0), values(0, 1), values(1, 0), values(0, "a")}) == 4


@both_makers
def test_ranges_of_inputs(make: Make) -> None:
    indices = make(0, 0, np.dtype(np.int32), (1000,))
    assert (indices.min(), indices.max()) == (0, 2)
    quantized = make(0, 0, np.dtype(np.int8), (10_000,))
    assert (quantized.min(), quantized.max()) == (-128, 127)
    real = make(0, 0, FLOAT32, (1000,))
    assert -1 <= real.min() < -0.9
    assert 0.9 < real.max() < 1
    strings = make(0, 0, np.dtype(np.bytes_), (2, 2))
    assert strings.shape == (2, 2)
    assert {type(item) for item in strings.flat} == {bytes}
    assert make(0, 0, FLOAT32, (0, 3)).shape == (0, 3)
    assert make(0, 0, FLOAT32, ()).shape == ()


# --- the comparison -----------------------------------------------------------------------------------------


def floats(*numbers: float, name: str = "y") -> Value:
    array = np.array(numbers, np.float32)
    return name, "float32", array.shape, array.tobytes()


OK = Outcome("litert", "ok", "", (floats(1, 2),), {"s": (floats(3, name="z"),)})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"runtime": "onert"}, "runtime: 'litert' before, 'onert' after"),
        ({"stage": "run"}, "stage: 'ok' before, 'run' after"),
        ({"stage": "crash", "reached": "load"}, "stage: 'ok' before, 'crash in load' after"),
        ({"message": "no"}, "message: '' before, 'no' after"),
        ({"outputs": ()}, "outputs: 1 before, 0 after"),
        ({"outputs": (floats(1, 2, name="w"),)}, "outputs[0]: name 'y' before, 'w' after"),
        ({"outputs": (("y", "int32", (2,), floats(1, 2)[3]),)}, "outputs[0] 'y': dtype float32 before, int32 after"),
        ({"outputs": (("y", "float32", (2, 1), floats(1, 2)[3]),)}, "outputs[0] 'y': shape [2] before, [2, 1] after"),
        (
            {"outputs": (floats(1, 3),)},
            "outputs[0] 'y': 1 of 8 bytes differ, at byte 0: 0000803f00000040 before, 0000803f00004040 after",
        ),
        ({"outputs": (("y", "float32", (2,), b"\0"),)}, "outputs[0] 'y': 8 bytes before, 1 after"),
        ({"signatures": {}}, "signatures: ['s'] before, [] after"),
        (
            {"signatures": {"s": (floats(4, name="z"),)}},
            "signatures['s'][0] 'z': 1 of 4 bytes differ, at byte 0: 00004040 before, 00008040 after",
        ),
    ],
)
def test_the_first_difference_is_reported(changes: dict[str, object], text: str) -> None:
    assert same_behavior(OK, OK) is None
    assert same_behavior(OK, dataclasses.replace(OK, **changes)) == text  # type: ignore[arg-type]


def test_bits_are_compared_not_numbers() -> None:
    def of(number: float) -> Outcome:
        return Outcome("onert", "ok", "", (floats(number),))

    assert same_behavior(of(float("nan")), of(float("nan"))) is None
    assert same_behavior(of(0.0), of(-0.0)) is not None


def test_names_of_outputs_can_be_ignored_but_not_those_of_signatures() -> None:
    renamed = dataclasses.replace(OK, outputs=(floats(1, 2, name="w"),))
    assert same_behavior(OK, renamed, names=False) is None
    renamed = dataclasses.replace(OK, signatures={"s": (floats(3, name="w"),)})
    assert same_behavior(OK, renamed, names=False) is not None


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("cannot open /tmp/a1/m.tflite", "cannot open /var/b2/x.tflite", True),
        ("'/tmp/a1/m.tflite' at 0x7f00aa", "'/tmp/m.tflite' at 0x6f00bb", True),
        ("tflite/kernels/add.cc:17 a != b", "tflite/kernels/sub.cc:17 a != b", False),
        ("Node number 3 failed", "Node number 4 failed", False),
        ("1/2/3", "1/2/4", False),
    ],
)
def test_messages_are_compared_without_what_is_volatile(one: str, two: str, same: bool) -> None:
    outcomes = [Outcome("litert", "run", message) for message in (one, two)]
    assert (same_behavior(*outcomes) is None) is same


# --- public models ------------------------------------------------------------------------------------------


def test_public_models_behave_the_same_twice() -> None:
    models = [path for path in public_models() if path.stat().st_size < 10_000]
    if not models:
        pytest.skip("no public models beside this checkout")
    for model in models[::7]:
        for runtime in ("litert", "onert"):
            assert is_deterministic(model, runtime), f"{runtime}: {model.name}"
